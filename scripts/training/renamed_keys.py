"""Old names of keys of configurations: they work for one version, with a DeprecationWarning."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence

from omegaconf import DictConfig, OmegaConf

from autosched.deprecation import warn_renamed

RENAMED_KEYS = {"measure.turns": "measure.rounds", "dataset.schedules.views": "dataset.schedules.rewrites"}
"""New names by the old ones."""


def present_overrides(arguments: Sequence[str]) -> list[str]:
    """Return arguments of a command line with the present names of keys, which Hydra verifies."""
    result = []
    for argument in arguments:
        for old, new in RENAMED_KEYS.items():
            present = re.sub(rf"^([+~]*){re.escape(old)}(?=[.=]|$)", rf"\g<1>{new}", argument)
            if present != argument:
                warn_renamed(f"the key {old}", new)
                argument = present
        result.append(argument)
    return result


def with_present_keys(config: DictConfig) -> DictConfig:
    """Return a configuration with the present names of keys; files of the user may have old ones."""
    result = copy.deepcopy(config)
    OmegaConf.set_struct(result, False)
    for old, new in RENAMED_KEYS.items():
        group, _, key = old.rpartition(".")
        values = OmegaConf.select(result, group)
        if values is not None and key in values:
            warn_renamed(f"the key {old}", new)
            OmegaConf.update(result, new, values.pop(key))
    OmegaConf.set_struct(result, True)
    return result
