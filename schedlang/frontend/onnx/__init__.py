"""ONNX models as computations: a table from ONNX's operators to calls of topi.

The package ``onnx`` is imported in ``files.py`` alone, when a model is read.

1. ``files.py`` parses a file, whose size is bounded.
2. ``checked.py`` turns it into the records of ``graph.py``, and refuses what is damaged or absurd
   (``limits.py``). ``weights.py`` says of each array whether its data fit its shape, and reads them
   when they are first used; ``elements.py`` has the dtypes.
3. ``sizes.py`` finds the shapes of inputs, with what the caller gives for open extents.
4. ``importer.py`` goes through the nodes that the outputs need. A value (``values.py``) is a
   tensor, or an array that is known at import and becomes a parameter when a stage reads it.
   ``folding.py`` evaluates what an operator makes of small known arrays, and ``symbolic.py``
   computes with symbolic sizes in them.

All else is a call of an operator's function in ``operators/``, one family a file, with a function
for each opset in which the operator changed. It has the operator's signature, and ``call.py``
matches it with the node: ``Tensor``, ``Floats``, ``Known`` or ``Value`` says what an input must be.
``operators/refused.py`` says why other operators have no function.
"""
