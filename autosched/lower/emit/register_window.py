"""A step of a private sliding window: shift the rows in registers, compute the new ones, fill shared memory.

window[0] = window[1]; window[1] = window[2]           each thread, rows of its own points
window[2] = the new row
shared[own point] = window[1]                          the row that is read at moved points from this step on
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from autosched.analysis.indices import index as ix
from autosched.lower.emit.point_loops import guarded, guarded_outside, open_loops
from autosched.lower.emit.stage_loops import emit_stage
from autosched.lower.emit.thread_nest import emit_thread_nest
from autosched.lower.ir import Buffer, ConstValue, Stmt, Value
from autosched.lower.kernel_context import EmitMode, KernelContext, TileElement
from autosched.schedule.kernel.register_window import RegisterWindow
from autosched.schedule.plan import Nest
from autosched.schedule.types import LoopKind


def emit_empty_windows(context: KernelContext, mode: EmitMode) -> tuple[Stmt, ...]:
    """Return thread nests that fill the registers of all private windows with zeros.

    The first steps shift rows that precede the first that is needed, and no thread reads them.
    """
    statements: list[Stmt] = []
    for group in context.plan.steps:
        n = group[0]
        if n.stage.func in context.plan.register_windows:
            statements += emit_thread_nest(context, mode, group, lambda _, n=n: _clear(context, n))  # type: ignore[misc]
    return tuple(statements)


def _clear(context: KernelContext, n: Nest) -> None:
    """Emit stores of zero to the registers of a window."""
    for k, dtype in enumerate(context.bound.funcs[n.stage.func].dtypes):
        buffer = context.register_window(n.stage.func, k)
        for element in range(context.plan.register_windows[n.stage.func].elements):
            context.builder.store(buffer, element, ConstValue(dtype.scalar(0).item(), dtype), buffer.name)


def emit_register_window(context: KernelContext, mode: EmitMode, group: Sequence[Nest]) -> tuple[Stmt, ...]:
    """Return the thread nest of a step of a private window."""
    (n,) = group
    window = context.plan.register_windows[n.stage.func]
    emitter = _WindowStep(context, n, window)
    across = [p for p in n.inner if p.kind is LoopKind.SERIAL and p.dim != window.dim]

    def work(inner: EmitMode) -> None:
        if window.count > window.rows:
            open_loops(context, n, across, emitter.shift)
        emitter.compute(inner)
        if window.shared_rows:
            points = lambda: open_loops(context, n, across, lambda: emitter.fill(inner))  # noqa: E731
            guarded_outside(context, inner, n, points, without=window.dim)

    return emit_thread_nest(context, mode, group, work)


class _WindowStep:
    """Emits the parts of a step of a private window for one thread.

    Args:
        context: Context of the kernel body.
        n: The window's nest.
        window: Its rows in registers.
    """

    def __init__(self, context: KernelContext, n: Nest, window: RegisterWindow) -> None:
        self.context = context
        self.n = n
        self.window = window
        self.buffers = tuple(
            context.register_window(n.stage.func, k) for k in range(len(context.bound.funcs[n.stage.func].dtypes))
        )

    def shift(self) -> None:
        """Emit the shift of the rows in registers by those of a step."""
        for buffer in self.buffers:
            for p in range(self.window.count - self.window.rows):
                value = self._read(buffer, p + self.window.rows)
                self.context.builder.store(buffer, self._index(p), value, buffer.name)

    def compute(self, mode: EmitMode) -> None:
        """Emit the definition, whose values are stored to the registers of the new rows."""
        n, window = self.n, self.window
        position = window.position(n.point()[window.dim])
        element = TileElement(self.buffers, window.flat(position, self._element()))
        emit_stage(self.context, replace(mode, registers={n.stage.func: element}), n, in_registers=True)

    def fill(self, mode: EmitMode) -> None:
        """Emit the stores of the rows that enter shared memory in a step."""
        window = self.window
        guarded(self.context, mode, self.n, lambda at: self._fill(mode, dict(at)), inside=True, without=window.dim)

    def _fill(self, mode: EmitMode, at: dict[str, ix.Index]) -> None:
        n, window = self.n, self.window
        dims = self.context.bound.funcs[n.stage.func].dims
        for p in self._entering():
            at[window.dim] = ix.add(window.first_row, p)
            for k, buffer in enumerate(self.buffers):
                self.context.store(mode, n.stage.func, [at[d] for d in dims], k, self._read(buffer, p))

    def _entering(self) -> Iterator[int]:
        """Yield the positions in registers of the rows that enter shared memory."""
        last = self.window.count - 1 - self.window.delay
        yield from range(last - self.window.rows + 1, last + 1)

    def _read(self, buffer: Buffer, position: int) -> Value:
        return self.context.builder.read(buffer, self._index(position), buffer.name, fixed=False)

    def _index(self, position: int) -> ix.Index:
        return self.window.flat(position, self._element())

    def _element(self) -> ix.Index:
        """Return the number of a point among those of its thread."""
        element = self.window.element(self.n.point())
        assert element is not None
        return element
