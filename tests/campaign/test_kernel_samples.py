"""Schedules of every kind of kernel: drawn once, kept, checked on the device."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import pytest
from campaign import kernel_samples, kernels
from campaign.kernel_samples import KINDS_FILE, RANDOM, problems_to_sample, read_samples_of_kinds, samples_for
from campaign.schedule_coverage import Sample, drawn_samples

from autosched.runtime.compile.host_compiler import have_compiler
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.target import get_target
from tests.campaign.tiny_campaign import context, options, run

H200 = get_target("h200")


def test_samples_are_drawn_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = options(tmp_path)
    first = samples_for(context("kernels", chosen), time.monotonic() + 120.0)
    assert first
    assert all(s.name.startswith("blur/") and s.kinds for s in first)
    monkeypatch.setattr(kernel_samples, "do_parts", lambda *_, **__: pytest.fail("they are kept"))
    assert samples_for(context("kernels", chosen), time.monotonic() + 120.0) == first


def test_schedules_that_are_no_longer_legal_are_drawn_anew(tmp_path: Path) -> None:
    chosen = options(tmp_path)
    first = samples_for(context("kernels", chosen), time.monotonic() + 120.0)
    path = chosen.out_path / KINDS_FILE
    kernel_samples.write_samples_of_kinds(path, [Sample("blur/0", first[0].problem, "{}", frozenset({"scan"}))])
    assert samples_for(context("kernels", chosen), time.monotonic() + 120.0) == first
    path.write_bytes(gzip.compress(b"[1]"))
    with pytest.raises(ValueError, match=rf"{KINDS_FILE} is damaged"):
        read_samples_of_kinds(path)


def test_random_problems_cover_kinds_that_few_apps_have(tmp_path: Path) -> None:
    problems = problems_to_sample(options(tmp_path, apps=()))
    assert len([name for name in problems if name.rpartition(" ")[0] in RANDOM]) == 2 * len(RANDOM)
    found = {kind for name in ("time loop 0", "rows 0", "recurrence 1", "bfloat16 1", "scatter 0")
             for s in drawn_samples(name, problems[name], H200) for kind in s.kinds}  # fmt: skip
    assert found >= {"time tile", "bfloat16", "scan", "scatter", "reduction"}


def test_warp_and_hybrid_tiles_and_windows_in_registers_are_kinds(tmp_path: Path) -> None:
    problems = problems_to_sample(options(tmp_path, apps=("unsharp", "harris")))
    found = {kind for name, p in problems.items() for s in drawn_samples(name, p, H200) for kind in s.kinds}
    assert found >= {"warp tiles", "hybrid tile", "linear threads", "window in registers", "time tile"}


@pytest.mark.skipif(not have_compiler("c++"), reason="no C++ compiler")
def test_samples_agree_with_the_interpreter_in_the_emulator(tmp_path: Path) -> None:
    chosen = options(tmp_path, target="emulator")
    outcome, step_context = run("kernels", chosen, seconds=300.0)
    assert outcome.finished, outcome.message
    assert outcome.failures == 0
    verdicts = step_context.parts["blur"]["wrong"]
    assert verdicts
    assert not any(verdicts.values())
    assert outcome.message.endswith("0 wrong")


def test_problems_without_samples_are_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "samples_for", lambda *_: [])
    assert not run("kernels", options(tmp_path, target="emulator"))[0].finished


@pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed")
def test_samples_are_compiled_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "cache"))
    chosen = options(tmp_path, samples=0)
    outcome, _ = run("compile", chosen, seconds=200.0)
    assert outcome.finished, outcome.message
    samples = json.loads(gzip.decompress((chosen.out_path / KINDS_FILE).read_bytes()))
    compiled = int(outcome.message.partition(" schedules compiled")[0].rpartition(" ")[2])
    assert compiled == len(samples) + 2, "also the schedules of timing and of the suite"
