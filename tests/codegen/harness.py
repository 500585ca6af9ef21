"""Compiles printed expressions as C functions on arrays; any undefined behaviour stops the process."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autosched.analysis.indices import index as ix
from autosched.codegen.c import host_prelude
from autosched.codegen.expressions import C_TYPE, index_text, storage_type
from autosched.codegen.prelude import called_scalar_functions, scalar_prelude
from autosched.codegen.statements import simple_statement
from autosched.lang.dtypes import DType
from autosched.lower.ir import Buffer, BufferRead, Let, Memory, Store, Value, VarRef
from autosched.runtime.compile.host_compiler import find_compiler

Array = np.ndarray[Any, Any]
FLAGS = ("-std=gnu11", "-O1", "-ffp-contract=off", "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")


def compile_c(body: str, directory: Path) -> ctypes.CDLL:
    """Return a library of generated code and the helpers it calls."""
    source = directory / "case.c"
    source.write_text(f"{host_prelude()}\n{scalar_prelude(called_scalar_functions(body))}\n{body}")
    library = directory / "case.so"
    command = [*find_compiler("c").command, *FLAGS, "-Wall", "-Werror=incompatible-pointer-types", "-fPIC", "-shared"]
    subprocess.run([*command, "-o", str(library), str(source)], check=True, capture_output=True, text=True)
    return ctypes.CDLL(str(library))


def value_function(name: str, arguments: Sequence[DType], value: Value) -> str:
    """Return a C function that evaluates a value of ``a0``, ``a1``, ... for each element of arrays."""
    at = ix.var("i", 0, 1 << 20)
    params = [f"GLOBAL_IN({storage_type(d)}, x{k}, 0)" for k, d in enumerate(arguments)]
    lines = [
        simple_statement(Let(f"a{k}", BufferRead(Buffer(f"x{k}", d, 1, Memory.GLOBAL), at, k)))
        for k, d in enumerate(arguments)
    ]
    lines.append(simple_statement(Store(Buffer("out", value.dtype, 1, Memory.GLOBAL), at, value, len(arguments))))
    text = "\n        ".join(str(line) for line in lines)
    return (
        f"void {name}({', '.join(params)}, GLOBAL_OUT({storage_type(value.dtype)}, out, 0), const int count) {{\n"
        f"    for (int i = 0; i < count; i++) {{\n        {text}\n    }}\n}}\n"
    )


def arguments(dtypes: Sequence[DType]) -> tuple[VarRef, ...]:
    """Return references to the arguments of a `value_function`."""
    return tuple(VarRef(f"a{k}", d) for k, d in enumerate(dtypes))


def call(library: ctypes.CDLL, name: str, inputs: Sequence[Array], dtype: DType) -> Array:
    """Return the results of a `value_function` for arrays of equal length."""
    found = np.zeros(len(inputs[0]), dtype.numpy)
    pointers = [ctypes.c_void_p(np.ascontiguousarray(a).ctypes.data) for a in inputs]
    getattr(library, name)(*pointers, ctypes.c_void_p(found.ctypes.data), ctypes.c_int(len(found)))
    return found


def index_function(name: str, variables: Sequence[str], index: ix.Index) -> str:
    """Return a C function from the values of loop variables to an index."""
    params = ", ".join(f"const int {v}" for v in variables)
    return f"{C_TYPE['int64']} {name}({params}) {{ return {index_text(index)}; }}\n"


def call_index(library: ctypes.CDLL, name: str, variables: Sequence[str], values: Mapping[str, int]) -> int:
    """Return the value of an `index_function`."""
    function = getattr(library, name)
    function.restype = ctypes.c_longlong
    return int(function(*(ctypes.c_int(values[v]) for v in variables)))
