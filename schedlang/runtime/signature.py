"""The signature of the kernel of a nest."""

from __future__ import annotations

from schedlang.compute.facts import facts_of
from schedlang.expr.nodes import Expr, Var
from schedlang.index.simplify import to_lin
from schedlang.index.solving import determined_size
from schedlang.index.sums import Sum
from schedlang.index.terms import terms_of
from schedlang.ir.addresses import addresses_needed
from schedlang.ir.nest import Nest
from schedlang.ir.specialize import size_equations
from schedlang.runtime.parameters import Extent, Parameter, Signature


def signature_of(
    nest: Nest, in_place: frozenset[tuple[int, int]], on_device: bool = False
) -> Signature:
    """Return the signature of the kernel of a nest.

    A kernel ``on_device`` checks the addresses of arrays there: other arrays are copied to it.
    """
    parameters: list[Parameter] = []
    extents: dict[str, Sum] = {}
    single: dict[str, str] = {}
    addresses = addresses_needed(nest.body, nest.args) if not on_device else {}
    for arg in nest.args:
        if isinstance(arg, Var):
            parameters.append(Parameter(arg.name, arg.dtype, (), is_scalar=True))
            continue
        shape: list[Extent] = []
        for extent in arg.shape:
            shape.append(extent if isinstance(extent, int) else str(extent))
            if isinstance(extent, Expr) and not isinstance(extent, Var):
                extents[str(extent)] = terms_of(lin := to_lin(extent))
                size = determined_size(lin, ())
                single.update({} if size is None else {str(extent): size.name})
        facts = None if arg.tensor is None or arg in nest.outputs else facts_of(arg.tensor)
        within = None if facts is None or facts.within is None else facts.within
        for end in within or ():
            if isinstance(end, Expr) and not isinstance(end, Var):
                extents.setdefault(str(end), terms_of(to_lin(end)))
        named = None if within is None else (_named(within[0]), _named(within[1]))
        parameters.append(
            Parameter(
                arg.name,
                arg.dtype,
                tuple(shape),
                arg in nest.outputs,
                monotonic=facts is not None and facts.monotonic,
                within=named,
                alignment=addresses.get(arg, 1),
            )
        )
    sizes = tuple(v.name for v in nest.sizes)
    solved = tuple((e.size.name, e.arg, e.dim) for e in size_equations(nest))
    variables = (*nest.sizes, *(a for a in nest.args if isinstance(a, Var)))
    least = {v.name: v.least for v in variables if v.least}
    most = {v.name: v.most for v in variables if v.most is not None}
    listed = tuple(parameters)
    return Signature(nest.name, listed, sizes, in_place, extents, solved, single, least, most)


def _named(end: int | Expr) -> Extent:
    return end if isinstance(end, int) else str(end)
