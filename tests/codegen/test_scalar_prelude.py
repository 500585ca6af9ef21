"""The text of the scalar prelude: its content, the loops that gcc vectorises, the code that NVRTC emits."""

from __future__ import annotations

import platform
import re
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from autosched.codegen.prelude import called_scalar_functions, scalar_functions, scalar_prelude, scalar_signatures
from autosched.codegen.prelude.templates import C_NAMES
from autosched.errors import CompileError
from autosched.lang.dtypes import ALL, DType, float32, float64, int32, int64, uint16, uint32
from autosched.runtime.compile.host_compiler import find_compiler, have_compiler
from autosched.runtime.compile.nvrtc import compile_cubin, have_nvrtc

needs_compiler = pytest.mark.skipif(not have_compiler("c"), reason="no C compiler")
needs_nvrtc = pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed")

INTEGERS = [d for d in ALL if d.is_int]
FLOATS = [float32, float64]
DEFINITION = re.compile(r"^AS_FN .*?\b(as_\w+)\(", re.MULTILINE)


@pytest.mark.parametrize("name", scalar_functions())
def test_each_function_comes_with_its_callees_before_it(name: str) -> None:
    text = scalar_prelude([name])
    defined = [m[1] for m in DEFINITION.finditer(text)]
    assert defined[-1] == name
    starts = [m.start() for m in DEFINITION.finditer(text)] + [len(text)]
    for position, (start, end) in enumerate(pairwise(starts)):
        calls = set(re.findall(r"\b(as_\w+)\(", text[start:end]))
        assert calls <= set(defined[: position + 1])


def test_prelude_holds_what_is_used_in_a_fixed_order() -> None:
    text = scalar_prelude(["as_mod_i32", "as_floor_f32"])
    assert text == scalar_prelude(["as_floor_f32", "as_mod_i32"])
    assert [m[1] for m in DEFINITION.finditer(text)] == ["as_floordiv_i32", "as_mod_i32", "as_floor_f32"]
    assert "as_cvt" not in text


def test_unknown_function_is_named() -> None:
    with pytest.raises(CompileError, match="no function as_gamma_f32"):
        scalar_prelude(["as_exp_f32", "as_gamma_f32"])


def test_called_functions_are_found() -> None:
    body = "b[i] = as_min_f32(as_exp_f32(a[i]), has_as_exp_f64(c)) + as_block(3) + as_sin_f32;"
    assert called_scalar_functions(body) == {"as_min_f32", "as_exp_f32"}


VECTORISED = [
    *(f"as_{name}_{d.short}" for name in ("min", "max", "abs") for d in FLOATS),
    *(f"as_cvt_{d.short}_f32" for d in INTEGERS if d.bits <= 32),
    *(f"as_cvt_{d.short}_f64" for d in INTEGERS if d.bits <= 32),
    *(f"as_{name}_f32" for name in ("sqrt", "floor", "ceil", "trunc", "round")),
    *("as_f16_to_f32", "as_f32_to_f16", "as_round_f16", "as_hash_u32"),
]
VECTORISED_WITH_LITERAL = [
    (f"as_{name}_{d.short}", literal)
    for d in INTEGERS
    if d.bits <= 32
    for name, literal in (("floordiv", 3), ("floordiv", 8), ("mod", 3), ("shr", 2), ("shl", 2))
]


def loops(functions: list[str], literals: list[tuple[str, int]]) -> str:
    """Return C text with each function in a loop of its own, one loop a line."""
    known = scalar_signatures()
    lines = []
    for name in functions:
        result, types = known[name]
        arguments = ", ".join(f"{'ab'[i]}[i]" for i in range(len(types)))
        lines.append((f"f_{name}", result, types[0], f"{name}({arguments})"))
    for name, literal in literals:
        result, types = known[name]
        lines.append((f"f_{name}_{literal}", result, types[0], f"{name}(a[i], {literal})"))
    return "\n".join(
        f"void {function}({result}* restrict o, const {t}* restrict a, const {t}* restrict b, int n)"
        f" {{ (void)b; for (int i = 0; i < n; i++) o[i] = {call}; }}"
        for function, result, t, call in lines
    )


@needs_compiler
def test_simple_functions_are_vectorised(tmp_path: Path) -> None:
    compiler = find_compiler("c")
    if "gcc" not in compiler.version.lower() and "free software" not in compiler.version.lower():
        pytest.skip("only gcc tells which loops it vectorises in this way")
    if platform.machine() != "x86_64":
        pytest.skip("the list is that of x86")
    text = f"{scalar_prelude()}\n{loops(VECTORISED, VECTORISED_WITH_LITERAL)}\n"
    (tmp_path / "loops.c").write_text(text)
    flags = "-std=gnu11 -O3 -march=x86-64-v3 -ffp-contract=off -fno-math-errno -fno-trapping-math"
    command = [*compiler.command, *flags.split(), "-fopt-info-vec-optimized", "-c", "loops.c", "-o", "loops.o"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    vectorised = {int(n) for n in re.findall(r"^loops\.c:(\d+):.*loop vectorized", done.stderr, re.MULTILINE)}
    wanted = {n: line for n, line in enumerate(text.splitlines(), 1) if line.startswith("void f_")}
    left = {line.partition("(")[0] for n, line in wanted.items() if n not in vectorised}
    # gcc finds that dividing an unsigned number by 8 is shifting it, and merges equal functions
    assert {name for name in left if not re.fullmatch(r"void f_as_(shr|floordiv|mod)_u\d+_\d", name)} == set()


def ptx_of(source: str) -> str:
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])[1]
    status = nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=compute_90"])[0]
    size = nvrtc.nvrtcGetProgramLogSize(program)[1]
    log = b" " * size
    nvrtc.nvrtcGetProgramLog(program, log)
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, log.decode()
    ptx = b" " * nvrtc.nvrtcGetPTXSize(program)[1]
    nvrtc.nvrtcGetPTX(program, ptx)
    return str(ptx, "ascii")


def cuda_kernel(result: str, types: tuple[str, ...], call: str) -> str:
    parameters = "".join(f", const {t}* a{i}" for i, t in enumerate(types))
    return f'extern "C" __global__ void k({result}* out{parameters}) {{ out[threadIdx.x] = {call}; }}\n'


@needs_nvrtc
def test_all_functions_compile_for_a_gpu() -> None:
    kernels = []
    for name, (result, types) in scalar_signatures().items():
        call = f"{name}({', '.join(f'a{i}[threadIdx.x]' for i in range(len(types)))})"
        kernels.append(cuda_kernel(result, types, call).replace(" k(", f" k_{name}("))
    cubin = compile_cubin(scalar_prelude() + "\n" + "".join(kernels), "sm_90")
    assert set(cubin.kernels) == {f"k_{name}" for name in scalar_functions()}
    assert "warning" not in cubin.log


@needs_nvrtc
@pytest.mark.parametrize(
    ("call", "dtype"),
    [
        ("as_floordiv_i32(a0[0], 3)", int32),
        ("as_floordiv_i32(a0[0], -7)", int32),
        ("as_mod_i32(a0[0], 10)", int32),
        ("as_floordiv_i64(a0[0], 3)", int64),
        ("as_floordiv_u16(a0[0], 3)", uint16),
        ("as_mod_u32(a0[0], 1000)", uint32),
    ],
)
def test_division_by_a_literal_is_no_division_on_a_gpu(call: str, dtype: DType) -> None:
    name = C_NAMES[dtype.name]
    ptx = ptx_of(scalar_prelude(called_scalar_functions(call)) + cuda_kernel(name, (name,), call))
    body = ptx[ptx.index(".visible .entry") :]
    assert re.search(r"\b(mul|mad)\.", body)
    assert not re.search(r"\b(div|rem|call|bra)\b", body)


@needs_nvrtc
@pytest.mark.parametrize(
    ("name", "instruction"),
    [
        ("as_cvt_i32_f32", "cvt.rzi.s32.f32"),
        ("as_cvt_u64_f64", "cvt.rzi.u64.f64"),
        ("as_f16_to_f32", "cvt.f32.f16"),
        ("as_f32_to_f16", "cvt.rn.f16.f32"),
        ("as_sqrt_f32", "sqrt.rn.f32"),
        ("as_round_f32", "cvt.rni.f32.f32"),
    ],
)
def test_instructions_on_a_gpu(name: str, instruction: str) -> None:
    """Conversions are the instructions whose behaviour out of range PTX defines: they saturate."""
    result, types = scalar_signatures()[name]
    assert instruction in ptx_of(scalar_prelude([name]) + cuda_kernel(result, types, f"{name}(a0[0])"))


@needs_nvrtc
@pytest.mark.parametrize(
    ("name", "compares"), [("as_cvt_i32_f32", False), ("as_cvt_i32_f64", True), ("as_cvt_u64_f32", True)]
)
def test_nan_gives_zero_on_a_gpu(name: str, compares: bool) -> None:
    """PTX converts NaN to 0 only from float32 to 32 bits; elsewhere a comparison must be there."""
    result, types = scalar_signatures()[name]
    ptx = ptx_of(scalar_prelude([name]) + cuda_kernel(result, types, f"{name}(a0[0])"))
    assert ("setp.nan" in ptx) == compares
