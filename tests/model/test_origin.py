from __future__ import annotations

import ast
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


def test_all_that_the_analytical_models_import_of_the_search_is_looked_at() -> None:
    looked_at = {path.name: path for path in origin._sources() if path.parent.name == "search"}
    for name, path in looked_at.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("autosched.search."):
                assert f"{str(node.module).split('.')[2]}.py" in looked_at, f"{name} imports {node.module}"
