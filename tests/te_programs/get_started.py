"""First steps: a vector sum, default, parallel and vectorized; then a matrix product by steps."""

import numpy as np

import schedlang as tvm
import schedlang.testing
from schedlang import te

tgt = tvm.target.Target(target="llvm", host="llvm")

n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.placeholder((n,), name="B")
C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")

s = te.create_schedule(C.op)
fadd = tvm.build(s, [A, B, C], tgt, name="vector_add")

dev = tvm.device(tgt.kind.name, 0)
size = 1000
a = tvm.nd.array(np.random.uniform(size=size).astype(A.dtype), dev)
b = tvm.nd.array(np.random.uniform(size=size).astype(B.dtype), dev)
c = tvm.nd.array(np.zeros(size, dtype=C.dtype), dev)
fadd(a, b, c)
tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())


def evaluate_addition(func, target, optimization, log):
    dev = tvm.device(target.kind.name, 0)
    size = 32768
    a = tvm.nd.array(np.random.uniform(size=size).astype(A.dtype), dev)
    b = tvm.nd.array(np.random.uniform(size=size).astype(B.dtype), dev)
    c = tvm.nd.array(np.zeros(size, dtype=C.dtype), dev)

    evaluator = func.time_evaluator(func.entry_name, dev, number=10)
    mean_time = evaluator(a, b, c).mean
    tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
    print("%s: %f" % (optimization, mean_time))
    log.append((optimization, mean_time))


log = []
evaluate_addition(fadd, tgt, "naive", log=log)

s[C].parallel(C.op.axis[0])
print(tvm.lower(s, [A, B, C], simple_mode=True))

fadd_parallel = tvm.build(s, [A, B, C], tgt, name="vector_add_parallel")
fadd_parallel(a, b, c)
tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
evaluate_addition(fadd_parallel, tgt, "parallel", log=log)

n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.placeholder((n,), name="B")
C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")
s = te.create_schedule(C.op)
outer, inner = s[C].split(C.op.axis[0], factor=4)
s[C].parallel(outer)
s[C].vectorize(inner)

fadd_vector = tvm.build(s, [A, B, C], tgt, name="vector_add_vectorized")
fadd_vector(a, b, c)
tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
evaluate_addition(fadd_vector, tgt, "vector", log=log)
print(tvm.lower(s, [A, B, C], simple_mode=True))

baseline = log[0][1]
for name, seconds in log:
    print(
        "%s\t%s\t%s" % (name.rjust(20), str(seconds).rjust(20), str(seconds / baseline).rjust(20))
    )

# the same addition for a GPU, as far as the loops
tgt_gpu = tvm.target.Target(target="cuda", host="llvm")
s = te.create_schedule(C.op)
bx, tx = s[C].split(C.op.axis[0], factor=64)
s[C].bind(bx, te.thread_axis("blockIdx.x"))
s[C].bind(tx, te.thread_axis("threadIdx.x"))
print(tvm.lower(s, [A, B, C], simple_mode=True))
if tgt_gpu.kind.name == "cuda":
    print("-----loops of the GPU-----")

# a matrix product, one optimization after another on the same schedule
M = K = N = 128
target = tvm.target.Target(target="llvm", host="llvm")
dev = tvm.device(target.kind.name, 0)
a = tvm.nd.array(np.random.rand(M, K).astype("float32"), dev)
b = tvm.nd.array(np.random.rand(K, N).astype("float32"), dev)
answer = np.dot(a.numpy(), b.numpy())

k = te.reduce_axis((0, K), "k")
A = te.placeholder((M, K), name="A")
B = te.placeholder((K, N), name="B")
C = te.compute((M, N), lambda x, y: te.sum(A[x, k] * B[k, y], axis=k), name="C")

s = te.create_schedule(C.op)
func = tvm.build(s, [A, B, C], target=target, name="mmult")
c = tvm.nd.array(np.zeros((M, N), dtype="float32"), dev)
func(a, b, c)
tvm.testing.assert_allclose(c.numpy(), answer, rtol=1e-5)


def evaluate_operation(s, args, target, name, optimization, log):
    func = tvm.build(s, args, target=target, name=name)
    assert func

    c = tvm.nd.array(np.zeros((M, N), dtype="float32"), dev)
    func(a, b, c)
    tvm.testing.assert_allclose(c.numpy(), answer, rtol=1e-5)

    evaluator = func.time_evaluator(func.entry_name, dev, number=10)
    mean_time = evaluator(a, b, c).mean
    print("%s: %f" % (optimization, mean_time))
    log.append((optimization, mean_time))


log = []
evaluate_operation(s, [A, B, C], target, "mmult", "none", log)

bn = 32
xo, yo, xi, yi = s[C].tile(C.op.axis[0], C.op.axis[1], bn, bn)
(k,) = s[C].op.reduce_axis
ko, ki = s[C].split(k, factor=4)
s[C].reorder(xo, yo, ko, ki, xi, yi)
evaluate_operation(s, [A, B, C], target, "mmult", "blocking", log)

s[C].vectorize(yi)
evaluate_operation(s, [A, B, C], target, "mmult", "vectorization", log)
print(tvm.lower(s, [A, B, C], simple_mode=True))
