"""The loop nest: statements, their text, their checks; as ``tvm.ir``, refusals of TVM's names."""

from typing import TYPE_CHECKING, Any

from schedlang.errors import missing_name

_MODULES = (
    "modules and passes of TVM's IR are not part of schedlang",
    "tvm.lower(s, args) gives the loop nest: nest.loops, nest.buffers, nest.guards.",
)
_REGISTRATIONS = (
    "TVM's registrations of operators are not part of schedlang",
    "Use the math functions of te (te.exp, te.erf, ...), or build the function from them.",
)
_NODES = (
    "nodes of TVM's IR are not part of schedlang",
    "Write expressions with te: A[i] + 1, te.max(a, b), te.if_then_else(cond, a, b).",
)
_JSON = (
    "TVM's files of its IR are not part of schedlang",
    "pickle keeps a tensor, a schedule or a kernel; s.to_json() gives the steps of a schedule.",
)
REFUSED = {
    **dict.fromkeys(("IRModule", "transform", "instrument", "GlobalVar"), _MODULES),
    **dict.fromkeys(
        ("register_intrin_lowering", "register_op_attr", "register_op", "Op"), _REGISTRATIONS
    ),
    **dict.fromkeys(("PrimExpr", "make_node", "PrimType", "PointerType"), _NODES),
    **dict.fromkeys(("load_json", "save_json"), _JSON),
    "Range": ("ranges are tuples", "Give (lo, hi), as in te.reduce_axis((0, n))."),
    **dict.fromkeys(
        ("structural_equal", "assert_structural_equal", "structural_hash"),
        ("TVM's comparison of its IR is not part of schedlang", "Compare str(tvm.lower(s, args))."),
    ),
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise missing_name(__name__, name, REFUSED, "tvm.ir")
