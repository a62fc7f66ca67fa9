"""The auto-scheduler: a product with an addend as a workload, a search, its record, and more of it."""

import numpy as np

import schedlang as tvm
from schedlang import auto_scheduler
from schedlang import te


@auto_scheduler.register_workload
def product_and_addend(N, L, M, dtype):
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    C = te.placeholder((N, M), name="C", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    product = te.compute(
        (N, M),
        lambda i, j: te.sum(A[i, k] * B[k, j], axis=k),
        name="product",
        attrs={"layout_free_placeholders": [B]},
    )
    out = te.compute((N, M), lambda i, j: product[i, j] + C[i, j], name="out")
    return [A, B, C, out]


target = tvm.target.Target("llvm")
N = L = M = 96
task = tvm.auto_scheduler.SearchTask(
    func=product_and_addend, args=(N, L, M, "float32"), target=target
)
print(task.compute_dag)

folder = tvm.contrib.utils.tempdir()
log_file = folder.relpath("matmul.json")
tune_option = auto_scheduler.TuningOptions(
    num_measure_trials=3,
    measure_callbacks=[auto_scheduler.RecordToFile(log_file)],
    verbose=2,
)
task.tune(tune_option)
sch, args = task.apply_best(log_file)
print(tvm.lower(sch, args, simple_mode=True))

func = tvm.build(sch, args, target)
a_np = np.random.uniform(size=(N, L)).astype(np.float32)
b_np = np.random.uniform(size=(L, M)).astype(np.float32)
c_np = np.random.uniform(size=(N, M)).astype(np.float32)
dev = tvm.cpu()
arrays = [tvm.nd.array(x, device=dev) for x in (a_np, b_np, c_np)]
out_tvm = tvm.nd.empty((N, M), device=dev)
func(*arrays, out_tvm)
np.testing.assert_allclose(a_np.dot(b_np) + c_np, out_tvm.numpy(), rtol=1e-3)
evaluator = func.time_evaluator(func.entry_name, dev, min_repeat_ms=10)
print("%.3f ms" % (np.median(evaluator(*arrays, out_tvm).results) * 1000))
print(task.print_best(log_file))


def resume_search(task, log_file):
    cost_model = auto_scheduler.XGBModel()
    cost_model.update_from_file(log_file)
    search_policy = auto_scheduler.SketchPolicy(
        task, cost_model, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log_file)]
    )
    tune_option = auto_scheduler.TuningOptions(
        num_measure_trials=2, measure_callbacks=[auto_scheduler.RecordToFile(log_file)]
    )
    task.tune(tune_option, search_policy=search_policy)


resume_search(task, log_file)
