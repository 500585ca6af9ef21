"""Small campaigns, and steps run in this process."""

from __future__ import annotations

import importlib
import time
from pathlib import Path
from typing import Any

from campaign.context import Context, Outcome
from campaign.options import Options
from campaign.plan import module_of
from campaign.results import Results


def options(directory: Path, **changes: Any) -> Options:
    """Return the options of a campaign over one small app."""
    defaults: dict[str, Any] = {
        "out": str(directory / "out"), "work": str(directory / "work"), "target": "simulated", "apps": ("blur",),
        "sizes": ("small",), "strategies": ("roots",), "ranked": 1, "search_seconds": 5.0, "processes": 2,
    }  # fmt: skip
    return Options(**{**defaults, **changes})


def context(name: str, chosen: Options, *, seconds: float = 60.0) -> Context:
    """Return the context of a step."""
    chosen.work_path.mkdir(parents=True, exist_ok=True)
    results = Results(chosen.out_path / "results.json")
    return Context(name, chosen, results, time.monotonic() + seconds)


def run(name: str, chosen: Options, *, seconds: float = 60.0) -> tuple[Outcome, Context]:
    """Run a step in this process; returns its outcome and context."""
    step_context = context(name, chosen, seconds=seconds)
    outcome: Outcome = importlib.import_module(module_of(name)).run(step_context)
    step_context.results.flush()
    return outcome, step_context
