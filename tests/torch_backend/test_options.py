"""Options of the backend, as the entry point gets them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed

import autosched.torch
from autosched.errors import InputError
from autosched.search.tune.request import STRATEGY_NAMES
from autosched.torch.options import STRATEGIES, Options

VALUES: dict[str, Any] = {
    "mode": "top5", "effort": "thorough", "strategy": "roots", "seconds": 2.5, "cost": "analytical",
    "database": "results.sqlite", "fallback": "predict", "versions": 7, "compile_in_background": True, "reuse": False,
}  # fmt: skip


def arriving(**keywords: Any) -> Options:
    """Return the options of a region of a function compiled by name; a size without elements needs no search."""
    torch._dynamo.reset()
    with autosched.torch.explanation.recording() as record:
        torch.compile(lambda x: x + 1, backend="autosched", **keywords)(torch.empty(0))
    return record[0][1][0].options


def test_every_option_is_tested() -> None:
    assert set(VALUES) == set(Options.__dataclass_fields__)
    assert all(getattr(Options(), name) != value for name, value in VALUES.items())


@pytest.mark.parametrize("name", VALUES)
def test_an_option_arrives(name: str) -> None:
    assert getattr(arriving(options={name: VALUES[name]}), name) == VALUES[name]


def test_the_keyword_mode_arrives() -> None:
    assert arriving(mode="autotune").mode == "autotune"
    assert arriving(mode="default") == Options()
    with pytest.raises(BackendCompilerFailed, match="expected one of 'one-shot', 'top5', 'autotune'"):
        arriving(mode="max-autotune")


def test_unknown_options_are_errors_with_the_list() -> None:
    with pytest.raises(BackendCompilerFailed, match=r"no option 'budget'; it has mode, effort, .*background, reuse"):
        arriving(options={"budget": 3})
    with pytest.raises(BackendCompilerFailed, match=r"compile_in_background=1 .*expected True or False"):
        arriving(options={"compile_in_background": 1})


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "top5", "effort": "fast", "seconds": 1.0},
        {"mode": "autotune", "seconds": 2.0, "database": "new/place/run.sqlite"},
    ],
    ids=["top5", "autotune"],
)
def test_modes_that_measure_draw_their_own_inputs(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "cache"))
    torch._dynamo.reset()
    f = torch.compile(lambda x: torch.sort(x * 2)[0] + 1, backend="autosched", options={**options, "fallback": "error"})
    x = torch.rand(40, 50)
    torch.testing.assert_close(f(x), torch.sort(x * 2)[0] + 1)
    if "database" in options:
        files = [path.name.partition(".") for path in (tmp_path / "new" / "place").iterdir()]
        for stem in {name for name, _, _ in files}:
            assert stem.startswith("run-")
            suffixes = {suffix for name, _, suffix in files if name == stem}
            assert suffixes - {"schedule.json"} == {"sqlite", "tuning.json", "weights.safetensors"}
        assert len({name for name, _, _ in files}) == 2  # for each region


def test_no_weights_for_cpus_come_with_the_package() -> None:
    torch._dynamo.reset()
    options = {"cost": "learned", "reuse": False}
    f = torch.compile(lambda x: x * 2 + 1, backend="autosched", options={**options, "fallback": "predict"})
    with pytest.warns(RuntimeWarning, match=r"leaves region0 to PyTorch: InputError: no weights for cpu .*analytical"):
        torch.testing.assert_close(f(torch.ones(3)), torch.full((3,), 3.0))
    torch._dynamo.reset()
    f = torch.compile(lambda x: x * 2 + 1, backend="autosched", options={**options, "fallback": "error"})
    with pytest.raises(InputError, match="no weights for cpu come with this release"):
        f(torch.ones(3))


def test_strategies_are_those_of_the_search() -> None:
    assert STRATEGIES == STRATEGY_NAMES
