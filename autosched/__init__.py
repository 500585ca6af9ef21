"""autosched: write an array pipeline in Python, get fast GPU kernels without writing a schedule."""

from __future__ import annotations

from autosched.errors import (
    AutoschedError,
    BoundsError,
    CacheError,
    CompileError,
    DSLError,
    InputError,
    LaunchError,
    ScheduleError,
)
from autosched.lang.dtypes import (
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
    all_of,
    any_of,
    asin,
    atan,
    atan2,
    cast,
    ceil,
    clamp,
    cos,
    exp,
    floor,
    fmod,
    hash_u32,
    hypot,
    lerp,
    log,
    max,
    min,
    pow,
    random_float,
    round,
    select,
    sin,
    sqrt,
    tan,
    tanh,
    trunc,
)
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom, argmax, argmin, maximum, minimum, prod, sum

__version__ = "0.1.0"
