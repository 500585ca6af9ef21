"""Features of kernels whose warps have tiles of their own: those of blocks of one warp, but for occupancy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app
from autosched.featurize.emulator_counts import TracedProgram, counted
from autosched.featurize.featurizer import Evaluation
from autosched.featurize.schema import INDEX, NAMES
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel, described_points
from autosched.lower.program import lower
from autosched.schedule.kernel.warp_tiles import merge_warp_loops
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import Kernel
from autosched.search.evaluate.pruning_rules import REASONS, early_reasons
from autosched.search.settings import SearchSettings
from tests.featurize.random_kernels import H200, bound_app, states_of
from tests.lower.test_warp_tiles import blur_kernel, with_warp_tiles
from tests.schedule.building import blur, kernel, member, root, warp

OCCUPANCY = (
    "shared_mem_occupancy", "shared_mem_block_limit_factor", "max_warp_occupancy", "max_block_occupancy",
    "resident_blocks",
)  # fmt: skip
"""Features that depend on the warps of a block."""


def evaluated(bound: BoundPipeline, made: Kernel) -> Evaluation:
    """Return the features of one kernel."""
    sketch, params = describe_kernel(bound, made)
    featurizer = states_of(bound).evaluator.featurizer
    row = np.array([(*params, *described_points(bound, made))], np.int64)
    return featurizer.model(sketch).evaluate(row)


def random_kernels(name: str) -> list[tuple[BoundPipeline, Kernel]]:
    """Return kernels with random warp tiles of an app."""
    bound = bound_app(name)
    kernels: dict[Kernel, None] = {}
    for seed in range(4):
        drawn = sample_schedule(bound, H200, np.random.default_rng(seed), varied=seed > 0)
        made, _ = with_warp_tiles(bound, drawn, seed)
        kernels |= dict.fromkeys(k for k in made.kernels if k.warp_loops)
    return [(bound, k) for k in kernels]


@pytest.mark.parametrize("name", ["harris", "unsharp", "max_filter", "bilateral_grid"])
def test_all_but_occupancy_is_that_of_blocks_of_one_warp(name: str) -> None:
    found = random_kernels(name)
    assert len(found) > 2
    same = [k for n, k in INDEX.items() if n not in OCCUPANCY]
    for bound, made in found:
        single = merge_warp_loops(bound, made)
        assert describe_kernel(bound, made)[0].warps == tuple((p.dim, p.extent) for p in made.warp_loops)
        mine, other = evaluated(bound, made).features, evaluated(bound, single).features
        for k in same:
            np.testing.assert_array_equal(mine[..., k], other[..., k], err_msg=NAMES[k])


@pytest.mark.parametrize("name", ["harris", "unsharp"])
def test_the_emulator_counts_those_of_blocks_of_one_warp(name: str) -> None:
    app, bound = get_app(name), bound_app(name)
    for seed in range(2):
        made, count = with_warp_tiles(bound, sample_schedule(bound, H200, np.random.default_rng(seed)), seed)
        assert count
        single = replace(made, kernels=tuple(merge_warp_loops(bound, k) for k in made.kernels))
        inputs = {
            n: np.ascontiguousarray(a) for n, a in app.make_inputs({**app.small_sizes, "H": 61, "W": 131}).items()
        }
        programs = [TracedProgram.of(lower(bound, s, vectors=False), inputs, {}) for s in (made, single)]
        for k in range(len(made.kernels)):
            mine, other = (counted(p.launch(k, None)) for p in programs)
            assert mine == other


def test_occupancy_has_the_warps_of_a_block() -> None:
    bound = blur(512, 512)
    for warps, resident in ((1, 32), (4, 64), (8, 64)):
        loops = f"by={64 // warps} bx=16 wy={warps} sy=8 tx=32"
        made = kernel(
            bound, [root("out", loops)], [member(warp("out", 3), "yx", across="sy=10 tx=32")], ["img_clamped"]
        )
        assert kernel_violations(bound, made, H200) == []
        features = evaluated(bound, made).features[0, 0]
        value = {n: float(features[k]) for n, k in INDEX.items()}
        assert value["resident_blocks"] == resident  # tiles
        assert (value["num_blocks"], value["num_warps_per_block"], value["steps_per_block"]) == (1024, 1, 2)
        assert value["shared_mem_occupancy"] == pytest.approx(1280 * warps / H200.shared_per_block_optin)


def rebuilt(bound: BoundPipeline, made: Kernel) -> Kernel:
    """Return the kernel of a kernel's sketch and tile sizes."""
    sketch, params = describe_kernel(bound, made)
    return build_kernel(states_of(bound).evaluator.featurizer.model(sketch), np.array(params, np.int64))


def test_a_kernel_gives_its_sketch_back() -> None:
    for name in ("harris", "max_filter"):
        for bound, made in random_kernels(name):
            if made.fused and kernel_violations(bound, made, H200) == []:
                built = rebuilt(bound, made)
                assert built.warp_loops == made.warp_loops and not built.linear_threads
                assert rebuilt(bound, built) == built


def test_candidates_with_too_large_tiles_are_pruned() -> None:
    bound = blur()
    sketch, params = describe_kernel(bound, blur_kernel())
    featurizer = states_of(bound).evaluator.featurizer

    def reason(warps: int, **changes: int) -> str:
        model = featurizer.model(replace(sketch, warps=(("y", warps),)))
        row = np.array([params], np.int64)
        target = replace(H200, **changes)
        return REASONS[int(early_reasons(featurizer.evaluate([model], [row]), SearchSettings(), target)[0])]

    assert reason(4) == ""
    assert reason(4, shared_per_block_optin=4 * 576 - 1) == "more shared memory than a block can have"
    assert reason(33) == "more threads than a block can have"
    assert reason(4, warp_size=16) == "more threads than a block can have"
