"""Which modules of the package a process imports: few for the API, no search for the baseline schedule."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from autosched.measure.backend import SIMULATED_SOURCE
from autosched.measure.simulated.version import SIMULATED
from autosched.search.strategies.protocol import STRATEGIES
from autosched.search.tune.request import STRATEGY_NAMES

ROOT = Path(__file__).parents[1]

MOST_MODULES = 190
"""Modules of the package that `import autosched.api` loads at most."""

BASELINE = """
x = autosched.Var("x")
image, out = autosched.Input("image", autosched.float32, 1), autosched.Func("out")
out[x] = image[x] + image[x + 1]
pipeline = autosched.Pipeline([out.over(x=(0, 63))])
scheduled = autosched.schedule(pipeline, {"image": (64,)}, "h200", strategy="roots")
scheduled.text()
"""


def loaded_modules(code: str) -> list[str]:
    """Return the modules of the package that a new process loads."""
    program = f"import json, sys\nimport autosched.api\n{code}\nprint(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    return [name for name in json.loads(done.stdout) if name.partition(".")[0] == "autosched"]


@pytest.mark.parametrize("code", ["", BASELINE], ids=["import", "baseline"])
def test_api_and_baseline_need_few_modules(code: str) -> None:
    loaded = loaded_modules(code)
    assert len(loaded) <= MOST_MODULES
    parts = ("featurize", "measure", "model", "codegen", "lower", "reference", "search.beam", "search.cost")
    assert [n for n in loaded for part in parts if n.startswith(f"autosched.{part}")] == []


def test_tuning_does_not_load_the_simulated_device() -> None:
    loaded = loaded_modules("import autosched.search.tune.one_shot, autosched.search.tune.autotune.run")
    assert [name for name in loaded if name.startswith("autosched.measure.simulated")] == []


def test_names_that_stand_for_imports_agree() -> None:
    """These constants are repeated so that importing them does not load every strategy and the simulated device."""
    assert tuple(STRATEGIES) == STRATEGY_NAMES
    assert SIMULATED_SOURCE == SIMULATED
