"""Operational intensities, against counts by hand and between their sources."""

from __future__ import annotations

import math

import pytest

import autosched
from autosched import Func, Input, Pipeline, ScheduledPipeline, Var, float32
from autosched.featurize.featurizer import Featurizer
from autosched.report.limits import kernel_limit
from autosched.report.prediction import predict
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.search.bottleneck.feature_counts import counted_flops, repetitions
from autosched.search.bottleneck.kernel_profile import KernelProfile, LevelTraffic, MemoryLevel
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.search.strategies.protocol import STRATEGIES
from autosched.target import get_target
from tests.schedule.scans import seam
from tests.search.bottleneck.kernels import feature_diagnoses, polynomial, scheduled_app, simulated_diagnoses

DRAM, L2, L1, SHARED = MemoryLevel
H200 = get_target("h200")
x, y = Var("x"), Var("y")


@pytest.mark.parametrize("target", ["h200", "cpu"])
def test_a_pointwise_kernel_moves_each_element_once(target: str) -> None:
    points = 512 * 512
    s = autosched.schedule(polynomial(5), {"image": (512, 512)}, target, strategy="roots")
    (d,) = feature_diagnoses(s).values()
    profile = d.profile
    assert profile.flops == 10 * points
    if target == "h200":
        for level in (DRAM, L2, L1):  # a read and a write of 8 bytes
            assert profile.intensity(level) == pytest.approx(10 / 16)
        assert profile.intensity(SHARED) == math.inf and profile.balance(SHARED) == 0.0
        return
    assert profile.traffic[L2].bytes >= 16 * points > 0


def test_levels_of_a_stencil_count_what_each_of_them_moves() -> None:
    """A 3 by 3 stencil: DRAM moves each element once, L2 the halo of each block, L1 every load."""
    image, f = Input("image", float32, 2), Func("f")
    f[y, x] = sum((image[y + j, x + i] for j in (0, 1, 2) for i in (0, 1, 2) if i + j), image[y, x])
    s = autosched.schedule(
        Pipeline(f.over(y=(0, 1024), x=(0, 1024))), {"image": (1026, 1026)}, "h200", strategy="roots"
    )
    (d,) = feature_diagnoses(s).values()
    traffic = d.profile.traffic
    assert traffic[DRAM].bytes == pytest.approx(4 * (1024**2 + 1026**2))
    # L1: nine loads and a store, of 128 bytes a warp and a sector more where they are not aligned
    assert 10 * 4 <= traffic[L1].bytes / 1024**2 <= 10 * 4 * 5 / 4
    assert traffic[DRAM].bytes < traffic[L2].bytes < traffic[L1].bytes
    assert d.profile.flops == 8 * 1024**2


@pytest.mark.skipif(not have_nvrtc(), reason="the simulated device compiles")
@pytest.mark.parametrize("name", ["smoother7pt", "unsharp", "rhs4center"])
def test_features_and_simulated_device_count_alike(name: str) -> None:
    """Two counts with no code in common: L1 within a quarter, L2 and DRAM within a factor of two."""
    sizes = {"D": 64, "H": 128, "W": 128} if name != "unsharp" else {"H": 512, "W": 512}
    s = scheduled_app(name, sizes)
    simulated, features = simulated_diagnoses(s), feature_diagnoses(s)
    assert simulated.keys() == features.keys()
    for kernel, d in features.items():
        one, other = d.profile.traffic, simulated[kernel].profile.traffic
        assert one[L1].bytes == pytest.approx(other[L1].bytes, rel=0.25), kernel
        assert 0.5 < one[L2].bytes / other[L2].bytes < 2, kernel
        assert one[SHARED].bytes == pytest.approx(other[SHARED].bytes, rel=0.25, abs=1), kernel
        assert one[DRAM].bytes >= 0.9 * other[DRAM].bytes, kernel  # the simulated L2 keeps arrays between kernels


@pytest.mark.parametrize(("rows", "columns", "launches"), [(200, 900, 1), (50, 200_000, 49)])
def test_row_scans_count_every_step(rows: int, columns: int, launches: int) -> None:
    bound = seam(rows, columns)
    found = STRATEGIES["beam"].search(bound, H200).best
    s = ScheduledPipeline(bound, found, H200)
    (d,) = (d for k, d in enumerate(feature_diagnoses(s).values()) if repetitions(s.bound, found.kernels[k])[0] > 1)
    scan = next(k for k in found.kernels if repetitions(s.bound, k)[0] > 1)
    assert repetitions(s.bound, scan)[1] == launches
    assert d.profile.flops >= (rows - 1) * columns  # a sum at each point
    one = evaluated(Featurizer(s.bound, H200), scan).batch_evaluation
    assert d.profile.flops == pytest.approx(repetitions(s.bound, scan)[0] * counted_flops(one))


@pytest.mark.parametrize("name", ["unsharp", "sgemm", "hypterm", "conv_layer", "iir_blur"])
@pytest.mark.parametrize("strategy", ["roots", "beam"])
def test_counted_work_is_at_least_the_least_work(name: str, strategy: str) -> None:
    """Recomputed operations count, and bytes of DRAM are those that a kernel must move."""
    s = scheduled_app(name, strategy=strategy)
    predicted = predict(s.bound, s.schedule, s.target).kernels
    for kernel, p, d in zip(s.schedule.kernels, predicted, feature_diagnoses(s).values(), strict=True):
        limit = kernel_limit(s.bound, kernel, p, s.target)
        assert 0.98 * limit.flops <= d.profile.flops <= 5 * limit.flops
        assert d.profile.traffic[DRAM].bytes == pytest.approx(limit.bytes)


def test_balance_is_where_both_take_as_long() -> None:
    profile = KernelProfile("k", "cuda", "by hand", 2.0, 8.0, 0.5, {DRAM: LevelTraffic(4.0, 1.0)})
    assert profile.attainable_flops == 16.0
    assert profile.intensity(DRAM) == 2.0 and profile.balance(DRAM) == 4.0
    assert profile.intensity(DRAM) / profile.balance(DRAM) == profile.compute_seconds / profile.memory_seconds()
