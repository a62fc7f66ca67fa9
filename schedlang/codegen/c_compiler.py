"""The system's C compiler: its names and options, and what a C file of the user's begins with."""

from __future__ import annotations

COMPILERS = ("cc", "gcc", "clang")
# the files of a C program; the compiler makes the last three
C_SUFFIXES = (".h", ".c", ".o", ".a", ".so")
# integers wrap around, and a product may be fused with an addition, as in numba's kernels
OPTIONS = (
    "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-O3", "-march=native", "-fwrapv",
    "-ffp-contract=fast", "-fno-math-errno", "-fopenmp", "-shared", "-fPIC",
    # C before C23 takes an unknown function for one of integers
    "-Werror=implicit-function-declaration",
)  # fmt: skip
# Clang refuses these. GCC 12 pairs the factors of some sums of products wrongly where it vectorizes
# a loop by itself, and it drops updates of an array where it distributes a loop. Where it makes
# vectors of statements, tests of bytes become 255 in place of 1. It keeps elements for the next
# iterations that the registers have no room for, as it does where it unrolls a loop of as many
# iterations as there are registers
GCC_OPTIONS = (
    "-fno-tree-loop-vectorize", "-fno-tree-loop-distribution", "-fno-tree-slp-vectorize",
    "-fno-predictive-commoning", "--param=max-completely-peel-times=14",
)  # fmt: skip
# the headers that C source of the user's may take for granted
USER_HEADERS = ("math.h", "stdbool.h", "stdint.h")


def user_head() -> str:
    """Return what a C file of the user's begins with."""
    return "".join(f"#include <{name}>\n" for name in USER_HEADERS)
