"""Hardware counters from the CSV of ``ncu``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autosched import InputError
from autosched.search.bottleneck.classification import classify
from autosched.search.bottleneck.kernel_profile import MemoryLevel
from autosched.search.bottleneck.ncu_counters import (
    METRICS,
    STALL_METRICS,
    read_barrier_stalls,
    read_counters,
)

SAMPLE = Path(__file__).with_name("ncu_sample.csv")
DRAM, L2, L1, SHARED = MemoryLevel


def test_the_mean_of_two_launches_and_scaled_units() -> None:
    kernels = read_counters(SAMPLE)
    assert set(kernels) == {"smoother7pt_sweep_1", "smoother7pt_sweep_2"}
    p = kernels["smoother7pt_sweep_1"]
    assert p.seconds == pytest.approx(110e-6) and p.kind == "cuda" and p.registers == 26
    assert p.flops == pytest.approx(3e6 + 2e6 + 2 * 5e6)
    assert p.traffic[DRAM].bytes == pytest.approx(134.2e6 + 134.2e6)
    assert p.traffic[L2].bytes == pytest.approx(604e6)
    assert p.traffic[SHARED].bytes == 128 * 1000
    assert p.traffic[DRAM].seconds == pytest.approx(0.8 * 110e-6)
    assert p.compute_seconds == pytest.approx(0.25 * 110e-6)
    assert p.intensity(DRAM) == pytest.approx(15e6 / 268.4e6)
    assert classify(p).text("cuda") == "bandwidth-bound at DRAM"
    assert classify(kernels["smoother7pt_sweep_2"]).text("cuda") == "latency-bound"


def test_the_sample_has_every_metric() -> None:
    text = SAMPLE.read_text()
    assert all(metric in text for metric in METRICS)
    assert text.startswith("==PROF==")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: "==PROF== Disconnected\n", r"has no header with the columns ID, Kernel Name, .* ncu --csv"),
        (lambda t: t.splitlines()[2] + "\n", "has no kernels: profile a program that launches some"),
        (
            lambda t: "\n".join(line for line in t.splitlines() if "lts__t_bytes" not in line),
            r"lacks lts__t_bytes.sum of kernel smoother7pt_sweep_1: profile with --metrics gpu__time_duration",
        ),
        (
            lambda t: re.sub(r'"lts__t_bytes.sum","(\w+)","[^"]*"', r'"lts__t_bytes.sum","\1","n/a"', t, count=1),
            r"line \d+: lts__t_bytes.sum of kernel smoother7pt_sweep_1 is 'n/a', expected a number",
        ),
    ],
)
def test_unusable_files_are_refused(tmp_path: Path, change, message: str) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "counters.csv"
    file.write_text(change(SAMPLE.read_text()))
    with pytest.raises(InputError, match=message):
        read_counters(file)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read counters from .*none.csv"):
        read_counters(tmp_path / "none.csv")


def test_barrier_stalls_are_weighted_by_time(tmp_path: Path) -> None:
    file = tmp_path / "stalls.csv"
    header = "ID,Kernel Name,Metric Name,Metric Unit,Metric Value"
    kernels = (("a", 30, "usecond", 2.0, 10.0), ("b", 10_000, "nsecond", 6.0, 8.0), ("c", 0, "usecond", 0.0, 0.0))
    lines = [
        f'{k},"{name}(float *)",{metric},{unit},{value}'
        for k, (name, took, time_unit, wait, latency) in enumerate(kernels)
        for metric, unit, value in zip(STALL_METRICS, (time_unit, "", ""), (took, wait, latency), strict=True)
    ]
    file.write_text("\n".join([header, *lines]))
    assert read_barrier_stalls(file) == pytest.approx((30 * 0.2 + 10 * 0.75) / 40)
    file.write_text("\n".join([header, *lines[:1]]))
    with pytest.raises(InputError, match=f"lacks {STALL_METRICS[1]} of kernel a: profile with --metrics gpu__time"):
        read_barrier_stalls(file)
    file.write_text("\n".join([header, *lines[:1], lines[1].replace("2.0", "n/a")]))
    with pytest.raises(InputError, match="is 'n/a', expected a number"):
        read_barrier_stalls(file)
