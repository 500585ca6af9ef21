"""Train a cost model on measured or simulated schedules; settings: `configs/train.yaml` and its groups.

    python scripts/train.py data.path=results.sqlite target=h200 output=out/train
    python scripts/train.py data.path=results.sqlite model=paper train_loss@loss=paper
    python scripts/train.py data.path=results.sqlite folds=4
    python scripts/train.py data.path=results.sqlite 'hold_out=[each]'
    python scripts/train.py data.path=results.sqlite 'hold_out=[each,blur,harris]'
    python scripts/train.py data.path=results.sqlite output=out/train resume=true
    python scripts/train.py 'data.path=[samples.parquet,samples-2.parquet]'
    python scripts/train.py data.path=here.parquet target=cpu 'data.beside=[there.parquet]'

The output directory gets weights, figures on held-out pipelines (also of the analytical model), TensorBoard curves and
plots.
"""

from __future__ import annotations

import sys
import time

import hydra
from omegaconf import DictConfig
from training.cost_model import train_and_print

from autosched.errors import AutoschedError


@hydra.main(config_path="../configs", config_name="train", version_base="1.3")
def main(config: DictConfig) -> None:
    """Train with the settings of the command line."""
    started = time.perf_counter()
    try:
        train_and_print(config)
    except AutoschedError as error:
        sys.exit(f"error: {error}")
    print(f"{time.perf_counter() - started:.0f} s in total")


if __name__ == "__main__":
    main()
