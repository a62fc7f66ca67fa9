"""PyTorch tensors as NumPy arrays, and errors for tensors without memory that a kernel can read."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from schedlang.errors import CallTypeError, MissingExtraError, first_line
from schedlang.expr.dtypes import array_dtype

# for each kind of tensor without dense memory, the method that makes a dense one
_DENSE = (
    ("is_sparse", ".to_dense()"),
    ("is_sparse_csr", ".to_dense()"),
    ("is_mkldnn", ".to_dense()"),
    ("is_nested", ".to_padded_tensor(0)"),
    ("is_quantized", ".dequantize()"),
)
TRANSFORMED = (
    "{} is a tensor that stands for others, as inside torch.vmap, torch.func.grad and "
    "torch.compile, and has no memory of its own: call the kernel outside these; for a batch, "
    "give the computation one more dimension"
)


def is_tensor(value: Any) -> bool:
    """Return whether ``value`` is a PyTorch tensor, without an import of PyTorch."""
    torch = sys.modules.get("torch")
    kind = getattr(torch, "Tensor", None)
    return kind is not None and isinstance(value, kind)


def detach(value: Any, what: str) -> Any:
    """Return a tensor detached from its gradient.

    Under ``torch.no_grad()`` and ``torch.inference_mode()``, a tensor that requires a gradient is
    an array like any other. Raises :class:`~schedlang.errors.CallTypeError` if PyTorch records
    gradients, since the gradient of the kernel would be lost.
    """
    import torch

    if not value.requires_grad:
        return value
    if torch.is_grad_enabled():
        raise CallTypeError(
            f"{what} is a tensor that requires grad, but a kernel records no gradients: pass its "
            ".detach(), or run this line under torch.no_grad()"
        )
    return value.detach()


def tensor_as_numpy(value: Any, what: str) -> np.ndarray:
    """Return the memory of a tensor as a NumPy array.

    Raises :class:`~schedlang.errors.CallTypeError` for a tensor on another device, for one that
    requires a gradient while PyTorch records gradients, and for one without dense memory: inside
    ``torch.vmap`` and the like, meta, sparse, quantized, a conjugated or negated view, or of a
    dtype that NumPy lacks.
    """
    import torch

    if _transformed(value):
        raise CallTypeError(TRANSFORMED.format(what))
    if value.device.type == "meta":
        raise CallTypeError(
            f"{what} is a meta tensor, which has a shape but no elements: pass one with data, such "
            "as torch.empty_like(..., device='cpu')"
        )
    for kind, call in _DENSE:
        if getattr(value, kind, False):
            named = kind.removeprefix("is_").replace("sparse_csr", "sparse").replace("_", " ")
            raise CallTypeError(f"{what} is a {named} tensor: pass its {call}")
    if value.layout is not torch.strided:
        raise CallTypeError(f"{what} is a tensor of layout {value.layout}: pass its .to_dense()")
    if value.device.type != "cpu":
        raise CallTypeError(
            f"{what} is in GPU memory ({value.device}), but this kernel runs on the CPU: copy it "
            "first, with .cpu()"
        )
    for lazy in ("conj", "neg"):
        if getattr(value, f"is_{lazy}")():
            how = "conjugates" if lazy == "conj" else "negates"
            raise CallTypeError(
                f"{what} is a view that {how} the elements of another tensor when they are read: "
                f"pass its .resolve_{lazy}()"
            )
    plain = detach(value, what)
    try:
        if plain.dtype is torch.bfloat16:
            own = array_dtype("bfloat16")
            return plain.view(torch.int16).numpy().view(own)
        memory: np.ndarray = plain.numpy()
    except TypeError as error:
        raise CallTypeError(
            f"{what} has dtype {value.dtype}, which NumPy does not have ({first_line(error)}): "
            "convert it, e.g. with .float()"
        ) from None
    except MissingExtraError as error:
        raise CallTypeError(f"{what}: {error} Or convert it with .float()") from None
    except Exception as error:
        # subclasses, and modes that a library sets for all tensors, raise errors of any type
        raise CallTypeError(
            f"{what} is a {type(value).__name__} that does not expose its memory "
            f"({first_line(error)}): pass a plain tensor on the CPU"
        ) from None
    return memory


def _transformed(value: Any) -> bool:
    """Return whether a tensor stands for others, in a functorch transform or a trace."""
    import torch

    if "FakeTensor" in {kind.__name__ for kind in type(value).__mro__}:
        return True
    functorch = getattr(torch._C, "_functorch", None)
    wrapped = getattr(functorch, "is_functorch_wrapped_tensor", None)
    return wrapped is not None and bool(wrapped(value))
