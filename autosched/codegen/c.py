"""Kernel IR as C with OpenMP: a parallel loop over blocks, and lane loops that the compiler vectorises."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from importlib.resources import files

from autosched.codegen.basic_block_reductions import reduces_conditions
from autosched.codegen.cuda import INDENT, kernel_params, scalar_type, step_lines
from autosched.codegen.expressions import counter_type, extreme_text, index_text, is_wide, storage_type
from autosched.codegen.identical_kernels import canonical_text, rename_kernel
from autosched.codegen.prelude import (
    HALF_VECTORS,
    LOOKUP,
    NO_SLP,
    called_scalar_functions,
    helpers,
    scalar_prelude,
    vector_math,
    workarounds,
)
from autosched.codegen.statements import Writer, condition_text, partition_note, simple_statement
from autosched.codegen.vector_width import prefers_half_vectors
from autosched.codegen.warp_reduce import print_lane_loop_reduce
from autosched.lang.dtypes import DType
from autosched.lower.ir import (
    Barrier,
    CompilerHint,
    For,
    Hint,
    If,
    KernelIR,
    LocalScope,
    LoopRole,
    RegisterChoice,
    ScatterChoice,
    Stmt,
    TableLookup,
    WarpReduce,
)
from autosched.lower.pipelines import CPU_PASSES, CPU_PASSES_WITHOUT_WORKAROUNDS, run_passes
from autosched.lower.program import Program

ENTRY = "as_run"
MARKER = "CARRIES_DEPENDENCE"
"""The macro at the end of the body of a loop that carries a dependence."""
HIDES_INDEX, UNKNOWN_ZERO = "AS_BOOLEAN_INDEX", "AS_UNKNOWN_ZERO"
HIDES_ORIGIN, NO_BITS = "AS_CONVERTED", "AS_NO_BITS"
"""The macro around an index that is 0 or 1, and the one that defines its opaque zero at the beginning of a kernel."""
_CANONICAL = "as_kernel_{}"
_HINTS = {Hint.ONE_BY_ONE: "ONE_BY_ONE", Hint.CARRIES_DEPENDENCE: MARKER}


@dataclass(frozen=True, slots=True)
class CSource:
    """A whole pipeline in a C file, with the entry ``void as_run(void* const* arrays, void* const* scalars)``.

    Attributes:
        text: The file.
        arrays: Names of the buffers whose addresses are passed, in order.
        scalars: Names and types of the scalar parameters, which are passed by address, in order.
        canonical_text: The file with canonical names, equal for pipelines that are equal up to names.
        entry: Name of the entry.
    """

    text: str
    arrays: tuple[str, ...]
    scalars: tuple[tuple[str, DType], ...]
    canonical_text: str = field(repr=False)
    entry: str = ENTRY


def print_c(program: Program, *, guarded: bool = True) -> CSource:
    """Run `CPU_PASSES` on a pipeline's kernels and return it as C.

    Args:
        program: The lowered pipeline.
        guarded: Whether compiler workarounds are emitted, see `autosched.lower.passes.cpu.lower_thread_nests`
            and `autosched.codegen.basic_block_reductions`. Text without them is only for comparisons.
    """
    passes = CPU_PASSES if guarded else CPU_PASSES_WITHOUT_WORKAROUNDS
    names = arrays, scalars = _arguments(program)
    inputs = {a.buffer.name for a in program.inputs.values()}
    printed = [_print_function(run_passes(k, passes), inputs, guarded) for k in program.kernels]
    first: dict[str, tuple[int, str, str]] = {}
    for k, (text, canonical) in zip(program.kernels, printed, strict=True):
        first.setdefault(canonical, (len(first), k.name, text))
    functions = [first[canonical] for _, canonical in printed]
    body = "".join(text for _, _, text in first.values()) + _entry(program, [name for _, name, _ in functions], *names)
    canonical_names = [_CANONICAL.format(number) for number, _, _ in functions]
    canonical_body = "".join(
        rename_kernel(text, _CANONICAL.format(number)) for text, (number, _, _) in first.items()
    ) + _entry(program, canonical_names, *names)
    return CSource(_with_preludes(body), tuple(arrays), tuple(scalars.items()), _with_preludes(canonical_body))


def print_c_library(programs: Sequence[Program]) -> tuple[CSource, ...]:
    """Return several pipelines in one C file, each with an entry; kernels that are equal up to names are shared.

    One call of the compiler takes less time than one for each pipeline, most of all for small kernels.

    Args:
        programs: The lowered pipelines.

    Returns:
        For each pipeline the same file with canonical names, and its own entry and arguments.
    """
    functions: dict[str, str] = {}
    entries: list[str] = []
    for number, program in enumerate(programs):
        inputs = {a.buffer.name for a in program.inputs.values()}
        names = []
        for kernel in program.kernels:
            _, canonical = _print_function(run_passes(kernel, CPU_PASSES), inputs, True)
            names.append(functions.setdefault(canonical, _CANONICAL.format(len(functions))))
        entries.append(_entry(program, names, *_arguments(program), entry=f"{ENTRY}_{number}"))
    text = _with_preludes("".join(rename_kernel(text, name) for text, name in functions.items()) + "".join(entries))
    return tuple(
        CSource(text, tuple(arrays), tuple(scalars.items()), text, f"{ENTRY}_{number}")
        for number, (arrays, scalars) in enumerate(map(_arguments, programs))
    )


def _arguments(program: Program) -> tuple[list[str], dict[str, DType]]:
    """Return the arrays and the scalar parameters of an entry, in order."""
    arrays: dict[str, None] = {}
    scalars: dict[str, DType] = {}
    for k in program.kernels:
        for b in (*k.reads, *k.writes):
            arrays.setdefault(b.name)
        for s in k.scalars:
            scalars[s.name] = s.dtype
    return list(arrays), scalars


def _with_preludes(body: str) -> str:
    used = called_scalar_functions(body)
    return f"{host_prelude()}{workarounds(body)}\n{vector_math(used)}{scalar_prelude(used)}{helpers(body)}\n{body}"


def _print_function(kernel: KernelIR, inputs: Collection[str], guarded: bool) -> tuple[str, str]:
    """Return a kernel's function, and its text with canonical names.

    Args:
        kernel: The kernel, after the passes.
        inputs: Names of the caller's arrays.
        guarded: As for `print_c`.
    """
    w = Writer()
    _Printer(kernel, w).kernel_function(inputs, guarded=guarded)
    text = w.text()
    return text, canonical_text(text, kernel)


def kernel_text(kernel: KernelIR) -> str:
    """Return the C function for one block of a kernel, as in the file of the whole pipeline."""
    w = Writer()
    _Printer(run_passes(kernel, CPU_PASSES), w).kernel_function()
    return w.text()


def host_prelude() -> str:
    """Return the macros of generated code for the host."""
    return files("autosched.codegen.prelude").joinpath("host.h").read_text(encoding="utf-8")


def _entry(
    program: Program, functions: list[str], arrays: Sequence[str], scalars: Collection[str], *, entry: str = ENTRY
) -> str:
    places = {name: number for number, name in enumerate(scalars)}
    w = Writer()
    w.open(f"void {entry}(void* const* a, void* const* s) {{")
    w.line("(void)a; (void)s;")
    for k, function in zip(program.kernels, functions, strict=True):
        args = ["block", "as_shared"] if k.shared_bytes else ["block"]
        for p in kernel_params(k):
            if p.kind == "step":
                args.append("step")
            elif p.kind == "scalar":
                args.append(f"*(const {scalar_type(p.dtype)}*)s[{places[p.name]}]")
            else:
                args.append(f"a[{arrays.index(p.name)}]")
        if k.step_loops:
            w.open(f"for (int step = 0; step < {k.launches}; step++) {{")
        if k.blocks > 1:
            w.line("#pragma omp parallel")
        w.open("{")
        if k.shared_bytes:
            w.line(f"unsigned char as_shared[{k.shared_bytes}] __attribute__((aligned(64)));")
        if k.blocks > 1:
            w.line("#pragma omp for schedule(static)")
        w.open(f"for (long long block = 0; block < {k.blocks}LL; block++) {{")
        w.line(f"{function}({', '.join(args)});")
        w.close()
        w.close()
        if k.step_loops:
            w.close()
    w.close()
    return w.text()


class _Printer:
    def __init__(self, kernel: KernelIR, writer: Writer) -> None:
        self.kernel = kernel
        self.w = writer

    def kernel_function(self, unaligned: Collection[str] = (), *, guarded: bool = True) -> None:
        """Print one block of a kernel as a function.

        Args:
            unaligned: Names of arrays that need not begin at a cache line.
            guarded: Whether compiler workarounds are emitted.
        """
        k = self.kernel
        self.w.line(f"// {k.title}")
        narrow = f" {HALF_VECTORS}" if prefers_half_vectors(k, unaligned) else ""
        scalar = f" {NO_SLP}" if guarded and reduces_conditions(k) else ""
        self.w.line(f"static __attribute__((noinline)){narrow}{scalar}")
        params = ["const long long block", *(["unsigned char* as_shared"] if k.shared_bytes else [])]
        for p in kernel_params(k):
            if p.kind in ("scalar", "step"):
                params.append(f"SCALAR({scalar_type(p.dtype)}, {p.name})")
            else:
                params.append(f"GLOBAL_{p.kind.upper()}({storage_type(p.dtype)}, {p.name}, {p.count})")
        self.w.line(f"void {k.name}(")
        for i, text in enumerate(params):
            self.w.line(f"{INDENT}{text}{')' if i == len(params) - 1 else ','}")
        self.w.open("{")
        self.w.line("(void)block;")
        start = len(self.w.lines)
        for slot in k.shared:
            b = slot.buffer
            self.w.line(f"SHARED({storage_type(b.dtype)}, {b.name}, {b.count}, {slot.offset});")
        inner = 1
        for name, n in reversed([g for g in k.grid_loops if g[1] > 1]):
            kind = counter_type(n - 1)
            self.w.line(f"const {kind} {name} = ({kind})(block / {inner} % {n});  // {n} blocks")
            inner *= n
        for line in step_lines(k):
            self.w.line(line)
        self.statements(k.body)
        for macro, declaration in ((HIDES_INDEX, UNKNOWN_ZERO), (HIDES_ORIGIN, NO_BITS)):
            if any(f"{macro}(" in line for line in self.w.lines[start:]):
                self.w.lines.insert(start, f"{INDENT}{declaration};")
        self.w.close()
        self.w.line("")

    def statements(self, body: tuple[Stmt, ...]) -> None:
        for s in body:
            match s:
                case For(role=LoopRole.LANES | LoopRole.VECTOR):
                    self._lane_loop(s)
                case For():
                    self._loop(s)
                case If():
                    self._if(s)
                case LocalScope():
                    self.w.open("{")
                    self.statements(s.body)
                    self.w.close()
                case ScatterChoice():
                    self._choice("AS_SCATTERS", s.whole, s.split)
                case RegisterChoice():
                    self._choice("__AVX512F__", s.many, s.few)
                case CompilerHint():
                    self.w.line(f"{_HINTS[s.hint]};")
                case Barrier():
                    self.w.line("// all threads meet")
                case TableLookup():
                    self._table_lookup(s)
                case WarpReduce():
                    print_lane_loop_reduce(s, self.w)
                case _:
                    line = simple_statement(s)
                    assert line is not None, s
                    self.w.line(line)

    def _loop(self, s: For) -> None:
        note = f"  // {s.comment}" if s.comment else ""
        if s.role is LoopRole.UNROLLED:
            self.w.line("UNROLL")
        end = extreme_text("min", (s.extent, *s.upper_bounds)) if s.upper_bounds else s.extent
        self.w.open(f"for ({counter_type(s.extent)} {s.name} = 0; {s.name} < {end}; {s.name}++) {{{note}")
        self.statements(s.body)
        self.w.close()

    def _lane_loop(self, s: For) -> None:
        start = extreme_text("max", s.lower_bounds or (0,))
        if any(map(is_wide, s.lower_bounds)):  # a lane's number is an int
            start = f"(int)as_min_i64({s.extent}, {start})"
        end = extreme_text("min", (s.extent, *s.upper_bounds))
        if s.role is LoopRole.VECTOR:
            self.w.line("#pragma omp simd")
        self.w.open(f"for (int {s.name} = {start}; {s.name} < {end}; {s.name}++) {{  // {s.comment}")
        self.statements(s.body)
        self.w.close()

    def _table_lookup(self, s: TableLookup) -> None:
        values, positions = f"(unsigned char*){s.values.name}", s.positions.name
        self.w.line(f"{LOOKUP}({values}, (const unsigned char*){s.table.name} + {index_text(s.index)}, {positions});")

    def _choice(self, macro: str, where_defined: tuple[Stmt, ...], elsewhere: tuple[Stmt, ...]) -> None:
        self.w.line(f"#ifdef {macro}")
        self.statements(where_defined)
        self.w.line("#else")
        self.w.open("{")
        self.statements(elsewhere)
        self.w.close()
        self.w.line("#endif")

    def _if(self, s: If) -> None:
        self.w.open(f"if ({condition_text(s)}) {{{partition_note(s)}")
        self.statements(s.then)
        if s.orelse:
            self.w.between("} else {")
            self.statements(s.orelse)
        self.w.close()
