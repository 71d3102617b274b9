"""Backward passes of scans, which are scans in the other direction.

They carry the gradients of the carries, and the sums over time of those of the constants; they put out the
gradients of the x. The carries before each time, which they need, are computed again, for the times of one
segment: the forward pass keeps the carry before each of about as many segments as a segment has times.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._base.shapes import arithmetic, dtype_of
from .._libraries.recording import summed
from .._programs.arrays import as_library, wants_gradient
from .._programs.compose import namespace_of
from .._programs.fuse import fuse
from .._programs.fused import Fused
from .._recurrences.scan import Outcome, Scan
from .._recurrences.times import Times
from .backward import backward_of_plan, signature_of

Arrays = tuple[Any, ...]


def with_backward(
    scan: Scan, arrays: Arrays, times: Times, progress: Any
) -> tuple["BackwardOfScan", Outcome]:
    """The backward pass and the outcome of a scan of these arrays, which record nothing."""
    backward = BackwardOfScan(scan, times)
    n, m = len(scan.carry), len(scan.carry) + len(scan.xs)
    plain = Scan(scan.name, scan.function, arrays[:n], arrays[n:m], arrays[m:], times.length, scan.options)
    return backward, plain.run(times, None, progress, backward.keep)


class BackwardOfScan:
    """The backward pass of one call. Operands are carries, x and constants, as the function takes them."""

    gufunc = None

    def __init__(self, scan: Scan, times: Times) -> None:
        self.name, self.times = scan.name, times
        self.inputs = scan.function._inputs
        self.carries, self.moving = len(scan.carry), len(scan.xs)
        self.results = scan.plan.results
        self.batch = scan.batch
        self.of_step = backward_of_plan(scan.function, scan.plan, scan.options)
        self.smooth = tuple(i for i in range(self.carries) if self.results[i].dtype.kind in "fcV")
        self.marks: list[int] = [0]  # how many times ran before each segment
        self.kept: list[list[Any]] = []  # the carry before each, but the first

    def keep(self, done: int, carry: list[Any]) -> None:
        self.marks.append(done)
        self.kept.append([namespace_of(x).asarray(x, copy=True) for x in carry])

    def is_recordable(self, operands: Sequence[Any], results: Sequence[Any], wanted: tuple[int, ...]) -> bool:
        """Whether all steps of the function have rules."""
        operands = [x[0] if self._moves(i) else x for i, x in enumerate(operands)]
        ys = range(self.carries, len(self.results))
        results = [x[0] if i in ys else x for i, x in enumerate(results)]
        return bool(self.smooth) and self.of_step.is_recordable(
            operands, results, self._wanted_of_step(wanted)
        )

    def gradients(
        self, operands: Sequence[Any], results: Sequence[Any], grads: Sequence[Any], wanted: tuple[int, ...]
    ) -> list[Any]:
        """The gradients of the wanted operands. Where they are to be differentiated, too, one segment has all
        times, as the carries that were kept record nothing."""
        like = next((x for x in operands if not isinstance(x, np.ndarray)), operands[0])
        n, m = self.carries, self.carries + self.moving
        ys = [i for i in range(n, len(self.results)) if grads[i] is not None]
        again, back = self._scanned(ys, wanted)
        sums = [i for i in wanted if i >= m]
        carry = [
            _zeros(like, self.results[i].shape, self.results[i].dtype) if grads[i] is None else grads[i]
            for i in self.smooth
        ]
        carry += [_zeros(like, self._core(operands[i], i), arithmetic(dtype_of(operands[i]))) for i in sums]
        found = {i: namespace_of(like).empty_like(operands[i]) for i in wanted if self._moves(i)}
        marks, kept = self.marks, self.kept
        if any(wants_gradient(x) for x in (*operands, *grads)):
            marks, kept = [0], []
        ends = [*marks[1:], self.times.length]
        starts = [list(operands[:n]), *kept]
        for done, end, start in reversed(list(zip(marks, ends, starts, strict=True))):
            part = self._times(done, end)
            xs = [x[part] for x in operands[n:m]]
            start = [as_library(x, like) for x in start]
            before = self._run(again, start, xs, operands[m:], end - done, self.times.reverse).ys
            given = [self._of_each_time(grads[i], part) for i in ys]
            outcome = self._run(
                back, carry, [*before, *xs, *given], operands[m:], end - done, not self.times.reverse
            )
            carry = outcome.carry
            for i, gradient in zip(found, outcome.ys, strict=True):
                found[i][part] = self._of_own_batch(operands[i], i, gradient)
        of_carry = dict(zip((*self.smooth, *sums), carry, strict=True))
        return [found[i] if i in found else _as_dtype_of(operands[i], of_carry[i]) for i in wanted]

    def _moves(self, i: int) -> bool:
        return self.carries <= i < self.carries + self.moving

    def _wanted_of_step(self, wanted: Sequence[int]) -> tuple[int, ...]:
        """Those of all carries, as the time before depends on them."""
        return (*self.smooth, *(i for i in wanted if i >= self.carries))

    def _core(self, x: Any, i: int) -> tuple[int, ...]:
        return tuple(x.shape)[x.ndim - len(self.inputs[i]) :]

    def _run(self, function: Fused, carry: Any, xs: Any, consts: Any, length: int, reverse: bool) -> Any:
        return Scan(self.name, function, list(carry), list(xs), list(consts), length, {}).run(
            Times(length, 1, reverse), None
        )

    # --- the functions of one time ---

    def _scanned(self, ys: list[int], wanted: Sequence[int]) -> tuple[Fused, Fused]:
        """A function that puts out the carry it is given, and one that goes back."""
        key = self.carries, self.moving, tuple(ys), tuple(wanted)
        made = self.of_step.of_scans
        if key not in made:
            made[key] = self._again(), self._back(ys, wanted)
        return made[key]

    def _again(self) -> Fused:
        n, steps = self.carries, self.of_step.function

        def again(*symbols: Any) -> Any:
            return (*steps(*symbols)[:n], *symbols[:n])

        return self._fused(again, list(map(len, self.inputs)))

    def _back(self, ys: list[int], wanted: Sequence[int]) -> Fused:
        """Of the gradients of the carry, the sums, the carry before, x, the gradients of y, and constants."""
        n, m, k = self.carries, self.carries + self.moving, len(self.smooth)
        sums = [i for i in wanted if i >= m]
        given, of_step = (*self.smooth, *ys), self.of_step
        own = self._wanted_of_step(wanted)

        def back(*symbols: Any) -> Any:
            first = k + len(sums)
            grads, totals = symbols[:k], symbols[k:first]
            last = first + m + len(ys)
            operands = (*symbols[first : first + m], *symbols[last:])
            some = (*grads, *symbols[first + m : last])
            found = dict(zip(own, of_step.found(operands, some, given, own), strict=True))
            added = [total + found[i] for total, i in zip(totals, sums, strict=True)]
            return (*(found[i] for i in self.smooth), *added, *(found[i] for i in own if n <= i < m))

        dims = list(map(len, self.inputs))
        carried = [self.results[i].ndim for i in self.smooth] + [dims[i] for i in sums]
        return self._fused(back, [*carried, *dims[:m], *(self.results[i].ndim for i in ys), *dims[m:]])

    def _fused(self, function: Any, dims: list[int]) -> Fused:
        function.__name__ = f"backward pass of {self.of_step.name}"
        return fuse(function, signature_of(dims))

    # --- arrays of several times ---

    def _times(self, done: int, end: int) -> slice:
        length = self.times.length
        return slice(length - end, length - done) if self.times.reverse else slice(done, end)

    def _of_each_time(self, grad: Any, part: slice) -> Any:
        """The gradients of an output at some times, 0 at those at which it was not kept."""
        every = self.times.every
        if every == 1:
            return grad[part]
        offset = 0 if self.times.reverse else (self.times.length - 1) % every
        first, behind = (-(-max(t - offset, 0) // every) for t in (part.start, part.stop))
        whole = _zeros(grad, (part.stop - part.start, *grad.shape[1:]), dtype_of(grad))
        if first < behind:
            whole[offset + first * every - part.start :: every] = grad[first:behind]
        return whole

    def _of_own_batch(self, x: Any, i: int, gradient: Any) -> Any:
        """The gradient of an x, which was broadcast to all batch dimensions."""
        xp = namespace_of(gradient)
        core = self._core(x, i)
        own = tuple(x.shape)[1 : x.ndim - len(core)]
        whole = (1,) * (len(self.batch) - len(own)) + own
        total = summed(xp, gradient, (gradient.shape[0], *whole, *core))
        return xp.reshape(_as_dtype_of(x, total), (gradient.shape[0], *own, *core))


def _zeros(like: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    xp = namespace_of(like)
    return xp.zeros(shape, dtype=getattr(xp, dtype.name), device=like.device)


def _as_dtype_of(x: Any, gradient: Any) -> Any:
    return gradient if gradient.dtype == x.dtype else namespace_of(x).astype(gradient, x.dtype)
