from __future__ import annotations

import dataclasses

import pytest
import torch

from autosched.featurize import schema
from autosched.model.architecture.network import ALGORITHM, CostNetwork
from autosched.model.data.ragged import KernelBatch
from autosched.model.predict.analytical_prior import prior_for
from autosched.model.settings import Form, ModelSettings
from autosched.target import get_target

H200 = get_target("h200")
FORMS: tuple[Form, ...] = ("paper", "timed")
PARTS = len(prior_for(H200).names)


def random_batch(kernels: int = 6, seed: int = 0) -> KernelBatch:
    g = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 5, (kernels,), generator=g)
    rows = int(lengths.sum())
    return KernelBatch(
        torch.rand(rows, schema.COUNT, generator=g, dtype=torch.float64) * 50,
        torch.randint(0, 4, (3, ALGORITHM), generator=g).double(),
        torch.randint(0, 3, (rows,), generator=g),
        torch.repeat_interleave(torch.arange(kernels), lengths),
        torch.cumsum(lengths, 0) - lengths,
        torch.rand(kernels, PARTS, generator=g, dtype=torch.float64) * 1e-5,
    )


def part_of(batch: KernelBatch, kernel: int) -> KernelBatch:
    rows = batch.kernel == kernel
    return dataclasses.replace(
        batch, schedule=batch.schedule[rows], stage=batch.stage[rows], kernel=torch.zeros(int(rows.sum()), dtype=int),
        first=torch.zeros(1, dtype=int), parts=batch.parts[kernel : kernel + 1],
    )  # fmt: skip


def network(form: Form, *, random: bool = True) -> CostNetwork:
    torch.manual_seed(0)
    found = CostNetwork(ModelSettings(form=form, standardise=form == "timed"), H200).double()
    found.fit(random_batch(40, seed=1))
    if random and form == "timed":
        torch.nn.init.normal_(found.coefficients.weight)  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("form", FORMS)
def test_predictions_do_not_depend_on_the_batch(form: Form) -> None:
    batch, net = random_batch(), network(form)
    together = net(batch)
    for k in range(batch.count):
        alone = net(part_of(batch, k))
        torch.testing.assert_close(alone.seconds[0], together.seconds[k], rtol=1e-12, atol=0)
        torch.testing.assert_close(alone.registers[0], together.registers[k], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_order_of_nested_stages_does_not_matter(form: Form) -> None:
    batch, net = random_batch(), network(form)
    k = next(k for k in range(batch.count) if (batch.kernel == k).sum() > 2)
    rows = torch.arange(len(batch.kernel))
    first = int(batch.first[k])
    rows[first + 1], rows[first + 2] = first + 2, first + 1
    swapped = dataclasses.replace(batch, schedule=batch.schedule[rows], stage=batch.stage[rows])
    torch.testing.assert_close(net(swapped).seconds, net(batch).seconds, rtol=1e-12, atol=0)


def test_untrained_it_is_the_analytical_model() -> None:
    batch, net = random_batch(), network("timed", random=False)
    torch.testing.assert_close(net(batch).seconds, net.prior.combined(batch.parts))


def test_corrections_are_bounded() -> None:
    batch, net = random_batch(), network("timed")
    torch.nn.init.constant_(net.coefficients.bias, 1e3)  # type: ignore[arg-type]
    ratio = net(batch).seconds / net.prior.combined(batch.parts)
    most = net.settings.correction**2  # of single parts and of the whole
    assert ((ratio > most * 0.9) & (ratio < most * 1.1)).all()


@pytest.mark.parametrize("form", FORMS)
def test_times_are_positive_and_have_derivatives(form: Form) -> None:
    net = network(form)
    found = net(random_batch())
    assert (found.seconds > 0).all()
    found.seconds.log().sum().backward()
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in net.parameters())
    assert net.encoder.schedule.weight.grad is not None


def test_constant_features_become_zero() -> None:
    batch, net = random_batch(40, seed=1), network("timed", random=False)
    reserved = schema.INDEX["shuffles_per_block"]
    constant = batch.schedule.clone()
    constant[:, reserved] = 0
    net.fit(dataclasses.replace(batch, schedule=constant))
    torch.nn.init.normal_(net.coefficients.weight)  # type: ignore[arg-type]
    other = constant.clone()
    other[:, reserved] = 1e6
    with_, without = (net(dataclasses.replace(batch, schedule=s)).seconds for s in (other, constant))
    torch.testing.assert_close(with_, without)
