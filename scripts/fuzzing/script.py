"""Printer of a failing program as a script that depends only on autosched and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzzing.check import Failure
from fuzzing.program import HEADER, Program, build
from fuzzing.trials import DEFAULT, DRAWN, SAMPLED, SAMPLES, Trial

_TEMPLATE = '''\
"""{message}

Program {number} of the class {family!r}{under}. Ends with 1 while it fails.
"""

import sys
{imports}

{header}
{program}
shapes = {{i.name: shapes[i.name] for i in pipeline.inputs}}
params = {{p.name: params[p.name] for p in pipeline.params}}
inputs = {{{inputs}}}
{judge}'''

_IMPORTS = """
import numpy as np
from numpy import inf, nan

from autosched.analysis.bind import bind
from autosched.lang.dtypes import is_float_dtype
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.io.serialise import from_json
from autosched.schedule.rewrites import reassociated_pipeline"""

_JUDGE = """
target = au.get_target("{target}")
bound = bind(pipeline, shapes, params)
{schedule}
whole = reassociated_pipeline(bound, schedule).pipeline if schedule.rewrites else pipeline
used = {{i.name: inputs[i.name] for i in whole.inputs}}
expected = au.interpret(whole, used, {{p.name: params[p.name] for p in whole.params}})
found = {{n: np.frombuffer(b"Z" * a.nbytes, a.dtype).reshape(a.shape).copy() for n, a in expected.items()}}
kernel = ScheduledPipeline(bound, schedule, target, params).compile("{backend}")
if any(array.ndim == 0 for array in found.values()):
    results = kernel({{**inputs, **params}})
    found = dict(zip(found, results if isinstance(results, tuple) else (results,), strict=True))
else:
    kernel({{**inputs, **params}}, out=found if len(found) > 1 else next(iter(found.values())))
wrong = 0
for name, wanted in expected.items():
    got = np.asarray(found[name])
    same = (got == wanted) & (np.signbit(got) == np.signbit(wanted)) if is_float_dtype(wanted.dtype) else got == wanted
    same = np.asarray(same | ((got != got) & (wanted != wanted)))
    if not same.all():
        wrong += 1
        print(f"WRONG {{name}}:\\n{{got}}\\nnot\\n{{wanted}}")
sys.exit(wrong > 0)
"""

_WITHOUT_SCHEDULE = """
from autosched.analysis.bind import bind

bind(pipeline, shapes, params)
sys.stdout.write(str(au.interpret(pipeline, inputs, params)) + "\\n")
"""


def script(program: Program, failure: Failure, family: str) -> str:
    """Return a script that reproduces a failure; text refused by the language is printed unchanged."""
    trial = failure.trial
    under = f" under a schedule for {trial}, seed {trial.seed}" if trial else ""
    message = failure.message.replace("\\", "\\\\").replace('"', "'")
    judge = _WITHOUT_SCHEDULE if trial is None else _JUDGE.format(
        target=trial.target, backend="cpu" if trial.target == "cpu" else "emulator", schedule=_schedule(failure, trial)
    )  # fmt: skip
    imports = "\nimport numpy as np\nfrom numpy import inf, nan" if trial is None else _IMPORTS
    return _TEMPLATE.format(
        message=message, number=program.number, family=family, under=under, header=HEADER, program=program.text,
        inputs=_inputs(program), judge=judge, imports=imports,
    )  # fmt: skip


def _inputs(program: Program) -> str:
    try:
        inputs = build(program).inputs
    except Exception:  # which is what the script shows
        return ""
    return ", ".join(f"{name!r}: {_literal(array)}" for name, array in inputs.items())


def _literal(array: np.ndarray[Any, Any]) -> str:
    if array.size == 0:
        return f'np.zeros({array.shape}, "{array.dtype}")'
    return f'np.array({array.tolist()}, "{array.dtype}")'


def _schedule(failure: Failure, trial: Trial) -> str:
    if failure.schedule:
        return f'schedule = from_json(r"""{failure.schedule}""", bound)'
    if trial.scheduler == SAMPLED:
        rng = f"np.random.default_rng({trial.seed})"
        return f'schedule = sample_schedule(bound, target, {rng}, varied=True, lanes="exact")'
    options = f"seed={trial.seed}, reuse=False"
    if trial.scheduler != DEFAULT:
        strategy = None if trial.scheduler == DRAWN else trial.scheduler
        options += f', strategy={strategy!r}, samples={SAMPLES}, cost="analytical"'
    return f'schedule = au.schedule(pipeline, shapes, "{trial.target}", params, {options}).schedule'
