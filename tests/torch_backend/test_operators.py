"""Translated ATen operators on PyTorch's own samples: a few of each, `make operators` checks all."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

pytest.importorskip("expecttest")
SCRIPTS = str(Path(__file__).parents[2] / "scripts")
if SCRIPTS not in sys.path:
    sys.path.append(SCRIPTS)  # last, so that no script shadows a library

from opinfo.check import Row, check_operator, is_decomposition, is_rounding  # noqa: E402
from opinfo.execution import Coverage, results_and_gradients, translated  # noqa: E402
from opinfo.records import Outcomes, summary  # noqa: E402
from opinfo.samples import belongs_to_tenth, element_types, operators, samples, tolerance  # noqa: E402

from autosched.lang.dtypes import BY_NAME  # noqa: E402
from autosched.torch.lowerings import LOWERINGS, Entry  # noqa: E402
from autosched.torch.tensors import TensorValue  # noqa: E402

aten = torch.ops.aten

SHARDS = 8
TYPES_OF_OPERATOR = 3
SAMPLED_EVERY = 2
"""Of how many operators one is checked in an element type; the others, and further types, are long runs."""


def drawn_types(name: str) -> list[torch.dtype]:
    """Return three element types of an operator, the first of them floating point where it has one."""
    types = list(element_types(operators()[name]))
    random.Random(name).shuffle(types)
    types.sort(key=lambda dtype: dtype != torch.float32)
    return types[:TYPES_OF_OPERATOR]


def check_shard(shard: int, types_of: Callable[[int, str], list[torch.dtype]]) -> None:
    torch.set_num_threads(1)
    names = list(enumerate(operators()))[shard::SHARDS]
    rows = [check_operator(name, dtype, 1, further=()) for k, name in names for dtype in types_of(k, name)]
    failures = [f"{row.operator} {row.dtype} {failure}" for row in rows for failure in row.failures]
    assert not failures, "\n".join(failures)
    assert sum(row.interpreted for row in rows) > 0


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_samples_are_those_of_eager(shard: int) -> None:
    check_shard(shard, lambda k, name: drawn_types(name)[:1] if k // SHARDS % SAMPLED_EVERY == 0 else [])


@pytest.mark.fuzz
@pytest.mark.parametrize("shard", range(SHARDS))
def test_samples_of_further_types_are_those_of_eager(shard: int) -> None:
    check_shard(shard, lambda k, name: drawn_types(name)[k // SHARDS % SAMPLED_EVERY == 0 :])


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("add", torch.int8), ("remainder", torch.int32), ("fmod", torch.int16), ("pow", torch.int64),
     ("bitwise_right_shift", torch.uint8), ("div.trunc_rounding", torch.float16), ("erf", torch.float64),
     ("split.list_args", torch.float32), ("argmax", torch.int8), ("softmax", torch.float32)],
)  # fmt: skip
def test_samples_in_all_backends(name: str, dtype: torch.dtype) -> None:
    row = check_operator(name, dtype, 1, further=("cpu", "emulator"))
    assert not row.failures
    assert row.interpreted == row.compiled == row.emulated == 1


def test_a_wrong_lowering_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    right = LOWERINGS[aten.mul.Tensor]

    def lower(context: object, a: TensorValue, b: TensorValue) -> TensorValue:
        value = right.lower(context, a, b)
        assert isinstance(value, TensorValue)
        return TensorValue(value.fake, lambda p: value.at(p) + 1)

    monkeypatch.setitem(LOWERINGS, aten.mul.Tensor, Entry(lower))
    for dtype in (torch.float32, torch.int32):
        row = check_operator("mul", dtype, 2, further=())
        assert row.interpreted == row.rounded == row.decomposed == 0
        assert len(row.failures) == 2 and "result 0" in row.failures[0]


def test_a_tenth_has_every_operator_and_type() -> None:
    for name in ("add", "clamp", "softmax"):
        for dtype in element_types(operators()[name]):
            for count in (1, 3, 10, 25):
                chosen = [k for k in range(count) if belongs_to_tenth(operators()[name], dtype, k, count)]
                assert 1 <= len(chosen) <= -(-count // 10)


def test_types_are_those_of_the_language() -> None:
    assert all(str(d).removeprefix("torch.") in BY_NAME for d in element_types(operators()["add"]))
    assert torch.float16 in element_types(operators()["add"])


def test_tolerances_are_the_widest_override() -> None:
    assert tolerance(operators()["add"], torch.float64) is None
    overridden = [limits for op in operators().values() if (limits := tolerance(op, torch.float32)) is not None]
    assert overridden and all(atol >= 0 and rtol >= 0 for atol, rtol in overridden)


def test_rounding_is_measured_against_float64() -> None:
    (sample,) = list(samples(operators()["sum"], torch.float32, 1))
    expected = results_and_gradients(sample.function, sample.tensors)
    assert is_rounding(sample, "interpreter", expected)
    (integers,) = list(samples(operators()["sum"], torch.int32, 1))
    assert not is_rounding(integers, "interpreter", results_and_gradients(integers.function, integers.tensors))


def test_random_numbers_are_those_of_the_decomposed_graph() -> None:
    sample = next(iter(samples(operators()["nn.functional.dropout"], torch.float32, 1)))
    assert is_decomposition(sample, "interpreter", None)
    coverage = Coverage()
    results_and_gradients(translated(sample.function, "pytorch", coverage), sample.tensors)
    assert not coverage.translated


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
