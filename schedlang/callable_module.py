"""Packages that are called, as in ``schedlang.compute(...)``, and names that load when used.

A function re-exported under the package's name would hide the package from
``import schedlang.compute.tensor as t``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import Parameter, Signature, getdoc, signature
from textwrap import fill
from types import ModuleType
from typing import Any

from schedlang.errors import missing_name


class CallableModule(ModuleType):
    """A module that forwards calls to its ``__call_target__``."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__call_target__(*args, **kwargs)

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        """Pickle by name, like a function, so that a worker imports the package."""
        return import_module, (self.__name__,)


class CallableOnDemand(CallableModule):
    """A package whose ``__getattr__`` makes it callable when its ``__call_target__`` is needed."""

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        assert self.__call_target__
        return str(self.__dict__["__doc__"])


def load_name(package: str, modules: Mapping[str, str], name: str) -> Any:
    """Return ``name`` of a package, from the module of it that ``modules`` gives.

    Raise ``AttributeError`` for a name that is not in ``modules``.
    """
    if name not in modules:
        raise missing_name(package, name, {})
    return getattr(import_module(f"{package}.{modules[name]}"), name)


def make_callable(name: str, target: Callable[..., Any]) -> None:
    """Make module ``name`` callable as ``target``, with its signature and docstring."""
    module = sys.modules[name]
    module.__class__ = CallableModule
    module.__dict__["__call_target__"] = target
    module.__dict__["__signature__"] = signature(target)
    module.__doc__ = _documented(target)


def _documented(target: Callable[..., Any]) -> str:
    """Return the docstring of ``target`` with its signature below the first line.

    It is needed because ``help`` shows no signature for a module.

    >>> def half(x: int, down: bool = True) -> int:
    ...     '''Half of a number.
    ...
    ...     Rounded ``down``, or up.
    ...     '''
    >>> print(_documented(half))
    Half of a number.
    <BLANKLINE>
        half(x, down=True) -> int
    <BLANKLINE>
    Rounded ``down``, or up.
    """
    first, _, rest = (getdoc(target) or "").partition("\n")
    return f"{first}\n\n{_signature_text(target)}\n{rest}"


def _signature_text(target: Callable[..., Any]) -> str:
    """Return the signature of ``target`` as text, without the types of its parameters."""
    full = signature(target)
    bare = [p.replace(annotation=Parameter.empty) for p in full.parameters.values()]
    # annotations are strings under ``from __future__ import annotations``
    text = f"{target.__name__}{Signature(bare)} -> {full.return_annotation}"
    return fill(text, 92, initial_indent=" " * 4, subsequent_indent=" " * 8, break_on_hyphens=False)
