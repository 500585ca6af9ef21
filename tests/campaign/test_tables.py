"""The page of results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from campaign.files import write_json
from campaign.report import write_report
from campaign.tables import geometric_mean, microseconds, ratio, table
from campaign.timing_tables import peers, times


def timed(seconds: float, **more: Any) -> dict[str, Any]:
    return {"cold": {"seconds": seconds, "spread": 0.012}, "kernel_s": [seconds], "registers": [32],
            "spill_bytes": [0], **more}  # fmt: skip


WARM = {"graph": {"seconds": 4e-6, "lower": 3.9e-6, "upper": 4.25e-6}}
TIMING = {
    "blur/sioutas/0": timed(8e-6),
    "blur/beam/0": timed(5e-6, **WARM),
    "blur/beam/1": timed(4e-6),
    "harris/sioutas/0": timed(30e-6),
    "harris/beam/0": timed(15e-6),
    "hist/beam/0": {"error": "CompileError: no\nregisters left"},
    "floor/blur": {"seconds": {"bytes": 2e-6, "float32": 1e-6}},
    "ceilings": {"bytes_per_s": 4.2e12, "launch_s": 1.5e-6},
}
PEERS = {
    "halide/blur3x3": {"rows": [
        {"app": "blur3x3", "scheduler": "anderson", "ms": 0.02, "graph_ms": 0.006, "ok": True},
        {"app": "blur3x3", "scheduler": "li", "ms": 0.05, "graph_ms": 0.001, "ok": False},
        {"app": "blur3x3", "scheduler": "mullapudi", "error": "no"},
    ]},
    "torch/blur3x3": {"rows": [{"app": "blur3x3", "scheduler": "torch_eager", "ms": 0.1}]},
}  # fmt: skip


def test_number_formats() -> None:
    assert [microseconds(s) for s in (None, 1.234e-6, 12.34e-6, 123.4e-6, float("nan"))] == [
        "-", "1.23", "12.3", "123", "-",
    ]  # fmt: skip
    assert ratio(3.0, 2.0) == "1.50"
    assert ratio(None, 2.0) == ratio(3.0, None) == "-"
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2.0)
    assert geometric_mean([]) is None
    assert table(("a",), [["x|y\nz"], [""]])[2:] == ["| x\\|y z |", "| - |"]


def test_table_of_strategies_and_floors() -> None:
    lines = times(TIMING, {})
    assert lines[0] == "Measured ceilings: 4.20 T bytes/s, 1.5 us from one empty kernel to the next."
    assert "| blur | 8 (1.2) | 5 (1.2) | 2 | 2.50 |" in lines
    assert "| hist | - | failed | - | - |" in lines
    assert "| blur | 1.60 | 2.00 | 2 |" in lines
    assert "| harris | 2.00 | 2.00 | 1 |" in lines
    assert "| geometric mean | 1.79 | 2.00 | - |" in lines
    assert "| blur | beam | 4 (3.9-4.25) | - | - | 1 |" in lines
    assert lines[-1] == "* hist/beam/0: CompileError: no registers left"


def test_table_of_peers_and_our_schedules() -> None:
    lines = peers(PEERS, {"timing": TIMING})
    assert lines[2] == "| app | ours | anderson | li | mullapudi | torch_eager | best peer / ours |"
    assert lines[4] == "| blur | 4 | 6 | 1 (wrong) | failed | 100 (no graph) | 1.50 |"


def test_every_section_is_written(tmp_path: Path) -> None:
    results = {
        "tests": {"a::b": {"outcome": "failed", "message": "Traceback\n  somewhere\nAssertionError: 1 != 2"},
                  "run": {"outcome": "0"}},
        "suite": {"blur/small": {"wrong": {"roots": None, "beam": "run 0: 1 of 9 differ"}}},
        "sanitizer": {"sample": {"kinds": {"scan": 2}}, "memcheck/0": {"cases": ["a"], "ended": True, "findings": [
            {"case": "a", "text": "Invalid write"}]}},
        "timing": TIMING,
        "peers": PEERS,
        "collect": {"problem": {}, "run 1": {"source": "measured:X", "counts": {"ok": 5}, "seconds": 2.0,
                                             "errors": {"crash": "it ended"}}},
        "train": {"final": {"data": "5 schedules; labels measured:X", "figures": {"learned": {
            "spearman": 0.91, "regret1": 0.1, "schedules": 5.0}}}},
        "profile": {"blur": {"strategy": "beam", "over_floor": 2.5, "kernels": {"blur_y": {
            "metrics": {"Registers": "32"}, "advice": ["Bound: memory"]}}}},
    }  # fmt: skip
    write_json(tmp_path / "results.json", results)
    text = write_report(tmp_path).read_text()
    for line in (
        "0 passed, 1 failed.", "* a::b: Traceback ... AssertionError: 1 != 2",
        "* blur/small, beam: run 0: 1 of 9 differ",
        "| memcheck | 1 | 1 | 0 |", "Kinds of kernels: scan (2).", "* memcheck/0, a: Invalid write",
        "| run 1 | measured:X | 5 ok | 2 s |", "* run 1, crash: it ended", "1 pipelines are done.",
        "| final | learned | 0.910 | - | 10.0 % | - | - | - | 5 |", "**blur** (beam, 2.50 times the floor)",
        "* `blur_y`: Registers 32", "  * Bound: memory",
    ):  # fmt: skip
        assert line in text.splitlines(), line
