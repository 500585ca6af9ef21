"""Keys of kernels: equal for equal computations, whatever schedules they are part of."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from autosched.measure.compile.codegen_version import Printer, fixed_schedules, generator_version
from autosched.measure.compile.content_keys import kernel_keys, schedule_text
from autosched.measure.job import Job
from autosched.measure.problem import Problem
from autosched.runtime.compile.host_compile_flags import kernel_options
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.legality.validate import validate
from autosched.search.datasets.candidate_mix import CandidateGenerator
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import Target, get_target

PROBLEM = Problem.app("harris", small=True)
H200, V100 = get_target("h200"), get_target("v100")


def keys(problem: Problem, schedule: str) -> tuple[str, ...]:
    return kernel_keys(problem.bind(), schedule, H200)


def test_a_mutation_shares_the_keys_of_all_kernels_but_one() -> None:
    bound = PROBLEM.bind()
    candidates = CandidateGenerator(bound, H200, 0)
    schedule = schedule_roots(bound, H200)
    mutated = candidates.mutator.mutated(schedule, np.random.default_rng(0))
    assert mutated is not None
    one, two = keys(PROBLEM, schedule_text(bound, schedule)), keys(PROBLEM, schedule_text(bound, mutated))
    assert sum(a != b for a, b in zip(one, two, strict=True)) == 1
    assert sum(a != b for a, b in zip(schedule.kernels, mutated.kernels, strict=True)) == 1


def test_keys_tell_targets_and_shapes_apart() -> None:
    bound = PROBLEM.bind()
    text = schedule_text(bound, schedule_roots(bound, H200))
    assert not set(kernel_keys(bound, text, H200)) & set(kernel_keys(bound, text, V100))
    other = Problem.app("harris", {"H": 64}, small=True)
    assert not set(keys(PROBLEM, text)) & set(keys(other, text))


def test_a_schedule_is_one_line_that_is_read_back_exactly() -> None:
    bound = PROBLEM.bind()
    schedule = schedule_roots(bound, H200)
    text = schedule_text(bound, schedule)
    assert "\n" not in text
    assert " " not in text
    assert from_json(text, bound) == schedule
    assert json.dumps(json.loads(to_json(bound, schedule)), separators=(",", ":")) == text, "in the same order"
    assert Job.of(PROBLEM, schedule, H200).read_schedule() == schedule


def test_the_version_of_the_generator_is_that_of_what_it_emits() -> None:
    assert generator_version("cuda") == generator_version("cuda")
    assert generator_version("cuda") != generator_version("c")
    assert len(generator_version("c")) == 12


def test_the_schedules_that_tell_the_version_are_legal() -> None:
    targets: dict[Printer, Target] = {"cuda": H200, "c": get_target("cpu")}
    seen: Counter[tuple[str, str]] = Counter()
    for printer, target in targets.items():
        for bound, schedule in fixed_schedules(printer):
            validate(bound, schedule, target)
            seen[printer, bound.pipeline.name] += 1
    often = {(p, b): 6 for p in targets for b in ("stencil", "reduction")}
    assert seen == often | {("c", "wide"): 2, ("c", "window"): 2} | {(p, "channels"): 1 for p in targets}


@pytest.mark.parametrize("printer", ["c", "cuda"])
def test_the_version_changes_with_where_narrow_rows_lie(printer: Printer, monkeypatch: pytest.MonkeyPatch) -> None:
    from autosched.measure.compile import codegen_version
    from autosched.schedule import policy

    options = codegen_version._options() if printer == "c" else ()
    before = generator_version(printer)
    monkeypatch.setattr(policy, "NARROW_BYTES", 0)
    assert codegen_version._version.__wrapped__(printer, options) != before


@pytest.mark.parametrize(("name", "other"), [("STRIP_LANES", (1024,)), ("SUMS_BYTES", 0)])
def test_the_version_for_c_changes_with_how_rows_add_up(
    name: str, other: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autosched.measure.compile import codegen_version
    from autosched.schedule import cpu_policy

    before = generator_version("c")
    monkeypatch.setattr(cpu_policy, name, other)
    assert codegen_version._version.__wrapped__("c", codegen_version._options()) != before


def test_the_version_for_c_changes_with_rows_that_are_taken_together(monkeypatch: pytest.MonkeyPatch) -> None:
    from autosched.measure.compile import codegen_version
    from autosched.schedule import cpu_policy

    before = generator_version("c")
    monkeypatch.setattr(cpu_policy, "JAM_FACTORS", ())
    assert codegen_version._version.__wrapped__("c", codegen_version._options()) != before


def test_the_version_changes_with_emitted_code(monkeypatch: object) -> None:
    from autosched.codegen.cuda import CudaKernel
    from autosched.measure.compile import codegen_version

    before = generator_version("cuda")
    original = CudaKernel.source
    changed = property(lambda kernel: original.fget(kernel) + "\n// another line")  # type: ignore[attr-defined]
    monkeypatch.setattr(CudaKernel, "source", changed)  # type: ignore[attr-defined]
    assert codegen_version._version.__wrapped__("cuda", ()) != before


def test_the_version_for_c_changes_with_how_it_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    from autosched.measure.compile import codegen_version

    before = {printer: generator_version(printer) for printer in ("c", "cuda")}
    monkeypatch.setattr(codegen_version, "kernel_options", lambda gnu: (*kernel_options(gnu), "-O2"))
    assert generator_version("c") != before["c"]
    assert generator_version("cuda") == before["cuda"]
