"""Judgement of weights by labels that they were not trained with, such as simulated weights by measured times."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import closing

from autosched.errors import AutoschedError
from autosched.measure.store.cpu_labels import target_of_labels
from autosched.measure.store.labels import open_labels
from autosched.model.data.dataset import build_dataset
from autosched.model.data.feature_store import FeatureStore
from autosched.model.data.samples import one_source
from autosched.model.data.samples_from_measurements import samples_from
from autosched.model.evaluation import EvaluationSummary, table
from autosched.model.predict.checkpoint import load_checkpoint
from autosched.model.predict.holdout_predictions import predict, predict_analytically
from autosched.target import get_target


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table of the command line's weights and labels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights", help="a file of weights")
    parser.add_argument("labels", nargs="+", help="a results database, or Parquet files, with labels of one source")
    parser.add_argument("--target", default="h200", help="target of the labels")
    parser.add_argument("--cache", default="out/features", help="directory of computed features")
    options = parser.parse_args(arguments)
    try:
        summaries, source = judge(options.weights, options.labels, options.target, options.cache)
    except AutoschedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(table(summaries, source))
    return 0


def judge(weights: str, labels: Sequence[str], target: str, cache: str) -> tuple[dict[str, EvaluationSummary], str]:
    """Return the figures of weights and of the analytical model, and the source of the labels.

    Args:
        weights: A file of weights.
        labels: A results database, or Parquet files, with labels of one source.
        target: Name of the target of the labels.
        cache: Directory of computed features.

    Raises:
        AutoschedError: If weights or labels cannot be used.
    """
    named = get_target(target)
    with closing(open_labels(labels)) as opened:
        samples = samples_from(opened, named.name)
    described = target_of_labels(named, one_source(samples))
    checkpoint = load_checkpoint(weights, described)
    dataset = build_dataset(samples, described, FeatureStore(cache, described))
    pipelines = dataset.own_pipelines
    learned = predict(checkpoint.network, dataset, pipelines, checkpoint.settings.trust)
    return {
        "learned": learned.summary(),
        "analytical": predict_analytically(dataset, pipelines).summary(),
    }, dataset.source
