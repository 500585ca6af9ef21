"""Residency of compiled kernels: the registers of a thread, which no feature has, limit the resident blocks as well."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autosched.featurize.regions.occupancy import resident_blocks
from autosched.featurize.schema import INDEX
from autosched.featurize.tables.pipeline_tables import BatchEvaluation
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.cost.protocol import CostModel


def with_compiled_registers(model: CostModel, evaluation: BatchEvaluation, registers: int | None) -> BatchEvaluation:
    """Return candidates whose blocks are resident as far as their registers allow.

    Learned models have the features of kernels without registers, with which they were trained.

    Args:
        model: The model that predicts times; candidates are changed for `AnalyticalModel` alone.
        evaluation: Candidates with the code of one kernel.
        registers: Registers of a thread by the compiler; None if they are unknown.
    """
    if registers is None or not isinstance(model, AnalyticalModel):
        return evaluation
    features = evaluation.features.copy()
    tiles = evaluation.batch.tiles
    warps = features[:, 0, INDEX["num_warps_per_block"]].astype(np.int64) * tiles
    limit = resident_blocks(model.target, warps, np.zeros_like(warps), np.full_like(warps, registers)) * tiles
    resident = INDEX["resident_blocks"]
    features[:, 0, resident] = np.minimum(features[:, 0, resident], np.maximum(limit, 1))
    return replace(evaluation, features=features)
