"""Classes of kernels by features, beside code differencing on this machine's processor.

    python scripts/bench_bottlenecks.py
    python scripts/bench_bottlenecks.py --apps unsharp,hist --seconds 4

Each app is scheduled by `roots` at a size of some tens of megabytes. A kernel counts as bound beyond a core's caches if
its confined form takes less than `autosched.search.bottleneck.classification.FASTER` of its time.
"""

from __future__ import annotations

import argparse

import autosched
from autosched.analysis.bind import bind
from autosched.apps import get_app
from autosched.commands.bottlenecks import diagnoses_of
from autosched.measure.compare.code_differencing import difference_kernels
from autosched.runtime.timing.interleaved import RoundsRule
from autosched.search.bottleneck.classification import FASTER
from autosched.search.bottleneck.kernel_profile import MemoryLevel

SIZES = {
    "smoother7pt": {"D": 96, "H": 192, "W": 192},
    "smoother27pt": {"D": 96, "H": 192, "W": 192},
    "rhs4center": {"D": 64, "H": 128, "W": 128},
    "hypterm": {"D": 64, "H": 128, "W": 128},
    "addsgd4": {"D": 64, "H": 128, "W": 128},
    "unsharp": {},
    "harris": {},
    "hist": {},
}
BEYOND = (MemoryLevel.DRAM, MemoryLevel.L2)


def main() -> None:
    """Print a row for each kernel that has a confined form, and how often both agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", default=",".join(SIZES), help="names, separated by commas")
    parser.add_argument("--seconds", type=float, default=4.0, help="time limit of an app after the least rounds")
    parser.add_argument("--target", default="cpu")
    args = parser.parse_args()
    print(f"| {'kernel':<28} | {'by features':<44} | time | confined | agree |")
    print("|---|---|---|---|---|")
    agreed = decided = undecided = 0
    for name in args.apps.split(","):
        app = get_app(name)
        pipeline, shapes = app.build(), app.shapes(SIZES.get(name, {}))
        s = autosched.schedule(pipeline, shapes, args.target, strategy="roots")
        rule = RoundsRule(least=7, most=15, most_seconds=args.seconds)
        differences = difference_kernels(bind(pipeline, shapes), s.schedule, s.target, rule=rule)
        for d, found in zip(diagnoses_of(s), differences, strict=True):
            if found.problem:
                continue
            beyond = d.bottleneck.level in BEYOND
            agree = beyond == (found.ratio < FASTER)
            undecided += d.bottleneck.undecided
            decided += not d.bottleneck.undecided
            agreed += agree and not d.bottleneck.undecided
            print(
                f"| {found.name:<28} | {d.text:<44} | {1e3 * found.seconds:.2f} ms | {found.ratio:.2f} | "
                f"{'undecided' if d.bottleneck.undecided else 'yes' if agree else 'no'} |", flush=True,
            )  # fmt: skip
    print(f"\nboth agree on {agreed} of {decided} decided kernels; {undecided} are undecided by features")


if __name__ == "__main__":
    main()
