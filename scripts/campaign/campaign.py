"""The whole campaign: steps in sequence, each in its own process with a time limit."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from campaign.child_process import run_child
from campaign.cubin_bundle import CODE_FILE, unpack_code
from campaign.files import read_json, write_json
from campaign.options import Options
from campaign.paths import ROOT, child_environment, link_packages
from campaign.plan import Step, budgets, why_not
from campaign.wheels import unpack_wheels

STATE_FILE = "state.json"
VERSION = 1
REPORT_S = 5.0
"""Seconds reserved for the report."""
_ENVIRONMENT_S = 60.0

Say = Callable[[str], None]


class StateError(Exception):
    """The results of the directory cannot be extended."""


@dataclass
class Campaign:
    """Runs steps and records their status.

    Args:
        options: Options of the campaign.
        say: Callback for progress messages.
        command: Command line, for the record.
        why_not: Returns the reason why a step cannot run on this machine; empty if it can.
    """

    options: Options
    say: Say = print
    command: Sequence[str] = ()
    why_not: Callable[[Step, Options], str] = why_not
    _state: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self._state = read_json(self._path, {"version": VERSION, "device": "", "calls": [], "steps": {}})
        if self._state.get("version") != VERSION:
            raise StateError(f"{self._path} was written by another version of this script: choose another --out")

    def run(self, steps: Sequence[Step], seconds: float, *, again: Sequence[str] = ()) -> int:
        """Run the unfinished steps.

        Args:
            steps: In order.
            seconds: Time limit of all steps and the report.
            again: Finished steps to run again; each of their parts is kept until it is replaced.

        Returns:
            0, or 1 if any step failed, reported failures, or lacks a GPU.

        Raises:
            StateError: If earlier results are of another device.
        """
        end = time.monotonic() + seconds
        link_packages(ROOT, self._site)
        self._unpack_wheels()
        call: dict[str, Any] = {
            "date": _now(),
            "command": list(self.command),
            "seconds": seconds,
            "commit": self.options.commit,
        }
        self._state["calls"].append(call)
        call["machine"] = self._machine(min(_ENVIRONMENT_S, seconds / 4))
        if any(step.runs for step in steps):  # schedules and weights belong to no machine
            self._check_device(call["machine"])
        self._write()
        for name in again:
            self._state["steps"].pop(name, None)
        self._unpack()
        todo = self._possible(steps)
        for number, step in enumerate(todo):
            left = end - time.monotonic() - REPORT_S
            own = budgets(todo[number:], left)[0] if left > 0 else 0.0
            if own < step.least_s:
                self._note(step, {"status": "not started", "message": "there was no time left"})
                continue
            self._run(step, own)
        call["took_s"] = round(seconds - (end - time.monotonic()), 1)
        self._write()
        without_gpu = any(self._no_gpu(step) for step in steps)
        failed = any(self._status(s.name).get("status") == "failed" for s in steps)
        wrong = any(self._status(s.name).get("failures") for s in steps)
        return 1 if without_gpu or failed or wrong else 0

    @property
    def _path(self) -> Path:
        return self.options.out_path / STATE_FILE

    @property
    def _site(self) -> Path:
        return self.options.work_path / "site"

    @property
    def _packages(self) -> Path:
        return self.options.work_path / "packages"

    def _status(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self._state["steps"].get(name, {})
        return found

    def _possible(self, steps: Sequence[Step]) -> list[Step]:
        """Return the unfinished steps that can run here; print why other steps are skipped."""
        found = []
        for step in steps:
            if self._status(step.name).get("status") == "finished":
                self.say(f"{step.name}: finished before")
                continue
            reason = self.why_not(step, self.options) or self._no_gpu(step)
            if reason:
                self._note(step, {"status": "skipped", "message": reason})
                continue
            found.append(step)
        return found

    def _no_gpu(self, step: Step) -> str:
        """Return why the GPU that a step needs is missing; empty otherwise."""
        machine = self._state["calls"][-1]["machine"]
        if self.options.target != "cuda" or not step.runs or machine.get("device"):
            return ""
        return f"no GPU was found: {_last_line(machine.get('error', ''))}"

    def _run(self, step: Step, seconds: float) -> None:
        self.say(f"{step.name}: up to {seconds:.0f} s")
        outcome = self.options.work_path / f"{step.name}.outcome.json"
        outcome.unlink(missing_ok=True)
        ended = run_child(
            [sys.executable, "-m", "campaign.step", step.name, self.options.text(), repr(seconds), str(outcome)],
            seconds, self.options.work_path / "logs" / f"{step.name}.txt", env=self._environment(), cwd=ROOT,
        )  # fmt: skip
        found = read_json(outcome, None)
        if found is not None:
            status = {"status": "finished" if found.pop("finished") else "to be continued", **found}
        elif ended.killed:
            status = {"status": "to be continued", "message": "killed when its time was over", "tail": ended.tail}
        else:
            message = f"ended with {ended.code}: {_last_line(ended.tail)}"
            status = {"status": "failed", "message": message, "tail": ended.tail}
        self._note(step, {**status, "seconds": round(ended.seconds, 1)})

    def _note(self, step: Step, status: Mapping[str, Any]) -> None:
        self._state["steps"][step.name] = {**status, "call": len(self._state["calls"])}
        self._write()
        self.say(f"{step.name}: {status['status']}: {status.get('message', '')}")
        if status["status"] == "failed":
            self.say(str(status["tail"]))

    def _unpack_wheels(self) -> None:
        """Add packages from wheels to this process's path, where requirements are looked up, and to its children's.

        Raises:
            StateError: If a wheel is damaged.
        """
        if not self.options.wheels:
            return
        try:
            names = unpack_wheels(Path(self.options.wheels), self._packages)
        except ValueError as error:
            raise StateError(str(error)) from error
        if str(self._packages) not in sys.path:
            sys.path.append(str(self._packages))
        self.say(f"packages from wheels: {', '.join(names)}")

    def _unpack(self) -> None:
        """Unpack machine code compiled elsewhere into the cache.

        Raises:
            StateError: If the file is damaged.
        """
        try:
            count = unpack_code(self.options.out_path / CODE_FILE, Path(self._environment()["AUTOSCHED_CACHE_DIR"]))
        except ValueError as error:
            raise StateError(str(error)) from error
        if count:
            self.say(f"{count} files of compiled code are taken from {CODE_FILE}")

    def _write(self) -> None:
        write_json(self._path, self._state)

    def _machine(self, seconds: float) -> dict[str, Any]:
        """Return the description of this machine, queried in a child process: a broken driver may hang."""
        found = self.options.work_path / "machine.json"
        found.unlink(missing_ok=True)
        log = self.options.work_path / "logs" / "machine.txt"
        command = [sys.executable, "-m", "campaign.machine", self.options.target, str(found)]
        ended = run_child(command, seconds, log, env=self._environment(), cwd=ROOT)
        machine: dict[str, Any] = read_json(found, {"device": "", "error": ended.tail})
        return machine

    def _check_device(self, machine: Mapping[str, Any]) -> None:
        """Refuse to extend results of another device; without a device query there is no conflict."""
        device = str(machine.get("device", ""))
        recorded = self._state["device"]
        if device and recorded and device != recorded:
            raise StateError(
                f"{self.options.out} has results of {recorded}, and this machine has {device}: choose another --out"
            )
        self._state["device"] = recorded or device

    def _environment(self) -> dict[str, str]:
        env = child_environment(self._site)
        if self.options.wheels:  # last: what is installed comes first
            env["PYTHONPATH"] = os.pathsep.join([env["PYTHONPATH"], str(self._packages)])
        env.setdefault("AUTOSCHED_CACHE_DIR", str(self.options.work_path / "cache"))
        env.setdefault("OPENBLAS_NUM_THREADS", "1")  # processes are as many as cores
        return env


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
