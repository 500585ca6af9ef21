"""Stored golden data equals what PyTorch computes."""

from __future__ import annotations

import numpy as np
import pytest

NAMES = ("softmax", "cross_entropy", "rms_norm", "layer_norm_softmax", "group_norm",
         "attention", "masked_attention", "causal_attention")  # fmt: skip


@pytest.mark.fuzz
@pytest.mark.parametrize("name", NAMES)
def test_stored_data_equals_pytorchs(name: str) -> None:
    pytest.importorskip("torch")
    from tests.golden.pytorch_data import FUNCTIONS, GOLDEN, golden_data

    assert set(FUNCTIONS) == set(NAMES)
    assert (GOLDEN / f"{name}.npz").stat().st_size < 200_000
    with np.load(GOLDEN / f"{name}.npz") as stored:
        made = golden_data(name)
        assert set(stored.files) == set(made)
        for key in set(made) - {"meta"}:
            np.testing.assert_allclose(stored[key], made[key], rtol=1e-6, atol=1e-7, err_msg=key)
