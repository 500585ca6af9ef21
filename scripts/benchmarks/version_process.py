"""Processes of versions of this library: a commit unpacked to a directory, or the installed version."""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
INSTALLED_IN_PACKAGE = ("featurize", "model", "search", "random_pipelines", "configs")
"""Top-level directories that are installed as sub-packages (pyproject.toml, package-dir)."""


def unpacked(commit: str, into: Path) -> Path:
    """Unpack a commit into an importable directory and return the directory."""
    into.mkdir()
    archive = into.with_suffix(".tar")
    subprocess.run(["git", "-C", str(ROOT), "archive", "-o", str(archive), "--end-of-options", commit], check=True)
    with tarfile.open(archive) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # none before Python 3.11.4
        packed.extractall(into)
    for name in INSTALLED_IN_PACKAGE:
        if (into / name).is_dir():
            (into / "autosched" / name).symlink_to(into / name)
    return into


class VersionProcess:
    """A process that answers each line of JSON with one.

    Args:
        command: Its command line.
        environment: Its environment.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, question: Any) -> Any:
        """Return the answer to a question."""
        self.send(question)
        return self.answer()

    def send(self, question: Any) -> None:
        """Send a question; `answer` returns the answer, so that several processes work at once."""
        assert self._process.stdin is not None
        print(json.dumps(question), file=self._process.stdin, flush=True)

    def answer(self) -> Any:
        """Return the next answer."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("the process of one version ended early; its output is above")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
