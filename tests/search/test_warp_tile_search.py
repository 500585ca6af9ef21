"""Search for tiles of warps: legal kernels whose warps have the kernel's producers, taken where they are faster."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app
from autosched.featurize.featurizer import Featurizer
from autosched.lower.program import lower
from autosched.schedule.legality.validate import kernel_violations, violations
from autosched.schedule.types import Level, Schedule
from autosched.search.refine import warp_tiles
from autosched.search.refine.warp_tiles import WarpTileSearch
from autosched.search.settings import PAPER, SearchSettings
from autosched.search.strategies.protocol import Beam
from tests.featurize.random_kernels import H200, bound_app
from tests.lower.run_backends import assert_backends_agree
from tests.schedule.building import block, chain_pipeline, kernel, member, root, schedule
from tests.search.test_linear_threads import analytical_model, seconds_of

SETTINGS = SearchSettings(passes=1, refine=0, mainloops=False, sliding_windows=False, linear_threads=False)


def chain(height: int = 96, width: int = 128) -> tuple[BoundPipeline, Schedule]:
    """Return two stencils with the first in shared memory, in large blocks of few threads."""
    bound = bind(chain_pipeline(2), {"img": (height, width)})
    out = root("out", f"by={height // 32} bx={width // 32} tx=8 ty=2 sy=16 sx=4")
    tile = member(block("out", 2), "yx", f1="tx=8 ty=2 sy=17 sx=5")
    return bound, schedule(bound, kernel(bound, [out], [tile], ["img_clamped"]))


def search_of(bound: BoundPipeline) -> WarpTileSearch:
    return WarpTileSearch(bound, H200, analytical_model(H200), SETTINGS)


def test_a_slow_kernel_gets_tiles_of_warps(monkeypatch: pytest.MonkeyPatch) -> None:
    bound, made = chain()
    assert violations(bound, made, H200) == []
    costs = {k: seconds_of(k, Featurizer(bound, H200)) for k in made.kernels}
    better = search_of(bound).improved(made, costs)
    assert better is not None and better[1] < (1 - warp_tiles.LEAST_GAIN) * sum(costs.values())
    (found,) = better[0].kernels
    assert found.warp_loops and [m.at.level for m in found.fused] == [Level.WARP]
    assert violations(bound, better[0], H200) == []
    assert_backends_agree(bound, lower(bound, better[0]))
    monkeypatch.setattr(warp_tiles, "LEAST_GAIN", 1.0)
    assert search_of(bound).improved(made, costs) is None


@pytest.mark.parametrize("name", ["harris", "bilateral_grid", "unsharp"])
def test_kernels_of_apps_have_legal_variants(name: str) -> None:
    bound = bound_app(name)
    made = Beam(replace(SETTINGS, locations=("inline", "block"))).search(bound, H200).best
    found = 0
    for k in made.kernels:
        best = search_of(bound).fastest(k) if any(m.at.level is Level.BLOCK for m in k.fused) else None
        if best is not None:
            found += 1
            assert best.kernel.warp_loops and kernel_violations(bound, best.kernel, H200) == []
            assert np.prod([p.extent for p in best.kernel.warp_loops]) in warp_tiles.WARPS
            assert {m.func for m in best.kernel.fused} == {m.func for m in k.fused}
    assert found


def test_the_setting_is_off_by_default() -> None:
    assert not SearchSettings().warp_tiles and not PAPER.warp_tiles
    app = get_app("harris")
    bound = bind(app.build(), app.shapes(app.small_sizes))
    ranked = Beam(replace(SETTINGS, warp_tiles=True)).search(bound, H200).ranked
    assert all(violations(bound, r.schedule, H200) == [] for r in ranked)


def test_kernels_without_tiles_in_shared_memory_are_left_alone() -> None:
    bound = bind(chain_pipeline(2), {"img": (96, 128)})
    alone = schedule(bound, kernel(bound, [root("out", "by=12 bx=4 tx=32 ty=8")], (), ["f1", "img_clamped"]))
    assert search_of(bound).improved(alone, dict.fromkeys(alone.kernels, 1.0)) is None
