"""Digests of the compiler's output for apps: emitted code, schedules, features and predicted times.

    python -m tests.golden.snapshot --check --apps blur,hist     (compares with snapshot.json; all apps without --apps)
    python -m tests.golden.snapshot --write --apps blur,hist     (writes these into snapshot.json)
    python -m tests.golden.snapshot --text DIR --apps blur,harris    (the texts themselves, to compare two versions)

A change of names or layout changes none of it. Targets are constants, and no compiler runs, so that all machines agree.
Searches are narrow: all apps take minutes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app, load_apps
from autosched.codegen.c import print_c
from autosched.codegen.cuda import print_cuda
from autosched.host import Host
from autosched.lower.program import lower
from autosched.model.data.features import featurize_problem
from autosched.schedule.io.serialise import to_json
from autosched.search.results import SearchResult
from autosched.search.settings import SearchSettings
from autosched.search.strategies.protocol import STRATEGIES, Beam
from autosched.search.tune.cost_models import ANALYTICAL, cost_model
from autosched.search.tune.greedy_samples import draw_samples, samplers_of
from autosched.target import Target, cpu_target, get_target

SNAPSHOT = Path(__file__).with_name("snapshot.json")
SNAPSHOT_STRATEGIES = ("roots", "beam", "sioutas", "default")
SAMPLES = 4
NARROW = SearchSettings(beam_size=4, passes=1, refine_beam=1, horizontal_fusion=True)
DIGITS = 5
"""Of features and predicted times: sums in another order differ in the last ones."""
Digests = dict[str, dict[str, str]]
"""Digest of each kind of text, by strategy."""


def targets() -> Mapping[str, Target]:
    """Return the targets by name: a GPU and two processors, with vectors of 8 and 16 floats."""
    return {
        "h200": get_target("h200"),
        "avx2": cpu_target(Host(2, 8, 512 << 10, 16 << 20, 16 << 30, 3.0e9, "AuthenticAMD 23")),
        "avx512": cpu_target(Host(2, 16, 2 << 20, 32 << 20, 16 << 30, 2.5e9, "GenuineIntel 6 amx")),
    }


def texts(app: str, target: Target) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each strategy with the texts of its schedule for an app at its small sizes, by kind."""
    chosen = get_app(app)
    pipeline, params = chosen.configure()
    shapes = {k: v.shape for k, v in chosen.make_inputs(chosen.sizes(dict(chosen.small_sizes)), 0).items()}
    bound = bind(pipeline, shapes, params)
    for strategy in SNAPSHOT_STRATEGIES:
        result = _search(strategy, bound, target)
        best = result.ranked[0].schedule
        schedule = to_json(bound, best)
        program = lower(bound, best)
        kinds = {"schedule": schedule, "features": _features(bound, target, schedule)}
        if target.kind == "cuda":
            kinds["cuda"] = "\n".join(print_cuda(kernel).source for kernel in program.kernels)
        kinds["c"] = print_c(program).text
        kinds["predicted"] = "\n".join(f"{ranked.seconds:.{DIGITS}g}" for ranked in result.ranked)
        yield strategy, kinds


def _search(strategy: str, bound: BoundPipeline, target: Target) -> SearchResult:
    """Search as `autosched.schedule` does, with narrow beams and without a check of registers."""
    model = cost_model(ANALYTICAL, target)
    if strategy == "default":
        return draw_samples(samplers_of(bound, target, model, NARROW), samples=SAMPLES, seed=0)
    chosen = Beam(NARROW) if strategy == "beam" else STRATEGIES[strategy]
    return chosen.search(bound, target, cost=model, seed=0)


def digests(app: str, target: str) -> Digests:
    """Return the digests of an app for a target."""
    return {
        strategy: {kind: hashlib.sha256(text.encode()).hexdigest()[:16] for kind, text in kinds.items()}
        for strategy, kinds in texts(app, targets()[target])
    }


def _features(bound: BoundPipeline, target: Target, schedule: str) -> str:
    found = featurize_problem(bound, target, {"": schedule})
    lines = []
    for key in found.schedules[""]:
        kernel = found.kernels[key]
        rows = [*kernel.schedule, kernel.parts]
        lines += [" ".join(f"{value:.{DIGITS}g}" for value in row) for row in rows]
    return "\n".join(lines)


def differences(found: Mapping[str, Digests], wanted: Mapping[str, Digests]) -> list[str]:
    """Return what differs between two snapshots, each by app, target, strategy and kind."""
    return [
        f"{name} {strategy}: {kind}"
        for name in found
        for strategy, kinds in found[name].items()
        for kind, digest in kinds.items()
        if wanted.get(name, {}).get(strategy, {}).get(kind) != digest
    ]


def _one(case: tuple[str, str]) -> tuple[str, Digests]:
    app, target = case
    return f"{app} {target}", digests(app, target)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write, compare or show the snapshot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true")
    what.add_argument("--write", action="store_true")
    what.add_argument("--text", type=Path, metavar="DIR")
    parser.add_argument("--apps", help="some, separated by commas")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args(arguments)
    apps = args.apps.split(",") if args.apps else list(load_apps())
    if args.text:
        args.text.mkdir(parents=True, exist_ok=True)
        for app in apps:
            for name, target in targets().items():
                for strategy, kinds in texts(app, target):
                    for kind, text in kinds.items():
                        (args.text / f"{app}.{name}.{strategy}.{kind}").write_text(text, encoding="utf-8")
        return 0
    cases = [(app, target) for app in apps for target in targets()]
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        found = dict(pool.map(_one, cases))
    kept: dict[str, Digests] = json.loads(SNAPSHOT.read_text(encoding="utf-8")) if SNAPSHOT.exists() else {}
    if args.write:
        SNAPSHOT.write_text(json.dumps(kept | found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        return 0
    wrong = differences(found, kept)
    sys.stdout.write(("\n".join(wrong) or f"{len(found)} cases as before") + "\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
