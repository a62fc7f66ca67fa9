"""Each primitive once, with the loops it makes; what runs on a CPU is run."""

import numpy as np

import schedlang as tvm
from schedlang import te

n = te.var("n")
m = te.var("m")


def check(s, tensors, expected, *inputs):
    out = tvm.nd.array(np.zeros(expected.shape, tensors[-1].dtype), tvm.cpu(0))
    func = tvm.build(s, tensors, "llvm", name="primitive")
    func(*(tvm.nd.array(x, tvm.cpu(0)) for x in inputs), out)
    tvm.testing.assert_allclose(out.numpy(), expected, rtol=1e-6)


a1 = np.random.uniform(size=77).astype("float32")
a2 = np.random.uniform(size=(33, 21)).astype("float32")
b2 = np.random.uniform(size=(33, 21)).astype("float32")

# a schedule from a list of operations
A = te.placeholder((m, n), name="A")
B = te.placeholder((m, n), name="B")
C = te.compute((m, n), lambda i, j: A[i, j] * B[i, j], name="C")
s = te.create_schedule([C.op])
print(tvm.lower(s, [A, B, C], simple_mode=True))
check(s, [A, B, C], a2 * b2, a2, b2)

# split by factor
A = te.placeholder((m,), name="A")
B = te.compute((m,), lambda i: A[i] * 2, name="B")
s = te.create_schedule(B.op)
xo, xi = s[B].split(B.op.axis[0], factor=32)
print(tvm.lower(s, [A, B], simple_mode=True))
check(s, [A, B], a1 * 2, a1)

# split into parts
A = te.placeholder((m,), name="A")
B = te.compute((m,), lambda i: A[i], name="B")
s = te.create_schedule(B.op)
bx, tx = s[B].split(B.op.axis[0], nparts=32)
print(tvm.lower(s, [A, B], simple_mode=True))
check(s, [A, B], a1, a1)

# tile
A = te.placeholder((m, n), name="A")
B = te.compute((m, n), lambda i, j: A[i, j], name="B")
s = te.create_schedule(B.op)
xo, yo, xi, yi = s[B].tile(B.op.axis[0], B.op.axis[1], x_factor=10, y_factor=5)
print(tvm.lower(s, [A, B], simple_mode=True))
check(s, [A, B], a2, a2)

# fuse the two inner loops of a tile
A = te.placeholder((m, n), name="A")
B = te.compute((m, n), lambda i, j: A[i, j], name="B")
s = te.create_schedule(B.op)
xo, yo, xi, yi = s[B].tile(B.op.axis[0], B.op.axis[1], x_factor=10, y_factor=5)
fused = s[B].fuse(xi, yi)
print(tvm.lower(s, [A, B], simple_mode=True))
check(s, [A, B], a2, a2)

# reorder
A = te.placeholder((m, n), name="A")
B = te.compute((m, n), lambda i, j: A[i, j], name="B")
s = te.create_schedule(B.op)
xo, yo, xi, yi = s[B].tile(B.op.axis[0], B.op.axis[1], x_factor=10, y_factor=5)
s[B].reorder(xi, yo, xo, yi)
print(tvm.lower(s, [A, B], simple_mode=True))
check(s, [A, B], a2, a2)

# bind to the threads of a GPU
A = te.placeholder((n,), name="A")
B = te.compute(A.shape, lambda i: A[i] * 2, name="B")
s = te.create_schedule(B.op)
bx, tx = s[B].split(B.op.axis[0], factor=64)
s[B].bind(bx, te.thread_axis("blockIdx.x"))
s[B].bind(tx, te.thread_axis("threadIdx.x"))
print(tvm.lower(s, [A, B], simple_mode=True))


def two_stages():
    A = te.placeholder((m,), name="A")
    B = te.compute((m,), lambda i: A[i] + 1, name="B")
    C = te.compute((m,), lambda i: B[i] * 2, name="C")
    return A, B, C, te.create_schedule(C.op)


# every stage at root
A, B, C, s = two_stages()
print(tvm.lower(s, [A, B, C], simple_mode=True))
check(s, [A, C], (a1 + 1) * 2, a1)

# compute_at
A, B, C, s = two_stages()
s[B].compute_at(s[C], C.op.axis[0])
print(tvm.lower(s, [A, B, C], simple_mode=True))
check(s, [A, C], (a1 + 1) * 2, a1)

# compute_inline
A, B, C, s = two_stages()
s[B].compute_inline()
print(tvm.lower(s, [A, B, C], simple_mode=True))
check(s, [A, C], (a1 + 1) * 2, a1)

# compute_root takes compute_at back
A, B, C, s = two_stages()
s[B].compute_at(s[C], C.op.axis[0])
s[B].compute_root()
print(tvm.lower(s, [A, B, C], simple_mode=True))
check(s, [A, C], (a1 + 1) * 2, a1)

# intermediate tensors may be arguments
func = tvm.build(s, [A, B, C], "llvm")
b, c = (tvm.nd.empty((77,), "float32", tvm.cpu()) for _ in range(2))
func(tvm.nd.array(a1), b, c)
tvm.testing.assert_allclose(b.numpy(), a1 + 1, rtol=1e-6)
tvm.testing.assert_allclose(c.numpy(), (a1 + 1) * 2, rtol=1e-6)
