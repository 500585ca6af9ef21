"""Global memory transactions of kernels, which cache reads save."""

from __future__ import annotations

import numpy as np

from autosched.featurize.schema import INDEX
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.search.beam.state import Params
from autosched.search.evaluate.evaluator import KernelEvaluator

LOADS, STORES = INDEX["num_global_mem_loads_per_block"], INDEX["num_global_mem_stores_per_block"]


def sectors_moved(evaluator: KernelEvaluator, sketch: KernelSketch, params: Params) -> float:
    """Return the sectors of all requests of a kernel, reloads within a block included."""
    model = evaluator.kernel_model(sketch)
    (rows,) = model.tables.evaluate([model], [np.array([params], np.int64)]).features
    return float(rows[0, INDEX["num_blocks"]] * rows[:, [LOADS, STORES]].sum())
