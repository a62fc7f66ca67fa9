"""Recurrences: a running sum, a cell of two steps, two states; GPU schedules as loops."""

import numpy as np

import schedlang as tvm
import schedlang.testing
from schedlang import te

m = te.var("m")
n = te.var("n")
X = te.placeholder((m, n), name="X")
s_state = te.placeholder((m, n))
s_init = te.compute((1, n), lambda _, i: X[0, i])
s_update = te.compute((m, n), lambda t, i: s_state[t - 1, i] + X[t, i])
s_scan = tvm.te.scan(s_init, s_update, s_state, inputs=[X])

# for a GPU
s = te.create_schedule(s_scan.op)
num_thread = 256
block_x = te.thread_axis("blockIdx.x")
thread_x = te.thread_axis("threadIdx.x")
xo, xi = s[s_init].split(s_init.op.axis[1], factor=num_thread)
s[s_init].bind(xo, block_x)
s[s_init].bind(xi, thread_x)
xo, xi = s[s_update].split(s_update.op.axis[1], factor=num_thread)
s[s_update].bind(xo, block_x)
s[s_update].bind(xi, thread_x)
print(tvm.lower(s, [X, s_scan], simple_mode=True))

# for a CPU
s = te.create_schedule(s_scan.op)
xo, xi = s[s_init].split(s_init.op.axis[1], factor=8)
s[s_init].vectorize(xi)
xo, xi = s[s_update].split(s_update.op.axis[1], factor=8)
s[s_update].vectorize(xi)
print(tvm.lower(s, [X, s_scan], simple_mode=True))

fscan = tvm.build(s, [X, s_scan], "llvm", name="myscan")
dev = tvm.cpu(0)
a_np = np.random.uniform(size=(10, 1021)).astype(s_scan.dtype)
a = tvm.nd.array(a_np, dev)
b = tvm.nd.array(np.zeros((10, 1021), dtype=s_scan.dtype), dev)
fscan(a, b)
tvm.testing.assert_allclose(b.numpy(), np.cumsum(a_np, axis=0), rtol=1e-6)

# a cell of two steps
m = te.var("m")
n = te.var("n")
X = te.placeholder((m, n), name="X")
s_state = te.placeholder((m, n))
s_init = te.compute((1, n), lambda _, i: X[0, i])
s_update_s1 = te.compute((m, n), lambda t, i: s_state[t - 1, i] * 2, name="s1")
s_update_s2 = te.compute((m, n), lambda t, i: s_update_s1[t, i] + X[t, i], name="s2")
s_scan = tvm.te.scan(s_init, s_update_s2, s_state, inputs=[X])

s = te.create_schedule(s_scan.op)
xo, xi = s[s_update_s2].split(s_update_s2.op.axis[1], factor=32)
s[s_update_s1].compute_at(s[s_update_s2], xo)
print(tvm.lower(s, [X, s_scan], simple_mode=True))

fscan = tvm.build(s, [X, s_scan], "llvm", name="myscan")
b = tvm.nd.array(np.zeros((10, 1021), dtype=s_scan.dtype), dev)
fscan(a, b)
expected = a_np.copy()
for t in range(1, 10):
    expected[t] += 2 * expected[t - 1]
tvm.testing.assert_allclose(b.numpy(), expected, rtol=1e-6)

# two states
m = te.var("m")
n = te.var("n")
l = te.var("l")
X = te.placeholder((m, n), name="X")
s_state1 = te.placeholder((m, n))
s_state2 = te.placeholder((m, l))
s_init1 = te.compute((1, n), lambda _, i: X[0, i])
s_init2 = te.compute((1, l), lambda _, i: 0.0)
s_update1 = te.compute((m, n), lambda t, i: s_state1[t - 1, i] + X[t, i])
s_update2 = te.compute((m, l), lambda t, i: s_state2[t - 1, i] + s_state1[t - 1, 0])
s_scan1, s_scan2 = tvm.te.scan(
    [s_init1, s_init2], [s_update1, s_update2], [s_state1, s_state2], inputs=[X]
)
s = te.create_schedule(s_scan1.op)
print(tvm.lower(s, [X, s_scan1, s_scan2], simple_mode=True))

ftwo = tvm.build(s, [X, s_scan1, s_scan2], "llvm")
one = tvm.nd.array(np.zeros((10, 1021), dtype=s_scan1.dtype), dev)
two = tvm.nd.array(np.zeros((10, 3), dtype=s_scan2.dtype), dev)
ftwo(a, one, two)
sums = np.cumsum(a_np, axis=0)
tvm.testing.assert_allclose(one.numpy(), sums, rtol=1e-6)
before = np.concatenate([np.zeros(1, "float32"), np.cumsum(sums[:-1, 0])])
tvm.testing.assert_allclose(two.numpy(), np.repeat(before[:, None], 3, axis=1), rtol=1e-5)
