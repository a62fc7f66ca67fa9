"""ONNX models as computations: a table from ONNX's operators to calls of topi.

``checked`` turns a file into the records of ``graph``, and refuses what is damaged or absurd before
anything is made. ``operators`` has a function for each operator, one family a file, which ``call``
matches with a node. ``folding`` and ``symbolic`` do the arithmetic on shapes, and ``importer`` the
whole. The package ``onnx`` is imported when a model is read.
"""
