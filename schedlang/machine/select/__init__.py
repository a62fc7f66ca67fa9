"""Selection: a loop nest becomes machine functions, with vectors, registers and flat offsets."""
