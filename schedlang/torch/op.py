"""``op``: a kernel as an operator of PyTorch."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Union

from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeTypeError, explain, missing_extra, text_of
from schedlang.runtime.copies import CopyingKernel
from schedlang.runtime.kernel import Kernel
from schedlang.signatures import public
from schedlang.target import run_here
from schedlang.torch.functions import Function, KernelFunction, TracedFunction
from schedlang.torch.registration import register
from schedlang.torch.schemas import is_registered
from schedlang.tracing.jit import JitFunction

_NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*", re.ASCII)
# namespaces of PyTorch's own operators
_RESERVED = ("aten", "prim", "prims", "torch", "_C", "quantized")
# the operators that may come with one
_SUFFIXES = ("", "_backward", "_batched", "_batched_backward")


@public
def op(
    f: Union[Kernel, JitFunction],
    name: str,
    *,
    gradient: Union[bool, None, Callable[..., Any]] = True,
    example_inputs: Sequence[Any] | None = None,
) -> Any:
    """Return a kernel, or a function under ``sl.jit``, as an operator of PyTorch.

    The operator is registered in ``torch.library`` as ``name``, such as ``"mylib::blur"``, and is
    also ``torch.ops.mylib.blur``. It takes the inputs of ``f`` in order, tensors and numbers, and
    returns new tensors: one, or a tuple. It works in modules, in ``torch.compile`` without a graph
    break, in ``torch.export`` and under ``torch.vmap``. The sizes of ``f`` stay symbolic there.

    ``gradient=True`` derives the gradient by ``sl.gradient`` when a tensor that requires one is
    given, and builds a kernel for it in the first backward pass. A function takes the inputs, then
    the gradient of a loss by each result, and returns the gradient of the loss by each input that
    is a tensor (``None`` where there is none). With ``None``, a tensor that requires a gradient is
    an error. So is a second derivative, unless the function consists of operators that have one.
    So is a derivative in forward mode, as by ``torch.func.jvp``, ``torch.func.jacfwd`` and
    ``torch.autograd.forward_ad``, and one by ``torch.func.grad``, which PyTorch lacks.

    Under ``torch.vmap`` a kernel with one more axis runs, which is built for the batch. Operators
    with recurrences, scatters, host functions or a ``gradient`` of yours run once for each element
    of the batch, and so does a gradient.

    The operator has the dtypes and shapes of ``f``. A strided tensor is copied, with a
    :class:`~schedlang.errors.CopyWarning` from 1 MiB on. A kernel for ``"cuda"`` takes tensors on a
    GPU, and runs on their stream.

    A function under ``sl.jit`` needs ``example_inputs``, one for each argument: they give the
    operator's arguments their types. PyTorch asks for shapes before a call, so ``sl.trace`` must
    be able to trace it.

    Raises :class:`~schedlang.errors.ComputeTypeError` for another ``f``, ``name`` or ``gradient``,
    for a name that is registered, and for a function that assigns to its arguments or returns
    something else than arrays. Raises :class:`~schedlang.errors.MissingExtraError` without PyTorch.

        >>> import schedlang as sl
        >>> n = sl.var("n")
        >>> A = sl.placeholder((n,), name="A")
        >>> B = sl.compute((n,), lambda i: A[i] * A[i], name="B")
        >>> square = sl.torch.op(sl.build(sl.schedule(B)), "docs::square")
        >>> import torch
        >>> x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        >>> square(x).sum().backward()
        >>> x.grad
        tensor([2., 4., 6.])
    """
    try:
        import torch  # noqa: F401
    except ImportError:
        raise missing_extra("PyTorch", "torch", "sl.torch.op") from None
    checked = _checked_name(name)
    rule = _checked_gradient(gradient)
    return register(checked, _function(f, example_inputs), rule)


def _function(f: Any, example_inputs: Any) -> Function:
    if isinstance(f, Kernel):
        if example_inputs is not None:
            raise ComputeTypeError(
                f"sl.torch.op({f.name}, example_inputs=...): a kernel knows its arguments; leave "
                "them out"
            )
        run_here(f.target, f"an operator of kernel {f.name}")
        return KernelFunction(f)
    if isinstance(f, JitFunction):
        if example_inputs is None:
            raise ComputeTypeError(
                explain(
                    f"sl.torch.op({f.__name__})",
                    "the arguments of an operator have types, and a function under sl.jit takes "
                    "any",
                    "Give an example of each: example_inputs=(torch.ones(3), 0.5).",
                )
            )
        if not isinstance(example_inputs, (tuple, list)):
            example_inputs = (example_inputs,)
        return TracedFunction(f, example_inputs)
    hint = "Give what sl.build returned, or a function under sl.jit."
    if isinstance(f, CopyingKernel):
        hint = "Give the kernel itself: an operator copies strided tensors."
    elif type(f).__name__ == "Network":
        hint = 'Call the network, or use torch.compile(module, backend="schedlang").'
    elif isinstance(f, Tensor):
        hint = f"Build a kernel: sl.torch.op(sl.build(sl.schedule({f.name})), ...)."
    elif callable(f):
        hint = f"Write sl.torch.op(sl.jit({getattr(f, '__name__', 'f')}), ...)."
    why = "it is neither a kernel nor a function under sl.jit"
    raise ComputeTypeError(explain(f"sl.torch.op({text_of(f)})", why, hint))


def _checked_name(name: Any) -> str:
    asked = f"sl.torch.op(..., name={name!r})"
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ComputeTypeError(
            explain(
                asked,
                "the name of an operator is a namespace and a name, both of letters, digits and _",
                'Write name="mylib::blur".',
            )
        )
    namespace = name.partition("::")[0]
    if namespace in _RESERVED:
        raise ComputeTypeError(
            explain(
                asked,
                f"{namespace} is a namespace of PyTorch's own",
                f'Use one of yours: name="mylib::{name.partition("::")[2]}".',
            )
        )
    registered = next((name + s for s in _SUFFIXES if is_registered(name + s)), None)
    if registered is not None:
        raise ComputeTypeError(
            explain(
                asked,
                f"PyTorch has the operator {registered} already"
                + ("" if registered == name else ", which would come with it"),
                "Use another name. An operator stays until the process ends, so register it once: "
                f"torch.ops.{registered.replace('::', '.')} is the one that there is.",
            )
        )
    return name


def _checked_gradient(gradient: Any) -> Any:
    if gradient is None or gradient is False:
        return False
    if gradient is True or (callable(gradient) and not isinstance(gradient, (Kernel, JitFunction))):
        return gradient
    if isinstance(gradient, (Kernel, JitFunction)):
        raise ComputeTypeError(
            explain(
                f"sl.torch.op(..., gradient={gradient!r})",
                "PyTorch traces a gradient, and this is not an operator yet",
                'Register it first: gradient=sl.torch.op(g, name="mylib::g", gradient=None).',
            )
        )
    raise ComputeTypeError(
        explain(
            f"sl.torch.op(..., gradient={gradient!r})",
            "a gradient is a function of the inputs and the gradients by the results",
            "Give one, True for the gradient by sl.gradient, or None.",
        )
    )


__all__ = ["op"]
