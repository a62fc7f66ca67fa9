"""A convolution by matrix units, in tiles of 16 pictures x 16 channels, as te's tutorial does it."""

import numpy as np

import schedlang as tvm
import schedlang.testing
from schedlang import te
from schedlang.contrib import nvcc

# small sizes: two warps of 2 x 1 tiles each
tile = 16
batch, height, width = 32, 2, 3
in_channels, out_channels = 32, 32
kernel, pad, stride = 3, 1, 1

data_shape = (batch // tile, height, width, in_channels // tile, tile, tile)
kernel_shape = (kernel, kernel, in_channels // tile, out_channels // tile, tile, tile)
output_shape = (batch // tile, height, width, out_channels // tile, tile, tile)

kh = te.reduce_axis((0, kernel), name="kh")
kw = te.reduce_axis((0, kernel), name="kw")
ic = te.reduce_axis((0, in_channels // tile), name="ic")
ii = te.reduce_axis((0, tile), name="ii")

A = te.placeholder(data_shape, name="A", dtype="float16")
W = te.placeholder(kernel_shape, name="W", dtype="float16")
Apad = te.compute(
    (batch // tile, height + 2 * pad, width + 2 * pad, in_channels // tile, tile, tile),
    lambda n, h, w, i, nn, ii: tvm.tir.if_then_else(
        tvm.tir.all(h >= pad, h - pad < height, w >= pad, w - pad < width),
        A[n, h - pad, w - pad, i, nn, ii],
        tvm.tir.const(0.0, "float16"),
    ),
    name="Apad",
)
Conv = te.compute(
    output_shape,
    lambda n, h, w, o, nn, oo: te.sum(
        Apad[n, h * stride + kh, w * stride + kw, ic, nn, ii].astype("float32")
        * W[kh, kw, ic, o, ii, oo].astype("float32"),
        axis=[ic, kh, kw, ii],
    ),
    name="Conv",
)

s = te.create_schedule(Conv.op)
s[Apad].compute_inline()
AS = s.cache_read(Apad, "shared", [Conv])
WS = s.cache_read(W, "shared", [Conv])
AF = s.cache_read(AS, "wmma.matrix_a", [Conv])
WF = s.cache_read(WS, "wmma.matrix_b", [Conv])
ConvF = s.cache_write(Conv, "wmma.accumulator")


def buffer_of(tensor, scope):
    return tvm.tir.decl_buffer(
        tensor.shape, tensor.dtype, name=tensor.name, scope=scope, data_alignment=32,
        offset_factor=tile * tile,
    )  # fmt: skip


def matrix_call(name, *args):
    ib = tvm.tir.ir_builder.create()
    ib.emit(tvm.tir.call_intrin("handle", f"tir.{name}", *args))
    return ib.get()


def number_of(buffer):
    return buffer.elem_offset // (tile * tile)


def load_intrin(scope):
    a = te.placeholder((tile, tile), name="a", dtype="float16")
    c = te.compute((tile, tile), lambda i, j: a[i, j], name="c")

    def load(ins, outs):
        return matrix_call(
            "tvm_load_matrix_sync", outs[0].data, tile, tile, tile, number_of(outs[0]),
            ins[0].access_ptr("r"), tile, "row_major",
        )  # fmt: skip

    return te.decl_tensor_intrin(
        c.op, load, binds={a: buffer_of(a, "shared"), c: buffer_of(c, scope)}
    )


def product_intrin():
    a = te.placeholder((tile, tile), name="a", dtype="float16")
    b = te.placeholder((tile, tile), name="b", dtype="float16")
    k = te.reduce_axis((0, tile), name="k")
    c = te.compute(
        (tile, tile),
        lambda i, j: te.sum(a[i, k].astype("float") * b[k, j].astype("float"), axis=k),
        name="c",
    )

    def product(ins, outs):
        def init():
            result = outs[0]
            return matrix_call(
                "tvm_fill_fragment", result.data, tile, tile, tile, number_of(result), 0.0
            )

        def update():
            parts = [outs[0], ins[0], ins[1], outs[0]]
            return matrix_call(
                "tvm_mma_sync", *[arg for part in parts for arg in (part.data, number_of(part))]
            )

        return update(), init(), update()

    scopes = {a: "wmma.matrix_a", b: "wmma.matrix_b", c: "wmma.accumulator"}
    return te.decl_tensor_intrin(
        c.op, product, binds={t: buffer_of(t, scope) for t, scope in scopes.items()}
    )


def store_intrin():
    a = te.placeholder((tile, tile), name="a", dtype="float32")
    c = te.compute((tile, tile), lambda i, j: a[i, j], name="c")

    def store(ins, outs):
        return matrix_call(
            "tvm_store_matrix_sync", ins[0].data, tile, tile, tile, number_of(ins[0]),
            outs[0].access_ptr("w"), tile, "row_major",
        )  # fmt: skip

    return te.decl_tensor_intrin(
        c.op, store, binds={a: buffer_of(a, "wmma.accumulator"), c: buffer_of(c, "global")}
    )


block_row_warps, block_col_warps = 1, 2
warp_row_tiles, warp_col_tiles = 2, 1
warp_size, chunk = 32, 2

block_x, block_y, block_z = (te.thread_axis(f"blockIdx.{x}") for x in "xyz")
thread_x, thread_y, thread_z = (te.thread_axis(f"threadIdx.{x}") for x in "xyz")

nc, hc, wc, oc, nnc, ooc = Conv.op.axis
block_k = s[Conv].fuse(hc, wc)
s[Conv].bind(block_k, block_z)
nc, nci = s[Conv].split(nc, factor=warp_row_tiles)
block_i, nc = s[Conv].split(nc, factor=block_row_warps)
oc, oci = s[Conv].split(oc, factor=warp_col_tiles)
block_j, oc = s[Conv].split(oc, factor=block_col_warps)
s[Conv].reorder(block_k, block_i, block_j, nc, oc, nci, oci, nnc, ooc)
for axis, thread in ((block_i, block_x), (block_j, block_y), (nc, thread_y), (oc, thread_z)):
    s[Conv].bind(axis, thread)

s[ConvF].compute_at(s[Conv], oc)
n, h, w, o, nnf, oof = ConvF.op.axis
ko, ki = s[ConvF].split(ic, factor=chunk)
s[ConvF].reorder(ko, kh, ki, kw, n, o, nnf, oof, ii)
s[AF].compute_at(s[ConvF], kw)
s[WF].compute_at(s[ConvF], kw)

s[AS].compute_at(s[ConvF], kh)
n, h, w, i, nn, ia = AS.op.axis
tx, xo = s[AS].split(n, nparts=block_row_warps)
ty, yo = s[AS].split(xo, nparts=block_col_warps)
to, ti = s[AS].split(s[AS].fuse(nn, ia), factor=warp_size)
for axis, thread in ((tx, thread_y), (ty, thread_z), (ti, thread_x)):
    s[AS].bind(axis, thread)

s[WS].compute_at(s[ConvF], kh)
kh, kw, ic, o, iw, oo = WS.op.axis
tx, xo = s[WS].split(o, nparts=block_row_warps)
ty, yo = s[WS].split(xo, nparts=block_col_warps)
to, ti = s[WS].split(s[WS].fuse(iw, oo), nparts=warp_size)
for axis, thread in ((tx, thread_y), (ty, thread_z), (to, thread_x)):
    s[WS].bind(axis, thread)
s[WS].vectorize(ti)

s[AF].tensorize(AF.op.axis[-2], load_intrin("wmma.matrix_a"))
s[WF].tensorize(WF.op.axis[-2], load_intrin("wmma.matrix_b"))
s[Conv].tensorize(nnc, store_intrin())
s[ConvF].tensorize(nnf, product_intrin())
print(tvm.lower(s, [A, W, Conv], simple_mode=True))

dev = tvm.cuda(0)
assert nvcc.have_tensorcore(dev.compute_version)
with tvm.transform.PassContext(config={"tir.UnrollLoop": {"auto_max_step": 16}}):
    func = tvm.build(s, [A, W, Conv], "cuda")
a_np = np.random.uniform(size=data_shape).astype(A.dtype)
w_np = np.random.uniform(size=kernel_shape).astype(W.dtype)
a, w = tvm.nd.array(a_np, dev), tvm.nd.array(w_np, dev)
c = tvm.nd.array(np.zeros(output_shape, dtype=Conv.dtype), dev)
func(a, w, c)

padded = np.pad(a_np.astype("float64"), [(0, 0), (pad, pad), (pad, pad), (0, 0), (0, 0), (0, 0)])
expected = sum(
    np.einsum(
        "nhwcib,cobj->nhwoij",
        padded[:, y : y + height, x : x + width],
        w_np[y, x].astype("float64"),
    )
    for y in range(kernel)
    for x in range(kernel)
)
tvm.testing.assert_allclose(c.numpy(), expected, rtol=1e-4)
evaluator = func.time_evaluator(func.entry_name, dev, number=1)
print(f"conv2d with tensor core: {evaluator(a, w, c).mean * 1e3:f} ms")
