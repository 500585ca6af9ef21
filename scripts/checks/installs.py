"""Try each install line of README.md in an empty environment, with README's first example.

    python scripts/try_installs.py [--only nvrtc,cuda13]

Each install gets a new environment with PyTorch and the packages of the line, in the versions of constraints.txt
(except the extra cuda12, as constraints.txt is for CUDA 13). An additional environment is `pip install .` next to a
CUDA build of PyTorch, which has NVRTC and its bindings, but not cuda.core. Needs minutes and a package index.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import tempfile
import time
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONSTRAINTS = ROOT / "constraints.txt"
# Compiler packages that PyTorch's CUDA builds require.
WITH_TORCH = ("cuda-bindings", "nvidia-cuda-nvrtc")
WITHOUT_CONSTRAINTS = ("cuda12",)

_REQUIREMENT = re.compile(r"'?(\.(?:\[(\w+)\])?)'?")
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TELL = """
import warnings
with warnings.catch_warnings(record=True) as given:
    warnings.simplefilter("always")
    exec(compile(open("example.py").read(), "example.py", "exec"))
from autosched.runtime.compile.nvrtc import have_nvrtc
unchecked = [str(w.message) for w in given if "registers are not checked" in str(w.message)]
assert len(unchecked) == (0 if have_nvrtc() else 1), unchecked
assert "__global__" in scheduled.source("cuda") and "kernel 0" in scheduled.text()
assert scheduled.export("exported").directory.is_dir()
assert result.shape == (1536, 2560)
print("CUDA is compiled" if have_nvrtc() else "CUDA is not compiled, and a warning says so", kernel.backend, sep="; ")
"""


@dataclass(frozen=True)
class Install:
    """One way to install the package.

    Attributes:
        name: The extra, or a label.
        requirement: Requirement for pip.
        besides: Further packages.
    """

    name: str
    requirement: str
    besides: tuple[str, ...] = ()

    @property
    def is_constrained(self) -> bool:
        """Whether constraints.txt holds its packages."""
        return self.name not in WITHOUT_CONSTRAINTS


def documented() -> list[Install]:
    """Return the installs of README in order, and the one next to PyTorch's CUDA build."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = next(b for language, b in _FENCE.findall(text) if language == "console" and "pip install" in b)
    lines = [line for line in block.splitlines() if "pip install" in line]
    requirements = [
        m for line in lines for m in _REQUIREMENT.finditer(line.partition("pip install ")[2]) if m[0] != "."
    ]
    installs = [Install(m[2] or "plain", m[1]) for m in requirements]
    plain = [] if any(i.name == "plain" for i in installs) else [Install("plain", ".")]
    return [*plain, *dict.fromkeys(installs), Install("beside-cuda-torch", ".", WITH_TORCH)]


def example() -> str:
    """Return the first program of README."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return next(b for language, b in _FENCE.findall(text) if language == "python")


def attempt(install: Install, directory: Path) -> str:
    """Install into an empty environment and run the example; return its output.

    Raises:
        subprocess.CalledProcessError: If a step fails, with its output.
    """
    venv.create(directory / "venv", with_pip=True)
    python = str(directory / "venv" / "bin" / "python")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    constraint = ["--constraint", str(CONSTRAINTS)]
    torch = next(line for line in CONSTRAINTS.read_text().splitlines() if line.startswith("torch=="))
    run([*pip, *constraint, *os.environ.get("TORCH_FLAGS", "").split(), torch])  # alone, as in the Makefile
    checkout = directory / "checkout"
    shutil.copytree(ROOT, checkout, ignore=shutil.ignore_patterns(".*", "build", "*.egg-info", "out"))
    wanted = [str(checkout) + install.requirement.removeprefix("."), *install.besides]
    run([*pip, *(constraint if install.is_constrained else []), *wanted])
    work = directory / "work"
    work.mkdir()
    (work / "example.py").write_text(example(), encoding="utf-8")
    environment = {**os.environ, "AUTOSCHED_CACHE_DIR": str(directory / "cache")}
    said = run([python, "-P", "-c", _TELL], work, environment)
    run([str(Path(python).with_name("autosched")), "doctor"], work, environment, codes=(0, 1))
    return said.strip().splitlines()[-1]


def run(
    command: Sequence[str], directory: Path | None = None, environment: dict[str, str] | None = None, *,
    codes: Sequence[int] = (0,),
) -> str:  # fmt: skip
    """Return the standard output of a command.

    Raises:
        subprocess.CalledProcessError: If its exit code is unexpected.
    """
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in codes:
        raise subprocess.CalledProcessError(done.returncode, list(command), done.stdout, done.stderr)
    return done.stdout


def main() -> int:
    """Try all installs; return 1 if any fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    installs = documented()
    parser.add_argument("--only", help=f"names, separated by commas: {', '.join(i.name for i in installs)}")
    options = parser.parse_args()
    chosen = [i for i in installs if options.only is None or i.name in options.only.split(",")]
    failed = 0
    for install in chosen:
        started = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="autosched-install-") as directory:
            try:
                said = f"ok    {attempt(install, Path(directory))}"
            except subprocess.CalledProcessError as error:
                failed += 1
                said = f"FAIL  {error}\n{error.stdout[-2000:]}\n{error.stderr[-4000:]}"
        print(f"{install.name:<18} {time.perf_counter() - started:4.0f} s  {said}", flush=True)
    return 1 if failed or not chosen else 0
