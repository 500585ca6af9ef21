"""Emission of the programs of labels, in a process of one version of this library.

    PYTHONPATH=TREE:scripts python -m checks.emission TREE

Each line of standard input is a question, and each line of output an `Answer`. Nothing of the library is imported
before the first question, and modules that had other names in earlier versions are imported by either name.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, TypedDict

from benchmarks.version_process import ROOT


class EmittedKernel(TypedDict):
    """A kernel: its text, and for a GPU the shape of its launch."""

    text: str
    launch: list[Any]


class Answer(TypedDict):
    """Programs of one problem.

    ``pipeline_hash`` is empty if the problem cannot be opened. ``kernels`` are the distinct kernels. A program is the
    list of its kernels' numbers, or the message of the error for a schedule that the version refuses.
    """

    pipeline_hash: str
    kernels: list[EmittedKernel]
    programs: list[list[int] | str]


def serve(tree: Path) -> int:
    """Serve one version: emit the programs of each problem on standard input."""
    answers, sys.stdout = sys.stdout, sys.stderr
    package = import_module("autosched").__file__ or ""
    assert Path(package).is_relative_to(tree), f"{package} was imported in place of {tree}"
    for line in sys.stdin:
        print(json.dumps(answer_to(json.loads(line), checked=tree == ROOT)), file=answers, flush=True)
    return 0


def answer_to(question: dict[str, Any], *, checked: bool) -> Answer:
    """Return the programs of a problem.

    Args:
        question: Text of the problem, target, source of the labels, and schedules.
        checked: Whether to refuse schedules that are not legal for the target.
    """
    from autosched.errors import AutoschedError
    from autosched.measure.problem import Problem
    from autosched.target import get_target

    count = len(question["schedules"])
    try:
        bound = Problem.parse(question["problem"]).bind()
    except AutoschedError as error:
        return {"pipeline_hash": "", "kernels": [], "programs": [str(error)] * count}
    emitter = Emitter(bound, get_target(question["target"]), question["source"], checked=checked)
    programs: list[list[int] | str] = []
    for schedule in question["schedules"]:
        try:
            programs.append(emitter.program(schedule))
        except AutoschedError as error:
            programs.append(str(error))
    return {"pipeline_hash": bound.pipeline.hash, "kernels": emitter.kernels, "programs": programs}


class Emitter:
    """Emits schedules of one pipeline; kernels that schedules share are emitted once.

    Args:
        bound: The pipeline.
        target: Target of the labels.
        source: Source of the labels, which describes a processor.
        checked: Whether to refuse schedules that are not legal for the target.
    """

    def __init__(self, bound: Any, target: Any, source: str, *, checked: bool) -> None:
        self.kernels: list[EmittedKernel] = []
        self._bound = bound
        self._is_cpu = target.kind == "cpu"
        self._target = _target_of_labels(target, source) if checked else None
        self._numbers: dict[Any, int] = {}

    def program(self, text: str) -> list[int]:
        """Return the numbers of a schedule's kernels; raises `AutoschedError` if it is refused."""
        from autosched.lower import program

        lower_kernel = getattr(program, "lower_kernel_of", None) or program.lower_one
        schedule = _from_json()(text, self._bound)
        if self._target is not None:
            from autosched.schedule.legality.validate import validate

            validate(self._bound, schedule, self._target)
        layout = program.outline(self._bound, schedule)
        numbers = []
        for k, label in enumerate(layout.labels):
            # In complete schedules with equal rewrites, equal kernels are the same computation.
            key = schedule.rewrites, schedule.kernels[k], label
            if key not in self._numbers:
                self.kernels.append(self._printed(program.Program(**vars(layout), kernels=(lower_kernel(layout, k),))))
                self._numbers[key] = len(self.kernels) - 1
            numbers.append(self._numbers[key])
        return numbers

    def _printed(self, program: Any) -> EmittedKernel:
        if self._is_cpu:
            from autosched.codegen.c import print_c

            return {"text": print_c(program).text, "launch": []}
        from autosched.codegen.cuda import print_cuda

        kernel = print_cuda(program.kernels[0])
        launch = [kernel.grid, kernel.block, kernel.shared_bytes, getattr(kernel, "launches", 1)]
        return {"text": kernel.source, "launch": launch}


def _from_json() -> Any:
    package = "autosched.schedule"
    try:
        return import_module(f"{package}.io.serialise").from_json
    except ImportError:  # of versions in which the package has no sub-packages
        return import_module(f"{package}.serialise").from_json


def _target_of_labels(target: Any, source: str) -> Any:
    from autosched.measure.store.cpu_labels import target_of_labels

    return target_of_labels(target, source)


if __name__ == "__main__":
    sys.exit(serve(Path(sys.argv[1])))
