"""The sizes that a file refuses, as statements of its functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedlang.index.sums import Sum, source_of
from schedlang.ir.size_conditions import SizeCondition


@dataclass(frozen=True)
class Refusals:
    """The sizes at which ``what``, a kernel or a part of a network, cannot run.

    ``sizes`` are the names of its sizes, in the order of messages.
    """

    what: str
    sizes: tuple[str, ...]
    conditions: tuple[SizeCondition, ...]


def refusal_lines(refused: Sequence[Refusals], names: Mapping[str, str]) -> list[str]:
    """Return statements that raise a ``ValueError`` for sizes that are refused.

    ``names`` has the name of each size in the file.

    >>> condition = SizeCondition((((-1, ("n",)), (1, ())),), ("it has ", ((1, ("n",)),), " rows"))
    >>> for line in refusal_lines([Refusals("kernel C", ("n",), (condition,))], {"n": "n"}):
    ...     print(line)
        if n <= 0:
            raise ValueError(
                f"kernel C cannot run where n={n}: "
                f"it has {n} rows"
            )
    """
    lines: list[str] = []
    for of in refused:
        sizes_text = ", ".join(f"{_text(size)}={{{names[size]}}}" for size in of.sizes)
        for condition in of.conditions:
            where = " and ".join(_at_least_one(terms, names) for terms in condition.where)
            why = "".join(
                _text(p) if isinstance(p, str) else _value(p, names) for p in condition.why
            )
            lines += [f"    if {where or True}:", "        raise ValueError("]
            head = f"{_text(of.what)}{condition.verb} where {sizes_text}: "
            lines += [f"            {_literal(t)}" for t in (head, *why.splitlines(keepends=True))]
            lines.append("        )")
    return lines


def _value(terms: Sum, names: Mapping[str, str]) -> str:
    """Return the text of a value in a message: a number, or a place for one."""
    symbolic = any(factors for _, factors in terms)
    return f"{{{source_of(terms, names)}}}" if symbolic else source_of(terms, names)


def _text(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _literal(text: str) -> str:
    quoted = repr(text)
    if quoted[0] == "'" and '"' not in quoted and "\\'" not in quoted:
        quoted = f'"{quoted[1:-1]}"'
    return f"f{quoted}" if "{" in quoted else quoted


def _at_least_one(terms: Sum, names: Mapping[str, str]) -> str:
    """Return the test ``terms >= 1`` without negative terms."""
    left = [(coef, factors) for coef, factors in terms if coef > 0 and factors]
    right = [(-coef, factors) for coef, factors in terms if coef < 0 and factors]
    rest = sum(coef for coef, factors in terms if not factors) - 1
    side = left if rest > 0 else right
    side += [(abs(rest), ())] if rest else []
    a, b = (source_of(tuple(side), names) for side in (left, right))
    return f"{a} >= {b}" if any(factors for _, factors in left) else f"{b} <= {a}"
