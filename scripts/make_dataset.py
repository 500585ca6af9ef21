"""Measure many schedules of random pipelines and suite apps for training; settings: `configs/make_dataset.yaml`.

    python scripts/make_dataset.py                                          # simulated H200
    python scripts/make_dataset.py measure=cpu target=cpu random_pipelines=cpu database=out/cpu.sqlite budget_s=600
    python scripts/make_dataset.py measure=cuda target=cuda dataset=suite parquet=out/suite.parquet
    python scripts/make_dataset.py dataset=tiny random_pipelines=small      # a quick trial
    python scripts/make_dataset.py measure=cuda target=cuda dataset.labels=docs/results/data/h200-labels.parquet

Every result is stored at once; a second run resumes. The exit status is 1 if any schedule computed a wrong result.
"""

from __future__ import annotations

import sys

import hydra
from omegaconf import DictConfig
from training.dataset import CONSOLE, run
from training.renamed_keys import present_overrides

from autosched.errors import AutoschedError


@hydra.main(version_base="1.3", config_path="../configs", config_name="make_dataset")
def main(config: DictConfig) -> None:
    """Run with the settings of the command line."""
    try:
        code = run(config)
    except AutoschedError as error:
        CONSOLE.print(f"[red]{error}[/]", highlight=False)
        code = 2
    except KeyboardInterrupt:
        CONSOLE.print("interrupted; measurements are stored, and the same command resumes")
        code = 130
    if code:
        sys.exit(code)


if __name__ == "__main__":
    sys.argv[1:] = present_overrides(sys.argv[1:])
    main()
