"""Several outputs from one computation, and a reduction over pairs."""

import numpy as np

import schedlang as tvm
from schedlang import te

x0, x1 = (np.random.randint(-50, 50, (7, 9)).astype("float32") for _ in range(2))


def run(s, tensors, inputs, outputs):
    func = tvm.build(s, tensors, "llvm")
    made = [tvm.nd.empty(y.shape, t.dtype) for t, y in zip(tensors[len(inputs) :], outputs)]
    func(*(tvm.nd.array(x) for x in inputs), *made)
    for out, expected in zip(made, outputs):
        tvm.testing.assert_allclose(out.numpy(), expected)


# two outputs of one shape
n = te.var("n")
m = te.var("m")
A0 = te.placeholder((m, n), name="A0")
A1 = te.placeholder((m, n), name="A1")
B0, B1 = te.compute((m, n), lambda i, j: (A0[i, j] + 2, A1[i, j] * 3), name="B")
s = te.create_schedule(B0.op)
print(tvm.lower(s, [A0, A1, B0, B1], simple_mode=True))
run(s, [A0, A1, B0, B1], [x0, x1], [x0 + 2, x1 * 3])


# the largest value and where it is
def fcombine(x, y):
    lhs = tvm.tir.Select((x[1] >= y[1]), x[0], y[0])
    rhs = tvm.tir.Select((x[1] >= y[1]), x[1], y[1])
    return lhs, rhs


def fidentity(t0, t1):
    return tvm.tir.const(-1, t0), tvm.te.min_value(t1)


argmax = te.comm_reducer(fcombine, fidentity, name="argmax")

m = te.var("m")
n = te.var("n")
idx = te.placeholder((m, n), name="idx", dtype="int32")
val = te.placeholder((m, n), name="val", dtype="int32")
k = te.reduce_axis((0, n), "k")
T0, T1 = te.compute((m,), lambda i: argmax((idx[i, k], val[i, k]), axis=k), name="T")
s = te.create_schedule(T0.op)
print(tvm.lower(s, [idx, val, T0, T1], simple_mode=True))

values = np.array([np.random.permutation(40) for _ in range(6)]).astype("int32")
places = np.broadcast_to(np.arange(40, dtype="int32"), values.shape)
run(s, [idx, val, T0, T1], [places, values], [values.argmax(1), values.max(1)])

# the same with the axis itself as the index, reduced in four parts
k = te.reduce_axis((0, 40), "k")
V = te.placeholder((6, 40), name="V", dtype="int32")
P, Q = te.compute((6,), lambda i: argmax((k, V[i, k]), axis=k), name="PQ")
assert (P.dtype, Q.dtype) == ("int32", "int32")
s = te.create_schedule(P.op)
ko, ki = s[P].split(k, nparts=4)
PF, QF = s.rfactor([P, Q], ko)
print(tvm.lower(s, [V, P, Q], simple_mode=True))
run(s, [V, P, Q], [values], [values.argmax(1), values.max(1)])

# outputs of one operation are scheduled together
n = te.var("n")
m = te.var("m")
A0 = te.placeholder((m, n), name="A0")
B0, B1 = te.compute((m, n), lambda i, j: (A0[i, j] + 2, A0[i, j] * 3), name="B")
A1 = te.placeholder((m, n), name="A1")
C = te.compute((m, n), lambda i, j: A1[i, j] + B0[i, j], name="C")
s = te.create_schedule(C.op)
s[B0].compute_at(s[C], C.op.axis[0])
print(tvm.lower(s, [A0, A1, C], simple_mode=True))
run(s, [A0, A1, C], [x0, x1], [x1 + x0 + 2])

# and cached together
A0 = te.placeholder((7, 9), name="A0")
D0, D1 = te.compute((7, 9), lambda i, j: (A0[i, j] - 1, A0[i, j] * 5), name="D")
s = te.create_schedule([D0.op])
L0, L1 = s.cache_write([D0, D1], "local")
s[L0].compute_at(s[D0], s[D0].op.axis[0])
print(tvm.lower(s, [A0, D0, D1], simple_mode=True))
run(s, [A0, D0, D1], [x0], [x0 - 1, x0 * 5])
