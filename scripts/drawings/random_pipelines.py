"""Statistics of random pipelines as tables; can write the page docs/reference/random-pipelines.md.

python scripts/describe_random_pipelines.py [--seeds 500] [--first 0] [--settings standard|cpu|small] [--page FILE]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from autosched.random_pipelines import RandomPipelineSettings, describe, distinct_pipelines
from autosched.random_pipelines.settings import CPU, SMALL

SETTINGS = {"standard": RandomPipelineSettings(), "cpu": CPU, "small": SMALL}
BEGIN = "<!-- tables -->"


def main(arguments: Sequence[str] | None = None) -> int:
    """Describe the pipelines of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=500, help="number of seeds")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--settings", choices=sorted(SETTINGS), default="standard", help="a configuration group")
    parser.add_argument("--page", type=Path, help=f"page whose text after the line {BEGIN} is replaced")
    args = parser.parse_args(arguments)
    started = time.perf_counter()
    pipelines = list(distinct_pipelines(range(args.first, args.first + args.seeds), SETTINGS[args.settings]))
    seconds = time.perf_counter() - started
    print(f"{len(pipelines)} distinct pipelines of {args.seeds} seeds in {seconds:.1f} s", file=sys.stderr)
    tables = describe(pipelines).tables()
    if args.page is None:
        print(tables)
        return 0
    command = (
        f"scripts/describe_random_pipelines.py --seeds {args.seeds} --first {args.first} --settings {args.settings}"
    )
    head = f"`python {command}`: {len(pipelines)} distinct pipelines of {args.seeds} seeds.\n"
    kept = args.page.read_text(encoding="utf-8").partition(BEGIN)[0]
    write_page(args.page, f"{kept}{BEGIN}\n\n{head}\n{tables}")
    return 0


def write_page(path: Path, text: str) -> None:
    """Replace a file atomically."""
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
