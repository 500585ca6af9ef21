"""Interleaved timing of all versions on this machine's processor.

Versions are searched one after the other, and times of different moments compare load, not versions. So the versions
are called in turns on synthetic inputs, and each has the least time of its calls.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from autosched.errors import AutoschedError
from autosched.host import read_host
from autosched.measure.store.cpu_labels import cpu_source
from autosched.runtime.compile.host_compiler import have_compiler
from autosched.runtime.timing.synthetic_inputs import synthetic_inputs
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.calibration.scale_cache import is_this_processor

LEAST_ROUNDS, MOST_ROUNDS = 3, 20
BUDGET_S = 2.0
"""Seconds after which no further round begins."""
SHARE_OF_MEMORY = 0.25
"""Most memory of the arrays, as a share of the host's."""


def interleaved_times(versions: Sequence[ScheduledPipeline]) -> tuple[list[float], str] | None:
    """Return the seconds of a call of each version, and their source; None if they cannot be timed here.

    Args:
        versions: The versions, whose inputs have equal shapes.
    """
    target = versions[0].target
    signatures = [v.signature for v in versions]
    specs = {s.name: s for g in signatures for s in g.inputs}
    sizes = [sum(np.prod(s.shape) * s.dtype.bytes_ for s in (*specs.values(), *g.outputs)) for g in signatures]
    if not is_this_processor(target) or not have_compiler("c"):
        return None
    if max(sizes) > SHARE_OF_MEMORY * read_host().memory_bytes:
        return None
    rng = np.random.default_rng(0)
    arrays = {name: synthetic_inputs(spec, rng) for name, spec in specs.items()}
    calls = []
    try:
        for version in versions:
            signature = version.signature
            given: dict[str, Any] = {s.name: arrays[s.name] for s in signature.inputs}
            given |= {name: dtype.scalar(1) for name, dtype in signature.scalars.items()}
            given |= signature.defaults
            out = {s.name: np.empty(s.shape, s.dtype.numpy) for s in signature.outputs}
            calls.append((version.compile("cpu"), given, out))
    except AutoschedError:
        return None
    for kernel, given, out in calls:  # loads the code, starts the threads
        kernel(given, out=out)
    # processor time is of this process alone, and with one thread it is the time of a call
    clock = time.process_time if target.multiprocessors == 1 else time.perf_counter
    least = [np.inf] * len(calls)
    started = time.perf_counter()
    for number in range(MOST_ROUNDS):
        if number >= LEAST_ROUNDS and time.perf_counter() - started > BUDGET_S:
            break
        for k, (kernel, given, out) in enumerate(calls):
            begin = clock()
            kernel(given, out=out)
            least[k] = min(least[k], clock() - begin)
    return [float(seconds) for seconds in least], cpu_source(target.multiprocessors)
