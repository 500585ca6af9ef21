from __future__ import annotations

from pathlib import Path

from autosched.model import origin


def test_sources_of_every_kind_are_there() -> None:
    """A pattern that finds nothing would let old features pass for new ones."""
    names = {f"{p.parent.name}/{p.name}" for p in origin._sources()}
    assert names >= {
        "analysis/bound.py", "featurize/fill.py", "schedule/vectors.py", "search/analytical.py",
        "search/analytical_cpu.py", "search/lane_work.py", "model/gpu_parts.py", "model/prior.py",
    }  # fmt: skip


def test_digest_follows_the_sources(tmp_path: Path) -> None:
    before = origin.features_digest()
    assert before == origin.features_digest()
    changed = tmp_path / "prior.py"
    changed.write_text("rate = 2")
    found = origin._sources()
    assert origin.digest_of([*found, changed]) != origin.digest_of(found) == before
    changed.write_text("rate = 3")
    assert origin.digest_of([changed]) != origin.digest_of([])
