"""Windows of pooling along one dimension: which elements a result reads, and which results read an element."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.lang import functions as fn
from autosched.lang.expr import Expr, ExprLike
from autosched.lang.operators import as_expr, binary


@dataclass(frozen=True)
class PoolingWindow:
    """Windows of equal size at equal distances; their first element may lie before the dimension.

    Attributes:
        extent: Elements of the dimension.
        results: Number of windows.
        size: Elements of a window.
        stride: Distance of windows.
        padding: Elements of the first window before the dimension.
        dilation: Distance of a window's elements.
    """

    extent: int
    results: int
    size: int
    stride: int
    padding: int
    dilation: int = 1

    @property
    def taps(self) -> int:
        """Most elements of a window."""
        return self.size

    def element(self, window: ExprLike, tap: ExprLike) -> Expr:
        """Return the coordinate of an element of a window, perhaps outside of the dimension."""
        return as_expr(window) * self.stride - self.padding + as_expr(tap) * self.dilation

    def has(self, window: ExprLike, tap: ExprLike) -> list[Expr]:
        """Return conditions under which an element of a window lies in the dimension."""
        place = self.element(window, tap)
        last = (self.results - 1) * self.stride - self.padding + (self.size - 1) * self.dilation
        return ([place >= 0] if self.padding else []) + ([place < self.extent] if last >= self.extent else [])

    def first_tap(self, window: ExprLike) -> Expr:
        """Return the first element of a window that lies in the dimension."""
        if not self.padding:
            return as_expr(0)
        return fn.max((self.padding - as_expr(window) * self.stride + self.dilation - 1) // self.dilation, 0)

    def count(self, window: ExprLike, *, padded: bool) -> Expr:
        """Return the number of elements of a window, as average pooling without dilation counts them.

        Args:
            window: The window.
            padded: Whether padding counts, though nothing beyond it.
        """
        start = as_expr(window) * self.stride - self.padding
        end = self.extent + (self.padding if padded else 0)
        first = (0 if padded else self.padding) == 0
        last = (self.results - 1) * self.stride - self.padding + self.size
        if first and last <= end:
            return as_expr(self.size)
        stop = start + self.size if last <= end else fn.min(start + self.size, end)
        return stop - (start if first else fn.max(start, 0))

    @property
    def covers(self) -> int:
        """Most windows that have one element, and windows that are tried for it."""
        return self.size if self.dilation > 1 else -(-self.size // self.stride)

    def window(self, place: ExprLike, k: ExprLike) -> Expr:
        """Return window ``k`` of those that may have an element, perhaps outside of the results."""
        if self.dilation > 1:
            return (as_expr(place) + self.padding - as_expr(k) * self.dilation) // self.stride
        return (as_expr(place) + self.padding) // self.stride - k

    def covered(self, place: ExprLike, k: ExprLike) -> list[Expr]:
        """Return conditions under which `window` has the element."""
        window = self.window(place, k)
        conditions = [window >= 0, window < self.results]
        if self.dilation > 1:
            conditions.append(binary("eq", self.element(window, k), place))
        elif self.size % self.stride:
            conditions.append(window * self.stride - self.padding + self.size > place)
        return conditions


@dataclass(frozen=True)
class AdaptiveWindow:
    """Windows that divide a dimension into parts of nearly equal size.

    Attributes:
        extent: Elements of the dimension.
        results: Number of windows.
    """

    extent: int
    results: int

    @property
    def taps(self) -> int:
        """Most elements of a window."""
        n, m = self.extent, self.results
        return n // m if n % m == 0 else min(n, n // m + 2)

    @property
    def _is_even(self) -> bool:
        return self.extent % self.results == 0

    def start(self, window: ExprLike) -> Expr:
        """Return the first element of a window."""
        if self._is_even:
            return as_expr(window) * (self.extent // self.results)
        return as_expr(window) * self.extent // self.results

    def stop(self, window: ExprLike) -> Expr:
        """Return the end of a window."""
        return ((as_expr(window) + 1) * self.extent + self.results - 1) // self.results

    def element(self, window: ExprLike, tap: ExprLike) -> Expr:
        """Return the coordinate of an element of a window, the dimension's last one beyond it."""
        place = self.start(window) + tap
        return place if self._is_even else fn.min(place, self.extent - 1)

    def has(self, window: ExprLike, tap: ExprLike) -> list[Expr]:
        """Return conditions under which an element belongs to a window."""
        return [] if self._is_even else [self.start(window) + tap < self.stop(window)]

    def first_tap(self, window: ExprLike) -> Expr:
        """Return the first element of a window."""
        return as_expr(0)

    def count(self, window: ExprLike, *, padded: bool) -> Expr:
        """Return the number of elements of a window."""
        return as_expr(self.taps) if self._is_even else self.stop(window) - self.start(window)

    @property
    def covers(self) -> int:
        """Most windows that have one element."""
        n, m = self.extent, self.results
        return 1 if n % m == 0 else min(m, -(-m // n) + 1)

    def window(self, place: ExprLike, k: ExprLike) -> Expr:
        """Return window ``k`` of those that may have an element, perhaps outside of the results."""
        return as_expr(place) * self.results // self.extent + k

    def covered(self, place: ExprLike, k: ExprLike) -> list[Expr]:
        """Return conditions under which `window` has the element."""
        if self._is_even:
            return []
        window = self.window(place, k)
        return [window < self.results, self.start(window) <= place, place < self.stop(window)]


Window = PoolingWindow | AdaptiveWindow
