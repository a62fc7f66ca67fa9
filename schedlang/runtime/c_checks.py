"""Checks of a C program in its source: of sizes and tensors of DLPack, and their codes in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from schedlang.codegen.refused_sizes import Refusals
from schedlang.expr.size_bounds import bounds
from schedlang.index.sums import Factor, Sum
from schedlang.ir.array_rules import ADDRESS
from schedlang.runtime.parameters import Parameter, Signature

# the first code of an argument is PER_ARGUMENT times its position, counted from 1
PER_ARGUMENT = 10
_OPERATORS = {"//": "sl_quotient", "%": "sl_remainder", "min": "sl_minimum_i64",
              "max": "sl_maximum_i64"}  # fmt: skip


def value_text(terms: Sum, names: Mapping[str, str], wide: bool = False) -> str:
    """Return a polynomial over sizes as C; ``names`` has the name there of each size.

    A ``wide`` one is in long double, where no product wraps around.

    >>> half = "//", (((1, ("n",)), (1, ())), ((2, ()),))
    >>> value_text(((8, (half,)), (-3, ())), {"n": "n"})
    '8 * sl_quotient(n + 1, 2) - 3'
    >>> value_text(((4, ("n", "n")), (-3, ())), {"n": "n"}, wide=True)
    '(long double)4 * n * n - 3'
    >>> most = "max", (((1, ("n",)),), ((1, ("m",)),), ((2, ()),))
    >>> value_text(((1, (most,)),), {"n": "n", "m": "m"})
    'sl_maximum_i64(sl_maximum_i64(n, m), 2)'
    """
    text = ""
    for coef, product in terms:
        factors = [_factor_text(factor, names) for factor in product]
        number = [] if abs(coef) == 1 and factors else [str(abs(coef))]
        term = "(long double)" * (wide and bool(factors)) + " * ".join([*number, *factors])
        sign = "-" if coef < 0 else "+"
        text = f"{text} {sign} {term}" if text else f"{'-' * (coef < 0)}{term}"
    return text or "0"


def _may_wrap(terms: Sum) -> bool:
    """Return whether sizes that a program may ask for take a polynomial beyond 64 bits."""
    return any(len(product) > 1 or abs(coef) > 1 << 32 for coef, product in terms)


def _factor_text(factor: Factor, names: Mapping[str, str]) -> str:
    if isinstance(factor, str):
        return names[factor]
    op, args = factor
    first, *others = (value_text(arg, names) for arg in args)
    # a function of the program takes two operands, a minimum of sizes any number
    return reduce(lambda text, other: f"{_OPERATORS[op]}({text}, {other})", others, first)


@dataclass(frozen=True)
class Checks:
    """The checks of a program: its signature, the names of its parameters in C, refused sizes.

    ``sizes`` has the name in C of each size, and ``refused`` what the kernel refuses of them.
    """

    signature: Signature
    names: tuple[str, ...]
    sizes: Mapping[str, str]
    refused: tuple[Refusals, ...]

    def of_sizes(self) -> list[str]:
        """Return the conditions under which the sizes of a call are refused."""
        tests = [
            f"{self.sizes[name]} {operator} {number}"
            for name in self.signature.given_sizes
            for operator, number, _ in bounds(name, *self.signature.bounds(name))
        ]
        used = {e for p in self.signature.parameters if not p.is_scalar for e in p.shape}
        extents = (e for e in self.signature.extents if e in used)
        tests += [f"{self.extent(e)} < 0" for e in extents]
        for refusals in self.refused:
            for condition in refusals.conditions:
                texts = (value_text(t, self.sizes, _may_wrap(t)) for t in condition.where)
                where = [f"{text} >= 1" for text in texts]
                tests.append(where[0] if len(where) == 1 else f"({' && '.join(where)})")
        return tests

    @property
    def origins(self) -> Mapping[str, str]:
        """The sizes that are an extent of an argument, and that extent in C."""
        origins: dict[str, str] = {}
        for parameter, name in zip(self.signature.parameters, self.names):
            for k, extent in enumerate(parameter.shape if not parameter.is_scalar else ()):
                if isinstance(extent, str) and extent in self.signature.sizes:
                    origins.setdefault(extent, f"{name}->shape[{k}]")
        return origins

    def of_tensors(self) -> list[str]:
        """Return the statements that check the tensors of a call, and name its sizes."""
        listed = list(zip(self.signature.parameters, self.names))
        lines = ["int sl_code;"]
        for position, (parameter, name) in enumerate(listed, 1):
            if not parameter.is_scalar:
                kind = ", ".join(map(str, dlpack_type(parameter.dtype)))
                call = f"sl_checked({name}, {kind}, {len(parameter.shape)})"
                lines.append(f"if ((sl_code = {call})) return {PER_ARGUMENT * position} + sl_code;")
        lines += [f"sl_i64 {self.sizes[n]} = {text};" for n, text in self.origins.items()]
        for position, (parameter, name) in enumerate(listed, 1):
            extents = enumerate(parameter.shape if not parameter.is_scalar else ())
            tests = [f"{name}->shape[{k}] != {self.extent(e)}" for k, e in extents]
            tests = [t for t in tests if t.split(" != ")[0] not in self.origins.values()]
            if parameter.alignment > 1:
                code = PER_ARGUMENT * position + ADDRESS_CODE
                start = f"(uintptr_t)sl_elements({name}) % {parameter.alignment}"
                lines.append(f"if ({start} && sl_count({name})) return {code};")
            if tests:
                code = PER_ARGUMENT * position + SHAPE
                lines.append(f"if ({' || '.join(tests)}) return {code};")
        for pair in self.signature.pairs:
            a, b = (self.names[k] for k in pair)
            code = PER_ARGUMENT * (pair[0] + 1) + OVERLAP
            in_place = int(pair in self.signature.in_place)
            lines.append(f"if (sl_overlap({a}, {b}, {in_place})) return {code};")
        for position, (parameter, name) in enumerate(listed, 1):
            lines += self._facts(parameter, name, PER_ARGUMENT * position + FACTS)
        return lines

    def extent(self, extent: int | str) -> str:
        """Return an extent of an argument in C."""
        if isinstance(extent, int):
            return str(extent)
        terms = self.signature.extents.get(extent)
        return self.sizes[extent] if terms is None else value_text(terms, self.sizes)

    def _facts(self, parameter: Parameter, name: str, code: int) -> list[str]:
        """Return the statements that check what ``sl.assume`` declares of the elements."""
        tests = []
        # an element of 64 bits without a sign is compared with others as one
        cast = "(sl_u64)" * (parameter.dtype == "uint64")
        if parameter.monotonic:
            row = f"{name}->shape[{len(parameter.shape) - 1}]"
            tests.append(f"(sl_at % {row} && {cast}sl_element < {cast}sl_before)")
        if parameter.within is not None:
            least, most = parameter.within
            if cast and isinstance(least, int):
                least = max(least, 0)
            low, high = self.extent(least), self.extent(most)
            tests.append(f"sl_element < {low} || sl_element > {high}")
        if not tests:
            return []
        kind = f"{'u' * (parameter.dtype[0] == 'u')}int{dlpack_type(parameter.dtype)[1]}_t"
        before = parameter.monotonic
        return [
            f"for (sl_i64 sl_at = 0{', sl_before = 0' * before}; sl_at < sl_count({name}); "
            "sl_at++) {",
            f"    sl_i64 sl_element = (sl_i64)((const {kind} *)sl_elements({name}))[sl_at];",
            f"    if ({' || '.join(tests)}) return {code};",
            *["    sl_before = sl_element;"] * before,
            "}",
        ]

    def of_addresses(self) -> Mapping[int, str]:
        """Return the codes of arrays that start at other addresses, and what they say."""
        return {
            PER_ARGUMENT * position + ADDRESS_CODE: f"{p.name} is "
            + ADDRESS.broken.replace("UNIT", str(p.alignment))
            for position, p in enumerate(self.signature.parameters, 1)
            if p.alignment > 1
        }

    def words(self) -> list[str]:
        """Return the rows of the table of messages, one for each argument."""
        rows = []
        for p in self.signature.parameters:
            shape = " x ".join(map(str, p.shape)) or "of a number"
            words = map(c_string, (p.name, p.dtype, str(len(p.shape)), shape))
            rows.append(f"SL_SAYS({', '.join(words)}),")
        return rows


# faults of a tensor, as the last digits of codes; sl_checked in c_program.h has the others
SHAPE, OVERLAP, FACTS = 5, 7, 8
# what arrays alone may break that an instruction needs at an address, so that few programs have it
ADDRESS_CODE = 9


def dlpack_type(dtype: str) -> tuple[int, int]:
    """Return the code and the bits of a dtype in DLPack.

    >>> dlpack_type("float32"), dlpack_type("uint8"), dlpack_type("complex64")
    ((2, 32), (1, 8), (5, 64))
    """
    if dtype == "bool":
        return 6, 8
    if dtype == "bfloat16":
        return 4, 16
    bits = int(dtype.lstrip("abcdefghijklmnopqrstuvwxyz"))
    return {"i": 0, "u": 1, "f": 2, "c": 5}[dtype[0]], bits


def c_string(text: str) -> str:
    """Return a literal of C for ``text``, where no trigraph or escape is left.

    >>> print(c_string('a "b" ??/'))
    "a \\"b\\" \\?\\?/"
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("?", "\\?")
    return f'"{escaped}"'
