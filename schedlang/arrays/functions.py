"""The table of NumPy's functions that have a form for tensors, with NumPy's parameters."""

from __future__ import annotations

from functools import partial

from schedlang.arrays import (
    moments,
    products,
    reductions,
    scans,
    shaping,
)
from schedlang.arrays.calls import Form

_REDUCED = "a axis out keepdims initial where"

FORMS: dict[str, Form] = {
    # reductions
    "sum": Form(partial(reductions.total, "sum"), "a axis dtype out keepdims initial where"),
    "prod": Form(partial(reductions.total, "prod"), "a axis dtype out keepdims initial where"),
    "max": Form(partial(reductions.extreme, "max"), _REDUCED),
    "min": Form(partial(reductions.extreme, "min"), _REDUCED),
    "argmax": Form(partial(reductions.index_of, "argmax"), "a axis out keepdims"),
    "argmin": Form(partial(reductions.index_of, "argmin"), "a axis out keepdims"),
    "any": Form(partial(reductions.truth, "any"), "a axis out keepdims where"),
    "all": Form(partial(reductions.truth, "all"), "a axis out keepdims where"),
    "ptp": Form(reductions.peak_to_peak, "a axis out keepdims"),
    "count_nonzero": Form(reductions.count_nonzero, "a axis keepdims"),
    "mean": Form(moments.mean, "a axis dtype out keepdims where"),
    "average": Form(moments.average, "a axis weights returned keepdims"),
    "var": Form(moments.var, "a axis dtype out ddof keepdims where mean correction"),
    "std": Form(partial(moments.var, root=True),
                "a axis dtype out ddof keepdims where mean correction"),
    "cumsum": Form(partial(scans.cumulative, "add"), "a axis dtype out"),
    "cumprod": Form(partial(scans.cumulative, "multiply"), "a axis dtype out"),
    # products
    "dot": Form(products.dot, "a b out"),
    "vdot": Form(products.vdot, "a b"),
    "inner": Form(products.inner, "a b"),
    "outer": Form(products.outer, "a b out"),
    "tensordot": Form(products.tensordot, "a b axes"),
    "kron": Form(products.kron, "a b"),
    "trace": Form(products.trace, "a offset axis1 axis2 dtype out"),
    # views
    "transpose": Form(shaping.transpose, "a axes"),
    "matrix_transpose": Form(shaping.matrix_transpose, "a"),
    "swapaxes": Form(shaping.swapaxes, "a axis1 axis2"),
    "moveaxis": Form(shaping.moveaxis, "a source destination"),
    "rollaxis": Form(shaping.rollaxis, "a axis start"),
    "reshape": Form(shaping.reshape, "a shape order copy"),
    "ravel": Form(shaping.ravel, "a order"),
    "squeeze": Form(shaping.squeeze, "a axis"),
    "expand_dims": Form(shaping.expand_dims, "a axis"),
    "broadcast_to": Form(shaping.broadcast_to, "a shape subok"),
    "diagonal": Form(shaping.diagonal, "a offset axis1 axis2"),
}  # fmt: skip
FORMS |= {"amax": FORMS["max"], "amin": FORMS["min"]}
