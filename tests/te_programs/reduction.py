"""Sums of rows, factored sums, a convolution, a reducer of one's own; GPU schedules as loops."""

import numpy as np

import schedlang as tvm
import schedlang.testing
from schedlang import te


def check(s, tensors, expected, *inputs):
    out = tvm.nd.array(np.zeros(expected.shape, tensors[-1].dtype), tvm.cpu(0))
    tvm.build(s, tensors, "llvm")(*(tvm.nd.array(x) for x in inputs), out)
    tvm.testing.assert_allclose(out.numpy(), expected, rtol=1e-4)


rows = np.random.uniform(size=(130, 45)).astype("float32")

n = te.var("n")
m = te.var("m")
A = te.placeholder((n, m), name="A")
k = te.reduce_axis((0, m), "k")
B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")

s = te.create_schedule(B.op)
print(tvm.lower(s, [A, B], simple_mode=True))
check(s, [A, B], rows.sum(1), rows)

# both axes split
ko, ki = s[B].split(B.op.reduce_axis[0], factor=16)
xo, xi = s[B].split(B.op.axis[0], factor=32)
print(tvm.lower(s, [A, B], simple_mode=True))
check(s, [A, B], rows.sum(1), rows)

# rows on threads of a GPU
s[B].bind(xo, te.thread_axis("blockIdx.x"))
s[B].bind(xi, te.thread_axis("threadIdx.x"))
print(tvm.lower(s, [A, B], simple_mode=True))

# partial sums
s = te.create_schedule(B.op)
ko, ki = s[B].split(B.op.reduce_axis[0], factor=16)
BF = s.rfactor(B, ki)
print(tvm.lower(s, [A, B], simple_mode=True))
print(s[B].op.body)
check(s, [A, B], rows.sum(1), rows)

# partial sums on the CPU's cores
s[BF].parallel(s[BF].op.axis[0])
check(s, [A, B], rows.sum(1), rows)

# partial sums on threads that add up
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
print(tvm.lower(s, [A, B], simple_mode=True))

# a convolution is a sum over two axes
n = te.var("n")
Input = te.placeholder((n, n), name="Input")
Filter = te.placeholder((3, 3), name="Filter")
di = te.reduce_axis((0, 3), name="di")
dj = te.reduce_axis((0, 3), name="dj")
Output = te.compute(
    (n - 2, n - 2),
    lambda i, j: te.sum(Input[i + di, j + dj] * Filter[di, dj], axis=[di, dj]),
    name="Output",
)
s = te.create_schedule(Output.op)
print(tvm.lower(s, [Input, Filter, Output], simple_mode=True))
image = np.random.uniform(size=(20, 20)).astype("float32")
window = np.random.uniform(size=(3, 3)).astype("float32")
patches = np.lib.stride_tricks.sliding_window_view(image, (3, 3))
check(s, [Input, Filter, Output], np.einsum("ijab,ab->ij", patches, window), image, window)

# a product
n = te.var("n")
m = te.var("m")
product = te.comm_reducer(lambda x, y: x * y, lambda t: tvm.tir.const(1, dtype=t), name="product")
A = te.placeholder((n, m), name="A")
k = te.reduce_axis((0, m), name="k")
B = te.compute((n,), lambda i: product(A[i, k], axis=k), name="B")
s = te.create_schedule(B.op)
print(tvm.lower(s, [A, B], simple_mode=True))
check(s, [A, B], (rows + 0.5).prod(1), rows + np.float32(0.5))
