"""Tune a suite app's schedule with settings from `configs/autotune.yaml`.

    python scripts/autotune.py app=harris target=h200 measured_on=simulated database=out/harris.sqlite
    python scripts/autotune.py app=unsharp target=cpu iterations=5 samples=20 search=paper weights=random
    python scripts/autotune.py app=harris target=h200 measured_on=simulated database=out/harris.sqlite resume=true

`autosched tune` does the same with the usual settings of search and training.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import hydra
from omegaconf import DictConfig, OmegaConf

from autosched.commands.progress import tuning
from autosched.errors import AutoschedError
from autosched.measure.backends.selection import backend_for
from autosched.measure.problem import Problem
from autosched.model.train.fine_tuning import TuningSettings
from autosched.schedule.io.typed_json import read_settings
from autosched.search.guidance.guide_checks import check_guide
from autosched.search.guidance.guide_file import configured_guide
from autosched.search.guidance.guided_settings import guided_settings
from autosched.search.settings import SearchSettings
from autosched.search.tune.autotune.counts_text import counts_text
from autosched.search.tune.autotune.loop import Tuner
from autosched.search.tune.autotune.report import Tuned
from autosched.search.tune.autotune.settings import TuneSettings
from autosched.target import get_target


def tuned(config: DictConfig) -> Tuned:
    """Run or resume the tuning of a configuration."""
    OmegaConf.resolve(config)
    plain: Any = OmegaConf.to_container(config)
    target = get_target(config.target)
    problem = Problem.app(config.app, dict(config.sizes), dict(config.params))
    guide = configured_guide(plain["guide"])
    check_guide(problem.bind(), guide, target)
    settings = TuneSettings(
        config.iterations, config.samples, config.searches, config.mutations, config.weights, config.seed,
        guided_settings(read_settings(plain["search"], "search", SearchSettings), guide),
        read_settings(plain["training"], "training", TuningSettings),
    )  # fmt: skip
    backend = backend_for(target, config.measured_on)
    with tuning() as report:
        tuner = Tuner(
            problem, target, backend, Path(config.database), settings, resume=config.resume, report=report
        )  # fmt: skip
        return tuner.run(config.budget_s)


@hydra.main(version_base="1.3", config_path="../configs", config_name="autotune")
def main(config: DictConfig) -> None:
    """Tune with the settings of the command line."""
    try:
        result = tuned(config)
    except AutoschedError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        print("interrupted; measurements are kept, and the same command with resume=true continues", file=sys.stderr)
        sys.exit(130)
    print(f"fastest {result.seconds:.4g} s, baseline {result.baseline_seconds:.4g} s ({result.source})")
    print(f"{result.measured} schedules, without a time: {dict(result.failures) or 'none'}")
    print(f"model off by a factor of {', '.join('-' if e is None else f'{e:.2f}' for e in result.errors)} (by batch)")
    for number, counts in enumerate(result.classes, 1):
        print(f"batch {number}: {counts_text(counts)}")
    print(f"schedule in {result.files.schedule}, weights in {result.files.weights}")
    if result.failures.get("wrong_result"):
        sys.exit("error: some schedules computed a wrong result; this is a bug of autosched, please report it")


if __name__ == "__main__":
    main()
