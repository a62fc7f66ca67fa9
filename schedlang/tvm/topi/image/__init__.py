"""Operators on images: other sizes, and images at points."""

from __future__ import annotations

from schedlang.tvm.topi.image.resize import resize1d, resize2d, resize3d
from schedlang.tvm.topi.image.sampling import affine_grid, crop_and_resize, grid_sample

__all__ = [
    "affine_grid", "crop_and_resize", "grid_sample", "resize1d", "resize2d", "resize3d",
]  # fmt: skip
