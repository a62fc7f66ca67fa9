"""Random NumPy programs: the text of a function, written line by line while NumPy runs it.

Each line is tried: one that NumPy refuses, or that makes numbers without use for a comparison, is
left out. So a line may hold anything, and the writer needs no rules for shapes and dtypes.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from random import Random
from typing import Any

import numpy as np

from tests.fuzz import program_forms as forms
from tests.fuzz import program_helpers
from tests.fuzz.program_expressions import Dropped, Scope
from tests.fuzz.program_inputs import function_of, made, process_time
from tests.fuzz.program_nodes import Block, Node, Program, lines_of

MOST = 1e5
MARK = "_probe(locals())"
HELPERS = {
    name: value
    for name, value in vars(program_helpers).items()
    if callable(value) and not name.startswith("_") and name not in ("Any", "annotations")
}
AUGMENTED = ("+=", "+=", "-=", "*=", "/=", "//=", "%=", "&=", "|=")
VIEWS, PLACES = (".T", "[::-1]", "[1:]", ".ravel()", ".reshape(-1)"), ("0", "1:", "::2", "...")
_ORDERS = re.compile("[<>%]|//|max|min|sort|clip|sign|floor|round|arg|med|cent|unique|ptp|capped")


class Writer:
    """Writes one program; ``scope`` has the names at the place where the next line goes."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.scope = Scope(rng, {"np": np, **HELPERS})
        self.program = Program(self.arguments(), [], [])
        self.fresh = count()
        self.scope.gathers = {n for n, k in self.program.kinds.items() if k.startswith("index")}
        self.scope.fixed = {"n"}
        self.reached = False
        self.early_names: list[str] = []
        self.program.body.append(MARK)
        self.probe_run()
        self.program.body.clear()

    def arguments(self) -> dict[str, str]:
        rng = self.rng
        n, m = rng.choice([4, 5, 6, 7]), rng.choice([3, 5, 5, 6])
        if rng.random() < 0.04:
            n = rng.choice([1, 2])
        self.scope.sizes = (n, m, n)
        main = rng.choice(["float64", "float64", "float64", "float32", "int64", "int32"])
        other = rng.choice([main, main, main, "float64", "float32", "int64", "uint8", "complex128",
                            "complex64", "bool", "int8", "uint16", "uint32"])  # fmt: skip
        order = rng.choice(["", "", "", "", "F", "reversed", "apart"])
        kinds = {"x": f"{main}[{n}]", "a": f"{main}[{n},{n}]{order}"}
        if rng.random() < 0.7:
            kinds["y"] = f"{other}[{rng.choice([n, n, m])}]"
        if rng.random() < 0.5:
            kinds["b"] = f"{other}[{rng.choice([f'{n},{m}', f'{m},{n}', f'{n},1'])}]"
        if rng.random() < 0.15:
            kinds["c"] = f"{main}[2,{n},{m}]{rng.choice(['', 'F'])}"
        if rng.random() < 0.35:
            kinds["m"] = f"bool[{rng.choice([n, f'{n},{n}'])}]"
        if rng.random() < 0.4:
            kinds["g"] = f"index[{rng.choice([3, n])}]"
        if rng.random() < 0.5:
            kinds["t"] = rng.choice(forms.SCALARS)
        if rng.random() < 0.3:
            kinds["n"] = str(n)
        if rng.random() < 0.2:
            kinds["z"] = f"{rng.choice([main, main, other])}[]"
        if rng.random() < 0.03:
            kinds["w"] = rng.choice(forms.ALIASES)
        return kinds

    # runs

    def probe_run(self) -> bool:
        """Run the program by NumPy, and note the names at the mark; return whether it is fit."""
        seen: list[dict[str, Any]] = []
        try:
            results = [self.run_once(seed, seen) for seed in (1, 2)]
        except Exception:  # noqa: BLE001 - any error of NumPy says that a line is not fit
            return False
        self.reached = bool(seen)
        if seen:
            names = set(seen[0]).intersection(*seen)
            self.scope.names = {k: v for k, v in seen[-1].items() if k in names}
            return all(_is_fit(v) for s in seen for v in s.values())
        return bool(results)

    def run_once(self, seed: int, seen: list[dict[str, Any]]) -> dict[str, Any]:
        """Run the program up to its end, with the names that it has there."""

        def probe(names: dict[str, Any]) -> None:
            if len(seen) < 400:
                seen.append(dict(names))

        function = function_of(self.program.source, {**HELPERS, "_probe": probe})
        values = made(self.program.kinds, seed)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            with process_time():
                function(**values)
        return values

    def keep(self, nodes: list[Node], node: Node) -> bool:
        """Write a line at the end of ``nodes``, if the program runs with it."""
        if self.orders_complex(node if isinstance(node, str) else node.head):
            return False
        names = self.scope.names
        nodes += [node, MARK]
        good = self.probe_run() and self.reached
        nodes.pop()
        if not good:
            nodes.pop()
            self.scope.names = names
        return good

    def orders_complex(self, line: str) -> bool:
        """Return whether a line compares complex numbers, which schedlang refuses to."""
        names = (n for n, v in self.scope.names.items() if _is_data(v) and np.iscomplexobj(v))
        return bool(_ORDERS.search(line)) and any(re.search(rf"\b{n}\b", line) for n in names)

    @contextmanager
    def within(self, indices: list[str], fixed: set[str]) -> Iterator[None]:
        """Hold the names of loops while their bodies are written."""
        scope = self.scope
        before = scope.indices, scope.fixed
        scope.indices, scope.fixed = [*scope.indices, *indices], scope.fixed | fixed | set(indices)
        try:
            yield
        finally:
            scope.indices, scope.fixed = before

    # statements

    def statements(self, nodes: list[Node], number: int, depth: int) -> None:
        """Write ``number`` statements, or fewer where tries run out."""
        written = 0
        for _ in range(8 * number):
            if written >= number:
                break
            try:
                written += self.statement(nodes, depth)
            except Dropped:
                continue
            except Exception:  # noqa: BLE001 - an expression that NumPy refuses
                continue

    def statement(self, nodes: list[Node], depth: int) -> bool:
        simple = {"new name": 4, "view": 3, "store": 8, "augment": 6, "masked": 3, "gathered": 2,
                  "number": 4, "out": 2, "whole": 2.5, "call": 1.5, "swap": 0.7, "zero": 1,
                  "pair": 0.8, "defined": 0.5, "chosen": 1.5,
                  "object": 5 * ("o" in self.scope.names)}  # fmt: skip
        blocks = {"for": 6, "if": 4, "while": 1.2, "rows": 1.5} if depth < 3 else {}
        if depth == 0:
            blocks = {"for": 9, "if": 3, "while": 1.5, "rows": 2, "early": 0.7, "define": 0.6}
        elif self.scope.indices:
            simple |= {"store": 16, "augment": 10, "number": 7, "break": 0.8, "return": 0.25}
        kinds = {**simple, **blocks}
        kind = self.rng.choices(list(kinds), list(kinds.values()))[0]
        if kind in blocks:
            write = {
                "for": self.for_loop, "if": self.branch, "while": self.while_loop,
                "rows": self.rows, "early": self.early, "define": self.define,
            }[kind]  # fmt: skip
            return write(nodes, depth)
        return self.keep(nodes, self.line(kind))

    def line(self, kind: str) -> Node:
        scope, rng = self.scope, self.rng
        if kind == "new name":
            names = [n for n in scope.arrays() if n.startswith("v")]
            name = rng.choice(names) if names and rng.random() < 0.25 else f"v{next(self.fresh)}"
            return f"{name} = {scope.wide()}"
        if kind == "view":
            return f"v{next(self.fresh)} = {scope.view()}"
        if kind in ("store", "augment"):
            op = "=" if kind == "store" else rng.choice(AUGMENTED)
            target = self.target()
            if np.ndim(scope.value(target)):
                value = scope.partner(target) if rng.random() < 0.3 else self.combined(target)
            else:
                value = scope.number()
            return f"{target} {op} {value}"
        if kind == "masked":
            name = scope.array()
            mask = scope.mask(name)
            op = rng.choice(["=", "=", "+=", "*=", "-="])
            value = rng.choice([scope.number, lambda: f"{name}[{mask}] * 0.5", lambda: "0"])()
            return f"{name}[{mask}] {op} {value}"
        if kind == "gathered":
            name, g = scope.array(), scope.one_of(sorted(scope.gathers))
            form = rng.choice(forms.GATHERED_WRITES)
            return form.format(name, g, scope.number(0))
        if kind == "number":
            names = [n for n in scope.numbers() if not n.startswith("v")] or ["s"]
            name = rng.choice([*names, "s", "q"])
            form = "{0} = {1}"
            if name in scope.names:
                form = rng.choice(forms.NUMBER_WRITES)
            return form.format(name, scope.number())
        if kind == "out":
            a, c = scope.array(), scope.array()
            form = rng.choice(forms.OUT)
            return form.format(a, scope.partner(a), c)
        if kind == "whole":
            name = scope.array()
            form = rng.choice(forms.WHOLE)
            return form.format(name, self.combined(name), scope.number(0), scope.mask(name))
        if kind == "call":
            name = scope.array()
            v = f"v{next(self.fresh)}"
            form = rng.choice(forms.CALLS)
            return form.format(name, v, scope.array(), scope.number(0))
        if kind == "swap":
            name = scope.array()
            shape = scope.names[name].shape
            other = scope.array(lambda a: a.shape == shape)
            form = rng.choice(forms.SWAPS)
            return form.format(name, other, scope.number(0))
        if kind == "chosen":
            name = scope.array()
            shape = scope.names[name].shape
            others = scope.arrays(lambda a: sorted(a.shape) == sorted(shape))
            form, v = rng.choice(forms.CHOSEN), f"v{next(self.fresh)}"
            return form.format(v, name, rng.choice(others), scope.test(), len(shape) and shape[0])
        if kind == "object":
            form, v = rng.choice(forms.OBJECTS), f"v{next(self.fresh)}"
            return form.format("o", scope.number(), scope.array(), v)
        if kind == "zero":
            form, name, v = rng.choice(forms.ZEROS), scope.one_of(scope.zeros()), scope.array()
            return form.format(name, scope.number(), f"v{next(self.fresh)}", v)
        if kind == "pair":
            known = [n for n, v in scope.names.items() if isinstance(v, (tuple, list))]
            name = rng.choice([*known, *known, f"p{next(self.fresh)}"])
            return rng.choice(forms.PAIRS).format(
                name, scope.number(), scope.number(), scope.array()
            )
        if kind == "defined":
            function = scope.one_of([n for n, v in scope.names.items() if callable(v)])
            v = f"v{next(self.fresh)}"
            return rng.choice(forms.DEFINED_CALLS).format(v, function, scope.array())
        test = scope.test()
        if kind == "return":
            return Block(f"if {test}:", [f"return {', '.join(self.leaving())}"])
        return Block(f"if {test}:", [rng.choice(["break", "continue"])])

    def target(self) -> str:
        """Return what an assignment stores into: an element, a slice, an array or its view."""
        scope = self.scope
        name = scope.array(lambda a: a.flags.writeable)
        kind = self.rng.random()
        if kind < 0.55 and scope.indices:
            return scope.item(name, 0.15)
        if kind < 0.8:
            return scope.item(name, 0.7)
        if kind < 0.9:
            return f"{name}{self.rng.choice(VIEWS)}[{self.rng.choice(PLACES)}]"
        return name

    def combined(self, target: str) -> str:
        """Return an array that fits into a target."""
        scope = self.scope
        first = scope.partner(target)
        if self.rng.random() < 0.3:
            return first
        second = scope.partner(target)
        form = self.rng.choice(forms.ARITHMETIC)
        return form.format(first, second, scope.number(0))

    # blocks

    def block(self, nodes: list[Node], block: Block, depth: int, number: int,
              indices: list[str], fixed: set[str], first: Sequence[Node] = ()) -> bool:  # fmt: skip
        """Write a block with ``number`` statements after the ``first``; return whether it has any.
        """
        if self.orders_complex(block.head):
            return False
        outside = dict(self.scope.names)
        nodes.append(block)
        last = list(block.body)
        block.body += [*first, MARK]
        good = self.probe_run() and self.reached
        block.body.clear()
        if good:
            with self.within(indices, fixed):
                tail = _Tail(block, last)
                tail += first
                self.statements(tail, number, depth + 1)
                written = len(tail) > len(first)
                tail.close()
        if not good or not written:
            nodes.pop()
            self.scope.names = outside
            return False
        nodes.append(MARK)
        good = self.probe_run() and self.reached
        nodes.pop()
        if not good:
            nodes.pop()
            self.scope.names = outside
            return False
        # the names of a loop's body or of one side of an if are read after it in half of the blocks
        if self.rng.random() < 0.5:
            self.scope.names = {k: v for k, v in self.scope.names.items() if k in outside}
        return True

    def for_loop(self, nodes: list[Node], depth: int) -> bool:
        scope, rng = self.scope, self.rng
        index = next((i for i in "ijkl" if i not in scope.indices and i not in scope.fixed), None)
        if index is None:
            raise Dropped
        extents = [f"len({scope.array()})", str(rng.choice(scope.sizes)), rng.choice("568")]
        if "n" in scope.names:
            extents.append("n")
        n = rng.choice(extents)
        if scope.indices and rng.random() < 0.5:
            i = rng.choice(scope.indices)
            head = rng.choice(forms.TRIANGLES).format(i=i, n=n)
        else:
            head = rng.choice(forms.RANGES).format(n=n)
        number = rng.choice([1, 1, 2, 2, 3])
        return self.block(nodes, Block(f"for {index} in {head}:"), depth, number, [index], set())

    def rows(self, nodes: list[Node], depth: int) -> bool:
        scope, rng = self.scope, self.rng
        index = next((i for i in "ijkl" if i not in scope.indices), None)
        if index is None:
            raise Dropped
        r, q = f"r{next(self.fresh)}", f"r{next(self.fresh)}"
        a, b = scope.array(), scope.array()
        head = rng.choice(forms.ROWS).format(r=r, q=q, a=a, b=b, i=index)
        indices = [index] if head.startswith(f"{index},") else []
        block = Block(f"for {head}:")
        return self.block(nodes, block, depth, rng.choice([1, 2, 2]), indices, set())

    def while_loop(self, nodes: list[Node], depth: int) -> bool:
        scope, rng = self.scope, self.rng
        k = f"k{next(self.fresh)}"
        if rng.random() < 0.5:
            start, test, step = "0", f"{k} < {rng.choice([3, 5, 6])}", f"{k} += 1"
            indices = [k]
        else:
            start = f"{scope.element()} * 0"
            test, step, indices = f"{k} < {rng.choice([2, 4])}", f"{k} += 0.75", []
        if rng.random() < 0.3:
            test += f" and {scope.test()}"
        last: list[Node] = [step]
        if rng.random() < 0.25:
            # the test of a `break` before the counter
            last = [Block(f"if not {test}:" if " and " not in test else f"if not ({test}):",
                          ["break"]), step]  # fmt: skip
            test = "True"
        if not self.keep(nodes, f"{k} = {start}"):
            return False
        block, first = Block(f"while {test}:", last), []
        if rng.random() < 0.4:
            # so that `continue` goes on
            block, first = Block(f"while {test}:"), last
        if not self.block(nodes, block, depth, rng.choice([1, 2]), indices, {k}, first):
            nodes.pop()
            self.scope.names.pop(k, None)
            return False
        self.orelse(nodes, block, depth)
        return True

    def orelse(self, nodes: list[Node], block: Block, depth: int) -> None:
        """Write the ``else`` of a loop, often of one with a ``break``."""
        breaks = "break" in "\n".join(lines_of([block], 0))
        if nodes and nodes[-1] is block and self.rng.random() < (0.6 if breaks else 0.05):
            self.block(nodes, Block("else:"), depth, 1, [], set())

    def branch(self, nodes: list[Node], depth: int) -> bool:
        before = len(nodes)
        block = Block(f"if {self.scope.test()}:")
        if not self.block(nodes, block, depth, self.rng.choice([1, 1, 2]), [], set()):
            return False
        if self.rng.random() < 0.4 and len(nodes) == before + 1:
            head = "else:" if self.rng.random() < 0.7 else f"elif {self.scope.test(0)}:"
            self.block(nodes, Block(head), depth, 1, [], set())
        return True

    def early(self, nodes: list[Node], depth: int) -> bool:
        returned = ", ".join(self.leaving())
        return self.keep(nodes, Block(f"if {self.scope.test()}:", [f"return {returned}"]))

    def leaving(self) -> list[str]:
        """Return arrays that the program returns before its end, the same ones everywhere."""
        names = self.scope.arrays()
        if not names:
            raise Dropped
        if not self.early_names:
            self.early_names = self.rng.sample(names, min(2, len(names)))
        return [self.like(name) for name in self.early_names]

    def define(self, nodes: list[Node], depth: int) -> bool:
        """Write a function in the program, which later lines call."""
        name = f"f{next(self.fresh)}"
        number, array = self.scope.number(), self.scope.array()
        lines = self.rng.choice(forms.DEFINED)
        return self.keep(nodes, Block(f"def {name}(u):", [
            line.format(name, number, array) for line in lines
        ]))  # fmt: skip

    def like(self, name: str) -> str:
        """Return an array of the shape and dtype of another one, or that one."""
        value = self.scope.names.get(name)
        if not isinstance(value, np.ndarray):
            return name
        alike = self.scope.arrays(lambda a: (a.shape, a.dtype) == (value.shape, value.dtype))
        return self.rng.choice(alike or [name])

    def write(self) -> Program:
        if self.rng.random() < 0.2:
            self.keep(self.program.body, f"o = Holder({self.scope.array()}, 0.5)")
        self.statements(self.program.body, self.rng.choice([2, 3, 4, 5]), 0)
        kinds = self.program.kinds
        last = [n for n, v in self.scope.names.items() if n not in kinds and _is_result(v)]
        changed = [n for n in kinds if self.rng.random() < 0.15]
        self.program.returned = [*last, *changed] or ["x"]
        if self.early_names and self.rng.random() < 0.8:
            # sides of one form
            self.program.returned = [self.like(name) for name in self.early_names]
        if not self.probe_run():
            # a name that only some way through the program assigns
            self.program.body, self.program.returned = [], ["x"]
        return self.program


class _Tail(list):
    """The body of a block that keeps its last lines last, while others are written before them."""

    def __init__(self, block: Block, last: list[Node]) -> None:
        super().__init__()
        self.block, self.last = block, last
        block.body = self

    def close(self) -> None:
        self.block.body = [*super().__iter__(), *self.last]

    def __iter__(self) -> Iterator[Node]:
        yield from super().__iter__()
        yield from self.last


def _is_result(value: Any) -> bool:
    parts = value if isinstance(value, (tuple, list)) else [value]
    return all(map(_is_data, parts))


def _is_data(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.generic, int, float))


def _is_fit(value: Any) -> bool:
    """Return whether a value is finite and of a size that float32 compares well."""
    if isinstance(value, (tuple, list)):
        return all(map(_is_fit, value))
    if not _is_data(value):
        return True
    array = np.asarray(value)
    if array.size > 3000 or array.dtype.kind not in "biufc":
        return False
    with np.errstate(all="ignore"):
        if array.dtype.kind in "fc":
            return bool(np.isfinite(array).all() and np.abs(array).max(initial=0) < MOST)
        return bool(np.abs(array.astype(float)).max(initial=0) < MOST)


def random_program(seed: str, index: int) -> Program:
    return Writer(Random(f"{seed}:{index}")).write()
