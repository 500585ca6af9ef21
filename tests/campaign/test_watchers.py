"""Sanitizer and profiler: parsing of their output, and steps with fake tools."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from campaign.problems import problem_of
from campaign.profile import furthest, parse_details
from campaign.sanitizer import TOOLS, cases_run, findings
from campaign.schedule_coverage import sample_kinds

from autosched.lower.program import lower
from autosched.measure.job import Job
from autosched.measure.problem import Problem
from autosched.runtime.compile.host_compiler import have_compiler
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.campaign.tiny_campaign import context, options, run

H200 = get_target("h200")
MEMCHECK = """\
========= COMPUTE-SANITIZER
== blur/0
== hist/1
========= Invalid __global__ write of size 4 bytes
=========     at hist_cdf+0x1f0
=========     by thread (33,0,0) in block (2,0,0)
=========     Address 0x7f12 is out of bounds
=========     Saved host backtrace up to driver entry point at kernel launch time
========= Invalid __global__ read of size 2 bytes
=========     at hist_cdf+0x90
== harris/0
==
========= Target application returned an error
========= ERROR SUMMARY: 2 errors
""".replace("==\n", "== \n")
DETAILS = """\
==PROF== Connected to process 7
== blur
"ID","Process ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value","Rule Name","Rule Description"
"0","7","cupy_copy","GPU Speed Of Light Throughput","Duration","us","9.1","",""
"1","7","blur_out(const unsigned short *, unsigned short *)","Occupancy","Registers","register/thread","18","",""
"1","7","blur_out(const unsigned short *, unsigned short *)","Occupancy","","","","Bound","Memory is the limit."
"""


def tool(directory: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a program to the PATH."""
    path = directory / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")


def test_findings_belong_to_the_running_case() -> None:
    found = findings(MEMCHECK)
    assert [(f.case, f.text.partition(";")[0]) for f in found] == [
        ("hist/1", "Invalid __global__ write of size 4 bytes"), ("hist/1", "Invalid __global__ read of size 2 bytes"),
    ]  # fmt: skip
    assert "at hist_cdf+0x1f0; by thread (33,0,0) in block (2,0,0)" in found[0].text
    assert cases_run(MEMCHECK) == (["blur/0", "hist/1", "harris/0"], True)
    assert cases_run("== blur/0\nkilled\n") == (["blur/0"], False)
    assert findings("========= COMPUTE-SANITIZER\n== a\n== \n========= ERROR SUMMARY: 0 errors\n") == []


def test_the_sample_covers_every_kind_of_kernel() -> None:
    apps = ("hist", "iir_blur", "camera_pipe", "layer_norm", "interpolate", "conv_layer_nchw", "conv_layer")
    samples = sample_kinds([(app, problem_of(app, "small")) for app in apps], H200)
    kinds = {kind for s in samples for kind in s.kinds}
    assert kinds >= {
        "fused producer at BLOCK", "fused producer at THREAD", "inlined Func", "shared memory", "vectors", "cache read",
        "aligned tile", "reduction", "scan", "scatter", "gather", "numbers of at most 16 bits",
        "materialised producer", "mainloop", "sliding window", "async copy", "warp reduction",
    }  # fmt: skip
    for s in samples:  # the schedules can be parsed and lowered
        problem = Problem.parse(s.problem)
        assert lower(problem.bind(), Job(problem, s.schedule, H200).read_schedule()).kernels


@pytest.mark.skipif(not have_compiler("c"), reason="no C compiler")
def test_the_sanitizer_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tool runs every schedule once; findings and unfinished runs count as failures."""
    broken = 'test "$2" = racecheck && { echo "== early"; echo "========= Error: Race reported"; exit 1; }\n'
    tool(tmp_path, "compute-sanitizer", broken + 'while test "$1" != -m; do last=$1; shift; done; exec "$last" "$@"\n',
         monkeypatch)  # fmt: skip
    chosen = options(tmp_path, target="cpu")
    outcome, step_context = run("sanitizer", chosen)
    assert outcome.finished
    runs = {name: part for name, part in step_context.parts.items() if name != "sample"}
    assert {name.partition("/")[0] for name in runs} == set(TOOLS)
    lost = {name for name, part in runs.items() if not part["ended"]}
    assert lost == {name for name in runs if name.startswith("racecheck/")}
    assert outcome.failures == 2 * len(lost)
    assert all(part["findings"] == [{"case": "early", "text": "Error: Race reported"}] for name, part in runs.items()
               if name in lost)  # fmt: skip
    assert (
        sum(len(p["cases"]) for n, p in runs.items() if n.startswith("memcheck/"))
        == step_context.parts["sample"]["schedules"]
    )


def test_the_apps_furthest_from_their_floor_come_first() -> None:
    def cold(seconds: float) -> dict[str, object]:
        return {"cold": {"seconds": seconds}}

    timing = {
        "a/beam/0": cold(4.0), "a/roots/0": cold(3.0), "a/beam/1": cold(0.1), "floor/a": {"seconds": {"bytes": 1.0}},
        "b/roots/0": cold(10.0), "floor/b": {"seconds": {"bytes": 1.0, "float32": 2.0}}, "c/roots/0": cold(1.0),
        "ceilings": {"bytes_per_s": 1.0}, "d/roots/0": {"error": "it failed"}, "floor/d": {"seconds": {"bytes": 1.0}},
    }  # fmt: skip
    assert furthest(timing, 5) == [("b", "roots", 5.0), ("a", "roots", 3.0)]
    assert furthest(timing, 1) == [("b", "roots", 5.0)]


def test_only_details_of_our_kernels_are_read() -> None:
    assert parse_details(DETAILS, {"blur_out"}) == {
        "blur_out": {"metrics": {"Registers": "18 register/thread"}, "advice": ["Bound: Memory is the limit."]}
    }
    assert parse_details("==ERROR== no permission\n", {"blur_out"}) == {}


@pytest.mark.skipif(not have_compiler("c"), reason="no C compiler")
def test_the_profile_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = options(tmp_path, target="cpu", device="cpu", apps=("blur", "unsharp"))
    assert not run("profile", chosen)[0].finished, "nothing is timed yet"
    run("search", chosen)
    timing = context("timing", chosen)
    for app in chosen.apps:
        timing.record(f"{app}/roots/0", {"cold": {"seconds": 2e-3}})
        timing.record(f"floor/{app}", {"seconds": {"bytes": 1e-3}})
    timing.results.flush()
    script = f"grep -q unsharp \"$LAST\" && {{ echo no counters here; exit 1; }}\ncat <<'END'\n{DETAILS}END\n"
    last = 'for LAST in "$@"; do :; done\n'
    bound = problem_of("blur", "paper").bind()
    kernel = lower(bound, schedule_roots(bound, get_target("cpu"))).kernels[-1].name
    tool(tmp_path, "ncu", last + script.replace("blur_out", kernel), monkeypatch)
    outcome, step_context = run("profile", chosen)
    assert outcome.finished
    assert outcome.failures == 1
    assert step_context.parts["blur"]["over_floor"] == 2.0
    assert set(step_context.parts["blur"]["kernels"]) == {kernel}
    assert step_context.parts["unsharp"]["error"] == "no counters here"
