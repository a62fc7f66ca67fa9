"""Reductions on a GPU: threads that add up together, warps, argmax by rfactor, softmax."""

import numpy as np

import schedlang as tvm
import schedlang.testing
from schedlang import te

target = tvm.target.Target(target="cuda", host="llvm")
dev = tvm.device(target.kind.name, 0)


def check(s, tensors, expected, *inputs, rtol=1e-4):
    print(tvm.lower(s, tensors, simple_mode=True))
    f = tvm.build(s, tensors, target)
    out = [
        tvm.nd.array(np.zeros(e.shape, t.dtype), dev)
        for e, t in zip(expected, tensors[-len(expected) :])
    ]
    f(*(tvm.nd.array(x, dev) for x in inputs), *out)
    for found, wanted in zip(out, expected):
        tvm.testing.assert_allclose(found.numpy(), wanted, rtol=rtol)


# rows, partial sums by threads that add up together
n = te.var("n")
m = te.var("m")
A = te.placeholder((n, m), name="A")
k = te.reduce_axis((0, m), "k")
B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
s = te.create_schedule(B.op)
ko, ki = s[B].split(B.op.reduce_axis[0], factor=16)
BF = s.rfactor(B, ki)
xo, xi = s[B].split(s[B].op.axis[0], factor=32)
s[B].bind(xo, te.thread_axis("blockIdx.x"))
s[B].bind(xi, te.thread_axis("threadIdx.y"))
tx = te.thread_axis("threadIdx.x")
s[B].bind(s[B].op.reduce_axis[0], tx)
s[BF].compute_at(s[B], s[B].op.reduce_axis[0])
s[B].set_store_predicate(tx.var.equal(0))
rows = np.random.uniform(size=(128, 128)).astype("float32")
check(s, [A, B], [rows.sum(1)], rows)

# a warp for each row: 32 x 256; and rows of 20 on 20 threads: 10 x 20
for height, width, threads in ((32, 256, 32), (10, 20, 20)):
    A = te.placeholder((height, width), name="A")
    k = te.reduce_axis((0, width), "k")
    B = te.compute((height,), lambda i: te.max(A[i][k], axis=k), name="B")
    s = te.create_schedule(B.op)
    ko, _ = s[B].split(B.op.reduce_axis[0], nparts=threads)
    s[B].bind(ko, te.thread_axis("threadIdx.x"))
    s[B].bind(s[B].op.axis[0], te.thread_axis("blockIdx.x"))
    values = np.random.uniform(size=(height, width)).astype("float32")
    check(s, [A, B], [values.max(1)], values)


# the place of the largest element
def fcombine(x, y):
    larger = te.any(x[1] > y[1], te.all(x[1] == y[1], x[0] < y[0]))
    return tvm.tir.Select(larger, x[0], y[0]), tvm.tir.Select(larger, x[1], y[1])


def fidentity(t0, t1):
    return tvm.tir.const(2**31 - 1, t0), tvm.te.min_value(t1)


argmax = te.comm_reducer(fcombine, fidentity, name="argmax")
m, n, threads = 64, 100, 16
idx = te.placeholder((m, n), name="idx", dtype="int32")
val = te.placeholder((m, n), name="val", dtype="float32")
k = te.reduce_axis((0, n), "k")
T0, T1 = te.compute((m,), lambda i: argmax((idx[i, k], val[i, k]), axis=k), name="T")
s = te.create_schedule(T0.op)
ko, ki = s[T0].split(s[T0].op.reduce_axis[0], factor=threads)
BF0, BF1 = s.rfactor(T0, ki)
bx, ty = s[T0].split(s[T0].op.axis[0], factor=8)
s[T0].bind(bx, te.thread_axis("blockIdx.x"))
s[T0].bind(ty, te.thread_axis("threadIdx.y"))
tx = s[T0].op.reduce_axis[0]
thread_x = te.thread_axis("threadIdx.x")
s[T0].bind(tx, thread_x)
s[BF0.op].compute_at(s[T0], tx)
s[T0].set_store_predicate(thread_x.var.equal(0))
places = np.arange(m * n).reshape(m, n).astype("int32")
values = np.random.randint(0, 50, (m, n)).astype("float32")
first = values.argmax(1)
best = [places[np.arange(m), first], values.max(1)]
check(s, [idx, val, T0, T1], best, places, values)

# softmax: two reductions across the threads of a block
rows, cols, threads = 32, 200, 64
X = te.placeholder((rows, cols), name="X")
k1 = te.reduce_axis((0, cols), "k1")
k2 = te.reduce_axis((0, cols), "k2")
largest = te.compute((rows,), lambda i: te.max(X[i, k1], axis=k1), name="largest")
power = te.compute((rows, cols), lambda i, j: te.exp(X[i, j] - largest[i]), name="power")
total = te.compute((rows,), lambda i: te.sum(power[i, k2], axis=k2), name="total")
Y = te.compute((rows, cols), lambda i, j: power[i, j] / total[i], name="Y")
s = te.create_schedule(Y.op)
s[power].compute_inline()
s[Y].bind(s[Y].op.axis[0], te.thread_axis("blockIdx.x"))
_, tx = s[Y].split(s[Y].op.axis[1], factor=threads)
s[Y].bind(tx, te.thread_axis("threadIdx.x"))
for stage in (total, largest):
    s[stage].compute_at(s[Y], s[Y].op.axis[0])
    _, ki = s[stage].split(s[stage].op.reduce_axis[0], factor=threads)
    s[stage].bind(ki, te.thread_axis("threadIdx.x"))
x = np.random.normal(size=(rows, cols)).astype("float32")
grown = np.exp(x - x.max(1, keepdims=True))
check(s, [X, Y], [grown / grown.sum(1, keepdims=True)], x)
