"""Time functions and pipelines of kornia: eager, compiled by inductor, by the backend ``autosched``, and by ``eager``.

All sides run in turns in one process. Prints milliseconds, ours over inductor's, and the geometric mean. With
``--json FILE`` the run can be interrupted and continued.
"""

from __future__ import annotations

import argparse
import json
import re
import warnings
from itertools import chain, islice
from pathlib import Path

from kornia_table.functions import kornia_functions
from kornia_table.pipelines import kornia_pipelines
from kornia_table.timing import SIDES, TIMED, print_report, timed

from autosched.atomic_files import replace_file

SHAPES = ((4, 3, 512, 512), (1, 3, 1080, 1920))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds of timing for each function and shape")
    parser.add_argument("--only", help="a regular expression of names")
    parser.add_argument("--most", type=int, help="most functions")
    parser.add_argument("--json", type=Path, help="file with the rows, which is continued")
    parser.add_argument("--no-inductor", action="store_true", help="leave inductor out")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = json.loads(arguments.json.read_text()) if arguments.json and arguments.json.exists() else {}
    functions = (f for f in kornia_functions() if f.name.rpartition(".")[2] in TIMED)
    cases = (f for f in chain(functions, kornia_pipelines()) if not arguments.only or re.search(arguments.only, f.name))
    for case in islice(cases, arguments.most):
        for shape in SHAPES:
            key = f"{case.name} {'x'.join(map(str, shape))}"
            if key not in rows:
                rows[key] = row = timed(case, shape, arguments.seconds, not arguments.no_inductor)
                print(key, *(f"{side} {row[side] * 1e3:.2f} ms" for side in SIDES if side in row), sep="  ", flush=True)
                if arguments.json:
                    replace_file(arguments.json, lambda path: path.write_text(json.dumps(rows, indent=1)))
    print_report(rows)


if __name__ == "__main__":
    main()
