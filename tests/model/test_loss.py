from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from autosched.model.architecture.loss import (
    LossLabels,
    kernel_loss,
    order_loss,
    resource_loss,
    schedule_seconds,
    throughput_loss,
    total_loss,
)
from autosched.model.architecture.network import Predicted
from autosched.model.settings import LossSettings

NAN = float("nan")
# Two pipelines; the first has two schedules of two kernels each, which share kernel 0; the second one of one kernel.
LABELS = LossLabels(
    seconds=torch.tensor([3.0, 5.0, 7.0]),
    pipeline=torch.tensor([0, 0, 1]),
    pipelines=2,
    entry_sample=torch.tensor([0, 0, 1, 1, 2]),
    entry_kernel=torch.tensor([0, 1, 0, 2, 3]),
    entry_seconds=torch.tensor([1.0, 2.0, 1.0, 4.0, 7.0]),
    registers=torch.tensor([32.0, NAN, 32.0, NAN, 64.0]),
    spill_bytes=torch.tensor([0.0, NAN, 0.0, NAN, 8.0]),
)
TRUE = torch.tensor([1.0, 2.0, 4.0, 7.0])


def predicted(seconds: torch.Tensor) -> Predicted:
    registers = torch.tensor([32.0, 99.0, 99.0, 64.0])
    return Predicted(seconds, registers, torch.log1p(torch.tensor([0.0, 5.0, 5.0, 8.0])), torch.zeros(()))


def test_schedules_are_sums_of_kernels() -> None:
    assert schedule_seconds(TRUE, LABELS).tolist() == [3.0, 5.0, 7.0]


def test_loss_of_the_labels_is_zero() -> None:
    loss, terms = total_loss(predicted(TRUE), LABELS, LossSettings(order=0.0))
    assert float(loss) == pytest.approx(0.0, abs=1e-10)
    assert set(terms) == {"throughput", "time", "order", "kernel", "resources", "negative"}
    assert terms["order"] < 0.01  # 5 s and 3 s are as good as certain


def test_throughput_is_relative_to_the_best_of_the_pipeline() -> None:
    found = throughput_loss(torch.tensor([6.0, 5.0, 7.0]), LABELS)
    assert float(found) == pytest.approx(((3 / 6 - 3 / 3) ** 2) / 3)


def test_throughput_loss_neglects_slow_schedules() -> None:
    labels = LossLabels(
        torch.tensor([1.0, 100.0]), torch.tensor([0, 0]), 1, *(torch.zeros(0, dtype=torch.int64),) * 2,
        *(torch.zeros(0),) * 3,
    )  # fmt: skip
    of_slow = throughput_loss(torch.tensor([1.0, 200.0]), labels)
    of_fast = throughput_loss(torch.tensor([2.0, 100.0]), labels)
    assert of_slow < of_fast / 1000


def test_gradient_of_much_too_fast_predictions() -> None:
    seconds = torch.tensor([1e-6, 5.0, 7.0], requires_grad=True)
    throughput_loss(seconds, LABELS).backward()
    assert seconds.grad is not None
    assert seconds.grad[0] < 0  # a longer time would be better


def test_order_loss_is_within_a_pipeline() -> None:
    right, alike, wrong = (float(order_loss(torch.tensor([3.0, t, 7.0]), LABELS)) for t in (5.0, 3.0, 2.0))
    assert right < alike < wrong
    assert alike == pytest.approx(math.log(2))
    assert float(order_loss(torch.tensor([3.0, 5.0, 0.1]), LABELS)) == pytest.approx(right)


def test_pairs_within_noise_do_not_count() -> None:
    alike = replace(LABELS, seconds=torch.tensor([3.0, 3.01, 7.0]))
    assert float(order_loss(torch.tensor([5.0, 3.0, 7.0]), alike)) == 0.0


def test_unknown_labels_of_kernels_do_not_count() -> None:
    wrong = TRUE.clone()
    wrong[1] = 50.0
    unknown = LossLabels(
        LABELS.seconds, LABELS.pipeline, 2, LABELS.entry_sample, LABELS.entry_kernel,
        torch.tensor([1.0, NAN, 1.0, 4.0, 7.0]), LABELS.registers, LABELS.spill_bytes,
    )  # fmt: skip
    assert kernel_loss(wrong, LABELS) > 0.1
    assert float(kernel_loss(wrong, unknown)) == 0.0
    assert float(resource_loss(predicted(TRUE), LABELS)) == pytest.approx(0.0, abs=1e-6)
