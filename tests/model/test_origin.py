from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from autosched.model import origin


def test_sources_of_every_kind_are_there() -> None:
    """What is missing here would let old features pass for new ones."""
    assert origin.sources().keys() >= {
        f"autosched.{name}"
        for name in (
            "analysis.bound", "featurize.fill", "schedule.vectors", "search.analytical", "search.analytical_cpu",
            "search.lane_work", "search.cpu_rates", "model.gpu_parts", "model.prior", "codegen.lanes", "lang.expr",
            "target",
        )
    }  # fmt: skip


def test_nothing_is_looked_at_that_searches_and_training_alone_use() -> None:
    """Or features would be made again after every change."""
    modules = origin.sources()
    assert not {"autosched.search.beam", "autosched.model.training", "autosched.codegen.c"} & modules.keys()


def test_every_module_that_is_imported_is_looked_at() -> None:
    """Python's own account of it: what is loaded with the roots, but for packages, which say nothing."""
    program = f"import sys, {', '.join(origin.ROOTS)}; print(*sorted(m for m in sys.modules if m[:9] == 'autosched'))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    modules = origin.sources()
    packages = {name for name in loaded if any(other.startswith(f"{name}.") for other in loaded)}
    by_packages = {"autosched.api", *_loaded_by(packages)}
    assert set(loaded) - packages - by_packages <= modules.keys()


def _loaded_by(packages: set[str]) -> set[str]:
    """Return what importing packages alone loads."""
    program = f"import sys, {', '.join(sorted(packages))}; print(*(m for m in sys.modules if m[:9] == 'autosched'))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    return set(found.split())


def test_digest_follows_the_sources(tmp_path: Path) -> None:
    before = origin.features_digest()
    assert before == origin.features_digest()
    changed = tmp_path / "prior.py"
    changed.write_text("rate = 2")
    found = list(origin.sources().values())
    assert origin.digest_of([*found, changed]) != origin.digest_of(found) == before
    changed.write_text("rate = 3")
    assert origin.digest_of([changed]) != origin.digest_of([])


def test_modules_are_followed_however_they_are_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "ours"
    package.mkdir()
    for name, text in {
        "__init__": "", "root": "from ours import one\nimport ours.two", "one": "from ours.three import thing",
        "two": "", "three": "thing = 1", "four": "",
    }.items():  # fmt: skip
        (package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(origin, "PACKAGE", "ours")
    monkeypatch.setattr(origin, "ROOTS", ("ours.root",))
    assert {"ours.root", "ours.one", "ours.two", "ours.three"} <= origin.sources().keys()
    assert "ours.four" not in origin.sources()
