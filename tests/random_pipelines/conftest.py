"""Random pipelines shared by several tests."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from autosched.random_pipelines import RandomPipeline, random_pipeline

SEEDS = 150


@pytest.fixture(scope="session")
def many() -> Sequence[RandomPipeline]:
    """The first pipelines under the standard settings."""
    return [random_pipeline(seed) for seed in range(SEEDS)]
