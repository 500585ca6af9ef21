"""The report of a time loop."""

from __future__ import annotations

from pathlib import Path

from tests.iteration.steps import arrays, diffusion, fused


def test_it_lists_versions_and_compositions(tmp_path: Path) -> None:
    scheduled = fused(diffusion(), arrays(diffusion()), (1.0, 1.25, 2.5), "cpu")
    scheduled.report(tmp_path / "diffusion.html")
    page = (tmp_path / "diffusion.html").read_text()
    assert "<td>2</td><td>1.25 s</td><td>625 ms</td>" in page
    assert "<td>5</td><td>2 runs of 2, 1 run of 1</td><td>3.5 s</td>" in page
    assert page.count("<iframe srcdoc=") == 2, "a version that no number of steps uses has no page"
    assert "&lt;!doctype html&gt;" in page.lower()


def test_texts() -> None:
    scheduled = fused(diffusion(), arrays(diffusion()), (1.0, 1.25), "cpu")
    assert repr(scheduled) == "<ScheduledTimeLoop diffusion: versions of 1, 2 steps for cpu>"
    assert repr(scheduled.versions[1]).startswith("<ScheduledVersion of 2 steps: 2 kernels, 1.25 s, bound by ")
    assert scheduled.text().endswith("5 steps: 2 runs of 2, 1 run of 1\n")
    assert scheduled.source("cpu").count("void as_run(") == 2
