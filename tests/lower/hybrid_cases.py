"""Pipelines and kernels with hybrid tiles."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from autosched import Func, Input, Pipeline, Var, cast, clamp, float32, int32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule.legality.fused_producers import transitive_sources
from autosched.schedule.types import FusedProducer, HybridTile, Kernel, Schedule
from tests.schedule.building import block, kernel, member, root, schedule, warp

z, y, x = Var("z"), Var("y"), Var("x")


def hybrid(producer: FusedProducer, dim: str, iterations: int) -> FusedProducer:
    """Return a producer with the last steps of its tile along a dimension in registers; 0 keeps it as it is."""
    return replace(producer, registers=HybridTile(dim, iterations)) if iterations else producer


def rows(width: int = 1024, height: int = 3) -> BoundPipeline:
    """Return the blur of figure 5: ``blurx`` of columns, and ``blury`` of three neighbours in a row of it."""
    img, blurx, blury = Input("img", float32, 2), Func("blurx"), Func("blury")
    blurx[y, x] = (img[y, x] + img[y + 1, x] + img[y + 2, x]) / 3
    blury[y, x] = (blurx[y, x] + blurx[y, x + 1] + blurx[y, x + 2]) / 3
    return bind(Pipeline(blury.over(y=(0, height), x=(0, width)), name="blur"), {"img": (height + 2, width + 2)})


def rows_kernel(bound: BoundPipeline, iterations: int, tile: int = 16, warps: int = 1) -> Kernel:
    """Return the blur with 32 lanes, ``tile`` steps, and some of them in registers."""
    height, width = bound.funcs["blury"].extents
    blocks = -(-width // (32 * tile * warps))
    many = f"wx={warps} " if warps > 1 else ""
    at = warp("blury", 3) if warps > 1 else block("blury", 2)
    producer = hybrid(member(at, "yx", blurx=f"sx={tile + 1} tx=32"), "x", iterations)
    return kernel(bound, [root("blury", f"by={height} bx={blocks} {many}sx={tile} tx=32")], [producer])


def stencils(
    stages: int = 3, height: int = 41, width: int = 150, dtype: Any = float32, radius: int = 1
) -> BoundPipeline:
    """Return Funcs ``f1`` to ``fN`` and ``out``, each of three points of the one before, from a clamped input."""
    img = Input("img", dtype, 2)
    last = img.clamped()
    for k in range(1, stages):
        f = Func(f"f{k}")
        f[y, x] = last[y - 1, x] + last[y, x + radius] - last[y + 1, x - radius]
        last = f
    out = Func("out")
    out[y, x] = last[y - 1, x] + last[y, x + radius] - last[y + 1, x - radius]
    return bind(Pipeline(out.over(y=(0, height), x=(0, width)), name="stencils"), {"img": (height, width)})


def stencils_kernel(
    bound: BoundPipeline, lanes: tuple[int, int], steps: tuple[int, int], dim: str, iterations: Sequence[int],
    warps: tuple[int, int] = (1, 1),
) -> Kernel:  # fmt: skip
    """Return the stencils in one kernel.

    Args:
        bound: The pipeline.
        lanes: Lanes in x and y.
        steps: Steps of the root in x and y.
        dim: Split dimension.
        iterations: Steps of each producer in registers, at most all of them.
        warps: Warps of a block in x and y.
    """
    (tx, ty), (sx, sy), (wx, wy) = lanes, steps, warps
    height, width = bound.funcs["out"].extents
    many = "".join(f"w{d}={n} " for d, n in (("y", wy), ("x", wx)) if n > 1)
    at = warp("out", 2 + many.count("=")) if many else block("out", 2)
    producers = []
    for k, count in enumerate(iterations):
        halo = 2 * (len(iterations) - k)
        need = {"y": -(-(ty * sy + halo) // ty), "x": -(-(tx * sx + halo) // tx)}
        tiling = {f"f{k + 1}": f"sy={need['y']} sx={need['x']} tx={tx} ty={ty}"}
        producers.append(hybrid(member(at, "yx", **tiling), dim, min(count, need[dim])))
    blocks = f"by={-(-height // (ty * sy * wy))} bx={-(-width // (tx * sx * wx))}"
    out = root("out", f"{blocks} {many}sy={sy} sx={sx} tx={tx} ty={ty}")
    return kernel(bound, [out], producers, ["img_clamped"])


def reading(index: str) -> tuple[BoundPipeline, Kernel]:
    """Return a pipeline that reads a tile of two steps at an index that is named, and its kernel."""
    img, f, out = Input("img", float32, 2), Func("f"), Func("out")
    f[y, x] = img[y, x] * 2
    at = {
        "mirrored": 63 - x,
        "by data": clamp(cast(int32, img[y, x]), 0, 63),
        "third": x // 3,
        "transposed": y,
        "permuted": (x * 5 + y) % 64,
    }[index]
    out[y, x] = f[y, at] + f[y, x]
    bound = bind(Pipeline(out.over(y=(0, 64), x=(0, 64)), name="read"), {"img": (64, 64)})
    producer = hybrid(member(block("out", 1), "yx", f="sx=2 tx=32"), "x", 2)
    return bound, kernel(bound, [root("out", "by=64 sx=2 tx=32")], [producer])


def app_schedule(
    bound: BoundPipeline, groups: Mapping[str, tuple[str, Mapping[str, str]]], inlined: Sequence[str], dim: str,
    iterations: int,
) -> Schedule:  # fmt: skip
    """Return a schedule of an app in which some kernels have hybrid tiles.

    Args:
        bound: The app.
        groups: By root: its loops, and the loops of its producers, all of which have hybrid tiles.
        inlined: Funcs that all kernels inline; all others are computed at root.
        dim: Split dimension.
        iterations: Steps in registers, at most all of a tile.
    """
    kernels = []
    for name, func in bound.funcs.items():
        loops, producers = groups.get(name, (_points(func.dims, func.extents), {}))
        if name in inlined or any(name in fused for _, fused in groups.values()):
            continue
        at = block(name, loops.count("b"))
        tiles = []
        for producer, text in producers.items():
            outer = re.search(rf"s{dim}=(\d+)(?=.* t{dim}=)", text)
            tiles.append(
                hybrid(
                    member(at, bound.funcs[producer].dims, **{producer: text}),
                    dim,
                    min(iterations, int(outer[1]) if outer else 1),
                )
            )
        names = {
            p for stage in (name, *producers) for p in transitive_sources(bound, bound.stage(stage, 0), set(inlined))
        }
        kernels.append(kernel(bound, [root(name, loops)], tiles, [p for p in inlined if p in names]))
    return schedule(bound, *kernels)


def _points(dims: Sequence[str], extents: Sequence[int]) -> str:
    """Return loops of one point a thread, 32 threads a block."""
    *outer, (fastest, width) = zip(dims, extents, strict=True)
    return " ".join([*(f"b{d}={n}" for d, n in outer), f"b{fastest}={-(-width // 32)} t{fastest}=32"])
