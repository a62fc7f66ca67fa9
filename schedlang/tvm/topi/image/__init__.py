"""Operators on images: other sizes."""

from __future__ import annotations

from schedlang.tvm.topi.image.resize import resize1d, resize2d, resize3d

__all__ = ["resize1d", "resize2d", "resize3d"]
