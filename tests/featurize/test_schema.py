"""Every feature is documented, and nonzero for some kernel unless it is reserved."""

from __future__ import annotations

import numpy as np

from autosched.featurize.schema import COUNT, FEATURES, INDEX, NAMES
from tests.featurize.random_kernels import drawn_kernels

RESERVED = {
    "split_reduction_factor",
    "shuffles_per_block",
    "streaming_steps",
    "asynchronous_bytes_per_block",
    "live_out_bytes",
}
APPS = ("harris", "unsharp", "bilateral_grid", "hist", "denoise")


def test_names_are_distinct_and_documented() -> None:
    assert len(set(NAMES)) == COUNT == len(FEATURES)
    for f in FEATURES:
        assert f.meaning.endswith(".") and f.unit
        assert FEATURES[INDEX[f.name]] is f


def test_every_feature_is_nonzero_for_some_kernel_and_finite_for_all() -> None:
    largest = np.zeros(COUNT)
    for name in APPS:
        for drawn in drawn_kernels(name, 4):
            features = drawn.featurizer.model(drawn.piece.sketch).evaluate(drawn.params).features
            assert np.isfinite(features).all()
            assert (features >= 0).all()
            largest = np.maximum(largest, features.max(axis=(0, 1)))
    assert {n for n, v in zip(NAMES, largest, strict=True) if v == 0} == RESERVED


def test_ratios_are_at_most_one() -> None:
    ratios = [f.name for f in FEATURES if f.unit == "ratio"]
    for drawn in drawn_kernels("unsharp", 4):
        features = drawn.featurizer.model(drawn.piece.sketch).evaluate(drawn.params).features
        for name in ratios:
            assert (features[:, :, INDEX[name]] <= 1).all(), name
