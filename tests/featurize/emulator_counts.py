"""Random kernels of small suite apps with counts of their lowered code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from autosched.featurize.featurizer import Featurizer
from autosched.featurize.schema import INDEX
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel, described_points
from autosched.lower.ir import KernelIR
from autosched.lower.program import lower
from autosched.measure.simulated.count import as_printed, count_kernel
from autosched.measure.simulated.sampling import interior
from autosched.measure.simulated.work import KernelWork
from tests.featurize.random_kernels import H200, bound_app, states_of

APPS = ("harris", "unsharp", "stencil_chain", "iir_blur", "denoise", "conv_layer", "depthwise_separable_conv")
STATES = 4


@dataclass(frozen=True)
class Counted:
    """One kernel: ``float64[rows, features]``, counts of its code, and the code."""

    features: np.ndarray[tuple[int, int], np.dtype[np.float64]]
    work: KernelWork
    code: KernelIR

    def summed(self, name: str) -> float:
        """Return a feature, summed over the stages."""
        return float(self.features[:, INDEX[name]].sum())

    @property
    def border_share(self) -> float:
        """The share of its blocks that run boundary code."""
        box = interior(as_printed(self.code))
        inside = np.prod([hi - lo + 1 for lo, hi in box])
        return 1 - float(inside) / self.work.blocks


@cache
def counted(app: str) -> tuple[Counted, ...]:
    """Return the kernels of some random schedules of an app."""
    return tuple(_counted(app))


def _counted(app: str) -> Iterator[Counted]:
    bound = bound_app(app)
    states, featurizer = states_of(bound), Featurizer(bound, H200)
    drawn = (states.draw_legal(np.random.default_rng(seed)) for seed in range(STATES))
    for _, schedule in (d for d in drawn if d is not None):
        for kernel, code in zip(schedule.kernels, lower(bound, schedule).kernels, strict=True):
            sketch, params = describe_kernel(bound, kernel)
            found = featurizer.model(sketch).evaluate(np.array([(*params, *described_points(bound, kernel))], np.int64))
            yield Counted(found.features[0], count_kernel(code), code)
