"""Check, time, measure and train on a GPU, in one command that needs neither a network nor an installation.

    python scripts/gpu_campaign.py --out DIR                                   # all steps, in ten minutes
    python scripts/gpu_campaign.py --out DIR --steps collect --seconds 550     # one step
    python scripts/gpu_campaign.py --out DIR --steps report                    # only the tables; needs no GPU
    python scripts/gpu_campaign.py --out DIR --target simulated --device h200 --steps search,compile   # ahead of time
    python scripts/gpu_campaign.py --out /tmp/look --target simulated --apps blur,unsharp --samples 50   # no GPU
    python scripts/gpu_campaign.py --out DIR --plan 30                         # only the calls of half an hour

Each step is a process that is killed at its time limit. Its results so far are in DIR, in a few small files. The same
command resumes from DIR, on this machine or on another one that has a copy of DIR. See docs/how-to/gpu-campaign.md.
The exit status is 1 on any failure.
"""

from __future__ import annotations

import argparse
import ast
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

from campaign.campaign import Campaign, StateError
from campaign.delivery import export_results, import_results
from campaign.estimates import needs
from campaign.options import TARGETS, TUNED, Options
from campaign.paths import ROOT
from campaign.plan import DEFAULT, NAMES, Step, chosen_steps
from campaign.report import SUMMARY_FILE, write_report
from campaign.visits import carried_line, describe, planned_calls

SECONDS = 570.0
CARRY_MIB = 64.0
_OF_A_PLAN = ("steps", "again", "plan", "carry_mib", "taken", "seconds")
"""Options that the commands of a plan do not repeat."""
REPORT = "report"


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    command_line = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = command_line.add_argument
    add("--out", type=Path, required=True, help="directory of the results; earlier results are extended")
    add("--work", type=Path, help="directory for logs, caches and unpacked files (default: a temporary one)")
    add(
        "--steps",
        default=",".join(DEFAULT),
        help=f"of {', '.join((*NAMES, REPORT))}, all with :SECONDS or none; the report is always written",
    )
    add("--again", default="", help="finished steps to run again")
    add("--plan", type=float, metavar="MINUTES", help="print the calls of a visit and what they hold; run nothing")
    add(
        "--carry-mib",
        type=float,
        default=CARRY_MIB,
        help="files that the machine takes, for --plan (default: %(default)g)",
    )
    add("--export", type=Path, help="directory that gets the results in a few small files at the end")
    add("--import", dest="taken", type=Path, help="directory of exported files, taken into --out at first")
    add("--seconds", type=float, default=SECONDS, help="time for everything (default: %(default)g)")
    add("--target", choices=TARGETS, default="cuda", help="backend that runs the pipelines (default: %(default)s)")
    add("--device", default="", help="device to schedule for (default: the GPU of this machine; h200 without one)")
    add("--apps", default="", help="apps of the suite (default: all)")
    add("--sizes", default="small,odd,paper", help="problem sizes of the suite check (default: %(default)s)")
    add("--strategies", default=",".join(Options.strategies), help="strategies and modes (default: %(default)s)")
    add(
        "--search-seconds",
        type=float,
        default=Options.search_seconds,
        help="budget of each search (default: %(default)g)",
    )
    add("--ranked", type=int, default=Options.ranked, help="schedules timed of each search (default: %(default)s)")
    add("--weights", default="", help="a learned model; adds the modes `learned` and `learned-top5`")
    add("--samples", type=int, default=Options.samples, help="samples to collect or compile (default: %(default)s)")
    add("--pipelines", type=int, default=Options.pipelines, help="most random pipelines (default: %(default)s)")
    add("--first", type=int, default=0, help="seed of the first random pipeline")
    add("--labels", default="", help="label files whose schedules are measured before random ones")
    add("--hold-out", default="", help="apps held out from training, one at a time (default: each)")
    add("--epochs", type=int, default=Options.epochs, help="most epochs of training (default: %(default)s)")
    add("--peers", type=Path, help="directory of run_halide_peers.py, torch_peers.py and their files")
    add("--wheels", type=Path, help="directory of wheels of packages that the machine lacks")
    add("--code-mib", type=float, default=Options.code_mib, help="most compiled code to pack (default: %(default)g)")
    add("--tune-apps", default=",".join(TUNED), help="apps to tune (default: %(default)s)")
    add(
        "--tune-seconds",
        type=float,
        default=Options.tune_seconds,
        help="time for an app in a call (default: %(default)g)",
    )
    add("--tune-samples", type=int, default=Options.tune_samples, help="schedules of a batch (default: %(default)s)")
    add("--tune-iterations", type=int, default=Options.tune_iterations, help="batches of an app (default: %(default)s)")
    add("--processes", type=int, default=0, help="processes that compile and search (default: number of cores)")
    add("--commit", default="", help="the commit, outside a git checkout")
    return command_line


def options_of(given: argparse.Namespace, work: Path) -> Options:
    """Return the options of the command line."""
    learned = ("learned", "learned-top5") if given.weights else ()
    return Options(
        out=str(given.out.absolute()),
        work=str(work.absolute()),
        target=given.target,
        device=given.device,
        apps=_names(given.apps),
        sizes=_names(given.sizes),
        strategies=(*_names(given.strategies), *learned),
        ranked=given.ranked,
        search_seconds=given.search_seconds,
        weights=str(Path(given.weights).absolute()) if given.weights else "",
        samples=given.samples,
        pipelines=given.pipelines,
        first=given.first,
        labels=tuple(str(Path(name).absolute()) for name in _names(given.labels)),
        hold_out=_names(given.hold_out),
        epochs=given.epochs,
        peers=str(given.peers.absolute()) if given.peers else "",
        wheels=str(given.wheels.absolute()) if given.wheels else "",
        code_mib=given.code_mib,
        tune_apps=_names(given.tune_apps),
        tune_seconds=given.tune_seconds,
        tune_samples=given.tune_samples,
        tune_iterations=given.tune_iterations,
        processes=given.processes or len(os.sched_getaffinity(0)),
        commit=given.commit or commit_of(ROOT),
    )


def commit_of(root: Path) -> str:
    """Return the commit of a checkout, marked if files were changed; empty outside a git checkout."""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def _end(number: int, _: object) -> NoReturn:
    """Exit as after Ctrl-C, so that the running step is killed and the report written."""
    sys.exit(128 + number)


def plan_of(given: argparse.Namespace, options: Options) -> list[str]:
    """Return the plan of a visit as lines of text."""
    calls, left = planned_calls(needs(options, _app_count(ROOT)), given.plan)
    carried = carried_line(ROOT, [p for p in (given.out, given.peers, given.wheels) if p], given.carry_mib)
    command = ["python3", "scripts/gpu_campaign.py", "--out", str(given.out)]
    defaults = vars(parser().parse_args(["--out", str(given.out)]))
    for name, value in vars(given).items():
        if value != defaults[name] and name not in _OF_A_PLAN:
            command += [f"--{name.replace('_', '-')}", str(value)]
    return describe(calls, left, given.plan, command, carried)


def _app_count(root: Path) -> int:
    """Return the number of apps of the suite, read from the registry's text: no package may be installed."""
    registry = ast.parse((root / "autosched" / "apps" / "registry.py").read_text(encoding="utf-8"))
    tuples = [node.value for node in registry.body if isinstance(node, ast.Assign)]
    return max(len(value.elts) for value in tuples if isinstance(value, ast.Tuple))


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    given = parser().parse_args(arguments)
    names = [name for name in _names(given.steps) if name != REPORT]
    signal.signal(signal.SIGTERM, _end)
    with tempfile.TemporaryDirectory(prefix="campaign-") as temporary:
        try:
            steps, again = chosen_steps(names), [step.name for step in chosen_steps(_names(given.again))]
            options = options_of(given, given.work or Path(temporary))
            if given.plan is not None:
                print("\n".join(plan_of(given, options)))
                return 0
            if given.taken is not None:
                print(f"{import_results(given.taken, given.out)} files are taken from {given.taken}")
            return _run(given, options, steps, again)
        except (ValueError, StateError) as error:  # invalid options or a damaged file
            print(f"error: {error}", file=sys.stderr)
            return 2


def _run(given: argparse.Namespace, options: Options, steps: list[Step], again: list[str]) -> int:
    code = 0
    try:
        if steps:
            campaign = Campaign(options, say=lambda text: print(text, flush=True), command=sys.argv)
            code = campaign.run(steps, given.seconds, again=again)
    finally:  # also after a signal
        if given.out.is_dir():
            write_report(given.out)
            print(f"summary in {given.out / SUMMARY_FILE}")
            if given.export is not None:
                files = export_results(given.out, given.export)
                print(f"results in {', '.join(str(path) for path in files)}")
    return code
