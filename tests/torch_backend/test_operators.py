"""Translated ATen operators on PyTorch's own samples: a few of each, `make operators` checks all."""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch

pytest.importorskip("expecttest")
SCRIPTS = str(Path(__file__).parents[2] / "scripts")
if SCRIPTS not in sys.path:
    sys.path.append(SCRIPTS)  # last, so that no script shadows a library

from opinfo.check import Row, check_operator, check_operators, expected_samples, silenced  # noqa: E402
from opinfo.execution import compile_regions  # noqa: E402
from opinfo.groups import SampleGroup, expected_of, interpret_samples, is_rounding, judge_backend  # noqa: E402
from opinfo.records import Outcomes, summary  # noqa: E402
from opinfo.samples import belongs_to_tenth, element_types, operators, samples, tolerance  # noqa: E402

from autosched.lang.dtypes import BY_NAME  # noqa: E402
from autosched.torch.lowerings import LOWERINGS, Entry  # noqa: E402
from autosched.torch.tensors import TensorValue  # noqa: E402

aten = torch.ops.aten

SHARDS = 8
TYPES_OF_OPERATOR = 3


def drawn_types(name: str) -> list[torch.dtype]:
    """Return three element types of an operator, the first of them floating point where it has one."""
    types = list(element_types(operators()[name]))
    random.Random(name).shuffle(types)
    types.sort(key=lambda dtype: dtype != torch.float32)
    return types[:TYPES_OF_OPERATOR]


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_samples_are_those_of_eager(shard: int) -> None:
    torch.set_num_threads(1)
    skipped: Counter[str] = Counter()
    with silenced():
        pairs = [(name, dtype) for name in list(operators())[shard::SHARDS] for dtype in drawn_types(name)]
        members = [m for name, dtype in pairs for m in expected_samples(name, dtype, 1, skipped)[0]]
        outcomes = interpret_samples(members)
    judged = zip(members, outcomes, strict=True)
    failures = [f"{member.sample.title}: {o.text}" for member, o in judged if o.verdict == "failed"]
    assert not failures, "\n".join(failures)
    assert sum(o.is_right for o in outcomes) > 150


def test_samples_in_all_backends() -> None:
    chosen = [
        ("add", torch.int8), ("remainder", torch.int32), ("fmod", torch.int16), ("pow", torch.int64),
        ("bitwise_right_shift", torch.uint8), ("div.trunc_rounding", torch.float16), ("erf", torch.float64),
        ("split.list_args", torch.float32), ("argmax", torch.int8), ("softmax", torch.float32),
    ]  # fmt: skip
    members = [expected_of(sample) for name, dtype in chosen for sample in samples(operators()[name], dtype, 1)]
    outcomes = interpret_samples(members)
    assert [o.verdict for o in outcomes] == ["right"] * len(chosen)
    groups = {id(o.group): o.group for o in outcomes if o.group is not None}
    assert len(groups) < len(members)
    compile_regions(group.function for group in groups.values())
    libraries = {
        version.codes["cpu"].plan.library
        for group in groups.values()
        for region in group.function.regions
        for version in region.versions.values()
    }
    assert len(libraries) == 1
    for backend in ("cpu", "emulator"):
        judged = judge_backend(outcomes, backend)
        assert [o.verdict for o in judged] == ["right"] * len(chosen)
        assert {id(o.group) for o in judged} == set(groups)


def test_rows_have_counts_of_c() -> None:
    pairs = [("mul", torch.float32), ("view", torch.int16), ("sort", torch.int16)]
    rows = list(check_operators(pairs, 3))
    assert [(row.operator, row.dtype) for row in rows] == [(n, str(d).removeprefix("torch.")) for n, d in pairs]
    assert all(row.interpreted and row.compiled and not row.failures for row in rows[:2])
    assert rows[2].skipped


@pytest.fixture
def wrong_multiplication(monkeypatch: pytest.MonkeyPatch) -> None:
    right = LOWERINGS[aten.mul.Tensor]

    def lower(context: object, a: TensorValue, b: TensorValue) -> TensorValue:
        value = right.lower(context, a, b)
        assert isinstance(value, TensorValue)
        return TensorValue(value.fake, lambda p: value.at(p) + 1)

    monkeypatch.setitem(LOWERINGS, aten.mul.Tensor, Entry(lower))


@pytest.mark.usefixtures("wrong_multiplication")
def test_a_wrong_lowering_fails() -> None:
    for dtype in (torch.float32, torch.int32):
        row = check_operator("mul", dtype, 2, further=())
        assert row.interpreted == row.rounded == row.decomposed == 0
        assert len(row.failures) == 2 and "result 0" in row.failures[0]


@pytest.mark.usefixtures("wrong_multiplication")
def test_a_wrong_sample_of_a_group_fails_alone() -> None:
    members = [expected_of(s) for n in ("add", "mul", "sub") for s in samples(operators()[n], torch.float32, 1)]
    outcomes = interpret_samples(members)
    assert [o.verdict for o in outcomes] == ["right", "failed", "right"]
    assert outcomes[0].group is outcomes[2].group is not outcomes[1].group
    assert outcomes[0].coverage.translated == {"aten.add.Tensor"}


def test_gradients_of_a_group_are_those_of_its_samples() -> None:
    drawn = [s for n in ("mul", "cumulative_trapezoid") for s in samples(operators()[n], torch.float64, 3)]
    members = [expected_of(s) for s in drawn]
    for member, (results, gradients) in zip(members, SampleGroup(members).results("pytorch"), strict=True):
        torch.testing.assert_close(results, member.results[0])
        torch.testing.assert_close(gradients, member.results[1])
        assert gradients


def test_a_tenth_has_every_operator_and_type() -> None:
    for name in ("add", "clamp", "softmax"):
        for dtype in element_types(operators()[name]):
            for count in (1, 3, 10, 25):
                chosen = [k for k in range(count) if belongs_to_tenth(operators()[name], dtype, k, count)]
                assert 1 <= len(chosen) <= -(-count // 10)


def test_another_sample_replaces_a_tenth_without_a_region() -> None:
    op, dtype = operators()["repeat_interleave"], torch.uint8
    assert belongs_to_tenth(op, dtype, 3, 5)
    row = check_operator(op.full_name, dtype)
    assert sum(row.skipped.values()) == 1  # that one: its size depends on data
    assert (row.interpreted, row.compiled, row.failures) == (4, 1, ())


def test_types_are_those_of_the_language() -> None:
    assert all(str(d).removeprefix("torch.") in BY_NAME for d in element_types(operators()["add"]))
    assert torch.float16 in element_types(operators()["add"])


def test_tolerances_are_the_widest_override() -> None:
    assert tolerance(operators()["add"], torch.float64) is None
    overridden = [limits for op in operators().values() if (limits := tolerance(op, torch.float32)) is not None]
    assert overridden and all(atol >= 0 and rtol >= 0 for atol, rtol in overridden)


def test_rounding_is_measured_against_float64() -> None:
    (sample,) = list(samples(operators()["sum"], torch.float32, 1))
    member = expected_of(sample)
    assert is_rounding(member, member.results)
    results, gradients = member.results
    assert not is_rounding(member, ([r * 1.01 for r in results], gradients))
    (integers,) = list(samples(operators()["sum"], torch.int32, 1))
    member = expected_of(integers)
    assert not is_rounding(member, ([r + 1 for r in member.results[0]], []))


def test_rounding_of_integers_is_measured_with_float64_as_the_default() -> None:
    sample = list(samples(operators()["nn.functional.poisson_nll_loss"], torch.uint8))[70]
    member = expected_of(sample)
    (found,) = interpret_samples([member])
    assert found.verdict in ("right", "rounded")  # eager's order of the sum depends on the processor
    assert is_rounding(member, member.results)
    results, gradients = member.results
    assert not is_rounding(member, ([r * 1.001 for r in results], gradients))
    assert torch.get_default_dtype() == torch.float32


def test_random_numbers_are_those_of_the_decomposed_graph() -> None:
    drawn = samples(operators()["nn.functional.dropout"], torch.float32)
    outcomes = interpret_samples([expected_of(sample) for sample in drawn])
    assert {o.verdict for o in outcomes} == {"right", "decomposed"}
    assert all("not close" in o.text for o in outcomes if o.verdict == "decomposed")


def test_outcomes_are_read_again(tmp_path: Path) -> None:
    outcomes = Outcomes(tmp_path / "results" / "operators.jsonl")
    row = Row("add", "int8", 3, 1, 0, 0, ("aten.add.Tensor",), {}, {"no region": 2}, ("sample 1, cpu: wrong",), 0.5)
    outcomes.append(row)
    with outcomes.path.open("a", encoding="utf-8") as file:
        file.write('{"operator": "mu')  # an interrupted run
    assert outcomes.rows() == [row]
    assert outcomes.done() == {("add", "int8")}
    text = summary(outcomes.rows())
    assert "add int8 sample 1, cpu: wrong" in text and "     2  no region" in text
