"""Small random programs whose loops carry a dependence: recurrences along rows, columns and diagonals."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched import Func, Input, Pipeline, RDom, Var
from autosched import max as maximum
from autosched import min as minimum
from autosched.lang.dtypes import float32, float64, int16, int32, int64, uint8
from autosched.lang.expr import Expr

DTYPES = (float32, float64, int32, int16, uint8, int64)
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 11, 12, 15, 16, 17, 24, 31)
MOST_POINTS = 1500


@dataclass(frozen=True)
class Recurrence:
    """A pipeline with its inputs."""

    pipeline: Pipeline
    image: np.ndarray[Any, Any]


def random_recurrence(seed: int) -> Recurrence:
    """Return a Func that is updated from points of its own, which lie at random distances."""
    rng = random.Random(seed)
    dtype = rng.choice(DTYPES)
    rank = rng.choice((1, 2, 2, 2, 3))
    margins = [[rng.randint(0, 2) for _ in range(2)] for _ in range(rank)]
    extents = [rng.choice(EXTENTS) for _ in range(rank)]
    while np.prod([e + sum(m) for e, m in zip(extents, margins, strict=True)]) > MOST_POINTS:
        extents = [max(1, e // 2) for e in extents]
    shape = tuple(e + sum(m) for e, m in zip(extents, margins, strict=True))
    names = "abc"[:rank]
    order = rng.sample(names, rank)  # the first of these loops is the outermost
    r = RDom("r", **{n: (margins[k][0], margins[k][0] + extents[k]) for n in order for k in [names.index(n)]})
    own = Var("own")
    lanes = rng.choice((0, 0, 5, 16))
    image, f = Input("image", dtype, rank), Func("f")
    around = tuple(Var(n) for n in names)
    f[(*around, own) if lanes else around] = image[around]

    def point() -> tuple[Expr, ...]:
        at = [getattr(r, n) + rng.randint(-before, after) for n, (before, after) in zip(names, margins, strict=True)]
        return (*at, own) if lanes else tuple(at)

    combine = rng.choice((lambda a, b: a + b, maximum, minimum))
    here = tuple(getattr(r, n) for n in names)
    value: Expr = f[point()]
    for _ in range(rng.choice((0, 0, 1, 2))):
        value = combine(value, f[point()])
    f[(*here, own) if lanes else here] = combine(value, image[here])
    box = {n: (0, e) for n, e in zip(names, shape, strict=True)} | ({"own": (0, lanes)} if lanes else {})
    numbers = np.random.default_rng(seed).integers(0, 4, shape)
    return Recurrence(Pipeline(f.over(**box)), numbers.astype(dtype.numpy))
