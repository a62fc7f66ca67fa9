"""A refused step says why and leaves the schedule unchanged.

Each row has the accepted steps, the refused step, and parts of its message in order, with
`` ... `` between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import LoweringError, SchedlangError, ScheduleError
from schedlang.state.primitives.table import PRIMITIVES
from tests.graphs import diamond, matmul, packed_product, pointwise, recurrence, signed_product

MATMUL = [
    # split
    ("", "s[C].split(i, factor=0)",
     "split(i, factor=0) on stage C: factor is 0, but must be 1 or more\n  Try factor=8"),
    ("", "s[C].split(i, nparts=-2)",
     "split(i, nparts=-2) on stage C: nparts is -2, but must be 1 or more"),
    ("", "s[C].split(i, factor=2.0)",
     "split(i, factor=2.0) ... factor is 2.0, but must be an integer; use // to divide"),
    ("", "s[C].split(i, factor=True)",
     "factor is True, but must be an integer"),
    ("", "s[C].split(i, factor=sl.var('n'))",
     "factor is n, which is known only at run time"),
    ("", "s[C].split(i, factor=2 ** 70)",
     "offsets would overflow 64-bit integers\n  Use a smaller factor"),
    ("", "s[C].split(i, factor=4, nparts=2)",
     "split(i, factor=4, nparts=2) ... exactly one of factor and nparts"),
    ("", "s[C].split(i)",
     "split(i) on stage C: exactly one of factor and nparts is required"),
    ("", "s[C].split(factor=4)",
     "split(factor=4) on stage C: the loop is missing\n  Write s[C].split(i, factor=4). "
     "The loops are i, j, k."),
    ("", "s[C].split(i, factr=4)",
     "split(i, factr=4) on stage C: it has no argument 'factr'; did you mean 'factor'?\n"
     "  Its arguments: s[C].split(parent, factor, nparts, tail, idle)."),
    ("", "s[C].split(i, 4, parent=i)", "parent is given twice"),
    ("", "s[C].tile(j, x_factor=4, y_factor=4)",
     "the loop is missing\n  Write s[C].tile(j, i, x_factor=4, y_factor=4)."),
    ("", "s[C].tile()", "the loops and x_factor and y_factor are missing"),
    ("", "s[C].vectorize(i, j)", "vectorize(i, j) on stage C: it takes 1 argument at most, not 2"),
    ("", "s[C].bind(axis=i)",
     "thread is missing\n  Write s[C].bind(axis=i, thread='threadIdx.x')."),
    ("", "s[D].compute_at(s[C])",
     "axis is missing\n  Write s[D].compute_at(C, axis)."),
    ("", "s[C].compute_inline(D)",
     "it takes no arguments, not 1\n  Write s[C].compute_inline()."),
    ("", "s.cache_read(A)",
     "cache_read(A): scope and readers are missing\n  Write s.cache_read(A, 'local', readers)."),
    ("", "s[C].split(i, factor=5, tail='round')",
     "split(i, factor=5, tail='round') on stage C: tail='round' is not a known tail strategy\n"
     "  Choose one of 'auto', 'guard', 'cut'"),
    ("", "s[C].split(x, factor=4)",
     "split(x, factor=4) on stage C: x belongs to stage D\n  The loops of C: i, j, k"),
    ("", "s[C].split(sl.reduce_axis(4, name='q'), factor=4)",
     "q belongs to no stage of this schedule\n  The loops of C: i, j, k. They are "
     "s[C].leaf_axes.\n  rfactor, cache_write"),
    ("", "s[C].split('i', factor=4)",
     "'i' is not an axis\n  The loops of C: i, j, k"),
    ("s[C].split(i, factor=4)", "s[C].split(i, factor=4)",
     "i is no longer a loop: a split or fuse turned it into i.outer, i.inner\n"
     "  Use i.outer, i.inner"),
    ("s[C].fuse(i, j)", "s[C].split(j, factor=4)",
     "j is no longer a loop: a split or fuse turned it into i.j.fused"),
    ("s[C].vectorize(j)", "s[C].split(j, factor=4)",
     "j is already vectorized\n  Split and fuse a loop first"),
    ("", "s[C].split(i, factor=4, idle=1)",
     "idle=1 is neither True nor False"),
    ("s[D].compute_at(s[C], i)", "s[C].fuse(i, j)",
     "stage D is computed at i, which this step removes\n  Split and fuse first"),
    ("s[D].compute_at(s[C], j); s[D].store_at(s[C], i)", "s[C].fuse(i, j)",
     "stage D is stored at i, which this step removes"),
    ("s[C].pragma(i, 'my.hint')", "s[C].split(i, factor=4)",
     "i has the pragma 'my.hint', which this step would remove"),
    ("s[C].prefetch(B, i, 1)", "s[C].split(i, factor=4)",
     "i has a prefetch of B, which this step would remove"),
    ("s[C].prefetch(B, i, 1, at=k)", "s[C].split(k, factor=4)",
     "k has a prefetch of B, which this step would remove"),
    # tile, fuse, reorder
    ("", "s[C].tile(i, j, 0, 4)",
     "tile(i, j, 0, 4) on stage C: x_factor is 0"),
    ("", "s[C].tile(i, j, 4, 'all')",
     "tile(i, j, 4, 'all') on stage C: y_factor is 'all', but must be an integer"),
    ("", "s[C].tile(i, i, 4, 4)",
     "tile(i, i, 4, 4) on stage C: i is given twice"),
    ("s[C].reorder(i, k, j)", "s[C].fuse(i, k)",
     "fuse(i, k) on stage C: k is a reduction axis and i is not"),
    ("outer, _ = s[C].split(i, factor=4)", "s[C].fuse(outer, j)",
     "j is not directly inside i.outer\n  The order is i.outer, i.inner, j, k"),
    ("", "s[C].fuse(j, i)",
     "j is directly inside i, but fuse takes the outer loop first\n  Write fuse(i, j)"),
    ("", "s[C].fuse(i, i)",
     "fuse(i, i) on stage C: i is given twice"),
    ("s[C].parallel(j)", "s[C].fuse(i, j)",
     "j is already parallel"),
    ("", "s[C].reorder(i, j, i)",
     "reorder(i, j, i) on stage C: i is given twice"),
    ("", "s[C].reorder()",
     "reorder() on stage C: no axis is given"),
    ("", "s[C].reorder(i, x)",
     "reorder(i, x) on stage C: x belongs to stage D"),
    ("s[D].compute_at(s[C], j); s[D].store_at(s[C], i)", "s[C].reorder(j, i)",
     "D is stored at i and computed at j, which would then be outside i"),
    # annotations
    ("", "s[C].vectorize(k)",
     "vectorize(k) on stage C: k is a reduction axis, so all its lanes would add into the "
     "same element ... data axis instead (i, j) ... before any other step on C:\n"
     "      k_outer, k_inner = s[C].split(s[C].op.reduce_axis[0], factor=4)\n"
     "      CF = s.rfactor(C, k_inner) ... <-- here"),
    ("s[C].vectorize(j)", "s[C].vectorize(k)", "\n  Use a data axis instead (i), or make partial"),
    ("s[C].parallel(i); s[C].vectorize(j)", "s[C].vectorize(k)",
     "\n  Make partial sums before any other step on C:\n"),
    ("", "s[C].parallel(k)",
     "parallel(k) on stage C: k is a reduction axis, so all its iterations would add into ... "
     "k_outer, k_inner = s[C].split(s[C].op.reduce_axis[0], nparts=4)\n"
     "      CF = s.rfactor(C, k_outer)"),
    ("", "s[C].bind(k, 'blockIdx.x')",
     "bind(k, 'blockIdx.x') on stage C: k is a reduction axis"),
    ("", "s[C].bind(k, 'vthread')",
     "bind(k, 'vthread') on stage C: k is a reduction axis"),
    ("s[C].vectorize(j)", "s[C].unroll(j)",
     "unroll(j) on stage C: j is already vectorized\n  Split and fuse a loop first"),
    ("s[C].bind(j, 'threadIdx.x')", "s[C].vectorize(j)",
     "vectorize(j) on stage C: j is already bound to threadIdx.x"),
    ("s[D].compute_at(s[C], j)", "s[C].vectorize(j)",
     "stage D is computed at j, and a stage has no storage per lane\n  Attach D outside j"),
    ("", "s[C].bind(i, 'warp')",
     "bind(i, 'warp') on stage C: 'warp' is not a thread\n  Choose one of blockIdx.x"),
    ("", "s[C].bind(i, j)",
     "bind(i, j) on stage C: j is not a thread"),
    ("s[C].bind(i, 'threadIdx.x')", "s[C].bind(j, 'threadIdx.x')",
     "i of this stage is already bound to threadIdx.x\n  Bind j to another thread, or fuse"),
    ("s[C].bind(i, 'threadIdx.x')", "s[C].bind(i, 'threadIdx.y')",
     "i is already bound to threadIdx.x"),
    ("", "s[C].bind(i, sl.thread_axis('threadIdx.x', 32))",
     "i has 64 iterations, but threadIdx.x has 32 threads\n  Split it with nparts=32"),
    ("", "s[C].pragma(i, 'non_temporal')",
     "pragma(i, 'non_temporal') on stage C: no target knows 'non_temporal'; did you mean "
     "'nontemporal'? ... The name of a pragma of your own contains a dot: 'my.non_temporal'"),
    ("", "s[C].pragma(i, 'streaming')", "did you mean 'nontemporal'?\n"),
    ("", "s[C].pragma(i, 'auto_unroll_max_steps')", "did you mean 'auto_unroll_max_step' or "),
    ("", "s[C].pragma(i, 'zzz')",
     "no target knows 'zzz'\n  'nontemporal' and 'serpentine' have an effect"),
    ("", "s[C].pragma(i, 'import_llvm', 3)",
     "pragma(i, 'import_llvm') on stage C: 'import_llvm' brings code, and the value is 3\n"
     "  Give the text of C source for 'import_c', of LLVM's code for 'import_llvm'."),
    ("", "s[C].pragma(k, 'import_c')", "'import_c' brings code, and the value is None"),
    ("", "s[C].pragma(i, 'debug_skip_region')",
     "te leaves out the loops with this pragma, and here they would run\n  Leave the pragma out"),
    ("", "s[C].pragma(i, 'x = 1; import os')",
     "the name of a pragma may contain only letters, digits"),
    ("", "s[C].pragma(i, 3)",
     "pragma(i, 3) ... the name of a pragma may contain only"),
    ("", "s[C].pragma(i, 'my.hint', 'a\\nimport os')",
     "is not one line of printable text\n  Give a finite number"),
    ("", "s[C].pragma(i, 'my.hint', [1])",
     "neither a number nor a string"),
    ("", "s[C].pragma(i, 'my.hint', float('nan'))",
     "the value nan is not finite"),
    ("", "s[D].prefetch(B, D.op.axis[0], 1)",
     "stage D: neither D nor the stages it reads use B\n  It reads A and writes D"),
    ("", "s[C].prefetch(B, i, -1)",
     "offset is -1, but must be 0 or more"),
    ("", "s[C].prefetch('B', i, 1)",
     "neither C nor the stages it reads use 'B'"),
    ("s[D].compute_inline()", "s[C].prefetch(D, i, 1)",
     "D is inlined, so nothing is stored to prefetch\n  Prefetch what it reads: A"),
    # placement
    ("", "s[D].compute_at(s[D], x)",
     "compute_at(D, x) on stage D: a stage cannot be computed inside itself\n  Legal "
     "places, outermost first: root, (C, i), (C, j), (C, k)"),
    ("", "s[C].compute_at(s[C], i)",
     "a stage cannot be computed inside itself\n  Attach the stages that it reads"),
    ("", "s[C].compute_at(s[D], x)",
     "C is an output, which is computed at root\n  Attach the stages that it reads"),
    ("", "s[D].compute_at(s[C], x)",
     "compute_at(C, x) on stage D: x belongs to stage D\n  The loops of C: i, j, k"),
    ("s[C].split(i, factor=4)", "s[D].compute_at(s[C], i)",
     "i is no longer a loop: a split or fuse turned it into i.outer, i.inner"),
    ("s[C].vectorize(j)", "s[D].compute_at(s[C], j)",
     "j is vectorized, and a stage has no storage per lane\n  Attach it outside j"),
    ("s[C].vectorize(j)", "s[D].compute_at(s[C], k)",
     "compute_at(C, k) on stage D: j is vectorized, and a stage has no storage per lane"),
    ("", "s[D].compute_at(s[B], i)",
     "s[B]: B is an input and has no loops"),
    ("", "s[D].compute_at(3, i)",
     "compute_at(...) on stage D: 3 is not a stage\n  Give a tensor of this schedule"),
    ("s[D].compute_at(s[C], j); s[D].store_at(s[C], i); s[C].reorder(k, i, j)",
     "s[D].compute_at(s[C], k)",
     "compute_at(C, k) on stage D: D is stored at i of C, which does not enclose k"),
    ("s = sl.schedule(sl.compute((4,), lambda i: C[i, i], name='E'))", "s[C].compute_inline()",
     "C is a reduction, which must be stored to accumulate\n  Use s[C].compute_at"),
    ("", "s[C].compute_inline()",
     "C is an output and must be stored\n  Inline the stages that it reads"),
    ("s[D].set_store_predicate(x < 3)", "s[D].compute_inline()",
     "D has a store predicate, but an inlined stage stores nothing"),
    ("", "s[D].store_at(s[C], i)",
     "D is not attached to a loop\n  Call compute_at first"),
    ("", "s[D].store_root()",
     "store_root() on stage D: D is not attached to a loop"),
    ("s[D].compute_at(s[C], i)", "s[D].store_at(s[C], j)",
     "D is computed at i of C, and j is inside i\n  Store at i or at a loop around it"),
    # placements after which a loop no longer reads what it prefetches
    ("s[C].prefetch(D, i, 1)", "s[D].compute_at(s[C], i)",
     "compute_at(C, i) on stage D: stage C prefetches D, but i would no longer read D from "
     "outside the loop\n  Take this step before the prefetch, and prefetch at i what it then"),
    ("s[C].prefetch(D, i, 1)", "s[D].compute_inline()",
     "compute_inline() on stage D: stage C prefetches D, but i would no longer read D"),
    ("s[D].compute_at(s[C], j); s[D].store_root(); s[C].prefetch(D, i, 1)",
     "s[D].store_at(s[C], i)", "stage C prefetches D, but i would no longer read D"),
    ("s[D].compute_at(s[C], i); s[C].prefetch(A, i, 1)", "s[D].compute_root()",
     "stage C prefetches A, but i would no longer read A"),
    ("s[D].compute_at(s[C], j); s[C].prefetch(A, i, 1)", "s[C].reorder(j, i)",
     "stage C prefetches A, but i would no longer read A"),
    ("s[C].prefetch(B, i, 1, at=j)", "s[C].reorder(j, i)",
     "stage C prefetches B at j, which would no longer be inside of i\n  Take this step before"),
    ("s[D].compute_at(s[C], j); s[C].prefetch(A, i, 1, at=j)", "s[D].compute_at(s[C], i)",
     "stage C prefetches A, but j would no longer read A from outside the loop"),
    # loops that share a prefetch
    ("", "s[C].prefetch(B, j, 1, at=i)",
     "prefetch(B, j, 1, at=i) on stage C: at=i is a loop outside of j, so it has one "
     "iteration for each run of j\n  Give a loop inside of j, or leave out `at`"),
    ("", "s[C].prefetch(B, i, 1, at=x)",
     "prefetch(B, i, 1, at=x) on stage C: x belongs to stage D"),
    ("s[C].vectorize(j)", "s[C].prefetch(B, i, 1, at=j)",
     "j is vectorized: its iterations run at once, and cannot take the lines in order\n"
     "  Give a loop around it"),
    ("s[C].reorder(i, k, j); s[C].parallel(j); ", "s[C].prefetch(B, i, 1, at=j)",
     "j is parallel: its iterations run at once"),
    ("s[C].prefetch(B, i, 1, at=j)", "s[C].vectorize(j)",
     "vectorize(j) on stage C: stage C prefetches B at j, but the iterations of j would run at "
     "once, and could not take the lines in order\n  Prefetch at a loop around it"),
    # caches and rfactor
    ("s[C].prefetch(B, i, 1)", "s.cache_read(B, 'local', [C])",
     "cache_read(B, 'local', [C]): stage C prefetches B, but i would no longer read B"),
    ("", "s.cache_read(A, 'shared', [C])",
     "cache_read(A, 'shared', [C]): C does not read A\n  Its readers: D"),
    ("", "s.cache_read(C, 'shared', [D])",
     "cache_read(C, 'shared', [D]): D does not read C\n  Its readers: none"),
    ("", "s.cache_read(sl.placeholder((4,), name='Z'), 'shared', [C])",
     "cache_read(Z, 'shared', [C]): C does not read Z\n  Its readers: none"),
    ("", "s.cache_read(A, 'registers', [D])",
     "'registers' is not a scope\n  Choose one of global, shared, local"),
    ("", "s.cache_read(A, 'shared', [])",
     "no reader is given\n  Its readers: D"),
    ("", "s.cache_read('A', 'shared', [D])",
     "cache_read('A', 'shared', ...): 'A' is not a tensor"),
    ("", "s.cache_read(A, 'shared', [B])",
     "s[B]: B is an input and has no loops"),
    ("s[C].set_store_predicate(k < 3)", "s.cache_write(C, 'local')",
     "cache_write(C, 'local'): C is already scheduled, beyond its data axes"),
    ("s[C].split(k, factor=4)", "s.cache_write(C, 'local')",
     "cache_write(C, 'local'): C is already scheduled, beyond its data axes\n  "
     "Call cache_write before ... "
     "takes over its computation. s.at(0) returns"),
    ("s[C].unroll(k)", "s.cache_write(C, 'local')",
     "C is already scheduled"),
    ("s[C].prefetch(B, i, 1)", "s.cache_write(C, 'local')",
     "C is already scheduled"),
    ("s[D].compute_at(s[C], k)", "s.cache_write(C, 'local')",
     "stage D is computed at k, which moves to a new stage\n  Call cache_write first"),
    ("", "s.cache_write(C, 'l2')",
     "'l2' is not a scope"),
    ("", "s.cache_write(A, 'local')",
     "s[A]: A is an input and has no loops\n  s.cache_read(A, scope, readers)"),
    ("s[D].compute_inline()", "s.cache_write(D, 'local')",
     "D is inlined and stores nothing\n  Call s[D].compute_root() first"),
    ("", "s.cache_write([C, D], 'local')",
     "cache_write(C, D, ...): these are not the outputs of one computation"),
    ("", "s.rfactor(C, i)",
     "rfactor(C, i): i is a data axis\n  Factor one of k"),
    ("", "s.rfactor(D, x)",
     "rfactor(D, x): D is not a reduction"),
    ("s[C].split(k, factor=4)", "s.rfactor(C, k)",
     "k is no longer a loop: a split or fuse turned it into k.outer, k.inner"),
    ("s[C].split(i, factor=4)", "s.rfactor(C, k)",
     "C is already scheduled, beyond splits of its reduction axes\n  rfactor rebuilds the "
     "loops of the stage"),
    ("s[C].reorder(k, i)", "s.rfactor(C, k)",
     "C is already scheduled, beyond splits of its reduction axes"),
    ("s[C].parallel(i)", "s.rfactor(C, k)",
     "C is already scheduled, beyond splits of its reduction axes"),
    ("s[D].compute_at(s[C], k)", "s.rfactor(C, k)",
     "stage D is computed at k, which moves to a new stage\n  Call rfactor first"),
    ("", "s.rfactor(C, k, 5)",
     "factor_axis=5 is out of range for C\n  Use a position from 0 to 2, or -1 for the last"),
    ("", "s.rfactor(C, k, 'last')",
     "factor_axis is 'last', but must be an integer"),
    ("", "s.pad_einsum(D, [4, 4])",
     "pad_einsum(D, [4, 4]): D is not a sum\n  It changes the factors of a sum of products"),
    ("s[D].compute_at(s[C], k)", "s.pad_einsum(C, [1, 1, 5])",
     "stage D is computed at k, which moves to a new stage\n  Call pad_einsum first"),
    ("", "s.shift_operand(C, B, 'uint8')",
     "shift_operand(C, B, 'uint8'): B is float32, and a shift does not make that 'uint8'"),
    ("", "s[C].pragma(j, 'nontemporal')",
     "C adds to what it stored before, which must stay in cache\n  Accumulate elsewhere"),
    ("", "s[D].pragma(y, 'nontemporal', False)",
     "'nontemporal' takes no value\n  Leave out False"),
    ("s[D].compute_inline()", "s[D].pragma(y, 'nontemporal')",
     "D is inlined and stores nothing"),
    # storage
    ("", "s[D].set_scope('texture')",
     "set_scope('texture') on stage D: 'texture' is not a scope"),
    ("", "s[C].set_scope('shared')",
     "C is an output, which is stored in global memory\n  Compute it in 'shared' first: "
     "s.cache_write"),
    ("", "s[D].storage_align(i, 32, 1)",
     "storage_align(i, 32, 1) on stage D: i is not a dimension of D\n  Its dimensions: x, y"),
    ("", "s[D].storage_align(0, 32, 1)",
     "0 is not a dimension of D\n  Its dimensions: x, y"),
    ("outer, _ = s[D].split(x, factor=4)", "s[D].storage_align(outer, 32, 1)",
     "x.outer is not a dimension of D\n  Its dimensions: x, y"),
    ("", "s[D].storage_align(x, 0)",
     "factor is 0, but must be 1 or more"),
    ("", "s[D].storage_align(x, 32, 32)",
     "offset 32 is not less than factor 32\n  Use a smaller offset"),
    ("", "s[D].storage_align(x, 2 ** 40)",
     "would waste memory\n  Use a factor of 65536 or less"),
    ("", "s[C].storage_align(i, 32)",
     "C is an output, whose layout the caller chooses\n  Align an intermediate stage"),
    ("", "s[C].transform_layout(lambda i, j: (j, i))",
     "C is an output, whose layout the caller chooses\n  Transform an intermediate stage ... "
     "s.transform_argument(C, index_map)"),
    ("", "s[D].transform_layout(lambda x, y: (y, i))",
     "transform_layout((y, i)) on stage D: i is not a part of one dimension\n"
     "  Use a dimension d (x, y)"),
    ("", "s[D].transform_layout(lambda x, y: (x, y + 1))",
     "y + 1 is not a part of one dimension"),
    ("", "s[D].transform_layout(lambda x, y: x)",
     "its parts of y do not tell each value of y exactly once\n  Use y itself, or y//n"),
    ("", "s[D].transform_layout(lambda x, y: (y // 8, x, y % 4))",
     "its parts of y do not tell each value of y exactly once"),
    ("", "s[D].transform_layout(lambda x, y: (x, y, y))",
     "its parts of y do not tell each value of y exactly once"),
    ("", "s[D].transform_layout(lambda x: x)",
     "the index map must take the 2 dimensions of D: x, y\n  Write lambda x, y: (...)."),
    ("", "s[D].transform_layout(lambda x, y: (y // 2**52, x, y % 2**52))",
     "parts of 4503599627370496 elements would waste memory\n  Use constants of 65536 or less"),
    ("", "s[D].transform_layout(lambda x, y: (x, y ^ x % 4))",
     "y ^ x%4 is a swizzle of y, whose values it keeps below a power of two\n"
     "  Write y//n and (y%n) ^ (x%n), where n is a power of two"),
    ("", "s[D].transform_layout(lambda x, y: (x, y // 6, y % 6 ^ x % 2))",
     "y%6 ^ x%2 is a swizzle of y, whose values it keeps below a power of two"),
    ("", "s[D].transform_layout(lambda x, y: (x, y // 4, y % 4 ^ x % 8))",
     "in y%4 ^ x%8, the part of x can be 4 or more, which moves elements out of the 4 of y\n"
     "  Take the part of x % 4, or a smaller number"),
    ("", "s[D].transform_layout(lambda x, y: (x, y // 4, y % 4 ^ x))",
     "in y%4 ^ x, the part of x can be 4 or more, which moves elements out of the 4 of y"),
    ("", "s[D].transform_layout(lambda x, y: (x // 4, x % 4 ^ y % 4, y // 4, y % 4 ^ x % 4))",
     "in x%4 ^ y%4, no other index tells the part of y\n  Keep y whole or in parts that hold it"),
    ("", "s[D].transform_layout(lambda x, y: (x, y % 4 ^ x % 4))",
     "its parts of y do not tell each value of y exactly once"),
    ("", "s[D].transform_layout(lambda x, y: (x, y // 4, (y + 1) % 4 ^ x % 4))",
     "is not a part of one dimension"),
    ("", "s[D].transform_layout([1, 0])",
     "the index map must be a function, not [1, 0]\n"
     "  Write e.g. lambda i, j: (j // 16, i, j % 16)"),
    ("s[D].storage_align(x, 32)", "s[D].transform_layout(lambda x, y: (y, x))",
     "D has a storage_align, which applies to its present dimensions"),
    ("s[D].transform_layout(lambda x, y: (y, x))", "s[D].transform_layout(lambda x, y: (y, x))",
     "D has another layout already\n  Join the two steps."),
    ("s[D].transform_layout(lambda x, y: (y // 4, x, y % 4))", "s[D].storage_align(y, 32)",
     "transform_layout divided y, so y is not a dimension in memory\n  Align an undivided"),
    ("", "s.transform_argument(D, lambda x, y: (y, x))",
     "transform_argument(D, index_map): D is neither an input nor an output of this schedule: "),
    ("", "s.transform_argument(A, lambda x, y: (x, y + 1))",
     "i1 + 1 does not count parts of i0, i1"),
    ("", "s.transform_argument(A, lambda x, y: x * 65 + y)", "does not count parts of i0, i1"),
    ("", "s.transform_argument(C, lambda i, j: (i, j // 4))",
     "its parts of j do not tell each value of j exactly once"),
    ("", "s.transform_argument(C, lambda i, j: (i // 7, j, i % 7))",
     "7 does not divide the extent ... of i, so the array would have elements of which the tensor"),
    ("", "s.transform_argument(A, lambda x: x)", "the index map must take the 2 dimensions of A"),
    ("", "s.transform_argument('A', None)", "'A' is not a tensor\n  Give an input or an output."),
    ("s.transform_argument(A, lambda x, y: (y, x))", "s.transform_argument(A, lambda x, y: (y, x))",
     "the array of A has another layout already"),
    ("", "s[C].double_buffer()",
     "C is an output, which the caller allocates"),
    ("s[D].compute_inline()", "s[D].double_buffer()",
     "D is inlined and has no buffer"),
    ("", "s[D].pipeline(3)",
     "D computes its elements, and the hardware can only copy them\n"
     "  Choose a stage that copies a tensor which D reads (cache_read)."),
    ("", "s[C].pipeline(2)", "C is an output, which the caller allocates"),
    ("", "s[D].pipeline(1)", "stages is 1, but must be 2 or more"),
    ("", "s[D].pipeline(2.0)", "stages is 2.0, but must be an integer"),
    ("", "s[D].pipeline(100)", "100 stages are 100 copies of D in shared memory\n  Choose 64"),
    ("s[D].double_buffer()", "s[D].pipeline(2)",
     "D has a double buffer, which keeps copies, too\n  Leave out one of the two."),
    ("c = s.cache_read(A, 'shared', [D]); s[c].pipeline(2)", "s[c].double_buffer()",
     "A.shared has a pipeline, which keeps copies, too\n  Leave out one of the two."),
    ("c = s.cache_read(A, 'shared', [D]); s[c].pipeline(2)", "s[c].compute_inline()",
     "A.shared has a pipeline, but an inlined stage has no loops and stores nothing"),
    ("c = s.cache_read(A, 'shared', [D]); s[c].compute_inline()", "s[c].pipeline(2)",
     "A.shared is inlined and has no buffer"),
    ("", "s[C].set_store_predicate(i + 1)",
     "a predicate is bool, not int64\n  Write a comparison, e.g. tx == 0"),
    ("", "s[C].set_store_predicate(None)",
     "None is not an expression"),
    ("", "s[C].set_store_predicate(x == 0)",
     "x is neither a loop of C nor a thread axis\n  The loops of C: i, j, k"),
    ("", "s[C].set_store_predicate(A[0, 0] > 0)",
     "it reads A, but a predicate may use only loops and threads"),
    ("", "s[C].set_store_predicate(i < sl.var('m'))",
     "m is not a size of this computation"),
    ("s[D].compute_inline()", "s[D].set_store_predicate(x < 3)",
     "D is inlined and stores nothing itself"),
    # the schedule itself
    ("", "s[A]",
     "s[A]: A is an input and has no loops\n  s.cache_read(A, scope, readers) gives it"),
    ("E = sl.compute((4,), lambda i: i * 2, name='E')", "s[E]",
     "s[E]: this schedule has no stage E\n  The stages of this schedule: D, C"),
    ("", "s[matmul()['C']]",
     "s[C]: this C belongs to another computation than the C of this schedule"),
    ("", "s[7]",
     "s[7]: 7 is not a tensor\n  Give a tensor of this schedule"),
    ("", "s['Q']",
     "s[Q]: this schedule has no stage Q"),
    ("", "s.tensor('C', 1)",
     "s.tensor('C', 1): C has 1 output\n  Give 0"),
    ("s[C].parallel(i)", "s.at(3)",
     "at(3): the schedule has 1 step\n  Give a number from 0 to 1"),
    ("s[C].parallel(i)", "s.diff(0)",
     "diff(0): the schedule has 1 step\n  Give a number from 1 to 1"),
    ("", "s.apply('explode', 'C')",
     "'explode' is not a primitive; choose one of split, fuse"),
]  # fmt: skip

DIAMOND = [
    # placement
    ("", "s[F].compute_at(s[C], i)",
     "C does not read F, directly or through other stages\n"
     "  Legal places, outermost first: root, (E, j)"),
    ("s[C].compute_inline()", "s[D].compute_at(s[C], C.op.axis[0])",
     "C is inlined and has no loops\n  Legal places, outermost first: root, (E, j)"),
    ("s[D].compute_at(s[C], C.op.axis[0])", "s[C].compute_inline()",
     "stage D is computed at one of its loops, which inlining removes\n  First attach D elsewhere"),
    ("s[D].compute_at(s[E], E.op.axis[0])", "s[D].store_at(s[C], C.op.axis[0])",
     "D is computed at j of E, which is not inside i of C"),
]  # fmt: skip

RECURRENCE = [
    # the order of loops
    ("to, ti = s[R].split(R.op.scan_axis, factor=2)", "s[R].reorder(ti, to)",
     "R.t.inner would be outside of R.t.outer, and the steps of a scan run one after another\n"
     "  Keep the order R.t.outer, R.t.inner."),
    ("s[R].reorder(R.op.axis[0], t); s[R].parallel(R.op.axis[0])", "s[R].reorder(t, R.op.axis[0])",
     "i is parallel, and would be inside of the time of R, whose update has the loop\n  Keep it "
     "outside of R.t, or annotate the loop of the update: s[step].op.axis[1]."),
    ("s[R].reorder(R.op.axis[0], t); C = s.cache_read(X, 'local', [step]); "
     "s[C].compute_at(s[R], R.op.axis[0])", "s[R].reorder(t, R.op.axis[0])",
     "X.local is computed at i, which would be inside of the time of R, whose update has the loop "
     "... s[\"X.local\"].compute_root()"),
    ("o, i = s[R].split(R.op.axis[0], factor=2)", "s[R].reorder(i, t, o)",
     "i.outer would be inside of the time of R and i.inner outside, so that a step would compute "
     "elements that are not adjacent\n  Keep i.inner inside too, or i.outer outside."),
    ("", "s[R].fuse(t, R.op.axis[0])", "the time axis of a scan cannot be fused"),
    ("", "s[R].fuse()",
     "the loops of a scan are over its time and its states ... s[step].op.axis[1]"),
    # annotations
    ("", "s[R].parallel(R.op.scan_axis)",
     "parallel(R.t) on stage R: R.t is the time axis of a scan ... Use ... s[step].op.axis[1]. "
     "Loops over i of R may be reordered outside of it."),
    ("", "s[R].parallel(R.op.axis[0])",
     "i is inside of the time of R, whose update has the loop\n  First reorder i outside of R.t, "
     "or annotate the loop of the update: s[step].op.axis[1]."),
    ("s[R].reorder(R.op.axis[0], t)", "s[R].vectorize(R.op.axis[0])",
     "i is around the time of R, and vectorized loops are inside of a step\n  Split it, keep the "
     "inner loop inside of R.t, and annotate the loop of the update: s[step].op.axis[1]."),
    ("", "s[R].vectorize(R.op.axis[0])",
     "i is inside of the time of R, whose update has the loop\n  Annotate the loop of the update: "
     "s[step].op.axis[1]."),
    ("", "s[R].vectorize(R.op.scan_axis)",
     "R.t is the time axis of a scan, whose steps run one after another\n  Lanes compute elements "
     "of one step: vectorize a loop of the update: s[step].op.axis[1]."),
    ("s[R].reorder(R.op.axis[0], t)", "s[R].vectorize(R.op.scan_axis)",
     "s[step].op.axis[1]. All of i is outside of R.t now; split it, and keep the inner loop inside "
     "of R.t, for lanes along i."),
    ("", "s[step].set_scope('local')",
     "step computes the steps of scan R, which stores them\n  Call s[R].set_scope(\"local\")."),
    ("", "s[step].double_buffer()", "step computes the steps ... Call s[R].double_buffer()."),
    ("", "s[step].storage_align(step.op.axis[1], 8)",
     "step computes the steps of scan R, which stores them\n  Choose a stage that it reads."),
    ("", "s[step].transform_layout(lambda t, i: (i, t))",
     "step computes the steps of scan R, which stores them\n  Choose a stage that it reads."),
    ("", "s[step].parallel(step.op.axis[0])",
     "is the time axis of scan R, which runs its steps one after another in a loop of its own"),
    ("", "s[step].split(step.op.axis[0], factor=2)", "is the time axis of scan R"),
    ("", "s[step].fuse(*step.op.axis)", "is the time axis of scan R"),
    ("", "s[step].reorder(step.op.axis[1], step.op.axis[0])", "is the time axis of scan R"),
    ("", "s[step].bind(step.op.axis[0], 'threadIdx.x')", "is the time axis of scan R"),
    # placement
    ("", "s[step].compute_at(s[out], out.op.axis[0])",
     "step is part of a scan, which computes it in its time loop"),
    ("", "s[R].compute_at(s[out], out.op.axis[0])",
     "each iteration of a reads other rows of R, which would compute all of its steps again\n"
     "  Attach it outside of a, at a loop that reads other elements along i alone, or leave it at "
     "root."),
    ("s[out].reorder(b, a); s[R].compute_at(s[out], b)", "s[R].store_at(s[out], b)",
     "R is a scan, whose rows are computed and stored at one place\n  Attach it with compute_at "
     "alone."),
    ("", "s[twice].compute_at(s[R], R.op.axis[0])",
     "i is inside of the time of R, whose update has the loop\n  Attach it at R.t, or reorder i "
     "outside of it first."),
    ("s[R].reorder(R.op.axis[0], t)", "s[twice].compute_at(s[R], R.op.axis[0])",
     "twice reads the states of R, which computes it in each step\n  Attach it at R.t, or at a "
     "loop of a stage that reads it."),
    ("", "s[R].compute_inline()",
     "R is part of a scan, whose rows must be stored"),
    ("", "s[first].compute_inline()",
     "first is part of a scan, whose rows must be stored"),
    # caches and rfactor
    ("", "s.cache_write(R, 'local')",
     "R is a scan, which reads its earlier rows back from its result"),
]  # fmt: skip


SYMBOLIC = [
    ("", "s[B].vectorize(i)",
     "the extent of i, n, is known only at run time, and a vector has a fixed number of lanes\n"
     "  Split it first"),
    ("", "s[B].unroll(i)",
     "the extent of i, n, is known only at run time, and an unrolled loop is written out"),
]  # fmt: skip
HUGE = [
    ("", "s[B].unroll(i)",
     "1099511627776 copies of the body would not compile in reasonable time\n  Split it"),
    ("k = sl.reduce_axis(2**40, name='k'); l = sl.reduce_axis(2**40, name='l'); "
     "S = sl.compute((), lambda: sl.sum(A[k] * A[l], axis=[k, l]), name='S'); s = sl.schedule(S)",
     "s[S].fuse(k, l)",
     "fuse(k, l) on stage S: the 1208925819614629174706176 iterations overflow a 64-bit counter"),
]  # fmt: skip
PACKED = [
    ("", "s.pad_einsum(C, [1, 16, 1])",
     "j is not the index of a whole dimension of its own in B[ ... \n  Give 1 for j: zeros at the "
     "end of B do not lengthen it."),
    ("", "s[C].tensorize(j)", "tensorize(j) on stage C: instruction is missing"),
    ("", "s[C].tensorize(j, 'vpdpbusd')",
     "tensorize(j, 'vpdpbusd') on stage C: 'vpdpbusd' is not an instruction\n  Declare one: "
     "sl.instruction(name, compute, emit=...)."),
    ("", "s[C].tensorize(k, sl.instructions.vpdpbusd)",
     "tensorize(k, vpdpbusd) on stage C: the loops from there inwards are k in 0..22, and vpdpbusd "
     "has i in 0..16, q in 0..4\n  Split a data axis by 16 and a reduction axis by 4"),
    ("s[C].vectorize(j)", "s[C].tensorize(i, sl.instructions.vpdpbusd)",
     "j is already vectorized, and the instruction replaces all loops inside of it"),
]  # fmt: skip
SIGNED = [
    ("", "s.shift_operand(C, B, 'int16')",
     "shift_operand(C, B, 'int16'): B is int8, and a shift does not make that 'int16'\n"
     "  It makes int8 uint8"),
    ("", "s.shift_operand(C, 'B', 'uint8')",
     "'B' is not a tensor"),
    ("", "s.shift_operand(A, B, 'uint8')",
     "s[A]: A is an input and has no loops"),
    ("s[C].split(i, factor=4)", "s.shift_operand(C, B, 'uint8')",
     "shift_operand(C, B, 'uint8'): C is already scheduled\n  Call shift_operand before"),
    ("S, T = s.shift_operand(C, B, 'uint8')", "s.shift_operand(C, B, 'uint8')",
     "B is not one of two factors that are converted to a longer dtype"),
    ("", "s.pad_einsum(C, [1, 16])",
     "pad_einsum(C, [1, 16]): padding is [1, 16], and C has 3 axes: i, j, k\n  Give one multiple"),
    ("", "s.pad_einsum(C, [1, 0, 4])",
     "a multiple in padding is 0, but must be 1 or more"),
    ("", "s.pad_einsum(C, 4)",
     "padding is 4, and C has 3 axes"),
    ("", "s.pad_einsum(C, [1, 8, 11])",
     "the extents of C are multiples of these numbers already\n  Leave the step out."),
    ("s[C].parallel(i)", "s.pad_einsum(C, [1, 16, 4])",
     "C is already scheduled\n  Call pad_einsum before"),
]  # fmt: skip
TABLES = [
    (matmul, MATMUL), (packed_product, PACKED), (signed_product, SIGNED), (diamond, DIAMOND),
    (recurrence, RECURRENCE),
    (lambda: pointwise(sl.var("n")), SYMBOLIC), (lambda: pointwise(2**40), HUGE),
]  # fmt: skip
ROWS = [(graph, *row) for graph, rows in TABLES for row in rows]


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[1]}; {row[2]}" for row in ROWS])
def test_step_is_refused(row: Any) -> None:
    graph, taken, step, message = row
    space = {"sl": sl, "matmul": matmul, **graph()}
    exec(taken, space)
    s = space["s"]
    before = str(s), len(s.steps), s.to_json()
    match = "(?s)" + ".*".join(map(re.escape, message.split(" ... ")))
    with pytest.raises(ScheduleError, match=match):
        eval(step, space)
    assert (str(s), len(s.steps), s.to_json()) == before


def test_a_call_that_lacks_an_argument_is_a_type_error() -> None:
    g = SimpleNamespace(**matmul())
    for call in (lambda: g.s[g.C].split(factor=4), lambda: g.s.rfactor(g.C)):
        with pytest.raises(TypeError, match="missing") as caught:
            call()
        assert isinstance(caught.value, ScheduleError)
    with pytest.raises(ScheduleError) as refused:
        g.s[g.C].split(g.i, factor=0)
    assert not isinstance(refused.value, TypeError)


def test_every_primitive_is_refused_somewhere() -> None:
    asked = {re.split(r"[.(]", step.split("].")[-1].removeprefix("s."))[0] for *_, step, _ in ROWS}
    assert not set(PRIMITIVES) - asked


@pytest.mark.parametrize(
    ("outputs", "kind", "match"),
    [
        (lambda g: g.A, ValueError, r"sl.schedule\(A\): A is an input and has nothing to schedule"),
        (lambda g: [g.C, g.A], ValueError, r"A is an input"),
        (lambda g: [], TypeError, "give at least one output tensor"),
        (lambda g: None, TypeError, r"sl.schedule\(None\): None is not a tensor; give tensors "
                                    r"that sl.compute"),
        (lambda g: "C", TypeError, r"sl.schedule\('C'\)"),
        (lambda g: [[3]], TypeError, r"sl.schedule\(3\)"),
        (lambda g: g.i, TypeError, r"sl.schedule\(i\)"),
        (lambda g: [g.C, g.C], ValueError, "C is given twice; give each output once"),
    ],
)
def test_schedule_of_the_wrong_thing(outputs: Any, kind: type[Exception], match: str) -> None:
    with pytest.raises(SchedlangError, match=match) as caught:
        sl.schedule(outputs(SimpleNamespace(**matmul())))
    assert isinstance(caught.value, kind)


# lowering


def lower_cases() -> Iterator[Any]:
    g = SimpleNamespace(**matmul())
    n, m = sl.var("n"), sl.var("m")
    X = sl.placeholder((n * m,), name="X")
    Y = sl.compute((8,), lambda i: X[i], name="Y")
    Z = sl.placeholder((4,), name="Z")
    yield g.s, [g.A, g.C], "B is missing from the arguments"
    yield g.s, [g.A], "B is missing from the arguments"
    yield g.s, [], "A is missing from the arguments"
    yield g.s, [g.A, g.B, g.B, g.C], "B is given twice as an argument"
    W = sl.compute((4,), lambda i: Z[i], name="W")
    yield g.s, [g.A, g.B, W, g.C], "argument 2, W, is not a tensor of this computation"
    yield g.s, [g.A, g.B, "C"], "argument 2 is 'C', but arguments must be tensors or sizes"
    yield sl.schedule(Y), [X, Y], "no argument determines the size [nm]"


@pytest.mark.parametrize("case", range(7))
def test_arguments_are_refused(case: int) -> None:
    s, args, match = list(lower_cases())[case]
    before = str(s)
    with pytest.raises(SchedlangError, match=match):
        sl.lower(s, args)
    assert str(s) == before


def test_attached_where_another_reader_is_outside_the_loop() -> None:
    g = SimpleNamespace(**diamond())
    g.s[g.D].compute_at(g.s[g.C], g.i)
    assert "# compute_at(C, i) on stage D: E reads D outside that loop" in str(g.s)
    with pytest.raises(LoweringError, match="No loop encloses all its readers: leave it at root"):
        sl.lower(g.s, [g.A, g.E])
    g.s[g.C].compute_at(g.s[g.E], g.j)
    match = r"E reads D outside that loop\n  Legal places, outermost first: root, \(E, j\)\."
    with pytest.raises(LoweringError, match=match):
        sl.lower(g.s, [g.A, g.E])


def test_attached_where_another_reader_joins_later() -> None:
    g = SimpleNamespace(**diamond())
    g.s[g.D].compute_at(g.s[g.E], g.j)
    assert "C reads D outside that loop" in str(g.s)
    advice = "#   Compute C in that loop too: s[C].compute_at(s[E], j).\n#   Without this step, "
    assert advice in str(g.s)
    g.s[g.C].compute_at(g.s[g.E], g.j)
    assert "#" not in str(g.s)
    assert sl.lower(g.s, [g.A, g.E]).loops


def test_readers_that_join_a_loop_bring_their_own_readers() -> None:
    """The advice is to attach all of them, and the schedule that follows it is right."""
    A = sl.placeholder((8, 9), name="A")
    B = sl.compute((8, 9), lambda i, j: A[i, j] + 1, name="B")
    C = sl.compute((8, 9), lambda i, j: B[i, j] * 2, name="C")
    D = sl.compute((8, 9), lambda i, j: C[i, j] - A[i, j], name="D")
    E = sl.compute((8, 9), lambda i, j: B[i, j] + D[i, j], name="E")
    s = sl.schedule(E)
    row, _ = s[E].split(E.op.axis[0], factor=4)
    s[B].compute_at(s[E], row)
    calls = "s[C].compute_at(s[E], i_outer), s[D].compute_at(s[E], i_outer)."
    assert f"Compute C and D in that loop too: {calls}" in str(s)
    s[C].compute_at(s[E], row)
    s[D].compute_at(s[E], row)
    a = np.arange(72, dtype="float32").reshape(8, 9)
    np.testing.assert_array_equal(
        sl.build(s, [A, E], target="python")(a), (a + 1) + ((a + 1) * 2 - a)
    )
    # an output is computed at root, so no other stage can follow it into a loop
    s = sl.schedule([C, E])
    s[B].compute_at(s[E], E.op.axis[0])
    assert "C reads B outside that loop" in str(s) and "too:" not in str(s)


def test_attached_to_a_stage_that_is_inlined_later() -> None:
    g = SimpleNamespace(**diamond())
    g.s[g.D].compute_at(g.s[g.E], g.j)
    g.s[g.C].compute_inline()
    assert "#" not in str(g.s)


def test_attached_under_a_loop_that_is_vectorized_later() -> None:
    g = SimpleNamespace(**matmul())
    g.s[g.D].compute_at(g.s[g.C], g.k)
    with pytest.raises(ScheduleError, match="at k, inside the vectorized loop j(.|\\n)*Attach D"):
        g.s[g.C].vectorize(g.j)
    assert len(g.s.steps) == 1


def test_an_illegal_cut_is_refused() -> None:
    g = SimpleNamespace(**matmul())
    outer, inner = g.s[g.C].split(g.i, factor=48, tail="cut")
    match = "i.inner is not inside i.outer(.|\\n)*Keep i.outer a plain loop around i.inner, or use"
    with pytest.raises(ScheduleError, match=match):
        g.s[g.C].reorder(inner, outer)
    assert len(g.s.steps) == 1


@pytest.mark.parametrize("before", [
    "axis = k",
    "o, axis = s[T].split(k, factor=4); s[T].reorder(o, axis, T.op.axis[0]); s[T].unroll(o)",
    "o, m = s[T].split(k, nparts=4); axis, n = s[T].split(m, factor=2); s[T].unroll(n)",
    "axis = s[T].fuse(k, m); s[T].unroll(T.op.axis[0])",
])  # fmt: skip
@pytest.mark.parametrize("outputs", [1, 2])
def test_the_rfactor_that_a_refusal_advises(before: str, outputs: int) -> None:
    X = sl.placeholder((8, 16, 3), name="X")
    k, m = sl.reduce_axis(16, name="k"), sl.reduce_axis(3, name="m")

    if outputs == 1:
        tensors = [sl.compute((8,), lambda i: sl.sum(X[i, k, m], axis=[k, m]), name="T")]
    else:
        pair = sl.comm_reducer(lambda a, b: (a[0] + b[0], a[1] * b[1]), lambda *d: (0.0, 1.0))
        tensors = list(sl.compute((8,), lambda i: pair((X[i, k, m], X[i, k, m]), [k, m]), name="T"))
    s, taken = sl.schedule(tensors), {}
    exec(before, {"s": s, "T": tensors[0], "k": k, "m": m}, taken)
    with pytest.raises(ScheduleError) as caught:
        s[tensors[0]].vectorize(taken["axis"])
    lines = str(caught.value).splitlines()
    start = next(n for n, line in enumerate(lines) if "before any other step on T:" in line)
    written = [x.strip() for x in lines[start + 1 :] if x.startswith("      ") and " = " in x]
    fresh = sl.schedule(tensors)
    given = {"s": fresh, **{t.name.replace(".", "_"): t for t in tensors}}
    exec("\n".join(w for w in written if "s[" in w or "s.rfactor" in w), given)
    assert len(fresh.stages) == 2


def test_unknown_attributes_of_stages_and_schedules() -> None:
    g = matmul()
    s, C = g["s"], g["C"]
    with pytest.raises(AttributeError, match="no attribute 'vectorise'; did you mean 'vectorize'"):
        s[C].vectorise(C.op.axis[0])
    with pytest.raises(AttributeError, match=r"rfactor is a method of the schedule: s\.rfactor"):
        s[C].rfactor(C)
    with pytest.raises(AttributeError, match=r"method of a stage.*s\[T\]\.split.*stages are D, C$"):
        s.split(C.op.axis[0], factor=4)
    with pytest.raises(AttributeError, match="no attribute 'as_pyton'; did you mean 'as_python'"):
        s.as_pyton()
    assert not hasattr(s[C], "zzz") and not hasattr(s, "__array__")


@pytest.mark.parametrize("primitive", ["compute_at", "store_at"])
def test_a_parent_that_is_an_input_is_refused(primitive: str) -> None:
    B = sl.placeholder((4,), name="B")
    D = sl.compute((4,), lambda i: B[i] + 1, name="D")
    C = sl.compute((4,), lambda i: D[i] * 2, name="C")
    s = sl.schedule(C)
    s[D].compute_at(s[C], C.op.axis[0])
    text = s.to_json().replace('"compute_at"', f'"{primitive}"')
    wrong = text.replace('{"stage":"C"}', '{"tensor":"B","input":0}').replace(
        '{"stage": "C"}', '{"tensor": "B", "input": 0}'
    )
    assert wrong != text
    with pytest.raises(ScheduleError, match=r"B is not a stage of this schedule, so it has no "
                                            r"loops"):
        sl.Schedule.from_json(wrong, C)


def test_the_nest_in_a_message_says_where_it_was_cut() -> None:
    made = [sl.placeholder((64, 64), name="A")]
    for n in range(6):
        made.append(sl.compute((64, 64), lambda i, j: made[-1][i, j] + 1, name=f"S{n}"))
    s = sl.schedule(made[-1])
    middle, j = made[4], made[4].op.axis[1]
    s[middle].vectorize(j)
    with pytest.raises(ScheduleError) as caught:
        s[middle].unroll(j)
    nest = str(caught.value).partition("each resulting loop once.\n")[2].splitlines()
    assert nest[0] == nest[-1] == "    ..." and len(nest) == 15
    assert "      vectorize j in 0..64:    <-- here" in nest


def test_a_stage_is_asked_for_by_its_tensor() -> None:
    A = sl.placeholder((8,), name="A")
    C = sl.compute((8,), lambda i: A[i] + 1, name="C")
    s = sl.schedule(C)
    with pytest.raises(AttributeError, match=r"write s\[C\] for the stage of C"):
        s.C  # noqa: B018
