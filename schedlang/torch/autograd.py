"""The gradient of an operator: by ``sl.gradient``, by a function that the user gives, or none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, Union

from schedlang.errors import CallTypeError, SchedlangError, explain, text_of
from schedlang.torch.derivatives import Derivative
from schedlang.torch.forward import register_reverse_mode
from schedlang.torch.functions import Argument, Function
from schedlang.torch.recent import Recent
from schedlang.torch.schemas import declared, operator_named
from schedlang.torch.shapes import Graph
from schedlang.torch.vmap import register_vmap

# by sl.gradient, none, or a function of the arguments and of the gradients by the results
Rule = Union[bool, Callable[..., Any]]


class Gradient(Protocol):
    """The gradient of an operator by some of its arguments."""

    def check(self, args: Sequence[Any], needed: Sequence[int]) -> None:
        """Raise where there is no gradient by the arguments at the positions ``needed``."""

    def __call__(
        self, args: Sequence[Any], heads: Sequence[Any], needed: Sequence[int]
    ) -> Sequence[Any]:
        """Return the gradients by these, where ``heads`` are those by the results."""


def rule_of(name: str, function: Function, gradient: Rule) -> Gradient:
    """Return the gradient of the operator ``name``, which is to be registered."""
    if gradient is True:
        return Derived(name, function)
    return Given(name, function, gradient) if gradient else Missing(name, function)


def register_rule(name: str, function: Function, rule: Gradient) -> None:
    """Register the gradient of an operator."""
    import torch

    def remember(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        tensors = [v for v in inputs if isinstance(v, torch.Tensor)]
        needed = [
            k for k, v in enumerate(inputs) if isinstance(v, torch.Tensor) and v.requires_grad
        ]
        rule.check(inputs, needed)
        ctx.save_for_backward(*tensors)
        ctx.others = [None if isinstance(v, torch.Tensor) else (v,) for v in inputs]

    def backward(ctx: Any, *heads: Any) -> Any:
        tensors = iter(ctx.saved_tensors)
        args = [next(tensors) if other is None else other[0] for other in ctx.others]
        needed = [k for k in range(len(args)) if ctx.needs_input_grad[k]]
        grads = dict(zip(needed, rule(args, heads, needed)))
        return tuple(grads.get(k) for k in range(len(args)))

    register_reverse_mode(name, [a.name for a in function.arguments], backward, remember)


class Missing:
    """No gradient: the error for arguments that require one."""

    def __init__(self, name: str, function: Function) -> None:
        self._name, self._function = name, function

    def check(self, args: Sequence[Any], needed: Sequence[int]) -> None:
        first = self._function.arguments[needed[0]].name
        raise CallTypeError(
            explain(
                f"{self._name}({first}=...), a tensor that requires grad",
                "the operator was registered with gradient=None",
                f"Pass {first}.detach(), call it under torch.no_grad(), or register it with a "
                "gradient.",
            )
        )

    def __call__(
        self, args: Sequence[Any], heads: Sequence[Any], needed: Sequence[int]
    ) -> Sequence[Any]:
        raise AssertionError("check refused the call")


class Given:
    """The gradient by a function of the user's."""

    def __init__(self, name: str, function: Function, gradient: Callable[..., Any]) -> None:
        self._name, self._function, self._gradient = name, function, gradient

    def check(self, args: Sequence[Any], needed: Sequence[int]) -> None:
        """A function may know a gradient by any argument: its result tells."""

    def __call__(
        self, args: Sequence[Any], heads: Sequence[Any], needed: Sequence[int]
    ) -> Sequence[Any]:
        import torch

        result = self._gradient(*args, *heads)
        grads = [*result] if isinstance(result, (tuple, list)) else [result]
        tensors = [k for k, v in enumerate(args) if isinstance(v, torch.Tensor)]
        if len(grads) != len(tensors):
            listed = ", ".join(self._function.arguments[k].name for k in tensors)
            raise self._refused(
                f"it returns {len(grads)} gradients, and {self._name} has {len(tensors)} tensors",
                f"Return one for each of {listed}, None where there is none.",
            )
        by_position = dict(zip(tensors, grads))
        for k in needed:
            self._check_grad(k, args[k], by_position[k])
        return [by_position[k] for k in needed]

    def _check_grad(self, position: int, value: Any, grad: Any) -> None:
        import torch

        name = self._function.arguments[position].name
        if grad is None:
            raise self._refused(
                f"{name} requires grad, and the gradient by it is None",
                f"Return a tensor of the shape of {name}, or pass {name}.detach().",
            )
        if not isinstance(grad, torch.Tensor):
            raise self._refused(
                f"the gradient by {name} is not a tensor: {text_of(grad)}",
                f"Return a tensor of the shape and the dtype of {name}.",
            )
        if tuple(grad.shape) != tuple(value.shape) or grad.dtype != value.dtype:
            raise self._refused(
                f"the gradient by {name} is {grad.dtype}{list(grad.shape)}, but {name} is "
                f"{value.dtype}{list(value.shape)}",
                f"Return a tensor of the shape and the dtype of {name}.",
            )

    def _refused(self, why: str, hint: str) -> CallTypeError:
        title = getattr(self._gradient, "__name__", "the gradient")
        return CallTypeError(explain(f"{title}, the gradient of {self._name}", why, hint))


class Derived:
    """The gradient by ``sl.gradient``, which is an operator of its own: ``<name>_backward``."""

    def __init__(self, name: str, function: Function) -> None:
        import torch

        self._name, self._function = name, function
        self._known: Recent[Graph, Derivative] = Recent()
        own = f"{name}_backward"
        more = [Argument("heads", "Tensor[]"), Argument("needed", "int[]")]
        torch.library.define(own, f"({declared([*function.arguments, *more])}) -> Tensor[]")
        torch.library.impl(own, "default", self._run)
        torch.library.register_fake(own, self._empty)
        names = [a.name for a in (*function.arguments, *more)]
        register_reverse_mode(own, names, self._twice, _remember_nothing)
        register_vmap(own)
        self._operator = operator_named(own)

    def check(self, args: Sequence[Any], needed: Sequence[int]) -> None:
        try:
            derivative = self._derivative(args)
            derivative.by(derivative.differentiable(needed))
        except SchedlangError as error:
            names = ", ".join(self._function.arguments[k].name for k in needed)
            raise type(error)(
                explain(
                    f"{self._name} of tensors that require grad ({names})",
                    "it has no gradient by them",
                    f"{error}\nOr register it with a gradient of yours: "
                    "sl.torch.op(..., gradient=f).",
                )
            ) from error

    def __call__(
        self, args: Sequence[Any], heads: Sequence[Any], needed: Sequence[int]
    ) -> Sequence[Any]:
        import torch

        by = self._derivative(args).differentiable(needed)
        # autograd gives no gradient for a result of integers
        given = [torch.zeros(()) if head is None else head for head in heads]
        grads = dict(zip(by, self._operator(*args, given, by) if by else ()))
        return [grads.get(k) for k in needed]

    def _derivative(self, args: Sequence[Any]) -> Derivative:
        graph = self._function.graph(args)
        return self._known.value(graph, lambda: Derivative.of(graph, self._function.target))

    def _run(self, *given: Any) -> list[Any]:
        *args, heads, needed = given
        return self._derivative(args)(needed, args, heads)

    def _empty(self, *given: Any) -> list[Any]:
        import torch

        *args, _, needed = given
        like = [args[k] for k in needed]
        return [torch.empty(v.shape, dtype=v.dtype, device=v.device) for v in like]

    def _twice(self, ctx: Any, *grads: Any) -> Any:
        raise CallTypeError(
            explain(
                f"the second derivative of {self._name}",
                "sl.torch.op derives the first one alone",
                "Leave out create_graph=True, or give a gradient of operators that have gradients "
                "themselves: sl.torch.op(..., gradient=f).",
            )
        )


def _remember_nothing(ctx: Any, inputs: Any, output: Any) -> None:
    """Keep no arguments for a second derivative, which there is not."""
