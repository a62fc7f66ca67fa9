"""For type checkers: this name is an alias; see tvm/aliases.py."""

from schedlang.course.exercises.check import check as check
from schedlang.course.grading.lab import lab as lab
from schedlang.course.hardware import hardware as hardware
from schedlang.tvm.testing import assert_allclose as assert_allclose
