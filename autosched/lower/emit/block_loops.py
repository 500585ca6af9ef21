"""Loops around thread nests, which all threads of a block execute in step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autosched.lower.ir import For, LoopRole, Stmt
from autosched.lower.kernel_context import KernelContext
from autosched.schedule.plan import NestLoop

Body = Callable[[], tuple[Stmt, ...]]


def block_loop(
    context: KernelContext, name: str, extent: int, note: str, body: Body, *, binds: Sequence[str] = (),
    ordered: bool = False, others: Sequence[KernelContext] = (),
) -> For:  # fmt: skip
    """Return a loop around thread nests.

    Args:
        context: Context of the kernel body.
        name: The loop variable.
        extent: Number of iterations.
        note: Comment of the loop in generated code.
        body: Emits the statements of an iteration.
        binds: Further index variables that the body binds.
        ordered: Whether iterations read global memory that earlier ones write.
        others: Contexts in which alternatives of some statements are emitted.
    """
    depth = context.builder.scope.depth
    builders = [c.builder for c in (context, *others)]
    for builder in builders:
        builder.push((name, *binds), fence=True, serial=True)
    statements = body()
    for builder in builders:
        assert not builder.pop(), "nothing is hoisted out of a thread nest"
    return For(name, extent, LoopRole.MAINLOOP, statements, depth=depth, comment=note, ordered=ordered)


def block_loops(
    context: KernelContext, loops: Sequence[NestLoop], body: Body, *, ordered: bool = False
) -> tuple[Stmt, ...]:
    """Return nested loops, outermost first, around thread nests; see `block_loop`."""
    if not loops:
        return body()
    loop, *inner = loops
    note = f"{loop.dim}: {loop.extent} steps"

    def iteration() -> tuple[Stmt, ...]:
        return block_loops(context, inner, body, ordered=ordered)

    return (block_loop(context, loop.name, loop.extent, note, iteration, ordered=ordered),)
