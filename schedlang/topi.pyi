"""For type checkers: this name is an alias; see tvm/aliases.py."""

from schedlang.tvm.topi import *
from schedlang.tvm.topi.functions import *
