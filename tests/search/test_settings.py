"""Hydra's configuration groups equal the search's own defaults."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from autosched.search.settings import GREEDY, PAPER, SearchSettings

CONFIGS = Path(__file__).parents[2] / "configs"


def composed(group: str) -> SearchSettings:
    hydra = pytest.importorskip("hydra")
    from hydra.utils import instantiate

    with hydra.initialize_config_dir(str(CONFIGS), version_base="1.3"):
        config = hydra.compose(overrides=[f"+search={group}"])
    found: Any = instantiate(config.search, _convert_="all")
    lists = {k: tuple(v) for k, v in dataclasses.asdict(found).items() if isinstance(v, list)}
    return dataclasses.replace(found, **lists)


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("paper", PAPER),
        ("refined", SearchSettings()),
        ("one_phase", dataclasses.replace(PAPER, phases=1)),
        ("exhaustive", dataclasses.replace(PAPER, sampling="exhaustive", freeze=False)),
        ("greedy", GREEDY),
    ],
)
def test_groups(group: str, expected: SearchSettings) -> None:
    assert composed(group) == expected
