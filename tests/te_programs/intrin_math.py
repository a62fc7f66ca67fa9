"""The math functions of te, for two dtypes."""

import numpy as np

import schedlang as tvm
from schedlang import te

n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.compute(A.shape, lambda i: te.exp(A[i]), name="B")

# for a GPU, as loops
s = te.create_schedule(B.op)
num_thread = 64
bx, tx = s[B].split(B.op.axis[0], factor=num_thread)
s[B].bind(bx, te.thread_axis("blockIdx.x"))
s[B].bind(tx, te.thread_axis("threadIdx.x"))
print(tvm.lower(s, [A, B], simple_mode=True))

x = np.linspace(-3, 3, 200)
for dtype in ("float32", "float64"):
    for name in ("exp", "tanh", "sqrt", "floor", "ceil", "trunc", "abs", "cos", "sin"):
        A = te.placeholder((n,), name="A", dtype=dtype)
        B = te.compute(A.shape, lambda i: getattr(te, name)(te.abs(A[i]) + 1), name="B")
        s = te.create_schedule(B.op)
        xo, xi = s[B].split(B.op.axis[0], factor=8)
        s[B].vectorize(xi)
        f = tvm.build(s, [A, B], "python", name="my" + name)
        a = tvm.nd.array(x.astype(dtype), tvm.cpu(0))
        b = tvm.nd.empty(a.shape, dtype, tvm.cpu(0))
        f(a, b)
        tvm.testing.assert_allclose(b.numpy(), getattr(np, name)(np.abs(a.numpy()) + 1), rtol=1e-5)
print(f.get_source())
