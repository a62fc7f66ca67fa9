"""A schedule language in Python: say what to compute, then how, and read every level."""
from schedlang import compute
from schedlang.compute.math import *  # noqa: F403
from schedlang.compute.reduce import argmax, argmin, comm_reducer, max, min, prod, reduce_axis, sum
from schedlang.compute.scan import scan
from schedlang.compute.tensor import Tensor, placeholder, var
