"""Old names of the documented API work for one version, with a warning."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from typing import Any

import numpy as np
import pytest

import autosched
from autosched.apps.hand_schedules.convolutions import ConvolutionTile
from autosched.apps.hand_schedules.products import ProductTile
from autosched.errors import InputError
from autosched.renamed_modules import MODULES, NAMES
from autosched.runtime.compile.nvrtc import Cubin, NvrtcOptions
from autosched.schedule import types
from autosched.schedule.io.typed_json import read_settings
from autosched.schedule.types import Level
from autosched.search.datasets.candidate_mix import CandidateMix
from autosched.search.settings import SearchSettings

SHAPES = {"image": (32, 48)}


def scheduled() -> autosched.ScheduledPipeline:
    y, x = autosched.Var("y"), autosched.Var("x")
    image = autosched.Input("image", autosched.float32, 2)
    out = autosched.Func("out")
    out[y, x] = image[y, x] + 1
    return autosched.schedule(autosched.Pipeline(out), SHAPES, "cpu", strategy="roots")


@pytest.mark.parametrize("old", MODULES)
def test_modules_are_found_by_their_old_names(old: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(DeprecationWarning, match=MODULES[old]):
        module = importlib.import_module(old)
    new = importlib.import_module(MODULES[old])
    for name, present in NAMES.get(old, {}).items():
        assert getattr(module, name) is getattr(new, present)
    public = next(name for name, value in vars(new).items() if getattr(value, "__module__", "") == new.__name__)
    assert getattr(module, public) is getattr(new, public)
    with pytest.raises(AttributeError):
        _ = module.no_such_name


def test_no_table_entry_is_a_present_module() -> None:
    for old in MODULES:
        assert old not in MODULES.values()


@pytest.mark.parametrize(
    ("old", "new"), [("At", "ComputeAt"), ("Member", "FusedProducer"), ("Aligned", "TileAlignment")]
)
def test_types_of_schedules(old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=new):
        assert getattr(types, old) is getattr(types, new)


def test_levels() -> None:
    with pytest.warns(DeprecationWarning, match="MAINLOOP"):
        assert Level.STREAM is Level.MAINLOOP  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        _ = Level.BLOK  # type: ignore[attr-defined]


@pytest.mark.parametrize("old", SearchSettings.RENAMED_FIELDS)  # type: ignore[attr-defined]
def test_settings(old: str) -> None:
    new = SearchSettings.RENAMED_FIELDS[old]  # type: ignore[attr-defined]
    value: Any = {"copies": 1.5, "baseline": 1.5, "serial": (1, 2), "odd_serial": (3,)}.get(old, False)
    with pytest.warns(DeprecationWarning, match=new):
        made = SearchSettings(**{old: value})
    assert getattr(made, new) == value
    with pytest.warns(DeprecationWarning, match=new):
        assert getattr(made, old) == value
    with pytest.warns(DeprecationWarning, match=new):
        assert dataclasses.replace(SearchSettings(), **{old: value}) == made
    in_file = list(value) if isinstance(value, tuple) else value
    with pytest.warns(DeprecationWarning, match=new):
        assert read_settings({old: in_file}, "search", SearchSettings) == made


@pytest.mark.parametrize(
    ("cls", "old", "value"),
    [
        (CandidateMix, "views", 3), (ConvolutionTile, "ahead", True), (NvrtcOptions, "room", False),
        (ProductTile, "ahead", False),
    ],
)  # fmt: skip
def test_fields_of_other_settings(cls: Any, old: str, value: Any) -> None:
    new = cls.RENAMED_FIELDS[old]
    with pytest.warns(DeprecationWarning, match=new):
        made = cls(**{old: value})
    assert getattr(made, new) == value != getattr(cls(), new)
    with pytest.warns(DeprecationWarning, match=new):
        assert getattr(made, old) == value
    with pytest.warns(DeprecationWarning, match=new):
        assert read_settings({old: value}, "settings", cls) == made


def test_relaxed_bounds_of_a_cubin() -> None:
    with pytest.warns(DeprecationWarning, match="has_relaxed_bounds"):
        assert not Cubin(b"", "sm_90", {}, "").has_room  # type: ignore[attr-defined]


def test_keys_of_the_dataset_script_on_its_command_line() -> None:
    renamed_keys = pytest.importorskip("training.renamed_keys")
    with pytest.warns(DeprecationWarning, match=r"measure\.rounds|schedules\.rewrites") as warned:
        given = ["measure.turns.least=5", "~measure.turns", "++dataset.schedules.views=0", "measure.turnstile=1"]
        present = renamed_keys.present_overrides(given)
    assert present == ["measure.rounds.least=5", "~measure.rounds", "++dataset.schedules.rewrites=0", given[3]]
    assert len(warned) == 3


def test_keys_of_the_dataset_script_in_files(recwarn: pytest.WarningsRecorder) -> None:
    renamed_keys = pytest.importorskip("training.renamed_keys")
    omegaconf = pytest.importorskip("omegaconf")
    present = omegaconf.OmegaConf.create(
        {"measure": {"rounds": {"least": 5}}, "dataset": {"schedules": {"beam": 1, "rewrites": 2}}}
    )
    assert renamed_keys.with_present_keys(present) == present
    assert not [w for w in recwarn if w.category is DeprecationWarning]
    former = omegaconf.OmegaConf.create(
        {"measure": {"rounds": None, "turns": {"least": 5}}, "dataset": {"schedules": {"beam": 1, "views": 2}}}
    )
    with pytest.warns(DeprecationWarning, match=r"measure\.rounds|schedules\.rewrites"):
        assert renamed_keys.with_present_keys(former) == present


def test_a_wrong_value_under_an_old_name_is_refused() -> None:
    with pytest.warns(DeprecationWarning), pytest.raises(InputError, match="cache_read_tolerance is -1"):
        SearchSettings(copies=-1)  # type: ignore[call-arg]


def test_attributes_of_a_scheduled_pipeline() -> None:
    made = scheduled()
    with pytest.warns(DeprecationWarning, match="search_result"):
        assert made.found is made.search_result  # type: ignore[attr-defined]
    with pytest.warns(DeprecationWarning, match="provenance"):
        assert made.origin is made.provenance  # type: ignore[attr-defined]
    with pytest.warns(DeprecationWarning, match="fused"):
        assert made.schedule.kernels[0].members == ()  # type: ignore[attr-defined]
    with pytest.warns(DeprecationWarning, match="rfactors"):
        assert made.schedule.splits == ()  # type: ignore[attr-defined]
    with pytest.warns(DeprecationWarning, match="provenance="):
        again = autosched.ScheduledPipeline(made.bound, made.schedule, made.target, origin=made.provenance)
    assert again.provenance is made.provenance


def test_present_names_do_not_warn(recwarn: pytest.WarningsRecorder) -> None:
    made = scheduled()
    kernel = made.compile("interpreter")
    np.testing.assert_array_equal(kernel(image=np.ones(SHAPES["image"], np.float32)), 2)
    assert not [w for w in recwarn if w.category is DeprecationWarning]
