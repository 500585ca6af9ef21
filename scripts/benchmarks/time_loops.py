"""Fused steps of time loops against one sweep a kernel, called in turns in one process.

    OMP_NUM_THREADS=1 python scripts/bench_time_loops.py smoother7pt smoother27pt --size 256 --times 12

The bits of all schedules are compared first. Times are seconds of processor time with one thread, of the clock with
more, the least of all rounds; ratios are medians over the rounds. ``--peers devito`` adds Devito, whose operator is
written for the same update, if it is installed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

import autosched
from autosched.apps import get_app
from autosched.apps.smoother27pt import CENTRE, FACE
from autosched.apps.sweeps import H2INV, A, B
from autosched.commands.show import print_table
from autosched.iteration.step_composition import sequence_text
from autosched.target import get_target

Array = np.ndarray[Any, Any]
PEERS = ("devito",)


@dataclass(frozen=True)
class Contender:
    """A way to compute the steps.

    Attributes:
        run: Computes them; this is timed.
        result: Returns the grid after a run.
        prepare: Restores the grid before a run.
    """

    run: Callable[[], object]
    result: Callable[[], Array]
    prepare: Callable[[], None] = lambda: None


def main() -> None:
    """Parse the command line, measure, and print a table for each app."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("apps", nargs="*", default=["smoother7pt", "smoother27pt"])
    parser.add_argument("--size", type=int, default=256, help="points a side")
    parser.add_argument("--times", type=int, default=12, help="steps of a call")
    parser.add_argument("--rounds", type=int, default=7, help="calls of each")
    parser.add_argument("--top-k", type=int, default=1, help="measured schedules of each version")
    parser.add_argument("--peers", nargs="*", default=[], choices=PEERS)
    given = parser.parse_args()
    for name in given.apps:
        _bench(name, given.size, given.times, given.rounds, given.top_k, given.peers)


def _bench(name: str, size: int, times: int, rounds: int, top_k: int, peers: Sequence[str]) -> None:
    values = np.random.default_rng(0).random((size, size, size))
    runs: dict[str, Contender] = {}
    notes: dict[str, str] = {}
    loop = autosched.iterate(get_app(name).build(T=1), times=times)
    shapes = {"in": values.shape}
    options: dict[str, Mapping[str, Any]] = {
        "roots, one sweep a kernel": {"strategy": "roots"},
        "searched, one sweep a kernel": {"most_fused": 1, "top_k": top_k},
        "time loop": {"top_k": top_k},
    }
    for title, keywords in options.items():
        started = time.process_time()
        scheduled = loop.schedule(shapes, "cpu", reuse=False, **keywords)
        took = time.process_time() - started
        versions = ", ".join(f"{v.steps}: {v.seconds / v.steps * 1e3:.3g}" for v in scheduled.versions)
        notes[title] = f"{sequence_text(scheduled.composed())}; ms a step {versions}; {took:.1f} s; {scheduled.stop}"
        runs[title] = _called(scheduled.compile("cpu"), values)
    for peer in peers:
        runs[peer] = {"devito": devito_run}[peer](name, values, times)
        notes[peer] = ""
    results = {}
    for title, contender in runs.items():
        contender.prepare()
        contender.run()
        results[title] = contender.result().copy()
    reference = results[next(iter(options))]
    for title, result in results.items():
        tolerance = {"rtol": 0, "atol": 0} if title in options else {"rtol": 1e-9, "atol": 1e-9}
        np.testing.assert_allclose(result, reference, err_msg=title, **tolerance)
    _print(name, size, times, _in_turns(runs, rounds), notes)


def _called(kernel: autosched.CompiledPipeline, values: Array) -> Contender:
    out = np.empty_like(values)
    return Contender(lambda: kernel({"in": values}, out=out), lambda: out)


def _in_turns(runs: Mapping[str, Contender], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of every call; one of each is a round."""
    threads = get_target("cpu").multiprocessors
    clock = time.process_time if threads == 1 else time.perf_counter
    taken: dict[str, list[float]] = {title: [] for title in runs}
    for _ in range(rounds):
        for title, contender in runs.items():
            contender.prepare()
            started = clock()
            contender.run()
            taken[title].append(clock() - started)
    return taken


def _print(name: str, size: int, times: int, taken: Mapping[str, list[float]], notes: Mapping[str, str]) -> None:
    threads = get_target("cpu").multiprocessors
    load = os.getloadavg()[0]
    print(f"{name}, {size}^3, {times} steps, {threads} thread{'s' * (threads > 1)}, load {load:.1f}", flush=True)
    ours = taken["time loop"]
    rows = []
    for title, seconds in taken.items():
        ratio = statistics.median(a / b for a, b in zip(seconds, ours, strict=True))
        least = min(seconds)
        rows.append((title, f"{least * 1e3:.0f}", f"{size**3 * times / least / 1e9:.3f}", f"{ratio:.2f}", notes[title]))
    print_table(("", "ms", "Gpoint/s", "over the time loop", "schedule"), rows)


def devito_run(name: str, values: Array, times: int) -> Contender:
    """Return the sweeps of a smoother in Devito, with as many OpenMP threads as ours.

    Its two time levels are as large as the grid; the rim is not written, and has the caller's values in both.

    Args:
        name: ``smoother7pt`` or ``smoother27pt``.
        values: The grid.
        times: Number of sweeps.
    """
    import devito

    threads = get_target("cpu").multiprocessors
    devito.configuration["language"] = "openmp" if threads > 1 else "C"
    devito.configuration["log-level"] = "ERROR"
    grid = devito.Grid(shape=values.shape, dtype=np.float64)
    field = devito.TimeFunction(name="u", grid=grid, time_order=1, space_order=2)
    x, y, z = grid.dimensions

    def at(dx: int, dy: int, dz: int) -> Any:
        return field.subs({x: x + dx * x.spacing, y: y + dy * y.spacing, z: z + dz * z.spacing})

    value = smoother(name, at)
    operator = devito.Operator([devito.Eq(field.forward, value, subdomain=grid.interior)], opt="advanced")
    arguments = {"time_m": 0, "time_M": times - 1} | ({"nthreads": threads} if threads > 1 else {})

    def prepare() -> None:
        field.data[0], field.data[1] = values, values

    def result() -> Array:
        return np.array(field.data[times % 2])

    return Contender(lambda: operator.apply(**arguments), result, prepare)


def smoother(name: str, at: Callable[[int, int, int], Any]) -> Any:
    """Return the value of a sweep from the values around a point.

    Args:
        name: ``smoother7pt`` or ``smoother27pt``.
        at: Returns the value at an offset.
    """
    c = B * H2INV
    cube = list(product((-1, 0, 1), repeat=3))
    faces, edges, corners = (sum(at(*o) for o in cube if sum(map(abs, o)) == axes) for axes in (1, 2, 3))
    if name == "smoother7pt":
        return A * at(0, 0, 0) - c * (faces - 6 * at(0, 0, 0))
    return A * at(0, 0, 0) - c / 2 * corners + c / 8 * edges + FACE * c * faces + CENTRE * at(0, 0, 0)
