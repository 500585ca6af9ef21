"""Required regions by enumeration of all points: the oracle of the plan's symbolic regions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autosched import Expr, Func, Input, Pipeline, Var, clamp, float32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule.types import LoopKind, StageTiling

Point = tuple[int, ...]
Box = tuple[tuple[int, int], ...]
Access = Callable[..., tuple[int, ...]]
"""Index arithmetic that works on integers and on expressions: from a consumer's point to the producer's."""

DIMS = ("y", "x")


def limited(i: int, low: int, high: int) -> int:
    """Clamp an integer, or an expression that stands for one."""
    return clamp(i, low, high) if isinstance(i, Expr) else max(low, min(i, high))  # type: ignore[return-value]


@dataclass(frozen=True)
class Chain:
    """Funcs over ``(y, x)`` and the accesses between them, consumers after producers; the last is the output."""

    reads: Mapping[str, Sequence[tuple[str, Access]]]
    box: Box

    def bound(self) -> BoundPipeline:
        """Return the pipeline in which every Func is the sum of its sources; Funcs without a source copy an input.

        The input is clamped, so that every region is allowed.
        """
        img, v = Input("img", float32, 2), tuple(Var(d) for d in DIMS)
        funcs: dict[str, Func] = {}
        for name, accesses in self.reads.items():
            f = funcs[name] = Func(name)
            terms = [funcs[source][at(*v)] for source, at in accesses] or [
                img[limited(v[0], 0, 3), limited(v[1], 0, 3)]
            ]  # type: ignore[arg-type]
            value = terms[0]
            for t in terms[1:]:
                value = value + t
            f[v] = value
        over = {d: (lo, hi + 1) for d, (lo, hi) in zip(DIMS, self.box, strict=True)}
        return bind(Pipeline([f.over(**over)], name="chain"), {"img": (4, 4)})

    def needed(self, consumers: Mapping[str, Iterable[Point]], inside: Sequence[str]) -> dict[str, Box]:
        """Return the required box of every Func in ``inside``, directly or through each other."""
        wanted: dict[str, set[Point]] = {}
        boxes: dict[str, Box] = {}
        for name in reversed(list(self.reads)):
            points: Iterable[Point] = consumers.get(name, ())
            if name in inside and wanted.get(name):
                boxes[name] = hull(wanted[name])
                points = itertools.product(*(range(lo, hi + 1) for lo, hi in boxes[name]))
            points = list(points)
            for source, at in self.reads[name]:
                wanted.setdefault(source, set()).update(at(*p) for p in points)
        return boxes


def hull(points: Iterable[Point]) -> Box:
    """Return the smallest box around points."""
    return tuple((min(c), max(c)) for c in zip(*points, strict=True))


def iterations(tiling: StageTiling, depth: int) -> Iterator[Point]:
    """Yield the values of a stage's outermost loops."""
    yield from itertools.product(*(range(p.extent) for p in tiling.loops[:depth]))


def points(tiling: StageTiling, box: Box, fixed: Point) -> list[Point]:
    """Return the points of a root's box that remain when its outermost loops have these values."""
    found = []
    for rest in itertools.product(*(range(p.extent) for p in tiling.loops[len(fixed) :])):
        at = dict(zip(DIMS, (lo for lo, _ in box), strict=True))
        for k, (loop, value) in enumerate(zip(tiling.loops, (*fixed, *rest), strict=True)):
            step = 1
            for inner in tiling.loops[k + 1 :]:
                step *= inner.extent if inner.dim == loop.dim else 1
            at[loop.dim] += value * step
        if all(lo <= at[d] <= hi for d, (lo, hi) in zip(DIMS, box, strict=True)):
            found.append(tuple(at[d] for d in DIMS))
    return found


def block_depth(tiling: StageTiling) -> int:
    """Return the number of block loops."""
    return len(tiling.of_kind(LoopKind.BLOCK))
