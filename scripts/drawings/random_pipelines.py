"""Statistics of random pipelines as tables; can write the page docs/reference/random-pipelines.md.

python scripts/describe_random_pipelines.py [--seeds 500] [--first 0] [--settings GROUP] [--page FILE]
python scripts/describe_random_pipelines.py --picture FILE.png [--seeds 600] [--users FOLDER]

With `--picture`, random pipelines of the groups `standard` and `users` are drawn with the suite and the pipelines of a
folder in the space of their workload; a table of distances is printed. See `drawings.pipeline_space`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from autosched.errors import AutoschedError
from autosched.random_pipelines import RandomPipelineSettings, describe, distinct_pipelines
from autosched.random_pipelines.settings import CPU, SMALL, USERS
from drawings.pipeline_space import distance_table, draw_space, pipeline_space

SETTINGS = {"standard": RandomPipelineSettings(), "cpu": CPU, "small": SMALL, "users": USERS}
BEGIN = "<!-- tables -->"


def main(arguments: Sequence[str] | None = None) -> int:
    """Describe the pipelines of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=500, help="number of seeds")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--settings", choices=sorted(SETTINGS), default="standard", help="a configuration group")
    parser.add_argument("--page", type=Path, help=f"page whose text after the line {BEGIN} is replaced")
    parser.add_argument("--picture", type=Path, help="image file of all pipelines in the space of their workload")
    parser.add_argument("--users", type=Path, help="folder of further pipelines in the picture")
    args = parser.parse_args(arguments)
    if args.picture is not None:
        return describe_space(args.seeds, args.picture, args.users)
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
    head = f"`python {command}`:\n{len(pipelines)} distinct pipelines of {args.seeds} seeds.\n"
    kept = args.page.read_text(encoding="utf-8").partition(BEGIN)[0]
    write_page(args.page, f"{kept}{BEGIN}\n\n{head}\n{tables}")
    return 0


def describe_space(seeds: int, picture: Path, users: Path | None) -> int:
    """Draw the picture and print the table of distances."""
    try:
        space = pipeline_space(seeds, SETTINGS["standard"], SETTINGS["users"], users)
        draw_space(space, picture)
    except AutoschedError as error:
        print(error, file=sys.stderr)
        return 2
    print(distance_table(space))
    return 0


def write_page(path: Path, text: str) -> None:
    """Replace a file atomically."""
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
