"""te's ``tvm.transform``: only the context that te programs use around ``tvm.build``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from schedlang.errors import missing_name, warn_of_old_name

_PASSES = (
    "modules and passes of TVM's IR are not part of schedlang",
    "Steps of the schedule change the loop nest; tvm.lower(s, args) shows it.",
)
REFUSED = dict.fromkeys(
    ("Sequential", "Pass", "PassInfo", "module_pass", "function_pass", "PrintIR"), _PASSES
)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise missing_name(__name__, name, REFUSED, "tvm.transform")


class PassContext:
    """TVM's pass options, which are accepted so that programs run, and have no effect.

    Use the schedule (``unroll``, ``vectorize``, ``tail=``) or ``build`` (``fastmath=``) instead.

    >>> with PassContext(opt_level=3, config={"tir.disable_vectorize": True}) as context:
    ...     context.opt_level
    3
    """

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Sequence[str] | None = None,
        disabled_pass: Sequence[str] | None = None,
        instruments: Sequence[Any] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.opt_level = opt_level
        self.required_pass = list(required_pass or ())
        self.disabled_pass = list(disabled_pass or ())
        self.instruments = list(instruments or ())
        self.config = dict(config or {})

    def __enter__(self) -> PassContext:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None


def build_config(**config: Any) -> PassContext:
    """Return a :class:`PassContext` of options; an old name, which warns."""
    warn_of_old_name("tvm.build_config", "tvm.transform.PassContext")
    return PassContext(config=config)


__all__ = ["PassContext", "build_config"]
