"""For type checkers: this name is an alias; see tvm/aliases.py."""

from schedlang.tvm.driver import *
