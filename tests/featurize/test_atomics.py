"""Features of atomic updates, against counts of the traced emulator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import RFactor
from autosched.analysis.rewrites.rfactor import apply_rfactors
from autosched.featurize.accesses.memory_traffic import ATOMIC_CONFLICTS
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.schema import INDEX
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch import SHARED_THREADS, ComputeLocation, KernelSketch, member_dims, shared_tile
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.featurize.validation import app_problem
from autosched.schedule.types import Level, LoopKind, StageId
from tests.analysis.test_rfactor import H200, histogram
from tests.featurize.random_kernels import checker_of

UPDATE = StageId("hist_shared", 1)


def view_of(rows: int = 140, columns: int = 220, pieces: int = 5) -> BoundPipeline:
    bound = bind(histogram(), {"image": (rows, columns)})
    return apply_rfactors(bound, (RFactor("hist", 1, (("r.y", pieces),), atomic=True),))


def in_blocks() -> KernelSketch:
    part = StageId("hist_part")
    return KernelSketch((part,), (ComputeLocation("hist_shared", Level.BLOCK, part),))


def params(pieces: int = 1) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array([pieces, 128, 1, 2, 1, 128], np.int64)


def test_threads_divide_the_reductions_innermost_first() -> None:
    view = view_of()
    assert member_dims(view, UPDATE) == ("k0", "b", "share.j0", "r.x")
    assert shared_tile(view, UPDATE) == ((1, 1), (1, 1), (2, 14), (110, 2))
    for rows, columns in ((1, 1), (7, 5), (1000, 3), (3, 100_000)):
        *_, (outer, _), (inner, _) = shared_tile(view_of(5 * rows, columns), UPDATE)
        assert outer * inner <= SHARED_THREADS


@pytest.mark.parametrize(("rows", "columns"), [(140, 220), (35, 7), (5, 1)])
def test_kernels_are_described_as_they_are_built(rows: int, columns: int) -> None:
    view = view_of(rows, columns)
    kernel = build_kernel(Featurizer(view, H200).model(in_blocks()), params())
    update = next(t for t in kernel.fused[0].tilings if t.stage == UPDATE)
    assert update.extent("r.x") >= columns
    assert update.extent("share.j0") >= -(-rows // 5)
    sketch, found = describe_kernel(view, kernel)
    assert sketch == in_blocks()
    assert found == tuple(params().tolist())


def test_a_tile_of_its_own_survives_a_round_trip() -> None:
    view = view_of()
    kernel = build_kernel(Featurizer(view, H200).model(in_blocks()), params())
    (member,) = kernel.fused
    other = [t for t in member.tilings if t.stage != UPDATE]
    update = next(t for t in member.tilings if t.stage == UPDATE)
    changed = tuple(replace(p, extent={110: 32, 2: 7}.get(p.extent, p.extent)) for p in update.loops)
    mine = replace(kernel, fused=(replace(member, tilings=(*other, replace(update, loops=changed))),))
    sketch, found = describe_kernel(view, mine)
    assert sketch != in_blocks()
    again = build_kernel(Featurizer(view, H200).model(sketch), np.array(found, np.int64))
    threads = {p.dim: p.extent for p in again.fused[0].tilings[1].of_kind(LoopKind.THREAD)}
    assert threads["r.x"] == 32


def test_atomic_updates_of_one_element_are_serialised() -> None:
    view = view_of()
    found = Featurizer(view, H200).model(in_blocks()).evaluate(params()[None]).features[0]
    rows = {s: k for k, s in enumerate(Featurizer(view, H200).model(in_blocks()).rows)}
    update = found[rows[UPDATE]]
    # of 128 x 2 threads 110 x 2 take part, which are 8 warps of 28 points each
    assert update[INDEX["num_shared_mem_stores_per_block"]] == pytest.approx(8 * 28 * ATOMIC_CONFLICTS)
    assert update[INDEX["num_shared_mem_loads_per_block"]] == 0


def test_random_locations_and_tiles() -> None:
    problem = app_problem("hist")
    bound = apply_rfactors(problem.bound, (RFactor("histogram_rows", 1, (), atomic=True),))
    checker = checker_of(replace(problem, bound=bound))
    levels = set()
    for seed in (104, 105):
        drawn = checker.draw(np.random.default_rng(seed))
        assert drawn is not None
        levels.add(drawn[1].levels["histogram_rows_shared"])
        checker.check(seed)
    assert levels == {Level.BLOCK, Level.ROOT}
    tally = checker.tally
    assert tally.failures == []
    assert tally.equal["threads"] == tally.compared["threads"] == tally.kernels > 0
    assert all(tally.equal[w] == n for w, n in tally.compared.items() if w.endswith("exact"))
