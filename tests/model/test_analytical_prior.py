"""The parts of the analytical model combine to its times."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
import torch

from autosched.analysis.bind import bind
from autosched.apps import get_app
from autosched.featurize import assemble
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.schema import INDEX
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.featurize.tables.pipeline_tables import BatchEvaluation
from autosched.model.predict.analytical_prior import analytical_seconds, prior_for
from autosched.model.predict.gpu_unit_times import DRAM_SHARE, GPU_PARTS, gpu_parts
from autosched.model.predict.prior_version import prior_version
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.search.cost import gpu_analytical
from autosched.search.cost.cpu import analytical, coefficients, stage_costs
from autosched.search.cost.cpu.coefficients import RATES
from autosched.search.cost.gpu_analytical import AnalyticalModel, analytical_model
from autosched.target import Target, get_target

H200 = get_target("h200")


def evaluated(target: Target) -> BatchEvaluation:
    """Return the kernels of random schedules of a small app."""
    app = get_app("unsharp")
    pipeline, params = app.configure({})
    bound = bind(pipeline, app.shapes(app.small_sizes), params)
    featurizer = Featurizer(bound, target)
    schedules = [sample_schedule(bound, target, np.random.default_rng(seed)) for seed in range(3)]
    found = [describe_kernel(bound, k) for s in schedules for k in s.kernels]
    models = [featurizer.model(sketch) for sketch, _ in found]
    return featurizer.evaluate(models, [np.array([p], np.int64) for _, p in found])


def test_parts_of_a_cpu_combine_to_the_analytical_time() -> None:
    target = get_target("cpu")
    found, prior = evaluated(target), prior_for(target)
    parts = torch.from_numpy(prior.parts(found))
    expected = analytical_model(target).cost(found)
    np.testing.assert_allclose(prior.combined(parts), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ["h200", "cpu"])
def test_last_part_is_the_analytical_time(name: str) -> None:
    target = get_target(name)
    found, prior = evaluated(target), prior_for(target)
    parts = prior.parts(found)
    assert parts.shape == (found.batch.count, len(prior.names))
    np.testing.assert_allclose(analytical_seconds(torch.from_numpy(parts)), analytical_model(target).cost(found))


def test_components_of_the_gpu_model_are_among_the_parts() -> None:
    found, prior = evaluated(H200), prior_for(H200)
    parts = dict(zip(prior.names, prior.parts(found).T, strict=True))
    for k, name in enumerate(gpu_analytical.COMPONENTS):
        np.testing.assert_array_equal(
            parts[f"analytical_{name}"], AnalyticalModel(H200).components(found.features)[:, k]
        )


def test_time_on_a_gpu_is_at_least_each_part() -> None:
    """Units overlap, chains add up, and the launch is added."""
    prior = prior_for(H200)
    for k, name in enumerate(GPU_PARTS):
        parts = torch.full((1, len(prior.names)), 1e-6)
        before = prior.combined(parts)
        parts[0, k] = 1e-4
        after = prior.combined(parts)
        assert 0.99e-4 < float(after) < 1.2e-4, name
        assert after > before


@pytest.mark.parametrize("name", ["h200", "cpu"])
def test_other_parts_are_not_combined(name: str) -> None:
    prior = prior_for(get_target(name))
    parts = torch.rand(3, len(prior.names))
    expected = prior.combined(parts)
    parts[:, prior.corrected :] = 9
    torch.testing.assert_close(prior.combined(parts), expected)


@pytest.mark.parametrize("name", ["h200", "cpu"])
def test_combining_has_derivatives_everywhere(name: str) -> None:
    prior = prior_for(get_target(name))
    parts = torch.zeros(1, len(prior.names), requires_grad=True)
    prior.combined(parts).sum().backward()
    assert parts.grad is not None
    assert torch.isfinite(parts.grad).all()


@pytest.mark.parametrize("kind", ["cuda", "cpu"])
def test_version_is_reproducible(kind: str) -> None:
    first = prior_version(kind)
    prior_version.cache_clear()
    assert prior_version(kind) == first


def test_version_changes_with_the_analytical_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Learned corrections of other times are wrong."""
    versions = prior_version("cuda"), prior_version("cpu")
    prior_version.cache_clear()
    monkeypatch.setattr(gpu_analytical, "STEP_INSTRUCTIONS", gpu_analytical.STEP_INSTRUCTIONS + 1)
    monkeypatch.setitem(coefficients.CPU_RATES, "rows", 2 * coefficients.CPU_RATES["rows"])
    changed = prior_version("cuda"), prior_version("cpu")
    prior_version.cache_clear()
    assert len({*versions, *changed}) == 4


def test_version_changes_with_strip_mining(monkeypatch: pytest.MonkeyPatch) -> None:
    version = prior_version("cpu")
    prior_version.cache_clear()
    monkeypatch.setattr(analytical, "strip_lengths", lambda lanes, _sums_bytes: np.zeros_like(lanes))
    changed = prior_version("cpu")
    prior_version.cache_clear()
    assert changed != version


def without_mask_widths(_stage: object) -> defaultdict[int, float]:
    return defaultdict(lambda: 1.0)


def doubled(counts: Any) -> Any:
    return lambda *args: 2 * np.asarray(counts(*args))


@pytest.mark.parametrize(
    ("kind", "module", "name", "changed"),
    [
        ("cpu", stage_costs, "_mask_widths", without_mask_widths),
        ("cpu", stage_costs, "_plain_cost", doubled(stage_costs._plain_cost)),
        ("cuda", assemble, "float_instructions", doubled(assemble.float_instructions)),
    ],
)
def test_version_changes_with_the_counts(
    kind: str, module: Any, name: str, changed: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights learned corrections of times from the counts of their day."""
    before = prior_version.__wrapped__(kind)
    monkeypatch.setattr(module, name, changed)
    assert prior_version.__wrapped__(kind) != before


def test_load_latency_is_that_of_loops_or_registers() -> None:
    prior = prior_for(H200)
    seconds = {"chain_global": 2e-6, "chain_registers": 3e-6, "chain_shared": 1e-6}
    parts = torch.tensor([[seconds.get(name, 0.0) for name in prior.names[: prior.corrected]]], dtype=torch.float64)
    np.testing.assert_allclose(prior.combined(parts), 3e-6 + 1e-6, rtol=1e-3)


def test_stage_of_few_warps_delays_a_block() -> None:
    features = evaluated(H200).features[:1].copy()
    active, part = INDEX["num_active_warps_per_block"], GPU_PARTS.index("chain_instructions")
    assert (features[:, :, active] > 0).any()
    before = gpu_parts(features, H200)
    features[:, :, active] /= 2
    after = gpu_parts(features, H200)
    assert before[0, part] > 0
    assert after[0, part] == pytest.approx(2 * before[0, part])
    np.testing.assert_array_equal(np.delete(after, part, axis=1), np.delete(before, part, axis=1))


def test_intermediates_hit_the_second_level_cache() -> None:
    def dram(inputs: float, others: float) -> float:
        features = evaluated(H200).features[:1].copy()
        features[:, :, INDEX["unique_global_bytes_read_by_kernel"]] = 0
        features[:, :, INDEX["global_bytes_written_by_kernel"]] = 0
        features[:, 0, INDEX["unique_global_bytes_read_by_kernel"]] = inputs + others
        features[:, 0, INDEX["unique_input_bytes_read_by_kernel"]] = inputs
        seconds = float(gpu_parts(features, H200)[0, GPU_PARTS.index("dram")])
        return seconds * DRAM_SHARE * H200.dram_bytes_per_s

    small = H200.l2_bytes / 8
    assert dram(small, 0.0) == dram(small, small) == pytest.approx(small)
    assert dram(0.0, 8 * H200.l2_bytes) == pytest.approx(8 * H200.l2_bytes * (1 - 1 / 16))


def test_version_of_a_cpu_depends_on_its_own_coefficients(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = [("cuda", ""), ("cpu", ""), *(("cpu", processor) for processor in RATES)]
    before = [prior_version.__wrapped__(*kind) for kind in kinds]
    assert len(set(before)) == len(kinds)
    for processor, rates in list(RATES.items()):
        monkeypatch.setitem(coefficients.RATES, processor, {**rates, "rows": 2 * rates["rows"]})
        after = [prior_version.__wrapped__(*kind) for kind in kinds]
        monkeypatch.undo()
        changed = [kind for kind, one, other in zip(kinds, before, after, strict=True) if one != other]
        assert changed == [("cpu", processor)]
