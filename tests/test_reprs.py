"""Results of the public functions print as one readable line."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched
from autosched.analysis.bind import bind
from autosched.measure.job import Job, Result, Status, Timing
from autosched.measure.problem import Problem
from autosched.runtime.benchmark import Benchmark
from autosched.runtime.call.compiled import PipelineGraph
from autosched.search.evaluate.counts import Counts
from autosched.search.explain import KernelReport
from autosched.search.results import RankedSchedule, SearchResult
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.tune.autotune.report import Tuned
from autosched.search.tune.autotune.state import TuningFiles
from autosched.search.tune.provenance import Provenance
from autosched.search.tune.top_k import Trial, Trials
from autosched.target import get_target

H200 = get_target("h200")
MEASURED = "measured:H200"


def pipeline() -> autosched.Pipeline:
    x = autosched.Var("x")
    image, out = autosched.Input("image", autosched.float32, 1), autosched.Func("out")
    out[x] = image[x] + image[x + 1]
    return autosched.Pipeline([out.over(x=(0, 63))], name="blur")


PIPELINE = pipeline()
BOUND = bind(PIPELINE, {"image": (64,)}, None)
SCHEDULE = schedule_roots(BOUND, H200)
RANKED = RankedSchedule(SCHEDULE, 1.2e-5)
ROOTS = Trial(SCHEDULE, "roots", math.nan, 3e-5)
SEARCHED = Trial(SCHEDULE, "", 1.2e-5, 1.5e-5, again_s=1.6e-5)
BROKEN = Trial(SCHEDULE, "", 1.2e-5, math.nan, problem="wrong result")
JOB = Job.of(Problem.of(BOUND), SCHEDULE, H200, origin="random")
HASH = JOB.schedule_hash[:12]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (RANKED, "<RankedSchedule: 1 kernels, predicted 12 µs>"),
        (
            SearchResult((RANKED, RANKED), Counts(), 1.5, cut_short=True),
            "<SearchResult: 2 schedules in 1.5 s, cut short, best predicted 12 µs>",
        ),
        (
            SearchResult((RankedSchedule(SCHEDULE, math.nan),), Counts(), 0.002, note="too long"),
            "<SearchResult: 1 schedule in 2 ms, best not predicted; too long>",
        ),
        (ROOTS, "<Trial roots: 30 µs>"),
        (SEARCHED, "<Trial: 16 µs, predicted 12 µs>"),
        (BROKEN, "<Trial: wrong result, predicted 12 µs>"),
        (
            Trials(MEASURED, (SEARCHED, ROOTS, BROKEN), wrong=1),
            "<Trials by measured:H200: 3 schedules, 1 with a wrong result, best 16 µs>",
        ),
        (
            Provenance(strategy="one-shot", samples=80, model="analytical", predicted_s=1.2e-5, took_s=2.5),
            "<Provenance: searched by one-shot, predicted 12 µs by analytical; 80 samples, seed 0, in 2.5 s>",
        ),
        (
            Provenance(how="tuned", measured_s=3e-5, source=MEASURED, took_s=60, reused=True, note="a note"),
            "<Provenance: tuned, 30 µs by measured:H200; 1 sample, seed 0, in 60 s, from the schedule cache; a note>",
        ),
        (
            Tuned(
                SCHEDULE, 1.6e-5, 1.2e-5, "analytical", 3e-5, MEASURED, TuningFiles(Path("a.db")), 640, Counter(), (),
                False, Trials(MEASURED, (SEARCHED,)),
            ),
            "<Tuned by measured:H200: 16 µs, baseline 30 µs, 640 candidates measured>",
        ),
        (
            KernelReport("out", (("f", "BLOCK"),), ("g",), 1.2e-5, {}, {}),
            "<KernelReport out with f at BLOCK, g inlined: predicted 12 µs>",
        ),
        (
            autosched.KernelInfo("blur_0", (4, 1, 1), (32, 8, 1), 1024),
            "<KernelInfo blur_0: grid 4x1x1, block 32x8x1, 1024 B shared>",
        ),
        (
            autosched.KernelInfo("blur_0", (4, 1, 1), (32, 8, 1), 0, 255, 16, 64),
            "<KernelInfo blur_0: grid 4x1x1, block 32x8x1, 0 B shared, 255 registers, 64 B spilled>",
        ),
        (
            Benchmark("blur", "cpu", 0.002, 0.01, (0.002,) * 9, 4000000, {"blur_0": 0.002}),
            "<Benchmark blur on cpu: 2 ms, median of 9 (spread 1.0%); 4 MB of arrays, 2 GB/s>",
        ),
        (PipelineGraph(lambda stream: None, np.zeros((2, 3), np.float32)), "<PipelineGraph -> float32[2, 3]>"),
        (JOB, f"<Job <Problem blur image 64>: schedule {HASH} from random for H200>"),
        (
            Result(JOB, MEASURED, "cuda-1", Status.OK, Timing(1.5e-5, 0.0, (1.5e-5,))),
            f"<Result ok 15 µs by measured:H200: {JOB!r}>",
        ),
        (
            Result(JOB, MEASURED, "cuda-1", Status.COMPILE, error="nvrtc: no\nsecond line"),
            f"<Result compile (nvrtc: no) by measured:H200: {JOB!r}>",
        ),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_repr_is_one_readable_line(value: Any, expected: str) -> None:
    assert repr(value) == expected


def test_scheduled_compiled_and_exported_pipelines(tmp_path: Path) -> None:
    scheduled = autosched.schedule(PIPELINE, {"image": (64,)}, "h200", strategy="roots")
    assert repr(scheduled) == "<ScheduledPipeline blur: 1 kernels for H200>"
    assert repr(scheduled.provenance).startswith("<Provenance: searched by roots; 1 sample, seed 0, in ")
    compiled = scheduled.compile("interpreter")
    assert repr(compiled) == "<CompiledPipeline blur(image: float32[64]) -> out: float32[63], backend interpreter>"
    exported = autosched.schedule(PIPELINE, {"image": (64,)}, "cpu", strategy="roots").export(tmp_path)
    assert repr(exported) == f"<Exported blur: {len(exported.files)} files in {tmp_path}, 0 bytes of workspace>"


def test_jit_function() -> None:
    @autosched.jit(strategy="roots", backend="interpreter")
    def doubled(image, *, gain=2):  # type: ignore[no-untyped-def]
        x, out = autosched.Var("x"), autosched.Func("out")
        out[x] = image[x] * gain
        return out

    assert repr(doubled) == "<JitFunction doubled(image, *, gain=2): 0 kernels>"
    doubled(np.ones(3, np.float32))
    assert repr(doubled) == "<JitFunction doubled(image, *, gain=2): 1 kernel>"
