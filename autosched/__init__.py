"""autosched: write an array pipeline in Python, get fast GPU kernels without writing a schedule."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import autosched.schedule  # noqa: F401  # made callable below
from autosched._version import __version__ as __version__
from autosched.deprecation import RenamedModules
from autosched.errors import (
    AutoschedError,
    BoundsError,
    CacheError,
    CompileError,
    DatabaseError,
    DeviceLostError,
    DSLError,
    InputError,
    LaunchError,
    MeasureError,
    ScheduleError,
    SearchWarning,
)
from autosched.lang.dtypes import (
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from autosched.lang.expr import Expr, Param, Var
from autosched.lang.func import Func, Input, Output, undef
from autosched.lang.functions import (
    abs,
    absd,
    acos,
    acosh,
    all_of,
    any_of,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    cast,
    ceil,
    clamp,
    copysign,
    cos,
    cosh,
    erf,
    erfc,
    exp,
    exp2,
    expm1,
    floor,
    fmod,
    hash_u32,
    hypot,
    lerp,
    log,
    log1p,
    log2,
    log10,
    max,
    min,
    pow,
    random_float,
    round,
    select,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
)
from autosched.lang.idioms import cumsum, log_softmax, softmax, window_maximum, window_minimum, window_sum
from autosched.lang.median import median
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom, argmax, argmin, maximum, minimum, prod, sum
from autosched.renamed_modules import MODULES, NAMES

if TYPE_CHECKING:
    from autosched.api import autotune, load_schedule, schedule
    from autosched.export import Exported
    from autosched.iteration.iterated_function import IteratedFunction, iterate
    from autosched.iteration.scheduled_time_loop import ScheduledTimeLoop
    from autosched.iteration.time_loop import TimeLoop
    from autosched.jit_function import JitFunction, jit
    from autosched.reference import interpret
    from autosched.runtime.backends.kernel_info import KernelInfo
    from autosched.runtime.benchmark import Benchmark
    from autosched.runtime.call.compiled import CompiledPipeline
    from autosched.scheduled_pipeline import ScheduledPipeline
    from autosched.search.guidance.guide import Guide, KernelGuide
    from autosched.target import Target, get_target
    from autosched.torch.custom_op import torch_operator

_LAZY = {
    "Benchmark": "autosched.runtime.benchmark",
    "CompiledPipeline": "autosched.runtime.call.compiled",
    "Exported": "autosched.export",
    "Guide": "autosched.search.guidance.guide",
    "IteratedFunction": "autosched.iteration.iterated_function",
    "TimeLoop": "autosched.iteration.time_loop",
    "JitFunction": "autosched.jit_function",
    "KernelGuide": "autosched.search.guidance.guide",
    "KernelInfo": "autosched.runtime.backends.kernel_info",
    "ScheduledTimeLoop": "autosched.iteration.scheduled_time_loop",
    "ScheduledPipeline": "autosched.scheduled_pipeline",
    "Target": "autosched.target",
    "autotune": "autosched.api",
    "get_target": "autosched.target",
    "interpret": "autosched.reference",
    "iterate": "autosched.iteration.iterated_function",
    "jit": "autosched.jit_function",
    "load_schedule": "autosched.api",
    "torch_operator": "autosched.torch.custom_op",
}
"""Names whose modules are imported at first use, so that `import autosched` is fast."""

__all__ = [
    "AutoschedError",
    "Benchmark",
    "BoundsError",
    "CacheError",
    "CompileError",
    "CompiledPipeline",
    "DSLError",
    "DatabaseError",
    "DeviceLostError",
    "Exported",
    "Expr",
    "Func",
    "Guide",
    "Input",
    "InputError",
    "IteratedFunction",
    "JitFunction",
    "KernelGuide",
    "KernelInfo",
    "LaunchError",
    "MeasureError",
    "Output",
    "Param",
    "Pipeline",
    "RDom",
    "ScheduleError",
    "ScheduledPipeline",
    "ScheduledTimeLoop",
    "SearchWarning",
    "Target",
    "TimeLoop",
    "Var",
    "abs",
    "absd",
    "acos",
    "acosh",
    "all_of",
    "any_of",
    "argmax",
    "argmin",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "autotune",
    "bfloat16",
    "bool_",
    "cast",
    "ceil",
    "clamp",
    "copysign",
    "cos",
    "cosh",
    "cumsum",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "float16",
    "float32",
    "float64",
    "floor",
    "fmod",
    "get_target",
    "hash_u32",
    "hypot",
    "int8",
    "int16",
    "int32",
    "int64",
    "interpret",
    "iterate",
    "jit",
    "lerp",
    "load_schedule",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_softmax",
    "max",
    "maximum",
    "median",
    "min",
    "minimum",
    "pow",
    "prod",
    "random_float",
    "round",
    "schedule",
    "select",
    "sin",
    "sinh",
    "softmax",
    "sqrt",
    "sum",
    "tan",
    "tanh",
    "torch_operator",
    "trunc",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "undef",
    "window_maximum",
    "window_minimum",
    "window_sum",
]


class _CallableModule(ModuleType):
    """The sub-package `autosched.schedule`, which can also be called like the function of that name."""

    def __call__(self, *args: Any, **kwargs: Any) -> ScheduledPipeline:
        from autosched.api import schedule

        return schedule(*args, **kwargs)


sys.modules["autosched.schedule"].__class__ = _CallableModule
sys.meta_path.append(RenamedModules(MODULES, NAMES))


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
