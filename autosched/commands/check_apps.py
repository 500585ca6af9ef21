"""Check of an app's results on every backend of this machine."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autosched.api import schedule
from autosched.apps import App
from autosched.apps.agreement import disagreement
from autosched.commands.files import Array
from autosched.commands.problem import SIMULATED_GPU
from autosched.commands.run import compute
from autosched.errors import InputError
from autosched.reference import interpret
from autosched.runtime.backends.cupy_driver import gpu_problem
from autosched.runtime.backends.executable import Backend
from autosched.runtime.compile.host_compiler import have_compiler
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.scheduled_pipeline import ScheduledPipeline

STRATEGY = "roots"


@dataclass
class AppVerdict:
    """Verdict on an app.

    Attributes:
        app: Its name.
        problems: For each check, its failure, or None.
        skipped: For each skipped check, the reason.
        seconds: Time of all checks.
    """

    app: str
    problems: dict[str, str | None] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return all(problem is None for problem in self.problems.values())

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON data; ``checks`` maps each check to its failure, or null."""
        return {
            "app": self.app,
            "ok": self.ok,
            "checks": self.problems,
            "skipped": self.skipped,
            "seconds": self.seconds,
        }


def check_app(app: App, missing: Mapping[str, str]) -> AppVerdict:
    """Run an app at its small size on every available backend, and compile it for the H200.

    Outputs of all backends are compared with the app's own reference and with the interpreter. Backends on the CPU must
    match the interpreter bit for bit, except for differently rounded functions. A failed check does not prevent the
    remaining ones.

    Args:
        app: The app.
        missing: Checks to skip, each with its reason, from `missing_tools`.
    """
    started = time.perf_counter()
    verdict = AppVerdict(app.name)
    case = _Case(app)
    # The emulator comes before C: it reports an access out of bounds, which may crash the process in C.
    for name, check in (
        ("build", case.build),
        ("reference", case.run_reference),
        ("interpreter", case.interpret),
        ("emulator", lambda: case.compile_and_run("emulator", SIMULATED_GPU)),
        ("cpu", lambda: case.compile_and_run("cpu", "cpu")),
        ("NVRTC", case.compile_for_gpu),
        ("cuda", lambda: case.compile_and_run("cuda", "cuda")),
    ):
        if name in missing:
            verdict.skipped[name] = missing[name]
            continue
        try:
            verdict.problems[name] = check()
        except Exception as error:  # an error in one app must not prevent the checks of other apps
            if isinstance(error, InputError) and isinstance(error.__cause__, ImportError):
                verdict.skipped[name] = str(error)
            else:
                verdict.problems[name] = f"{type(error).__name__}: {error}"
        if verdict.problems.get("build"):
            break
    verdict.seconds = time.perf_counter() - started
    return verdict


def missing_tools() -> dict[str, str]:
    """Return the checks without tools on this machine, each with the missing tool."""
    tools = {
        "emulator": (have_compiler("c++"), "there is no C++ compiler"),
        "cpu": (have_compiler("c"), "there is no C compiler"),
        "NVRTC": (have_nvrtc(), "it cannot be used"),
        "cuda": (not gpu_problem(), "there is no GPU that can be used"),
    }
    return {name: reason for name, (is_available, reason) in tools.items() if not is_available}


class _Case:
    """An app at its small size; its checks return a failure or None."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.inputs: dict[str, Array] = {}
        self.expected: dict[str, Array] = {}
        self.interpreted: dict[str, Array] = {}
        self._schedules: dict[str, ScheduledPipeline] = {}

    def build(self) -> None:
        self.pipeline, self.values = self.app.configure()
        self.inputs = self.app.make_inputs(self.app.small_sizes)

    def run_reference(self) -> str | None:
        self.expected = self.app.reference(self.inputs)
        names = self.pipeline.output_names
        return None if set(self.expected) == set(names) else f"returns {', '.join(self.expected)}"

    def interpret(self) -> str | None:
        self.interpreted = interpret(self.pipeline, self.inputs, self.values)
        return self._against_reference(self.interpreted)

    def compile_and_run(self, backend: Backend, target: str) -> str | None:
        outputs = compute(self._scheduled(target).compile(backend), self.inputs)
        for name, array in outputs.items():
            if name not in self.interpreted:
                continue  # the interpreter failed, which is already reported
            if backend == "cuda":  # products and sums may be contracted
                problem = self.app.tolerance.mismatch(array, self.interpreted[name])
            else:
                problem = disagreement(self.pipeline, self.app.tolerance, array, self.interpreted[name])
            if problem:
                return f"{name} differs from the interpreter's: {problem}"
        return self._against_reference(outputs)

    def compile_for_gpu(self) -> None:
        self._scheduled(SIMULATED_GPU).compile("cuda")

    def _scheduled(self, target: str) -> ScheduledPipeline:
        if target not in self._schedules:
            self._schedules[target] = schedule(
                self.pipeline, inputs=self.inputs, target=target, params=self.values, strategy=STRATEGY
            )
        return self._schedules[target]

    def _against_reference(self, outputs: dict[str, Array]) -> str | None:
        for name in outputs.keys() & self.expected.keys():
            problem = self.app.tolerance.mismatch(outputs[name], self.expected[name])
            if problem:
                return f"{name} differs from the reference's: {problem}"
        return None
