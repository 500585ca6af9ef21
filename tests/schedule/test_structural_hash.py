"""Structural hashes: the layer of each property, and refinement with depth."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.schedule.io.structural_hash import structural_hash
from autosched.schedule.types import (
    ComputeAt,
    FusedProducer,
    Inlined,
    Kernel,
    Level,
    Loop,
    LoopKind,
    Root,
    Schedule,
    StageId,
    StageTiling,
)

BLOCK, WARP, THREAD, SERIAL, REDUCTION = LoopKind
DEEPEST = 9
OUT = StageId("out")


def tiling(func: str, *loops: tuple[LoopKind, str, int], number: int = 0) -> StageTiling:
    return StageTiling(StageId(func, number), tuple(Loop(d, k, n) for k, d, n in loops))


ROOT = tiling("out", (BLOCK, "y", 12), (BLOCK, "x", 3), (THREAD, "x", 32), (THREAD, "y", 4), (SERIAL, "y", 2))
SHARED = FusedProducer(
    (tiling("gray", (THREAD, "x", 32), (THREAD, "y", 4), (SERIAL, "y", 3)),), ComputeAt(Level.BLOCK, OUT, 2), ("y", "x")
)
SUM = FusedProducer(
    (tiling("sum", (SERIAL, "y", 1)), tiling("sum", (REDUCTION, "r.k", 5), number=1)),
    ComputeAt(Level.THREAD, OUT, 4),
    ("y", "x"),
)
INNER = FusedProducer((tiling("dx", (SERIAL, "y", 2)),), ComputeAt(Level.THREAD, StageId("gray"), 2), ("y", "x"))
KERNEL = Kernel((Root(ROOT),), (SHARED, SUM, INNER), (Inlined("clamped", 3), Inlined("ratio", 1)))
OTHER = Kernel((Root(tiling("table", (BLOCK, "i", 8), (THREAD, "i", 32))),))


def with_root(*loops: tuple[LoopKind, str, int], stored: bool = True) -> Kernel:
    return replace(KERNEL, roots=(Root(tiling("out", *loops), stored),))


def with_member(old: FusedProducer, **changes: Any) -> Kernel:
    return replace(KERNEL, fused=tuple(replace(m, **changes) if m is old else m for m in KERNEL.fused))


# Each change with the least depth at which hashes differ.
CHANGES: dict[str, tuple[int | None, Kernel]] = {
    "level": (0, with_member(SUM, at=ComputeAt(Level.WARP, OUT, 4))),
    "host": (0, with_member(SUM, at=ComputeAt(Level.THREAD, StageId("gray"), 4))),
    "host's stage": (0, with_member(SUM, at=ComputeAt(Level.THREAD, StageId("out", 1), 4))),
    "member's stages": (0, with_member(SUM, tilings=SUM.tilings[:1])),
    "member stored": (0, with_member(SUM, materialised=True)),
    "member inlined": (0, replace(KERNEL, fused=(SHARED, SUM), inlined=(*KERNEL.inlined, Inlined("dx", 2)))),
    "inlined no more": (0, replace(KERNEL, inlined=KERNEL.inlined[:1])),
    "root not stored": (0, replace(KERNEL, roots=(Root(ROOT, materialised=False),))),
    "second root": (0, replace(KERNEL, roots=(Root(ROOT), Root(replace(ROOT, stage=StageId("out", 1)))))),
    "vector dimension": (
        1,
        with_root((BLOCK, "y", 12), (BLOCK, "x", 3), (THREAD, "y", 4), (THREAD, "x", 32), (SERIAL, "y", 2)),
    ),
    "one dimension not split": (1, with_root((BLOCK, "y", 12), (BLOCK, "x", 3), (THREAD, "x", 32), (THREAD, "y", 4))),
    "kind of a loop": (
        1,
        with_root((BLOCK, "y", 12), (BLOCK, "x", 3), (THREAD, "x", 32), (THREAD, "y", 4), (SERIAL, "x", 2)),
    ),
    "enclosing loops": (1, with_member(SUM, at=ComputeAt(Level.THREAD, OUT, 5))),
    "blocks": (
        2,
        with_root((BLOCK, "y", 13), (BLOCK, "x", 3), (THREAD, "x", 32), (THREAD, "y", 4), (SERIAL, "y", 2)),
    ),
    "order of blocks": (
        2,
        with_root((BLOCK, "x", 3), (BLOCK, "y", 12), (THREAD, "x", 32), (THREAD, "y", 4), (SERIAL, "y", 2)),
    ),
    "threads": (
        3,
        with_root((BLOCK, "y", 12), (BLOCK, "x", 3), (THREAD, "x", 32), (THREAD, "y", 8), (SERIAL, "y", 2)),
    ),
    "serial loops": (
        4,
        with_root((BLOCK, "y", 12), (BLOCK, "x", 3), (THREAD, "x", 32), (THREAD, "y", 4), (SERIAL, "y", 3)),
    ),
    "order of serial and threads": (
        4,
        with_root((BLOCK, "y", 12), (BLOCK, "x", 3), (THREAD, "x", 32), (SERIAL, "y", 2), (THREAD, "y", 4)),
    ),
    "member's threads": (
        4,
        with_member(SHARED, tilings=(tiling("gray", (THREAD, "x", 16), (THREAD, "y", 4), (SERIAL, "y", 3)),)),
    ),
    "member's serial loops": (
        5,
        with_member(SHARED, tilings=(tiling("gray", (THREAD, "x", 32), (THREAD, "y", 4), (SERIAL, "y", 4)),)),
    ),
    "member's reduction loops": (
        5,
        with_member(SUM, tilings=(SUM.tilings[0], tiling("sum", (REDUCTION, "r.k", 6), number=1))),
    ),
    "storage order": (5, with_member(SHARED, storage_order=("x", "y"))),
    "member's member": (6, with_member(INNER, tilings=(tiling("dx", (SERIAL, "y", 3)),))),
    "calls": (None, replace(KERNEL, inlined=(Inlined("clamped", 4), Inlined("ratio", 1)))),
    "listing order": (None, replace(KERNEL, fused=KERNEL.fused[::-1], inlined=KERNEL.inlined[::-1])),
    "loop of one iteration": (
        None,
        with_root(
            (BLOCK, "y", 12), (BLOCK, "x", 3), (THREAD, "x", 32), (THREAD, "y", 4), (SERIAL, "y", 2), (SERIAL, "x", 1)
        ),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_first_depth_that_sees_a_change(name: str) -> None:
    first, changed = CHANGES[name]
    differs = [structural_hash((changed, OTHER), d) != structural_hash((KERNEL, OTHER), d) for d in range(DEEPEST)]
    assert differs == [first is not None and d >= first for d in range(DEEPEST)]


def test_schedules_are_their_kernels_in_any_order() -> None:
    for depth in range(DEEPEST):
        assert structural_hash(Schedule("pipeline", (KERNEL, OTHER)), depth) == structural_hash((OTHER, KERNEL), depth)
        assert structural_hash([KERNEL], depth) != structural_hash((KERNEL, OTHER), depth)
        assert structural_hash([KERNEL], depth) != structural_hash((KERNEL, KERNEL), depth)


def test_partial_schedules() -> None:
    homeless = replace(KERNEL, fused=(INNER, SUM))  # the host of INNER is not decided
    hashes = [structural_hash(kernels, 3) for kernels in ((), (OTHER,), (homeless,))]
    assert len(set(hashes)) == 3
    circle = tuple(replace(m, at=ComputeAt(Level.THREAD, StageId(o), 0)) for m, o in ((SHARED, "dx"), (INNER, "gray")))
    assert structural_hash([replace(KERNEL, fused=circle)], DEEPEST) != structural_hash([KERNEL], DEEPEST)


def test_hashes_below_depth_zero_are_equal() -> None:
    assert structural_hash([KERNEL], -1) == structural_hash([CHANGES["level"][1]], -1) == structural_hash([KERNEL], -7)


def test_all_processes_agree() -> None:
    hashes = [structural_hash((KERNEL, OTHER), d) for d in range(DEEPEST)]
    assert all(0 <= h < 2**64 for h in hashes)
    code = (
        "import json; from autosched.schedule.types import *; from autosched.schedule.io.structural_hash import *; "
        f"k = {_as_code((KERNEL, OTHER))}; print(json.dumps([structural_hash(k, d) for d in range({DEEPEST})]))"
    )
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        assert json.loads(done.stdout) == hashes


def _as_code(value: object) -> str:
    """Return the Python expression of schedule types."""
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if is_dataclass(value):
        return f"{type(value).__name__}({', '.join(_as_code(getattr(value, f.name)) for f in fields(value))})"
    if type(value) is tuple:
        return f"({''.join(f'{_as_code(v)}, ' for v in value)})"
    return repr(value)


Change = Callable[[random.Random, Kernel], Kernel]


def _somewhere(change: Callable[[random.Random, StageTiling], StageTiling]) -> Change:
    """Return a change of one tiling of a kernel."""

    def apply(rng: random.Random, kernel: Kernel) -> Kernel:
        chosen = rng.choice(kernel.tilings())

        def visit(t: StageTiling) -> StageTiling:
            return change(rng, t) if t is chosen else t

        members = tuple(replace(m, tilings=tuple(map(visit, m.tilings))) for m in kernel.fused)
        return replace(kernel, roots=tuple(replace(r, tiling=visit(r.tiling)) for r in kernel.roots), fused=members)

    return apply


def _resize(rng: random.Random, t: StageTiling) -> StageTiling:
    k = rng.randrange(len(t.loops))
    return replace(t, loops=(*t.loops[:k], replace(t.loops[k], extent=rng.choice((1, 2, 3))), *t.loops[k + 1 :]))


def _reorder(rng: random.Random, t: StageTiling) -> StageTiling:
    return replace(t, loops=tuple(rng.sample(t.loops, len(t.loops))))


def _some_member(change: Callable[[random.Random, FusedProducer], FusedProducer]) -> Change:
    def apply(rng: random.Random, kernel: Kernel) -> Kernel:
        k = rng.randrange(len(kernel.fused))
        return replace(kernel, fused=(*kernel.fused[:k], change(rng, kernel.fused[k]), *kernel.fused[k + 1 :]))

    return apply


def _move(rng: random.Random, m: FusedProducer) -> FusedProducer:
    hosts = [StageId(f) for f in ("out", "gray", "dx") if f != m.func]
    return replace(m, at=ComputeAt(rng.choice((Level.BLOCK, Level.THREAD)), rng.choice(hosts), rng.randrange(6)))


def _transpose(rng: random.Random, m: FusedProducer) -> FusedProducer:
    return replace(m, storage_order=m.storage_order[::-1])


def _call(rng: random.Random, kernel: Kernel) -> Kernel:
    return replace(kernel, inlined=tuple(replace(i, calls=rng.randrange(1, 3)) for i in kernel.inlined))


TILES: tuple[Change, ...] = (_somewhere(_resize), _somewhere(_reorder), _some_member(_transpose), _call)


def _mutated(rng: random.Random, kernel: Kernel, changes: Iterable[Change]) -> Kernel:
    listed = tuple(changes)
    for _ in range(rng.randrange(4)):
        kernel = rng.choice(listed)(rng, kernel)
    return kernel


@given(st.randoms(use_true_random=False), st.randoms(use_true_random=False))
@settings(max_examples=300, deadline=None)
def test_deeper_hashes_refine_shallower_ones(a: random.Random, b: random.Random) -> None:
    changes = (*TILES, _some_member(_move))
    first, second = (_mutated(rng, KERNEL, changes) for rng in (a, b))
    equal = [structural_hash([first], d) == structural_hash([second], d) for d in range(-1, DEEPEST)]
    assert equal == sorted(equal, reverse=True)


@given(st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_placement_does_not_depend_on_tiles(rng: random.Random) -> None:
    assert structural_hash([_mutated(rng, KERNEL, TILES)], 0) == structural_hash([KERNEL], 0)


@given(st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_placement_depends_on_compute_locations(rng: random.Random) -> None:
    moved = _mutated(rng, KERNEL, (_some_member(_move),))
    where = [(m.func, m.at.level, m.at.host) for m in moved.fused]
    same = where == [(m.func, m.at.level, m.at.host) for m in KERNEL.fused]
    assert (structural_hash([moved], 0) == structural_hash([KERNEL], 0)) == same
