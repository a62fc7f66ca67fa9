"""Derivatives of an operator that PyTorch lacks: errors in forward mode and under ``torch.func``.

In forward mode PyTorch would take them as 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.errors import CallTypeError, explain

# what a user does instead
REVERSE_MODE = "Use loss.backward(), torch.autograd.grad or torch.autograd.functional.jacobian."


def register_reverse_mode(
    name: str, arguments: Sequence[str], backward: Callable[..., Any],
    setup_context: Callable[..., Any],
) -> None:  # fmt: skip
    """Register the gradient of the operator ``name``, which refuses other modes."""
    import torch

    namespace = name.partition("::")[0]
    library: Any = _Refusing(name, arguments, torch.library.Library(namespace, "FRAGMENT"))
    torch.library.register_autograd(name, backward, setup_context=setup_context, lib=library)


@dataclass(frozen=True)
class _Refusing:
    """A library of ``torch.library`` whose kernels refuse tensors with a tangent.

    PyTorch has no rule of forward mode for a registered operator: it drops the tangents where it
    calls the kernel for ``Autograd``, the only one that sees them under ``torch.func.jvp``.
    """

    name: str
    arguments: Sequence[str]
    library: Any

    def impl(self, name: str, kernel: Callable[..., Any], *key: Any, **options: Any) -> None:
        """Register a kernel that takes the key set of a call, then the arguments."""
        from torch import Tensor
        from torch.autograd.forward_ad import unpack_dual

        def has_tangent(value: Any) -> bool:
            if isinstance(value, Tensor):
                return unpack_dual(value).tangent is not None
            return isinstance(value, (tuple, list)) and any(map(has_tangent, value))

        def primal(value: Any) -> Any:
            if isinstance(value, Tensor):
                return unpack_dual(value).primal
            return [*map(primal, value)] if isinstance(value, (tuple, list)) else value

        def reverse(keyset: Any, *args: Any) -> Any:
            try:
                return kernel(keyset, *args)
            except RuntimeError as error:
                # PyTorch asks for this method of a class of its own, which nobody can give it
                if "setup_context" not in str(error):
                    raise
                raise self._without_functional() from error

        def checked(keyset: Any, *args: Any) -> Any:
            if not any(map(has_tangent, args)):
                return reverse(keyset, *args)
            result = kernel(keyset, *map(primal, args))
            tensors = [result] if isinstance(result, Tensor) else result
            if any(t.is_floating_point() or t.is_complex() for t in tensors):
                raise self._refused(next(a for a, v in zip(self.arguments, args) if has_tangent(v)))
            return result

        self.library.impl(name, checked, *key, **options)
        # a library takes its kernels along when it goes, and this one has to stay
        checked.library = self.library  # type: ignore[attr-defined]

    def _without_functional(self) -> CallTypeError:
        return CallTypeError(
            explain(
                f"{self.name} under torch.func.grad, torch.func.vjp or torch.func.jacrev",
                "PyTorch has no such derivative of a registered operator",
                REVERSE_MODE,
            )
        )

    def _refused(self, argument: str) -> CallTypeError:
        return CallTypeError(
            explain(
                f"{self.name}({argument}=...) in forward mode, as under torch.func.jvp and "
                "torch.func.jacfwd",
                "an operator of sl.torch.op has derivatives in reverse mode alone",
                REVERSE_MODE,
            )
        )
