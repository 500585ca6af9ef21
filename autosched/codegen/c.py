"""Kernel IR as C with OpenMP: blocks become a parallel loop, thread loops inner loops that the compiler vectorises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files

from autosched.analysis.identifiers import Namer
from autosched.analysis.indices.index import Index, substitute
from autosched.codegen.cuda import INDENT, kernel_params, scalar_type, step_lines
from autosched.codegen.expressions import counter_type, extreme_text, is_wide, storage_type
from autosched.codegen.prelude import called_scalar_functions, scalar_prelude, vector_math, workarounds
from autosched.codegen.statements import Writer, condition_text, simple_statement
from autosched.codegen.warp_reduce import print_lane_loop_reduce
from autosched.lang.dtypes import DType
from autosched.lower.ir import Barrier, For, If, KernelIR, LetIndex, LoopRole, Stmt, Store, WarpReduce, walk
from autosched.lower.ir_queries import kernel_names
from autosched.lower.passes.cpu.boolean_index import BooleanIndices
from autosched.lower.passes.cpu.distribute_lane_loop import (
    is_gather,
    is_scatter,
    is_unit_stride,
    make_lane_loop_innermost,
    names_in_indices,
    names_used,
)
from autosched.lower.passes.cpu.expand_private_arrays import expand_private_arrays
from autosched.lower.passes.cpu.loop_dependence import carries_dependence
from autosched.lower.passes.cpu.replace_scalars import keep_carried_values
from autosched.lower.passes.cpu.split_index_set import split_at_clamps
from autosched.lower.passes.cpu.split_scatter_loop import SplitScatter, split_scatter_loop
from autosched.lower.passes.cpu.strip_mine import keeps_sums_in_registers, strip_mine
from autosched.lower.passes.cpu.unroll_and_jam import unroll_and_jam
from autosched.lower.passes.cpu.unroll_by_period import unroll_by_period
from autosched.lower.program import Program

ENTRY = "as_run"
MARKER = "CARRIES_DEPENDENCE"
"""The macro that ends the body of a loop with a dependence from one iteration to another."""
HIDES_INDEX, UNKNOWN_ZERO = "AS_BOOLEAN_INDEX", "AS_UNKNOWN_ZERO"
"""The macro around an index that is 0 or 1, and the one that it needs at the beginning of a kernel."""


@dataclass(frozen=True, slots=True)
class CSource:
    """A whole pipeline as one C file with the entry ``void as_run(void* const* arrays, void* const* scalars)``.

    ``arrays`` names the buffers whose addresses are passed, in order; ``scalars`` the parameters with their types, each
    passed by address.
    """

    text: str
    arrays: tuple[str, ...]
    scalars: tuple[tuple[str, DType], ...]


def print_c(program: Program, *, guarded: bool = True) -> CSource:
    """Return a pipeline as C.

    Args:
        program: The lowered pipeline.
        guarded: Whether compiler workarounds are emitted: marks and kept values of loops that carry a dependence, and
            hidden ranges of indices that are 0 or 1. Text without them serves comparisons alone.
    """
    arrays: dict[str, None] = {}
    scalars: dict[str, DType] = {}
    for k in program.kernels:
        for b in (*k.reads, *k.writes):
            arrays.setdefault(b.name)
        for s in k.scalars:
            scalars[s.name] = s.dtype
    w = Writer()
    for k in program.kernels:
        _Printer(k, w, guarded).kernel_function()
    _entry(program, w, list(arrays), list(scalars))
    body = w.text()
    used = called_scalar_functions(body)
    text = f"{host_prelude()}{workarounds(body)}\n{vector_math(used)}{scalar_prelude(used)}\n{body}"
    return CSource(text, tuple(arrays), tuple(scalars.items()))


def kernel_text(kernel: KernelIR) -> str:
    """Return one block of a kernel as a C function, as it stands in the whole pipeline's file."""
    w = Writer()
    _Printer(kernel, w).kernel_function()
    return w.text()


def host_prelude() -> str:
    """Return the macros of generated code as they are on the host."""
    return files("autosched.codegen.prelude").joinpath("host.h").read_text(encoding="utf-8")


def _entry(program: Program, w: Writer, arrays: list[str], scalars: list[str]) -> None:
    w.open(f"void {ENTRY}(void* const* a, void* const* s) {{")
    w.line("(void)a; (void)s;")
    for k in program.kernels:
        args = ["block", "as_shared"] if k.shared_bytes else ["block"]
        for p in kernel_params(k):
            if p.kind == "step":
                args.append("step")
            elif p.kind == "scalar":
                args.append(f"*(const {scalar_type(p.dtype)}*)s[{scalars.index(p.name)}]")
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
        w.line(f"{k.name}({', '.join(args)});")
        w.close()
        w.close()
        if k.step_loops:
            w.close()
    w.close()


class _Printer:
    def __init__(self, kernel: KernelIR, writer: Writer, guarded: bool = True) -> None:
        self.kernel = expand_private_arrays(kernel)
        self.w = writer
        self._guarded = guarded
        self._indices = BooleanIndices(self.kernel.body)
        self._in_lanes = False
        self._around: For | None = None
        self._bound: dict[str, Index] = {}
        self._namer = Namer(kernel_names(self.kernel))

    def kernel_function(self) -> None:
        """Print one block of a kernel as a function."""
        k = self.kernel
        self.w.line(f"// {k.title}")
        self.w.line("static __attribute__((noinline))")
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
        if any(f"{HIDES_INDEX}(" in line for line in self.w.lines[start:]):
            self.w.lines.insert(start, f"{INDENT}{UNKNOWN_ZERO};")
        self.w.close()
        self.w.line("")

    def statements(self, body: tuple[Stmt, ...]) -> None:
        for s in body:
            match s:
                case For():
                    self._for(s)
                case If():
                    self._if(s)
                case Barrier():
                    self.w.line("// all threads meet")
                case WarpReduce():
                    print_lane_loop_reduce(s, self.w)
                case _:
                    if isinstance(s, LetIndex):
                        self._bound[s.name] = substitute(s.index, self._bound)
                    line = simple_statement(self._hidden(s))
                    assert line is not None, s
                    self.w.line(line)

    def _for(self, s: For) -> None:
        note = f"  // {s.comment}" if s.comment else ""
        if s.role is LoopRole.THREAD and s.extent == 1:
            self.w.open("{")
            self.statements(s.body)
            self.w.close()
            return
        if s.role is LoopRole.THREAD and s.axis == 0:
            self._lanes(s)
            return
        if s.role is LoopRole.THREAD and (rows := self._rows_of_threads(s)):
            self._loop_of_pieces(rows)
            return
        s, carries = self._with_kept_values(s)
        if s.role is LoopRole.UNROLLED:
            self.w.line("UNROLL")
        self.w.open(f"for ({counter_type(s.extent)} {s.name} = 0; {s.name} < {s.extent}; {s.name}++) {{{note}")
        self.statements(s.body)
        if s.ordered or (s.role is LoopRole.SERIAL and not self._in_lanes and _adds_up_side_by_side(s)):
            self.w.line("ONE_BY_ONE;")
        self._mark(carries)
        self.w.close()

    def _lanes(self, s: For) -> None:
        """Print a lane loop as vectorisable loops around straight-line pieces."""
        for scope in strip_mine(s, self._namer):
            self.w.open("{")
            self._pieces(scope)
            self.w.close()

    def _rows_of_threads(self, s: For) -> For | None:
        """Return a loop over groups of rows in place of one over threads, if their lanes read much of the same."""
        *between, last = s.body
        if not isinstance(last, For) or last.role is not LoopRole.THREAD or last.axis != 0 or last.extent == 1:
            return None
        return unroll_and_jam(replace(s, body=(*between, *make_lane_loop_innermost(last))), self._namer)

    def _pieces(self, body: tuple[Stmt, ...]) -> None:
        for s in body:
            match s:
                case For(role=LoopRole.THREAD):
                    for loop in unroll_by_period(s, self._namer):
                        for part in (loop,) if loop.few_points else split_at_clamps(loop):
                            self._lane_loop(part)
                case For():
                    self._loop_of_pieces(unroll_and_jam(s, self._namer) or s)
                case If() if any(isinstance(t, For) for t in s.then):
                    self.w.open(f"if ({self._condition(s)}) {{")
                    self._pieces(s.then)
                    self.w.close()
                case _:
                    self.statements((s,))

    def _loop_of_pieces(self, s: For) -> None:
        """Print a loop around lane loops; where first steps of these are the same in all its iterations, before it."""
        loops, steps = self._steps_before(s)
        s, carries = self._with_kept_values(s)
        if steps:
            self._two_ways(
                lambda: self._loop_around(s, carries, lambda: self._whole(loops)),
                steps,
                lambda: self._loop_around(s, carries, lambda: self._second(steps)),
            )
        else:
            self._loop_around(s, carries, lambda: self._pieces(s.body))

    def _loop_around(self, s: For, carries: bool, body: Callable[[], None]) -> None:
        around, self._around = self._around, s
        kind = counter_type(s.extent)
        self.w.open(f"for ({kind} {s.name} = 0; {s.name} < {s.extent}; {s.name}++) {{  // {s.comment}")
        body()
        if is_gather(s) or (around is not None and keeps_sums_in_registers(s, around)):
            self.w.line("ONE_BY_ONE;")
        self._mark(carries)
        self.w.close()
        self._around = around

    def _with_kept_values(self, s: For) -> tuple[For, bool]:
        """Return a loop, and whether it carries a dependence; what it keeps for the next iteration is printed first."""
        if not self._guarded or s.role is LoopRole.THREAD or not carries_dependence(s, self._bound):
            return s, False
        before, loop = keep_carried_values(s, self._namer) or ((), s)
        self._pieces(before)
        return loop, True

    def _mark(self, carries: bool) -> None:
        """End the body of a loop that carries a dependence, which the compiler is not to find out for itself."""
        if carries:
            self.w.line(f"{MARKER};")

    def _steps_before(self, s: For) -> tuple[list[For], list[SplitScatter]]:
        """Return a loop's lane loops, and each in two steps: none if it holds more, or a first step depends on it."""
        if not is_gather(s) or not all(isinstance(t, For) and t.role is LoopRole.THREAD for t in s.body):
            return [], []
        loops = [part for t in s.body if isinstance(t, For) for part in split_at_clamps(t)]
        steps = [found for part in loops if (found := split_scatter_loop(part, self._namer))]
        names = names_used([found.first for found in steps])
        names |= names_in_indices(
            [e for found in steps for e in (*found.first.upper_bounds, *found.first.lower_bounds)]
        )
        return loops, steps if len(steps) == len(loops) and s.name not in names else []

    def _lane_loop(self, s: For) -> None:
        steps = split_scatter_loop(s, self._namer)
        if steps:
            self._two_ways(lambda: self._whole([s]), [steps], lambda: self._second([steps]))
        else:
            self._whole([s])

    def _two_ways(self, whole: Callable[[], None], steps: Sequence[SplitScatter], second: Callable[[], None]) -> None:
        """Print lane loops that store where data say; the compiler takes the way that suits the processor."""
        self.w.line("#ifdef AS_SCATTERS")
        whole()
        self.w.line("#else")
        self.w.open("{")
        for step in steps:
            self.statements(step.rows)
            self._loop_over_lanes(step.first, step.in_vectors)
        second()
        self.w.close()
        self.w.line("#endif")

    def _whole(self, loops: Sequence[For]) -> None:
        for s in loops:
            self._loop_over_lanes(s, not s.few_points and (is_unit_stride(s) or is_scatter(s)))

    def _second(self, steps: Sequence[SplitScatter]) -> None:
        for s in steps:
            self._loop_over_lanes(s.second, False)

    def _loop_over_lanes(self, s: For, in_vectors: bool) -> None:
        start = extreme_text("max", s.lower_bounds or (0,))
        if any(map(is_wide, s.lower_bounds)):  # a lane's number is an int
            start = f"(int)as_min_i64({s.extent}, {start})"
        end = extreme_text("min", (s.extent, *s.upper_bounds))
        if in_vectors:
            self.w.line("#pragma omp simd")
        self.w.open(f"for (int {s.name} = {start}; {s.name} < {end}; {s.name}++) {{  // {s.comment}")
        self._in_lanes = True
        self.statements(s.body)
        self._in_lanes = False
        self.w.close()

    def _hidden(self, s: Stmt) -> Stmt:
        if not self._guarded:
            return s
        self._indices.add(s)  # rewriting has given new names
        return self._indices.hidden(s)

    def _condition(self, s: If) -> str:
        found = self._hidden(s)
        assert isinstance(found, If)
        return condition_text(found)

    def _if(self, s: If) -> None:
        self.w.open(
            f"if ({self._condition(s)}) {{" + ("  // interior: no clamps, no guards" if s.orelse and s.uniform else "")
        )
        self.statements(s.then)
        if s.orelse:
            self.w.between("} else {")
            self.statements(s.orelse)
        self.w.close()


def _adds_up_side_by_side(s: For) -> bool:
    """Whether each iteration of a loop changes several elements of a thread's own arrays, in an unrolled loop."""
    unrolled = (t for t in walk(s.body) if isinstance(t, For) and t.role is LoopRole.UNROLLED)
    return any(isinstance(t, Store) and t.buffer.in_registers for u in unrolled for t in walk(u.body))
