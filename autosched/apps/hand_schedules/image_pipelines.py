"""GPU schedules by hand of image pipelines, with one tile per block.

They have the structure of the manual GPU schedules in the Halide repository (``apps/*/*_generator.cpp``): the Funcs in
global memory, the producers of each block and thread, tiles, threads and points of a thread. Differences:

* tiles are guarded and not rounded up, and stages of the same loops are not joined in one loop (``compute_with``);
* copies of shared memory in registers (``Func::in``) are the compiler's;
* arrays have their channels as planes, where Halide's blurs of ``bilateral_grid`` have them innermost;
* the mosaic planes of ``camera_pipe`` are four Funcs, and its producers, in the pipeline's order, have eight barriers;
* ``unsharp_polymage`` and ``harris_gray`` lack the first stage of Halide's programs.

Halide has no ``pyramid_blend``; its schedule is of the kind of ``interpolate``'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps.hand_schedules.fused_kernels import (
    WHOLE,
    FusedKernel,
    RootTile,
    SharedTile,
    ThreadTile,
    fused_schedule,
)
from autosched.schedule.types import Schedule

SQUARE = {"y": 2, "x": 2}
"""Points of a thread, two in each dimension."""


def unsharp(bound: BoundPipeline) -> list[FusedKernel]:
    """Compute gray and the vertical blur per block, the ratio per thread for all channels."""
    tile = RootTile("output", {"x": 32, "y": 32}, {"c": WHOLE})
    shared = (SharedTile("gray", SQUARE), SharedTile("blur_y", {"x": 2}))
    return [FusedKernel(tile, shared, (ThreadTile("ratio", before="c"),))]


def unsharp_polymage(bound: BoundPipeline) -> list[FusedKernel]:
    """Compute the first blur per block, the second per thread, both for all channels."""
    tile = RootTile("output", {"x": 32, "y": 32}, {"c": WHOLE})
    shared = (SharedTile("blur_x", SQUARE),)
    return [FusedKernel(tile, shared, (ThreadTile("blur_y", before="c"),))]


def harris(bound: BoundPipeline) -> list[FusedKernel]:
    """Compute gray and both derivatives per block; of a gray image, the derivatives."""
    gray = (SharedTile("gray", {"y": 2, "x": 3}),) if "gray" in bound.funcs else ()
    shared = (*gray, SharedTile("iy", {"x": 2}), SharedTile("ix", {"x": 2}))
    return [FusedKernel(RootTile("output", {"x": 31, "y": 14}, {"x": 2}), shared)]


def bilateral_grid(bound: BoundPipeline) -> list[FusedKernel]:
    """Compute the histogram per block of the blur along z; the other blurs and the output have kernels of their own."""
    blur = {"y": 2, "c": WHOLE}
    return [
        FusedKernel(RootTile("blur_z", {"x": 8, "y": 8}, {"z": WHOLE, "c": WHOLE}), (SharedTile("grid"),)),
        FusedKernel(RootTile("blur_x", {"x": 32, "y": 8}, blur)),
        FusedKernel(RootTile("blur_y", {"x": 32, "y": 8}, blur)),
        FusedKernel(RootTile("output", {"x": 32, "y": 8}), (), (ThreadTile("interpolated", before="c"),)),
    ]


def interpolate(bound: BoundPipeline) -> list[FusedKernel]:
    """Store every level on the way down and every second on the way up; the finest levels are computed per block."""
    levels = _levels(bound, "filled")
    kernels = [_downsampled(f"down_{n}") for n in range(1, levels)]
    kernels += [_upsampled(f"filled_{n}") for n in reversed(range(3, levels, 2))]
    points = {"filled_2": {}, "up_1_x": {"x": 2}, "filled_1": SQUARE} if levels > 2 else {}
    kernels.append(_upsampled("output", *(SharedTile(f, {**own, "c": WHOLE}) for f, own in points.items())))
    return kernels


def pyramid_blend(bound: BoundPipeline) -> list[FusedKernel]:
    """Store all levels of the images and of the result; expand the coarser levels along x per block."""
    levels = _levels(bound, "blended")
    sources = ("image1", "image2", "mask")
    kernels = [_downsampled(f"{source}_{n}") for source in sources for n in range(1, levels)]
    for n in reversed(range(levels - 1)):
        expanded = [SharedTile(f"{f}_{n}_up_x", {"x": 2, "c": WHOLE}) for f in ("image1", "image2", "result")]
        kernels.append(_upsampled(f"result_{n}" if n else "output", *expanded))
    return kernels


def _levels(bound: BoundPipeline, prefix: str) -> int:
    """Return the number of levels of a pyramid, whose Funcs are numbered from 0."""
    return 1 + max(int(f.removeprefix(f"{prefix}_")) for f in bound.funcs if f.startswith(f"{prefix}_"))


def _downsampled(func: str) -> FusedKernel:
    return FusedKernel(RootTile(func, {"x": 16, "y": 16}, {"c": WHOLE}))


def _upsampled(func: str, *shared: SharedTile) -> FusedKernel:
    return FusedKernel(RootTile(func, {"x": 16, "y": 16}, {**SQUARE, "c": WHOLE}), shared)


def camera_pipe(bound: BoundPipeline) -> list[FusedKernel]:
    """Compute eight steps per block: denoising, mosaic planes, green, all colours, their correction and the curve."""
    pair = {"x": 2}
    planes = [SharedTile(f, pair) for f in ("gr", "r", "b", "gb")]
    green = [SharedTile(f) for f in ("g_at_r", "g_at_b")]
    colours = [SharedTile(f, pair) for f in ("red", "green", "blue")]
    tone = [SharedTile(f, pair) for f in ("corrected", "curved")]
    shared = (SharedTile("denoised", SQUARE), *planes, *green, *colours, *tone)
    return [
        FusedKernel(RootTile("curve", {"i": 32})),
        FusedKernel(RootTile("matrix", {}, {"c": WHOLE, "i": WHOLE})),
        FusedKernel(RootTile("output", {"x": 28, "y": 12}, {"x": 2, "c": WHOLE}), shared),
    ]


IMAGE_KERNELS: Mapping[str, Callable[[BoundPipeline], list[FusedKernel]]] = {
    "unsharp": unsharp,
    "unsharp_polymage": unsharp_polymage,
    "harris": harris,
    "harris_gray": harris,
    "bilateral_grid": bilateral_grid,
    "interpolate": interpolate,
    "camera_pipe": camera_pipe,
    "pyramid_blend": pyramid_blend,
}
"""Kernels with tiles per block, by app."""


def block_tiles(name: str, bound: BoundPipeline) -> Schedule:
    """Return the schedule with a tile per block of an app in `IMAGE_KERNELS`."""
    return fused_schedule(bound, IMAGE_KERNELS[name](bound))
