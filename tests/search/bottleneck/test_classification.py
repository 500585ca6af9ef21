"""Classes of kernels by the roofline model."""

from __future__ import annotations

from dataclasses import replace

import pytest

import autosched
from autosched.search.bottleneck.classification import FASTER, LATENCY_SHARE, NEAR, Bottleneck, BottleneckKind, classify
from autosched.search.bottleneck.kernel_profile import KernelProfile, LevelTraffic, MemoryLevel
from tests.search.bottleneck.kernels import feature_diagnoses, polynomial

DRAM, L2, L1, SHARED = MemoryLevel


def profile(compute: float, seconds: float = 1.0, *, serial: bool = False, **levels: float) -> KernelProfile:
    traffic = {MemoryLevel[name]: LevelTraffic(1e9, time) for name, time in levels.items()}
    return KernelProfile("k", "cuda", "by hand", seconds, 1e9, compute, traffic, serial)


@pytest.mark.parametrize(
    ("p", "kind", "level", "undecided"),
    [
        (profile(0.2, DRAM=0.9, L2=0.5), BottleneckKind.BANDWIDTH, DRAM, False),
        (profile(0.2, DRAM=0.5, L2=0.9), BottleneckKind.BANDWIDTH, L2, False),
        (profile(0.2, DRAM=0.5, L1=0.9), BottleneckKind.BANDWIDTH, L1, False),
        (profile(0.2, DRAM=0.5, SHARED=0.9), BottleneckKind.BANDWIDTH, SHARED, False),
        (profile(0.9, DRAM=0.5), BottleneckKind.COMPUTE, None, False),
        (profile(0.7, DRAM=0.8), BottleneckKind.BANDWIDTH, DRAM, True),
        (profile(0.8, DRAM=0.7), BottleneckKind.COMPUTE, None, True),
        (profile(0.3, DRAM=0.5), BottleneckKind.LATENCY, None, False),
        (profile(0.1, DRAM=0.4, L2=0.3, serial=True), BottleneckKind.BANDWIDTH, DRAM, False),
        (profile(0.7), BottleneckKind.COMPUTE, None, False),
    ],
)
def test_the_busiest_resource_is_the_class(
    p: KernelProfile, kind: BottleneckKind, level: MemoryLevel | None, undecided: bool
) -> None:
    b = classify(p)
    assert (b.kind, b.level, b.undecided) == (kind, level, undecided)


def test_limits_are_those_of_the_constants() -> None:
    assert classify(profile(0.0, DRAM=LATENCY_SHARE)).kind is BottleneckKind.BANDWIDTH
    assert classify(profile(0.0, DRAM=LATENCY_SHARE - 1e-9)).kind is BottleneckKind.LATENCY
    assert not classify(profile(0.9 / NEAR, DRAM=0.9)).undecided
    assert classify(profile(0.9 / NEAR + 1e-9, DRAM=0.9)).undecided


def test_differencing_decides() -> None:
    near = profile(0.8, DRAM=0.7, L1=0.65)
    assert classify(near).undecided
    faster = classify(near, FASTER - 0.01)
    assert (faster.kind, faster.level, faster.undecided) == (BottleneckKind.BANDWIDTH, DRAM, False)
    same = classify(near, 1.0)
    assert (same.kind, same.level, same.undecided) == (BottleneckKind.COMPUTE, None, False)
    not_dram = classify(replace(near, compute_seconds=0.3), 1.0)
    assert (not_dram.kind, not_dram.level) == (BottleneckKind.BANDWIDTH, L1)


def test_differencing_says_nothing_of_the_caches_that_it_avoids() -> None:
    """A confined kernel avoids L2 as well on a CPU, and a GPU's loads: the longer of both levels is the bottleneck."""
    p = profile(0.65, DRAM=0.4, L2=0.7, L1=0.5)
    assert classify(p, 0.5).level is L2
    assert classify(p, 1.0).level is L2  # the stores of a GPU
    assert classify(replace(p, kind="cpu"), 1.0).kind is BottleneckKind.COMPUTE


def test_operations_turn_a_pointwise_kernel_from_memory_to_compute() -> None:
    """The same array with more and more operations a point crosses the roofline's corner once."""
    classes: list[Bottleneck] = []
    for terms in (1, 4, 16, 40, 80, 160, 320):
        s = autosched.schedule(polynomial(terms), {"image": (4096, 4096)}, "h200", strategy="roots")
        (d,) = feature_diagnoses(s).values()
        classes.append(d.bottleneck)
    kinds = [c.kind for c in classes]
    assert kinds[0] is BottleneckKind.BANDWIDTH and classes[0].level is DRAM and not classes[0].undecided
    assert kinds[-1] is BottleneckKind.COMPUTE and not classes[-1].undecided
    assert BottleneckKind.LATENCY not in kinds
    assert kinds == sorted(kinds, key=[BottleneckKind.BANDWIDTH, BottleneckKind.COMPUTE].index)
    undecided = [k for k, c in enumerate(classes) if c.undecided]
    assert undecided and all(0 < k < len(classes) - 1 for k in undecided)


def test_text() -> None:
    b = Bottleneck(BottleneckKind.BANDWIDTH, L2, undecided=True)
    assert b.text("cuda") == "bandwidth-bound at L2, undecided"
    assert b.text("cpu") == "bandwidth-bound at the last-level cache, undecided"
    assert Bottleneck(BottleneckKind.LATENCY).text("cpu") == "latency-bound"
