"""Main program of a step's process: ``python -m campaign.step NAME OPTIONS SECONDS OUTCOME``."""

from __future__ import annotations

import importlib
import sys
import time
from dataclasses import asdict
from pathlib import Path

from campaign.context import Context, Outcome
from campaign.files import write_json
from campaign.options import Options
from campaign.plan import module_of
from campaign.results import Results

RESULTS_FILE = "results.json"
_MARGIN_S = 3.0
_MARGIN_SHARE = 0.06
"""Share of its time limit that a step leaves unused, so that it can end by itself before it is killed."""


def run_step(name: str, options: Options, seconds: float) -> Outcome:
    """Run a step in this process.

    Args:
        name: The step.
        options: Options of the campaign.
        seconds: Time after which this process is killed.
    """
    own = max(seconds - max(_MARGIN_S, _MARGIN_SHARE * seconds), 0.5 * seconds)
    results = Results(options.out_path / RESULTS_FILE)
    context = Context(name, options, results, time.monotonic() + own)
    try:
        outcome: Outcome = importlib.import_module(module_of(name)).run(context)
    finally:
        results.flush()
    return outcome


def main() -> None:
    """Run the step of the command line and write its outcome."""
    name, options, seconds, outcome = sys.argv[1:]
    found = run_step(name, Options.parse(options), float(seconds))
    write_json(Path(outcome), asdict(found))
    print(found.message)


if __name__ == "__main__":
    main()
