"""For type checkers: this name is an alias; see tvm/aliases.py."""

from schedlang.course.exercises.check import check as check
from schedlang.course.grading.lab import lab as lab
from schedlang.course.hardware import hardware as hardware
from schedlang.tvm.testing import assert_allclose as assert_allclose
from schedlang.tvm.testing import device_enabled as device_enabled
from schedlang.tvm.testing import enabled_targets as enabled_targets
from schedlang.tvm.testing import parametrize_targets as parametrize_targets
from schedlang.tvm.testing import requires_cuda as requires_cuda
from schedlang.tvm.testing import requires_gpu as requires_gpu
from schedlang.tvm.testing import requires_llvm as requires_llvm
from schedlang.tvm.testing import uses_gpu as uses_gpu
