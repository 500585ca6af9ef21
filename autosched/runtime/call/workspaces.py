"""Memory for the intermediate arrays of a pipeline on the GPU."""

from __future__ import annotations

import threading
from collections import OrderedDict

from autosched.runtime.backends.gpu_driver import PER_THREAD_DEFAULT_STREAM, DeviceMemory, Stream
from autosched.runtime.call.caller_context import CallerContext

_CAPACITY = 16


def stream_key(stream: Stream) -> tuple[int, int]:
    """Return the key of a stream; the per-thread default streams share one handle."""
    return stream.ptr, threading.get_ident() if stream.ptr == PER_THREAD_DEFAULT_STREAM else 0


class Workspaces:
    """One workspace for each stream, and one for graphs captured from it; not thread-safe.

    Args:
        size: Bytes of a workspace; 0 for a pipeline without intermediate arrays.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._direct: OrderedDict[tuple[int, ...], DeviceMemory] = OrderedDict()
        self._captured: dict[tuple[int, ...], DeviceMemory] = {}

    def fresh(self, caller: CallerContext) -> DeviceMemory | None:
        """Return a new workspace; None if its size is 0."""
        return caller.allocate(self._size) if self._size else None

    def for_stream(self, device: int, caller: CallerContext) -> DeviceMemory | None:
        """Return the workspace of direct calls on the caller's stream; None if its size is 0."""
        if not self._size:
            return None
        key = (device, *stream_key(caller.stream))
        if key not in self._direct:
            self._direct[key] = caller.allocate(self._size)
            if len(self._direct) > _CAPACITY:  # safe: pools reuse memory in the order of its stream
                self._direct.popitem(last=False)
        self._direct.move_to_end(key)
        return self._direct[key]

    def for_capture(self, device: int, caller: CallerContext) -> DeviceMemory | None:
        """Return the workspace of a graph that the caller captures; None if its size is 0.

        The graph may be replayed on any stream at any time. So no direct call may use its workspace, which must live as
        long as the graph: in the graph's own pool, or else in this object.
        """
        if caller.graphs_own_memory or not self._size:
            return self.fresh(caller)
        key = (device, *stream_key(caller.stream))
        if key not in self._captured:
            self._captured[key] = caller.allocate(self._size)
        return self._captured[key]
