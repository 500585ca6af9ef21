"""Time the C backends of two versions of this library, interleaved in one run.

    OMP_NUM_THREADS=1 python scripts/bench_cpu_versions.py BEFORE [--after COMMIT] [--apps blur,harris] [--rounds 30]

BEFORE and COMMIT are commits, unpacked to a temporary directory; without ``--after`` it is the installed version. Each
version runs the variants of its own `bench_cpu.py` in its own process, one at a time on request. A round runs each
variant on both sides, so that noise affects both equally; the order alternates between rounds. The table gives median
and least milliseconds, and their ratios, after over before.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from benchmarks.version_process import ROOT, VersionProcess, unpacked

ENTRY = str(Path(__file__).parents[1] / "bench_cpu_versions.py")
"""The script of this module, entry point of the child processes."""

UNVERSIONED = "NumPy/SciPy"
"""A variant that is the same in both versions."""

Samples = dict[str, tuple[list[float], list[float]]]


def main() -> int:
    """Time both versions and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="a commit")
    parser.add_argument("--after", metavar="COMMIT", help="a second commit (default: the installed version)")
    parser.add_argument("--apps", default="blur,harris,unsharp")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", metavar="FILE", help="file for all times, in milliseconds")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(Path(options.before), options.apps.split(","))
    with tempfile.TemporaryDirectory() as directory:
        trees = [unpacked(options.before, Path(directory) / "before"), ROOT]
        if options.after is not None:
            trees[1] = unpacked(options.after, Path(directory) / "after")
        sides = [Side(tree, options.apps, Path(directory) / f"cache{k}") for k, tree in enumerate(trees)]
        try:
            samples = timed(sides, options.rounds)
        finally:
            for side in sides:
                side.close()
    print_table(samples)
    if options.json:
        Path(options.json).write_text(json.dumps(samples, indent=1))
    return 0


class Side(VersionProcess):
    """A process that runs the variants of one version.

    Args:
        tree: Directory of the version.
        apps: Names of apps, separated by commas.
        cache: Directory of the version's compiled code.
    """

    def __init__(self, tree: Path, apps: str, cache: Path) -> None:
        command = [sys.executable, ENTRY, str(tree), "--apps", apps, "--serve"]
        environment = {**os.environ, "AUTOSCHED_CACHE_DIR": str(cache), "OMP_WAIT_POLICY": "passive"}
        super().__init__(command, environment)
        self.variants: list[str] = self.answer()

    def seconds(self, variant: str) -> float:
        """Run a variant once and return its time."""
        return float(self.ask(variant))


def serve(tree: Path, apps: list[str]) -> int:
    """Serve one version: prepare all variants, then run each one named on standard input."""
    answers, sys.stdout = sys.stdout, sys.stderr
    sys.path[:0] = [str(tree / "scripts")] if tree == ROOT else [str(tree), str(tree / "scripts")]
    # Commits without the package `benchmarks` have a script instead.
    module = import_module("benchmarks.cpu" if (tree / "scripts" / "benchmarks").is_dir() else "bench_cpu")
    variants: dict[str, Callable[[], object]] = {}
    for app in apps:
        variants |= {f"{app} {label}": run for label, run in module.app_variants(app).items() if label != UNVERSIONED}
    print(json.dumps(list(variants)), file=answers, flush=True)
    for line in sys.stdin:
        run = variants[json.loads(line)]
        started = time.perf_counter()
        run()
        print(time.perf_counter() - started, file=answers, flush=True)
    return 0


def timed(sides: list[Side], rounds: int) -> Samples:
    """Return the milliseconds of each variant that both sides have, as lists (before, after)."""
    shared = [v for v in sides[0].variants if v in sides[1].variants]
    samples: Samples = {variant: ([], []) for variant in shared}
    for k in range(rounds):
        for variant in shared:
            for side in (0, 1) if k % 2 == 0 else (1, 0):
                samples[variant][side].append(1e3 * sides[side].seconds(variant))
    return samples


def print_table(samples: Samples) -> None:
    """Print medians and least times of both versions."""
    print(f"{'':24} {'before':>9} {'after':>9} {'ratio':>6}   {'least':>9} {'after':>9} {'ratio':>6}")
    for variant, (before, after) in samples.items():
        medians = statistics.median(before), statistics.median(after)
        least = min(before), min(after)
        print(
            f"{variant:24} {medians[0]:9.2f} {medians[1]:9.2f} {medians[1] / medians[0]:6.2f}   "
            f"{least[0]:9.2f} {least[1]:9.2f} {least[1] / least[0]:6.2f}"
        )
