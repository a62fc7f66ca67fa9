"""The live page: a schedule to edit, its nest, pictures, counts, times, and the next steps."""
