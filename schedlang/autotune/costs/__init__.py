"""What candidates are expected to cost, from their loops alone."""
