"""Step: competing programs, timed on this device for comparison.

They are not part of this project: `--peers` names a directory with `run_halide_peers.py`, `torch_peers.py` and, if it
is there, `stencil_peers.py`, which write their figures as JSON while running, and a folder or archive of binaries
precompiled by Halide.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from campaign.child_process import run_child
from campaign.context import Context, Outcome
from campaign.files import read_json
from campaign.results import Part
from campaign.timing_tables import SAME_APP

MANIFEST = "manifest.json"
_HALIDE_LIMIT_S = 60
"""Time limit of one variant of an app."""


@dataclass(frozen=True)
class Peer:
    """A competing program.

    Attributes:
        name: Its name in the results.
        script: Its file in the directory of peers.
        arguments: Arguments besides the built files, the apps and the file of results.
        apps: Its apps; empty for those of the manifest.
        is_optional: Whether its file may be missing.
    """

    name: str
    script: str
    arguments: tuple[str, ...] = ()
    apps: tuple[str, ...] = ()
    is_optional: bool = False


PEERS = (
    Peer("halide", "run_halide_peers.py", ("--limit", str(_HALIDE_LIMIT_S))),
    Peer("torch", "torch_peers.py"),
    Peer(
        "stencils", "stencil_peers.py", apps=("smoother7pt", "smoother27pt", "helmholtz", "denoise"), is_optional=True
    ),
)


def built_files(peers: Path, work: Path) -> Path:
    """Return the directory with the manifest, unpacked from an archive if necessary.

    Raises:
        FileNotFoundError: If the manifest and the archive are both missing.
    """
    found = sorted(peers.rglob(MANIFEST))
    if found:
        return found[0].parent
    unpacked = work / "peers"
    for archive in sorted(peers.rglob("paper.tar.*")):
        shutil.rmtree(unpacked, ignore_errors=True)
        with tarfile.open(archive) as tar:
            tar.extraction_filter = getattr(tarfile, "data_filter", None)  # none before Python 3.11.4
            tar.extractall(unpacked)
        inside = sorted(unpacked.rglob(MANIFEST))
        if inside:
            return inside[0].parent
    raise FileNotFoundError(f"{peers} has neither a {MANIFEST} nor an archive paper.tar.* with one")


def by_app(rows: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return rows of results by app, in their order."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["app"], []).append(row)
    return found


def is_done(part: Part | None) -> bool:
    """Return whether a peer has finished an app."""
    return part is not None and not part.get("interrupted")


def run(context: Context) -> Outcome:
    """Run every peer on its unfinished apps; apps with an interrupted run come last."""
    options = context.options
    folder = Path(options.peers)
    built, missing = folder, ""
    try:
        built = built_files(folder, options.work_path)
    except FileNotFoundError as error:
        missing = str(error)
    records: list[dict[str, Any]] = read_json(built / MANIFEST, [])
    messages, finished, failures = [], True, 0
    for peer in PEERS:
        absent = "" if (folder / peer.script).exists() else f"{peer.script} is not there"
        problem = absent or ("" if peer.apps else missing)
        if problem:
            if not (absent and peer.is_optional):
                messages.append(f"{peer.name}: {problem}")
                finished = False
            continue
        known = peer.apps or tuple(by_app(records))
        apps = [app for app in known if not options.apps or SAME_APP.get(app, app) in options.apps]
        problem = _run_peer(context, peer, folder, built, apps)
        done = [app for app in apps if is_done(context.parts.get(f"{peer.name}/{app}"))]
        finished &= len(done) == len(apps)
        failures += bool(problem)
        messages.append(f"{peer.name}: {len(done)} of {len(apps)} apps{problem}")
    return Outcome(finished, "; ".join(messages), failures)


def _run_peer(context: Context, peer: Peer, folder: Path, built: Path, apps: list[str]) -> str:
    """Run a peer and record the finished apps; returns the error, if any."""
    parts = {app: context.parts.get(f"{peer.name}/{app}") for app in apps}
    fresh = [app for app, part in parts.items() if part is None]
    again = [[app] for app, part in parts.items() if part is not None and not is_done(part)]
    for todo in (fresh, *again):  # one at a time, to identify the failing one
        if not todo or context.remaining < 1.0:
            continue
        file = context.options.work_path / f"{peer.name}.json"
        file.unlink(missing_ok=True)
        command = [sys.executable, str(folder / peer.script), str(built), "--apps", ",".join(todo), "--json", str(file)]
        log = context.options.work_path / "logs" / f"{peer.name}.txt"
        ended = run_child([*command, *peer.arguments], context.remaining, log, env=peer_environment(folder))
        for app, part in recorded(file, todo, whole=ended.code == 0).items():
            context.record(f"{peer.name}/{app}", part)
        if ended.code != 0:
            return "" if ended.killed else f" (ended with {ended.code}: {ended.tail[-500:]})"
    return ""


def peer_environment(folder: Path) -> dict[str, str]:
    """Return an environment in which programs of a directory can import one another."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    env["PYTHONPATH"] = str(folder)
    env["PYTHONDONTWRITEBYTECODE"] = "1"  # the directory may be read-only
    return env


def recorded(file: Path, todo: Sequence[str], *, whole: bool) -> dict[str, Part]:
    """Return a peer's results by app.

    A peer processes the apps in order. After a failed run, the interrupted app is the last one in the file, or the
    first of `todo` if the file is empty.

    Args:
        file: The peer's file of results.
        todo: The apps of the run, in order.
        whole: Whether the run ended without error.
    """
    try:
        found = by_app(read_json(file, []))
    except ValueError:  # killed during a write
        found = {}
    parts: dict[str, Part] = {app: {"rows": rows} for app, rows in found.items()}
    if whole:
        return {app: parts.get(app, {"rows": []}) for app in todo}
    last = next(reversed(parts), todo[0])
    return {**parts, last: {"rows": found.get(last, []), "interrupted": True}}
