"""A function of Python over the intrinsics of emitted files: its source, and what it may hold.

It is a few assignments and a return, so that each compiler writes the same code of it: numba of the
text in the file, and our printer by a call with values that write LLVM's instructions.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import chain
from math import isfinite
from typing import TYPE_CHECKING, Any, NoReturn

from schedlang.errors import ComputeError, ComputeTypeError, explain, text_of
from schedlang.instructions.emission import Call
from schedlang.parsing import compiles_to, parse_source

if TYPE_CHECKING:
    from schedlang.instructions.declaration import Instruction

# what the function may consist of
_STATEMENTS = (ast.Assign, ast.AugAssign, ast.Return)
_OPERATORS = (
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.BitAnd, ast.BitOr, ast.BitXor, ast.USub, ast.Lt,
    ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq,
)  # fmt: skip
_EXPRESSIONS = (
    ast.BinOp, ast.Call, ast.Compare, ast.Constant, ast.Name, ast.Tuple, ast.UnaryOp,
    ast.expr_context, *_OPERATORS,
)  # fmt: skip
_WORK = (ast.BinOp, ast.Call, ast.Compare, ast.AugAssign)
# integers from here on are none of a processor's
_LARGE = 2**63
_HINT = (
    "Write assignments and one return, with + - * / & | ^, a comparison of two values, numbers, "
    "and the intrinsics of schedlang.intrinsics.cpu, such as fma and select."
)


@dataclass(init=False, unsafe_hash=True)
class PythonFunction:
    """A function of Python over the intrinsics of ``schedlang.intrinsics.cpu``.

    It gets the operands in the order of the declaration, each as a vector, or as a scalar if it has
    one element, and returns the result. A short float comes as its bits, in uint16. The function is
    a few assignments and a return; what it calls are intrinsics of values, among them ``instruct``
    and ``assemble``, and numbers of its module stand in it as such. Emitted files hold its source.

    Raise :class:`~schedlang.errors.ComputeError` for other code, and for a function whose source
    Python does not know, such as one of the interactive prompt, and
    :class:`~schedlang.errors.ComputeTypeError` for what is not a function.

    >>> from schedlang.intrinsics.cpu import broadcast, fma
    >>> def multiply_add(c, a, b):
    ...     return fma(broadcast(a, 8), b, c)
    >>> PythonFunction(multiply_add).parameters
    ('c', 'a', 'b')
    """

    name: str
    parameters: tuple[str, ...]
    body: str
    calls: tuple[str, ...]

    def __init__(self, function: Any) -> None:
        # a dispatcher of numba holds the function
        function = getattr(function, "py_func", function)
        if not inspect.isfunction(function):
            raise ComputeTypeError(
                f"PythonFunction({text_of(function)}): give a function of Python, which calls "
                "intrinsics of schedlang.intrinsics.cpu"
            )
        asked = f"PythonFunction({function.__name__})"
        definition = _definition(asked, function)
        closure = inspect.getclosurevars(function)
        known = {**closure.globals, **closure.nonlocals}
        _check(asked, definition, known)
        statements = _Numbers(known).visit(definition).body
        self.name = function.__name__
        self.parameters = tuple(a.arg for a in definition.args.args)
        self.body = "\n".join(map(ast.unparse, statements))
        called = {ast.unparse(n.func) for n in _nodes(definition) if isinstance(n, ast.Call)}
        self.calls = tuple(sorted(called))

    @property
    def arity(self) -> int:
        """The number of operands."""
        return len(self.parameters)

    @property
    def operations(self) -> int:
        """The operations on more than one operand.

        A tile shares its operands, so that it computes the others once for several uses.

        >>> from schedlang.intrinsics.cpu import broadcast, fma
        >>> def multiply_add(c, a, b):
        ...     return fma(broadcast(a, 8), b, c)
        >>> PythonFunction(multiply_add).operations
        1
        """
        return sum(len(names) > 1 for names in self._work[0])

    @property
    def alone(self) -> tuple[int, ...]:
        """The operations on each operand alone, which a tile does once for several uses."""
        return tuple(sum(names == {p} for names in self._work[0]) for p in self.parameters)

    @property
    def parts(self) -> int:
        """The most values of one operand alone that operations on several operands take.

        A tile that reads an operand again keeps them in registers, and not the operand.

        >>> from schedlang.intrinsics.cpu import broadcast
        >>> def halves(c, a, b):
        ...     low = a & 15
        ...     return c + low * broadcast(b, 8) + (a - low) * broadcast(b, 8)
        >>> PythonFunction(halves).parts
        2
        """
        return max(map(len, self._work[1].values()), default=1)

    @cached_property
    def _work(self) -> tuple[list[set[str]], Mapping[str, set[str]]]:
        """The operands that each operation needs, and what is taken of each operand alone."""
        needs = {name: {name} for name in self.parameters}
        operations: list[set[str]] = []
        taken: dict[str, set[str]] = {}

        def needed(node: ast.AST) -> set[str]:
            names = (n.id for n in ast.walk(node) if isinstance(n, ast.Name))
            return {*chain(*(needs.get(name, ()) for name in names))}

        def take(node: ast.AST) -> None:
            own = needed(node)
            if len(own) == 1:
                taken.setdefault(min(own), set()).add(ast.unparse(node))
            elif own:
                for child in ast.iter_child_nodes(node):
                    take(child)

        for statement in ast.parse(self.body).body:
            work = (n for n in ast.walk(statement) if isinstance(n, _WORK))
            operations += map(needed, work)
            value = statement.value if isinstance(statement, ast.Assign) else statement
            own = needed(value)
            if len(own) > 1:
                take(value)
            if isinstance(statement, ast.Assign):
                needs |= {ast.unparse(target): own for target in statement.targets}
            elif isinstance(statement, ast.AugAssign):
                needs[ast.unparse(statement.target)] = own
        return operations, taken

    def call(self, declared: Instruction) -> Call:
        """Return the call of the function, which has the name of the instruction."""
        head = f"def {declared.identifier}({', '.join(self.parameters)}):"
        definition = f"{head}\n{textwrap.indent(self.body, '    ')}"
        return Call(declared.identifier, definition=definition, calls=self.calls)

    def __str__(self) -> str:
        return self.name


def intrinsics_of_values() -> frozenset[str]:
    """Return the names of the intrinsics that a function may call."""
    # the intrinsics stand above instructions, so that their names are loaded by name
    return frozenset(import_module("schedlang.intrinsics.dialect").OF_VALUES)


def is_reserved(name: str) -> bool:
    """Return whether emitted files use a name themselves, such as the name of an intrinsic."""
    return bool(import_module("schedlang.intrinsics.dialect").is_reserved(name))


def _definition(asked: str, function: Any) -> ast.FunctionDef:
    """Return the definition of a function, from its source."""
    try:
        tree = parse_source(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError) as error:
        raise ComputeError(
            explain(
                asked,
                f"its source is not there ({error}), and emitted files hold it",
                "Define it by def in a file or in a cell of a notebook.",
            )
        ) from None
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef):
        _refuse(asked, "it is not defined by def", "Define it by def.")
    # decorators of numba leave the function as it is written
    definition.decorator_list = []
    if not compiles_to(ast.unparse(definition), function):
        _refuse(
            asked,
            "its source is not what it runs: its file has changed, or it is decorated",
            "Leave out decorators, and import its file again.",
        )
    if ast.get_docstring(definition) is not None:
        definition.body = definition.body[1:]
    given = definition.args
    if given.posonlyargs or given.vararg or given.kwonlyargs or given.kwarg or given.defaults:
        _refuse(asked, "its parameters are not plain ones", "Give it a parameter for each operand.")
    return definition


def _check(asked: str, definition: ast.FunctionDef, known: Mapping[str, Any]) -> None:
    """Refuse code that is more than a few assignments and a return."""
    *before, last = definition.body or [ast.Pass()]
    wrong = next((s for s in before if not isinstance(s, _STATEMENTS[:2])), None)
    if not isinstance(last, ast.Return) or last.value is None:
        wrong = wrong or last
    if wrong is not None:
        _refuse(asked, f"it has the statement `{_first_line(wrong)}`", _HINT)
    own = {a.arg for a in definition.args.args}
    own |= {n.id for n in _nodes(definition) if isinstance(n, ast.Name) and _is_stored(n)}
    values = intrinsics_of_values()
    called = {id(n.func) for n in _nodes(definition) if isinstance(n, ast.Call)}
    for node in _nodes(definition):
        if not isinstance(node, (*_STATEMENTS, *_EXPRESSIONS)) or not _is_written(node):
            _refuse(asked, f"it has `{_first_line(node)}`", _HINT)
        if isinstance(node, ast.Call) and node.keywords:
            _refuse(asked, f"`{_first_line(node)}` gives an argument by name", _HINT)
        if not isinstance(node, ast.Name):
            continue
        is_number = _is_number(known.get(node.id)) and id(node) not in called
        if node.id in own:
            if node.id in values and id(node) in called:
                _refuse(asked, f"{node.id} is a value of its own, and it calls it", _HINT)
        elif not is_number and not (node.id in values and _is_ours(known.get(node.id))):
            _refuse(asked, f"{node.id} is not an intrinsic of values, and not a number", _HINT)


def _is_written(node: ast.AST) -> bool:
    """Return whether both compilers write the operators of a node, or its constant, alike."""
    if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.AugAssign)):
        return isinstance(node.op, _OPERATORS)
    if isinstance(node, ast.Compare):
        return len(node.ops) == 1 and isinstance(node.ops[0], _OPERATORS)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) or _is_number(node.value)
    return True


def _nodes(definition: ast.FunctionDef) -> Iterator[ast.AST]:
    return (node for stmt in definition.body for node in ast.walk(stmt))


def _is_stored(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGE


def _is_ours(value: Any) -> bool:
    """Return whether what a name stands for is an intrinsic; a name that stands for nothing is."""
    defined = getattr(value, "_defn", value)
    module = str(getattr(defined, "__module__", ""))
    return value is None or module.startswith("schedlang.intrinsics.")


def _first_line(node: ast.AST) -> str:
    return ast.unparse(node).split("\n")[0]


def _refuse(asked: str, why: str, hint: str) -> NoReturn:
    raise ComputeError(explain(asked, why, hint))


class _Numbers(ast.NodeTransformer):
    """A transformation that writes numbers in place of the names that stand for them."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        self.known = known

    def visit_Name(self, node: ast.Name) -> ast.AST:
        value: Any = self.known.get(node.id)
        if not _is_number(value):
            return node
        # one of NumPy's has a longer text
        return ast.Constant(float(value) if isinstance(value, float) else int(value))
