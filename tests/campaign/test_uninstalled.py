"""An uninstalled checkout: the links are sufficient to import all packages."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

from campaign.paths import ROOT, child_environment, link_packages

MODULES = (
    "autosched.api", "autosched.featurize.schema", "autosched.search.strategies.protocol", "autosched.measure.problem",
    "autosched.random_pipelines.settings", "autosched.model.settings", "autosched.configs", "campaign.step",
)  # fmt: skip


def python(directory: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program without editable installs (``-S``), but with third-party packages."""
    env = child_environment(directory, {"PATH": os.environ["PATH"]})
    env["PYTHONPATH"] += os.pathsep + sysconfig.get_paths()["purelib"]
    return subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, env=env, cwd=ROOT)


def test_every_package_comes_from_the_checkout(tmp_path: Path) -> None:
    site = link_packages(ROOT, tmp_path / "site")
    program = (
        "import importlib, pathlib\n"
        f"for name in {MODULES}:\n"
        "    module = importlib.import_module(name)\n"
        "    print(pathlib.Path(module.__file__).resolve())\n"
    )
    done = python(site, program)
    assert done.returncode == 0, done.stderr
    found = [Path(line) for line in done.stdout.splitlines()]
    assert len(found) == len(MODULES)
    assert all(path.is_relative_to(ROOT) for path in found)
    assert {path.relative_to(ROOT).parts[0] for path in found} == {
        "autosched", "featurize", "search", "random_pipelines", "model", "configs", "scripts",
    }  # fmt: skip


def test_links_are_recreated(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "old").write_text("")
    link_packages(ROOT, site)
    link_packages(ROOT, site)
    assert [p.name.partition("-")[0] for p in sorted(site.iterdir())] == ["autosched", "autosched", "campaign"]


def test_torch_finds_the_backend_of_the_checkout(tmp_path: Path) -> None:
    site = link_packages(ROOT, tmp_path / "site")
    program = (
        "from importlib.metadata import entry_points\n"
        "(found,) = entry_points(group='torch_dynamo_backends', name='autosched')\n"
        "print(found.value, found.dist.version)\n"
    )
    env = child_environment(site, {"PATH": os.environ["PATH"]})
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, env=env, check=True)
    with (ROOT / "pyproject.toml").open("rb") as file:
        version = tomllib.load(file)["project"]["version"]
    assert done.stdout.split() == ["autosched.torch.backend:autosched_backend", version]
    assert (site / "autosched" / "search").resolve() == ROOT / "search"


def test_new_paths_precede_existing_ones(tmp_path: Path) -> None:
    env = child_environment(tmp_path, {"PYTHONPATH": os.pathsep.join(["/a", str(tmp_path)]), "X": "1"})
    assert env == {"PYTHONPATH": os.pathsep.join([str(tmp_path), "/a"]), "PYTHONSAFEPATH": "1", "X": "1"}
