"""Time the NumPy interpreter on every application of the suite.

    python scripts/bench_interpreter.py [APP ...]

For each application: the time at the size of the golden data and at the size used in the papers.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping

import numpy as np

from autosched.apps import App, get_app, load_apps
from autosched.reference import interpret

GOLDEN_SIZES = {"W": 192, "H": 128, "M": 192, "N": 192, "K": 192, "R": 128, "C": 192}
REPETITIONS_BELOW_S = 1.0


def time_interpreter(app: App, sizes: Mapping[str, int]) -> float:
    """Return the seconds of the best of three runs, or of the only run if it is long."""
    pipeline, inputs = app.build(), app.make_inputs(sizes)
    best = math.inf
    for _ in range(3):
        start = time.perf_counter()
        outputs = interpret(pipeline, inputs, {})
        best = min(best, time.perf_counter() - start)
        if best > REPETITIONS_BELOW_S:
            break
    if not all(np.isfinite(a).all() for a in outputs.values()):
        raise SystemExit(f"{app.name}: the interpreter returned a value that is not finite")
    return best


def row(app: App) -> str:
    golden = {k: GOLDEN_SIZES[k] for k in app.default_sizes}
    timed = [(size_text(sizes), time_interpreter(app, sizes)) for sizes in (golden, app.default_sizes)]
    return f"{app.name:20}" + "".join(f"{size:>18}{seconds:10.3f} s" for size, seconds in timed)


def size_text(sizes: Mapping[str, int]) -> str:
    return "x".join(map(str, sizes.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the NumPy interpreter on the suite's applications.")
    parser.add_argument("apps", nargs="*", metavar="APP", help="applications to time (default: all)")
    names = parser.parse_args().apps or list(load_apps())
    print(f"{'application':20}{'golden size':>18}{'time':>12}{'paper size':>18}{'time':>12}")
    for name in names:
        print(row(get_app(name)), flush=True)
