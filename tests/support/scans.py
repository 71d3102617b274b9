"""Scans that tests compare with calls time after time, which they are to equal to the bit."""

from typing import NamedTuple

import numpy as np

import smallmm


class Case(NamedTuple):
    function: object
    carry: tuple  # shapes of a series
    xs: tuple
    consts: tuple
    dtype: str = "f8"


@smallmm.fuse("(n),(n,n),(m),(n,n),(m,n),(n,n),(m,m)->(n),(n,n),(n)")
def filtered(x, p, z, f, h, q, r):
    x, p = smallmm.kalman_step(x, p, z, f, h, q, r)
    return x, p, x


@smallmm.fuse("(n,n),(n,n)->(n,n),(n,n)")
def product(c, a):
    c = c @ a / 2
    return c, c


@smallmm.fuse("(n),(n,n),(n)->(n),(n),(n)")
def solved(x, a, b):
    """Fails where a is singular; the last result is for the outputs alone."""
    y = smallmm.solve(a, b + x)
    return np.tanh(y), y, np.exp(-np.abs(y))


@smallmm.fuse
def number(c, x, k):
    return k * c + x, c * x


@smallmm.fuse("(n)->(n)")
def free(c):
    return 3.9 * c * (1 - c)


@smallmm.fuse("(n,n),(n)->(n,n),(n)")
def spectrum(a, x):
    w, v = smallmm.eigh(a + 0.1 * x[:, None] * x)
    return (v * np.tanh(w)) @ v.mT, w


SCANS = {
    "filtered": Case(filtered, ((4,), (4, 4)), ((2,),), ((4, 4), (2, 4), (4, 4), (2, 2))),
    "filtered32": Case(filtered, ((3,), (3, 3)), ((1,),), ((3, 3), (1, 3), (3, 3), (1, 1)), "f4"),
    "filtered9": Case(filtered, ((9,), (9, 9)), ((3,),), ((9, 9), (3, 9), (9, 9), (3, 3)), "f4"),
    "product": Case(product, ((3, 3),), ((3, 3),), ()),
    "product_complex": Case(product, ((2, 2),), ((2, 2),), (), "c16"),
    "product12": Case(product, ((12, 12),), ((12, 12),), (), "f4"),
    "solved": Case(solved, ((3,),), ((3, 3), (3,)), ()),
    "solved8": Case(solved, ((8,),), ((8, 8), (8,)), (), "f4"),
    "number": Case(number, ((),), ((),), ((),)),
    "spectrum": Case(spectrum, ((5, 5),), ((5,),), ()),
}


def drawn(case, rng, times, batch, some_fail=False):
    """Operands of that many times and series: positive definite where square, so that steps do not fail, but
    for some if they are to."""

    def one(shape, lead):
        x = rng.standard_normal((*lead, *shape))
        if np.dtype(case.dtype).kind == "c":
            x = x + 1j * rng.standard_normal(x.shape)
        if len(shape) == 2 and shape[0] == shape[1]:
            x = 0.1 * x @ x.mT.conj() / shape[0] + np.eye(shape[0])
        return x.astype(case.dtype)

    carry = tuple(one(x, batch) for x in case.carry)
    xs = tuple(one(x, (times, *batch)) for x in case.xs)
    consts = tuple(one(x, ()) for x in case.consts)
    if some_fail:
        xs[0][rng.random(xs[0].shape[: 1 + len(batch)]) < 0.1] = 0
    return carry, xs, consts


def by_calls(case, carry, xs, consts, reverse=False, outputs="all", every=1):
    """The carries, and what is kept of the other results, by one call for each time."""
    times = len(xs[0])
    order = range(times)[::-1] if reverse else range(times)
    kept = []
    for t in order:
        results = case.function(*carry, *(x[t] for x in xs), *consts)
        results = results if isinstance(results, tuple) else (results,)
        carry = results[: len(case.carry)]
        kept.append(results[len(case.carry) :])
    kept = kept[(times - 1) % every :: every] if outputs == "all" else kept[-1:]
    kept = kept[::-1] if reverse else kept
    ys = [np.stack([y[i] for y in kept]) for i in range(len(kept[0]))]
    return carry, [y[0] for y in ys] if outputs == "last" else ys


def failing(case, carry, xs, consts, reverse=False, every=1):
    """Info and time of each series' first failure, of a function no step of which fails that is for its
    outputs alone."""
    times = len(xs[0])
    info, time = np.zeros(xs[0].shape[1 : xs[0].ndim - len(case.xs[0])], np.int32), None
    time = np.full(info.shape, -1)
    for t in range(times)[::-1] if reverse else range(times):
        found = case.function.ex(*carry, *(x[t] for x in xs), *consts)
        carry = found.result[: len(case.carry)]
        new = (found.info != 0) & (info == 0)
        info[new], time[new] = found.info[new], t
    return info, time


def compare(case, carry, xs, consts, options, to=np.asarray, back=np.asarray):
    """A scan of arrays as `to` makes them with calls on the host."""
    expected, expected_ys = by_calls(case, carry, xs, consts, **options)
    given = [tuple(map(to, x)) for x in (carry, xs, consts)]
    found, ys = smallmm.scan(case.function, given[0], given[1], consts=given[2], **options)
    ys = ys if isinstance(ys, tuple) else (ys,)
    for x, y in zip((*found, *ys), (*expected, *expected_ys), strict=True):
        x = back(x)
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_array_equal(x, y)


@smallmm.fuse("(n,n),(n,n)->(n,n)")
def multiplied(a, b):
    return a @ b


@smallmm.fuse("(n,n),(n),(n,n),(n)->(n,n),(n)")
def affine(a, b, c, d):
    """x -> c (a x + b) + d"""
    return c @ a, c @ b + d


@smallmm.fuse("(n,n),(n,n)->(n,n)")
def sum_of_inverses(a, b):
    """A^-1 + B^-1, inverted: matrices in parallel."""
    return smallmm.inv(smallmm.inv(a) + smallmm.inv(b))


@smallmm.fuse
def larger(a, b):
    return np.maximum(a, b)


class Associative(NamedTuple):
    function: object
    shapes: tuple  # of an element
    batches: tuple  # of each array
    dtype: str


PREFIXES = {
    "multiplied": Associative(multiplied, ((4, 4),), ((),), "f4"),
    "multiplied3": Associative(multiplied, ((3, 3),), ((5,),), "f8"),
    "multiplied12": Associative(multiplied, ((12, 12),), ((2, 1),), "f4"),
    "complex": Associative(multiplied, ((2, 2),), ((3,),), "c16"),
    "affine": Associative(affine, ((3, 3), (3,)), ((), (7,)), "f4"),
    "sum_of_inverses": Associative(sum_of_inverses, ((2, 2),), ((4,),), "f8"),
    "larger": Associative(larger, ((),), ((6,),), "f4"),
}


def elements(case, rng, times, some_fail=False):
    """Such that products neither grow nor vanish."""
    arrays = []
    for shape, batch in zip(case.shapes, case.batches, strict=True):
        x = rng.standard_normal((times, *batch, *shape))
        if np.dtype(case.dtype).kind == "c":
            x = x + 1j * rng.standard_normal(x.shape)
        if len(shape) == 2:
            x = 0.03 * x + np.eye(shape[0])
        arrays.append(x.astype(case.dtype))
    if some_fail:
        arrays[0][times // 2, ..., 1:, :, :] = 0
    return tuple(arrays)


def of_prefixes(case, arrays, reverse):
    """Results and info."""
    try:
        return smallmm.associative_scan(case.function, arrays, reverse=reverse), 0
    except smallmm.LinAlgError as error:
        return error.result, error.info


def compare_prefixes(case, arrays, reverse, to, back):
    """An associative scan of arrays as `to` makes them with that on the host."""
    expected, codes = of_prefixes(case, arrays, reverse)
    found, info = of_prefixes(case, tuple(map(to, arrays)), reverse)
    np.testing.assert_array_equal(info, codes)
    for x, y in zip(found, expected, strict=True):
        x = back(x)
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_array_equal(x, y)
