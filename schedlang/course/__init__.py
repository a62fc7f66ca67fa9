"""The course: notebooks that are copied, solved, and shown as slides (docs/teaching.md)."""
