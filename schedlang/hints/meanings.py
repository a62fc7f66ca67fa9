"""The effect of each step that is tried, for people who are new to schedules."""

from __future__ import annotations

from collections.abc import Mapping

MEANINGS: Mapping[str, str] = {
    "vectorize": "compute several neighbouring elements with one instruction",
    "parallel": "run the iterations on several cores",
    "register tile": "keep the sums of several rows in registers, so that one load serves them all",
    "tensorize": "compute several terms of a sum at once, by an instruction of the processor",
    "tile": "work on one block at a time, so that its data stay in the cache",
    "reorder": "make another loop the innermost one",
    "split": "cut a loop in two, so that its parts can be moved apart",
    "fuse": "make one loop of two",
    "unroll": "write the iterations of a short loop out, one after the other",
    "compute_at": "compute a part of the stage where it is needed, while it is in the cache",
    "compute_inline": "compute each value where it is used, and store none",
    "compute_root": "compute the whole stage first",
    "store_at": "slide a window over the rows, so that none is computed twice",
    "cache_read": "copy an operand first",
    "pack": "copy an operand in the order in which it is read",
    "cache_write": "compute into a buffer, and copy that",
    "rfactor": "add partial sums, in lanes of a vector or on cores of their own",
    "prefetch": "fetch what the next iteration reads",
    "pragma": "store past the caches, so that no line is read before it is overwritten",
    "storage_align": "lengthen rows, so that they do not compete for the same part of the cache",
}
