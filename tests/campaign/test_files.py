"""Atomic files, and results in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaign.files import read_json, write_json, write_text
from campaign.results import Results


def test_a_file_is_replaced_atomically(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.json"
    write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(path, {"a": float("nan")})
    assert read_json(path, None) == {"a": 1}
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "\ud800")
    assert read_json(path, None) == {"a": 1}
    assert [p.name for p in path.parent.iterdir()] == ["a.json"]


def test_a_missing_file_gives_the_default_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    assert read_json(path, 5) == 5
    path.write_text('{"a": ')
    with pytest.raises(ValueError, match=r"state\.json is damaged .* delete it"):
        read_json(path, 5)


def test_parts_persist_between_calls(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    first = Results(path)
    first.record("suite", "blur/small", {"wrong": {"roots": None}})
    first.record("suite", "blur/odd", {"seconds": float("inf"), "each": (1.0, float("nan"))})
    first.flush()
    again = Results(path)
    assert again.parts("suite") == {
        "blur/small": {"wrong": {"roots": None}}, "blur/odd": {"seconds": None, "each": [1.0, None]},
    }  # fmt: skip
    again.record("suite", "blur/small", {"wrong": {}})
    again.flush()
    assert Results(path).parts("suite")["blur/small"] == {"wrong": {}}
    assert Results(path).parts("timing") == {}


def test_writing_takes_a_limited_share_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part is written immediately or, on a slow disk, with a later part."""
    clock = [0.0]
    written: list[int] = []

    def write(path: Path, value: dict[str, dict[str, object]]) -> None:
        clock[0] += 1.0  # a slow disk
        written.append(len(value["collect"]))

    monkeypatch.setattr("campaign.results.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("campaign.results.write_json", write)
    results = Results(tmp_path / "results.json")
    for k in range(100):
        clock[0] += 0.5
        results.record("collect", str(k), {})
    results.flush()
    assert written[0] == 1
    assert written[-1] == 100
    assert len(written) <= 5
