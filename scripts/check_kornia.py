"""Compare functions of kornia, compiled by the backend ``autosched``, with eager PyTorch.

Prints a table: whether results, and gradients, are those of eager; graphs, regions, and the operators that stay
PyTorch's. With ``--json FILE`` the run can be interrupted and continued.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

from kornia_table.comparison import checked
from kornia_table.functions import kornia_functions

from autosched.atomic_files import replace_file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", type=int, nargs=4, default=(2, 3, 64, 64), help="N C H W")
    parser.add_argument(
        "--strategy", default="roots", help="strategy of the schedules; 'search' for the default search"
    )
    parser.add_argument("--only", help="a regular expression of names")
    parser.add_argument("--json", type=Path, help="file with the rows, which is continued")
    arguments = parser.parse_args()
    rows = json.loads(arguments.json.read_text()) if arguments.json and arguments.json.exists() else {}
    for case in kornia_functions():
        if case.name in rows or (arguments.only and not re.search(arguments.only, case.name)):
            continue
        strategy = None if arguments.strategy == "search" else arguments.strategy
        rows[case.name] = row = checked(case, tuple(arguments.shape), strategy)
        print(case.name, *(f"{k}={row[k]}" for k in row), sep="  ", flush=True)
        if arguments.json:
            replace_file(arguments.json, lambda path: path.write_text(json.dumps(rows, indent=1)))
    right = sum(row["forward"] == "right" for row in rows.values())
    backward = sum(row.get("backward") == "right" for row in rows.values())
    whole = sum(row["graphs"] == 1 and row["regions"] == 1 for row in rows.values())
    print(f"{len(rows)} functions: {right} right forward, {backward} backward, {whole} in one region")
    sys.exit(right < len(rows))


if __name__ == "__main__":
    main()
