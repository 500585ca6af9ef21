"""The step that runs competing programs."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from campaign.child_process import Ended
from campaign.competitors import PEERS, built_files, by_app, is_done, peer_environment, recorded

from tests.campaign.tiny_campaign import options, run

MANIFEST = [{"app": app, "scheduler": s} for app in ("blur3x3", "harris", "hist") for s in ("cpu", "gpu")]
COMMON = """
import argparse, json, sys, time
def results(name):
    parser = argparse.ArgumentParser()
    for option in ("out", "--apps", "--json", "--limit"):
        parser.add_argument(option)
    given = parser.parse_args()
    rows = []
    for app in given.apps.split(","):
        rows.append({"app": app, "scheduler": name, "ms": 1.0, "graph_ms": 0.5})
        yield app, rows
        with open(given.json, "w") as file:
            json.dump(rows, file)
"""


@pytest.fixture
def peers(tmp_path: Path) -> Path:
    """A directory with two peers that share a module, and an archive of their binaries."""
    folder, built = tmp_path / "peers", tmp_path / "built" / "paper"
    built.mkdir(parents=True)
    (built / "manifest.json").write_text(json.dumps(MANIFEST))
    (folder / "prebuilt").mkdir(parents=True)
    with tarfile.open(folder / "prebuilt" / "paper.tar.xz", "w:xz") as tar:
        tar.add(built, "paper")
    (folder / "common.py").write_text(COMMON)
    program = "from common import results\nfor app, rows in results({name!r}):\n    pass\n"
    (folder / "run_halide_peers.py").write_text(program.format(name="halide"))
    (folder / "torch_peers.py").write_text(program.format(name="torch"))
    return folder


def test_every_peer_is_run_on_every_app(peers: Path, tmp_path: Path) -> None:
    outcome, step_context = run("peers", options(tmp_path, target="cpu", apps=(), peers=str(peers)))
    assert outcome.finished
    assert outcome.failures == 0
    assert outcome.message == "halide: 3 of 3 apps; torch: 3 of 3 apps"
    assert step_context.parts["torch/harris"]["rows"] == [
        {"app": "harris", "scheduler": "torch", "ms": 1.0, "graph_ms": 0.5}
    ]


def test_a_peer_may_have_apps_of_its_own(peers: Path, tmp_path: Path) -> None:
    (peers / "stencil_peers.py").write_text((peers / "torch_peers.py").read_text().replace("torch", "pystencils"))
    outcome, step_context = run("peers", options(tmp_path, target="cpu", apps=("helmholtz", "blur"), peers=str(peers)))
    assert outcome.message == "halide: 1 of 1 apps; torch: 1 of 1 apps; stencils: 1 of 1 apps"
    assert step_context.parts["stencils/helmholtz"]["rows"][0]["scheduler"] == "pystencils"


def test_apps_are_chosen_by_our_names(peers: Path, tmp_path: Path) -> None:
    _, step_context = run("peers", options(tmp_path, target="cpu", apps=("blur",), peers=str(peers)))
    assert set(step_context.parts) == {"halide/blur3x3", "torch/blur3x3"}


def test_an_app_over_its_time_limit_does_not_block_other_apps(
    peers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def hanging_at_harris(command: Sequence[str], seconds: float, log: Path, *, env: Mapping[str, str]) -> Ended:
        given = dict(zip(command[3::2], command[4::2], strict=True))
        asked.append(given["--apps"])
        rows = []
        for app in given["--apps"].split(","):
            if app == "harris":
                return Ended(-9, seconds, True, "")
            rows.append({"app": app, "scheduler": "torch", "ms": 1.0})
            Path(given["--json"]).write_text(json.dumps(rows))
        return Ended(0, 1.0, False, "")

    monkeypatch.setattr("campaign.competitors.run_child", hanging_at_harris)
    monkeypatch.setattr("campaign.competitors.PEERS", PEERS[1:])
    chosen = options(tmp_path, target="cpu", apps=(), peers=str(peers))
    states = []
    for _ in range(3):
        outcome, step_context = run("peers", chosen)
        assert not outcome.finished
        assert outcome.failures == 0
        states.append({n.partition("/")[2] for n, p in step_context.parts.items() if is_done(p)})
    # The last app in the file may be the hanging one: it is retried alone at the end.
    assert asked == ["blur3x3,harris,hist", "harris,hist", "hist", "blur3x3", "harris"]
    assert states == [set(), set(), {"hist", "blur3x3"}]
    assert run("peers", chosen)[0].message == "torch: 2 of 3 apps"


def test_a_failing_peer_is_reported(peers: Path, tmp_path: Path) -> None:
    (peers / "torch_peers.py").write_text("raise SystemExit('no device')")
    outcome, _ = run("peers", options(tmp_path, target="cpu", apps=(), peers=str(peers)))
    assert (outcome.finished, outcome.failures) == (False, 1)
    assert "torch: 0 of 3 apps (ended with 1: no device)" in outcome.message


def test_a_missing_peer_is_reported(peers: Path, tmp_path: Path) -> None:
    (peers / "torch_peers.py").unlink()
    outcome, _ = run("peers", options(tmp_path, target="cpu", apps=(), peers=str(peers)))
    assert outcome.message == "halide: 3 of 3 apps; torch: torch_peers.py is not there"


def test_built_files_may_be_a_folder_or_an_archive(peers: Path, tmp_path: Path) -> None:
    assert built_files(peers, tmp_path / "work") == tmp_path / "work" / "peers" / "paper"
    assert built_files(tmp_path / "built", tmp_path) == tmp_path / "built" / "paper"
    with pytest.raises(FileNotFoundError, match=r"neither a manifest\.json nor an archive"):
        built_files(tmp_path / "nothing", tmp_path)


def test_truncated_rows_are_ignored(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    file.write_text('[{"app": "a", ')
    assert recorded(file, ["a", "b"], whole=False) == {"a": {"rows": [], "interrupted": True}}
    assert recorded(tmp_path / "none.json", ["a", "b"], whole=True) == {"a": {"rows": []}, "b": {"rows": []}}
    assert by_app([{"app": "a", "k": 1}, {"app": "b", "k": 2}, {"app": "a", "k": 3}])["a"] == [
        {"app": "a", "k": 1}, {"app": "a", "k": 3},
    ]  # fmt: skip


def test_peers_import_one_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    env = peer_environment(tmp_path)
    assert env["PYTHONPATH"] == str(tmp_path)
    assert "PYTHONSAFEPATH" not in env


def test_peers_with_apps_of_their_own_need_no_binaries(peers: Path, tmp_path: Path) -> None:
    only = tmp_path / "only"
    only.mkdir()
    (peers / "common.py").rename(only / "common.py")
    (only / "stencil_peers.py").write_text((peers / "torch_peers.py").read_text().replace("torch", "pystencils"))
    outcome, step_context = run("peers", options(tmp_path, target="cpu", apps=("helmholtz",), peers=str(only)))
    assert set(step_context.parts) == {"stencils/helmholtz"}
    assert outcome.message == (
        "halide: run_halide_peers.py is not there; torch: torch_peers.py is not there; stencils: 1 of 1 apps"
    )
