from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from autosched.model.predict import source_digest


def test_digest_has_sources_of_every_kind() -> None:
    """A missing source would make outdated features valid."""
    assert source_digest.sources().keys() >= {
        f"autosched.{name}"
        for name in (
            "analysis.bound_pipeline", "featurize.featurizer", "schedule.kernel.vector_access",
            "search.cost.gpu_analytical", "search.cost.cpu.analytical", "search.cost.cpu.lane_costs",
            "search.cost.cpu.coefficients", "model.predict.gpu_unit_times", "model.predict.analytical_prior",
            "schedule.cpu_policy", "lang.expr", "target",
        )
    }  # fmt: skip


def test_digest_excludes_search_and_training() -> None:
    """Their changes would invalidate features needlessly."""
    modules = source_digest.sources()
    assert not {"autosched.search.beam.beam", "autosched.model.train.training", "autosched.codegen.c"} & modules.keys()


def test_digest_has_all_imported_modules() -> None:
    """The expected modules are those that Python loads with the roots, without packages."""
    program = (
        f"import sys, {', '.join(source_digest.ROOTS)}; print(*sorted(m for m in sys.modules if m[:9] == 'autosched'))"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    modules = source_digest.sources()
    packages = {name for name in loaded if any(other.startswith(f"{name}.") for other in loaded)}
    by_packages = {"autosched.api", *_loaded_by(packages)}
    assert set(loaded) - packages - by_packages <= modules.keys()


def _loaded_by(packages: set[str]) -> set[str]:
    """Return the modules that importing packages alone loads."""
    program = f"import sys, {', '.join(sorted(packages))}; print(*(m for m in sys.modules if m[:9] == 'autosched'))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    return set(found.split())


def test_digest_follows_the_sources(tmp_path: Path) -> None:
    before = source_digest.features_digest()
    assert before == source_digest.features_digest()
    changed = tmp_path / "prior.py"
    changed.write_text("rate = 2")
    found = list(source_digest.sources().values())
    assert source_digest.digest_of([*found, changed]) != source_digest.digest_of(found) == before
    changed.write_text("rate = 3")
    assert source_digest.digest_of([changed]) != source_digest.digest_of([])


def test_all_forms_of_imports_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "ours"
    package.mkdir()
    for name, text in {
        "__init__": "", "root": "from ours import one\nimport ours.two", "one": "from ours.three import thing",
        "two": "", "three": "thing = 1", "four": "",
    }.items():  # fmt: skip
        (package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(source_digest, "PACKAGE", "ours")
    monkeypatch.setattr(source_digest, "ROOTS", ("ours.root",))
    assert {"ours.root", "ours.one", "ours.two", "ours.three"} <= source_digest.sources().keys()
    assert "ours.four" not in source_digest.sources()
