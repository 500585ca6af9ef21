"""Memory for the intermediate arrays of a pipeline on the GPU."""

from __future__ import annotations

import threading
from collections import OrderedDict

from autosched.runtime.backends.gpu_driver import PER_THREAD_DEFAULT_STREAM, DeviceMemory, Stream
from autosched.runtime.call.caller_context import CallerContext

_CAPACITY = 16


def stream_key(stream: Stream) -> tuple[int, int]:
    """Return what identifies a stream; one handle stands for every thread's own default stream."""
    return stream.ptr, threading.get_ident() if stream.ptr == PER_THREAD_DEFAULT_STREAM else 0


class Workspaces:
    """A piece of memory for each stream, another for graphs captured from it; not safe across threads.

    Args:
        size: Bytes of a piece; 0 if the pipeline has no intermediate arrays.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._direct: OrderedDict[tuple[int, ...], DeviceMemory] = OrderedDict()
        self._captured: dict[tuple[int, ...], DeviceMemory] = {}

    def fresh(self, caller: CallerContext) -> DeviceMemory | None:
        """Return a piece that nothing else uses; None if none is needed."""
        return caller.allocate(self._size) if self._size else None

    def for_stream(self, device: int, caller: CallerContext) -> DeviceMemory | None:
        """Return the piece for direct calls on the caller's stream; None if none is needed."""
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
        """Return the piece for a graph that the caller captures; None if none is needed.

        The graph may be replayed on any stream at any time, so no direct call may use its piece,
        and the piece must live as long as the graph: in the graph's own pool, or else here.
        """
        if caller.graphs_own_memory or not self._size:
            return self.fresh(caller)
        key = (device, *stream_key(caller.stream))
        if key not in self._captured:
            self._captured[key] = caller.allocate(self._size)
        return self._captured[key]
