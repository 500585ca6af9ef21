from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from autosched.model.architecture.network import CostNetwork
from autosched.model.data.dataset import Dataset, build_dataset
from autosched.model.data.feature_store import FeatureStore
from autosched.model.predict.checkpoint import Checkpoint, WeightsProvenance
from autosched.model.predict.prediction_trust import SHARE_BELOW, blend_with_analytical, min_analytical_ratio
from autosched.model.settings import ModelSettings
from autosched.model.train.fine_tuning import TunedWeights, TuningSettings
from tests.model.labelled_samples import H200, SOURCE, samples


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return build_dataset(samples(), H200, FeatureStore(tmp_path_factory.mktemp("features"), H200))


def shares(dataset: Dataset) -> list[float]:
    """Return measured over analytical time of every distinct kernel."""
    found = {
        int(k): float(s) / float(dataset.parts[k, -1])
        for k, s in zip(dataset.entry_kernel, dataset.entry_seconds, strict=True)
        if np.isfinite(s)
    }
    return list(found.values())


def test_few_kernels_violate_the_bound(dataset: Dataset) -> None:
    everything = np.arange(len(dataset.pipelines))
    least = min_analytical_ratio(dataset, everything)
    found = np.array(shares(dataset))
    assert np.mean(found < least) == pytest.approx(SHARE_BELOW, abs=1 / len(found))


def test_equal_kernels_count_once(dataset: Dataset) -> None:
    one = np.array([0])
    samples_of = dataset.samples_of(one)
    end = dataset.sample_start[samples_of[-1] + 1]
    kernels = set(dataset.entry_kernel[:end].tolist())
    only = {
        k: s / dataset.parts[k, -1]
        for k, s in zip(dataset.entry_kernel[:end].tolist(), dataset.entry_seconds[:end].tolist(), strict=True)
    }
    assert set(only) == kernels
    # a kernel of several schedules has one time here, as their labels follow from the kernel alone
    assert min_analytical_ratio(dataset, one) == pytest.approx(np.quantile(list(only.values()), SHARE_BELOW), rel=1e-6)


def test_without_times_of_kernels_there_is_no_bound(dataset: Dataset) -> None:
    unknown = replace(dataset, entry_seconds=np.full_like(dataset.entry_seconds, np.nan))
    assert min_analytical_ratio(unknown, np.arange(len(dataset.pipelines))) == 0.0
    assert min_analytical_ratio(dataset, np.zeros(0, np.int64)) == 0.0


def test_tuning_only_lowers_it(tmp_path: Path) -> None:
    """Ratios in a pipeline's own labels are no prediction errors."""
    own = [s for s in samples() if s.family == "blur"]
    found = min_analytical_ratio(build_dataset(own, H200, FeatureStore(tmp_path, H200)), np.array([0]))
    for before, after in ((found / 2, found / 2), (2 * found, found)):
        network = CostNetwork(ModelSettings(hidden=8), H200)
        checkpoint = Checkpoint(
            network, ModelSettings(hidden=8), WeightsProvenance(H200, SOURCE, least_share=before), Path("w.safetensors")
        )
        weights = TunedWeights(checkpoint, H200, SOURCE, TuningSettings(passes=1))
        weights.train(own, 0)
        assert weights.model.provenance.least_share == pytest.approx(after)


def test_trust_is_a_weight_of_logarithms() -> None:
    seconds, analytical = np.array([8e-6, 1e-6, 3e-6]), np.array([2e-6, 4e-6, 3e-6])
    assert blend_with_analytical(seconds, analytical, 0.5) == pytest.approx([4e-6, 2e-6, 3e-6])
    assert blend_with_analytical(seconds, analytical, 0.25) == pytest.approx(
        analytical * (seconds / analytical) ** 0.25
    )
    assert np.array_equal(blend_with_analytical(seconds, analytical, 1.0), seconds)
    tensors = blend_with_analytical(torch.from_numpy(seconds), torch.from_numpy(analytical), 0.5)
    assert tensors.numpy() == pytest.approx([4e-6, 2e-6, 3e-6])
