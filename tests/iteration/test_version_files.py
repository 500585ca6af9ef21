"""Schedules of an iteration in files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autosched import InputError, ScheduleError
from tests.iteration.steps import arrays, assert_equal_bits, diffusion, fused, leapfrog, repeated

SHAPES = {"u": (13, 21), "c": (13, 21)}


def test_a_file_has_all_versions(tmp_path: Path) -> None:
    given = arrays(diffusion())
    scheduled = fused(diffusion(), given, (1.0, 1.3, float("nan")), "cpu", strategy="beam")
    scheduled.save(tmp_path / "diffusion.json")
    loaded = diffusion().load(tmp_path / "diffusion.json", SHAPES, "cpu", {"a": 0.2})
    assert [v.scheduled.schedule for v in loaded.versions] == [v.scheduled.schedule for v in scheduled.versions]
    assert loaded.composed(5) == scheduled.composed(5) == (2, 2, 1)
    assert_equal_bits(
        loaded.compile("cpu")(given, times=3, a=0.1), repeated(diffusion(), given, 3)
    )  # fmt: skip
    other = tmp_path / "again.json"
    loaded.save(other)
    assert other.read_bytes() == (tmp_path / "diffusion.json").read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "autosched-schedule"}, "is no file of schedules of a time loop"),
        ({"version": 2}, "has version 2, this release reads 1"),
        ({"target": "H200"}, "was made for target 'H200', not for 'cpu'; load it for the former, or make a new one"),
        ({"target": 3}, "was made for target 3, not for 'cpu'"),
        ({"step": "0" * 64}, "was made for another step than 'diffusion'"),
        ({"fields": {}}, "was made for another step"),
        ({"versions": []}, "has no versions"),
        ({"versions": [{"steps": 1}]}, "has a version 1 that is none"),
        ({"versions": [{"steps": 2, "seconds": 1.0, "source": "", "schedule": {}}]}, "a version of 2 steps where"),
        ({"versions": [{"steps": 1, "seconds": 1.0, "source": "", "schedule": {}}]}, "version 1"),
        (
            {"versions": [{"steps": 1, "seconds": -1.0, "source": "", "schedule": {}}]},
            "has a version of 1 step that takes -1.0 seconds; make a new one",
        ),
    ],
)
def test_other_files_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    file = tmp_path / "diffusion.json"
    fused(diffusion(), arrays(diffusion()), (1.0,), "cpu").save(file)
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(ScheduleError, match=message):
        diffusion().load(file, SHAPES, "cpu")


def test_files_without_a_target_are_read(tmp_path: Path) -> None:
    file = tmp_path / "diffusion.json"
    fused(diffusion(), arrays(diffusion()), (1.0,), "cpu").save(file)
    document = json.loads(file.read_text())
    assert document.pop("target") == "cpu"
    file.write_text(json.dumps(document))
    assert diffusion().load(file, SHAPES, "cpu").composed(3) == (1, 1, 1)


def test_unreadable_files_and_other_iterations(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the schedules"):
        diffusion().load(tmp_path / "none.json", SHAPES, "cpu")
    scheduled = fused(diffusion(), arrays(diffusion()), (1.0,), "cpu")
    with pytest.raises(InputError, match="cannot write the schedules"):
        scheduled.save(tmp_path)
    scheduled.save(tmp_path / "diffusion.json")
    with pytest.raises(ScheduleError, match="another step than 'leapfrog'"):
        leapfrog().load(tmp_path / "diffusion.json", {"now": (13, 21), "before": (13, 21)}, "cpu")
