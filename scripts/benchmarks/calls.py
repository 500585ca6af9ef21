"""Host overhead of calling a compiled pipeline, against one addition in CuPy and in PyTorch; needs a GPU.

    python scripts/bench_calls.py [APP ...]

Microseconds from one call to the next, without synchronisation within a sample: median and least of interleaved
samples. Sizes are small, so that the GPU's work is hidden behind the host's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import autosched
from autosched.apps import get_app
from autosched.runtime.call.signature import output_specs

SAMPLES, CALLS = 15, 300


def microseconds(calls: dict[str, Callable[[], Any]], wait: Callable[[], Any]) -> dict[str, list[float]]:
    """Return the microseconds of each call, from interleaved samples."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for sample in range(SAMPLES + 1):
        for name, call in calls.items():
            wait()
            started = time.perf_counter()
            for _ in range(CALLS):
                call()
            seconds = (time.perf_counter() - started) / CALLS
            wait()
            if sample:  # the first sample warms up
                samples[name].append(1e6 * seconds)
    return samples


def calls_of(app_name: str) -> dict[str, Callable[[], Any]]:
    """Return the ways to call a pipeline, and the calls for comparison."""
    import cupy
    import torch

    app = get_app(app_name)
    inputs = app.make_inputs(app.small_sizes)
    scheduled = autosched.schedule(app.build(), inputs=inputs, target="cuda", strategy="roots")
    kernel = scheduled.compile("cuda")
    arrays = {n: cupy.asarray(a) for n, a in inputs.items()}
    out = {s.name: cupy.empty(s.shape, s.dtype.numpy) for s in output_specs(scheduled.bound)}
    graph = kernel.graph(arrays, out=out)
    a, b = cupy.zeros(1000, "f4"), cupy.zeros(1000, "f4")
    calls: dict[str, Callable[[], Any]] = {
        "outputs given": lambda: kernel(arrays, out=out),
        "outputs made": lambda: kernel(arrays),
        "graph": graph.launch,
        "CuPy: add(a, b, a)": lambda: cupy.add(a, b, a),
    }
    if torch.cuda.is_available():
        tensors = {n: torch.as_tensor(v, device="cuda") for n, v in arrays.items()}
        results = {n: torch.as_tensor(v, device="cuda") for n, v in out.items()}
        t, u = torch.zeros(1000, device="cuda"), torch.zeros(1000, device="cuda")
        calls |= {
            "tensors, outputs given": lambda: kernel(tensors, out=results),
            "tensors, outputs made": lambda: kernel(tensors),
            "PyTorch: add(t, u, out=t)": lambda: torch.add(t, u, out=t),
        }
    return calls


def main() -> None:
    """Print a table for each app of the command line."""
    import cupy

    for name in sys.argv[1:] or ["blur", "harris"]:
        print(f"\n{name}, microseconds a call (median, least)")
        for label, times in microseconds(calls_of(name), cupy.cuda.runtime.deviceSynchronize).items():
            print(f"  {label:<28} {median(times):6.1f} {min(times):6.1f}")
