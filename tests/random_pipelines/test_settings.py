"""Hydra's configuration groups equal the settings of the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autosched.errors import InputError
from autosched.random_pipelines import random_pipeline
from autosched.random_pipelines.settings import CPU, SMALL, USERS, RandomPipelineSettings

CONFIGS = Path(__file__).parents[2] / "configs"


def composed(group: str, *overrides: str) -> Any:
    hydra = pytest.importorskip("hydra")
    from hydra.utils import instantiate

    with hydra.initialize_config_dir(str(CONFIGS), version_base="1.3"):
        config = hydra.compose(overrides=[f"+random_pipelines={group}", *overrides])
    return instantiate(config.random_pipelines, _convert_="all")


@pytest.mark.parametrize(
    ("group", "expected"), [("standard", RandomPipelineSettings()), ("cpu", CPU), ("small", SMALL), ("users", USERS)]
)
def test_groups(group: str, expected: RandomPipelineSettings) -> None:
    assert composed(group) == expected


def test_one_weight_can_be_overridden() -> None:
    found = composed("small", "random_pipelines.kinds.flip=0", "random_pipelines.stages=[2,5]")
    assert found.kinds == {**SMALL.kinds, "flip": 0}
    assert found.stages == (2, 5)


def test_one_family_can_be_overridden() -> None:
    found = composed("users", "random_pipelines.families.tables=5")
    assert found.families == {**USERS.families, "tables": 5}


def test_order_of_weights_does_not_matter() -> None:
    kinds = {"flip": 1.0, "conv2d": 2.0, "activation": 1.0}
    backwards = dict(reversed(kinds.items()))
    first, second = (random_pipeline(4, RandomPipelineSettings(kinds=k)) for k in (kinds, backwards))
    assert first.pipeline.hash == second.pipeline.hash


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"stages": (0, 3)}, "stages is 0 to 3"),
        ({"extents": (9, 3)}, "extents is 9 to 3"),
        ({"ranks": (1, 2)}, "ranks is"),
        ({"odd": 1.5}, "odd is 1.5"),
        ({"kinds": {"convolution": 1.0}}, "kinds has no 'convolution'"),
        ({"kinds": {"conv2d": -1.0}}, "kinds needs weights"),
        ({"dtypes": {}}, "dtypes needs weights"),
        ({"dtypes": {"complex64": 1.0}}, "dtypes has no 'complex64'"),
        ({"outputs": (0.0,)}, "outputs is"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        RandomPipelineSettings(**wrong)
