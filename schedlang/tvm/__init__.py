"""The names of TVM's Python package, so that its programs run after a change of imports.

``import schedlang.te`` finds :mod:`schedlang.tvm.te`, and the other modules here have such names,
too; see :mod:`schedlang.tvm.aliases`.
"""
