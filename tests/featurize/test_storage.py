"""Shared memory, pitches and block shapes of random kernels equal the plan that lowering makes from their schedule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.featurize.regions.storage import batched_first_fit, shared_strides
from autosched.schedule.kernel.bank_conflicts import column_accessed
from autosched.schedule.kernel.memory_layout import BufferSlot, first_fit, shared_layout
from autosched.schedule.planner import plan_kernel
from autosched.schedule.types import Level
from tests.featurize.random_kernels import drawn_kernels

APPS = {"harris": 4, "unsharp": 3, "bilateral_grid": 4, "local_laplacian": 1, "lens_blur": 1}
"""Number of random states of each app."""
requests = st.lists(st.tuples(st.integers(1, 300), st.integers(0, 3)), min_size=1, max_size=7)


@given(requests, st.sampled_from([1, 16]))
@settings(deadline=None)
def test_first_fit_is_the_placement_of_lowering(buffers: list[tuple[int, int]], align: int) -> None:
    placed = [BufferSlot(f"b{k}", size, k, k + life) for k, (size, life) in enumerate(buffers)]
    _, expected = first_fit(placed, align)
    absent = 0, 0, -1
    rows = np.array([[(size, p.first, p.last) for (size, _), p in zip(buffers, placed, strict=True)] + [absent]] * 2)
    found = batched_first_fit(rows[:, :, 0], rows[:, :, 1], rows[:, :, 2], align)
    assert found.tolist() == [expected, expected]


@pytest.mark.parametrize("name", APPS)
def test_geometry_of_random_kernels_matches_their_plan(name: str) -> None:
    members = 0
    for drawn in drawn_kernels(name, APPS[name]):
        model = drawn.featurizer.model(drawn.piece.sketch)
        found = model.evaluate(drawn.params)
        plan = plan_kernel(model.bound, drawn.kernel)
        assert tuple(found.geometry.block[0].tolist()) == plan.block
        assert found.geometry.blocks[0] == np.prod([p.extent for p in plan.grid])
        assert found.shared_bytes[0] == shared_layout(plan).total_bytes
        across = column_accessed(model.bound, drawn.kernel)
        for func, a in plan.allocations.items():
            members += 1
            extents = dict(zip(a.func.dims, found.geometry.extents[func][0].tolist(), strict=True))
            if a.level is Level.BLOCK:
                assert tuple(extents[d] for d in a.dims) == a.extents
                position = next(k for k, r in enumerate(model.rows) if r.func == func)
                kinds = drawn.featurizer.tables.kinds.nests.of(model.plan.nests[[position]])
                own = np.ones((1, drawn.featurizer.tables.kinds.dims), np.int64)
                own[0, : len(extents)] = list(extents.values())
                strides, count = shared_strides(kinds, own, np.array([func in across]))
                assert tuple(strides[0, a.func.dims.index(d)] for d in a.dims) == a.strides
                assert max(count[0], 1) == a.count
            else:
                assert np.prod(list(extents.values()), dtype=int) == a.count
    assert members > 0


def test_threads_of_each_nest_cover_its_points() -> None:
    for drawn in drawn_kernels("harris", 4):
        geometry = drawn.featurizer.model(drawn.piece.sketch).geometry(drawn.params)
        for nest in geometry.nests:
            if nest.level is not Level.THREAD:
                covered = nest.serial * (nest.threads - 1) + nest.partial
                assert covered.tolist() == nest.points.tolist()
            assert (geometry.active[geometry.nests.index(nest)] <= geometry.block).all()
