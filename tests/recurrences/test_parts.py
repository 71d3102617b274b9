"""Functions of series of groups, which differ in length, and of Dask's arrays: the bits are those of a call
for each series."""

from functools import partial
from typing import NamedTuple

import numpy as np
import pytest

import smallmm

F, H = np.array([[1.0, 0.1], [0.0, 0.9]]), np.array([[1.0, 0.0], [1.0, 1.0], [0.5, 0.0]])
LENGTHS = [5, 9, 5, 1, 7, 9, 9]


class Case(NamedTuple):
    """A function of some arrays. moving, fixed: the shapes of a series' own arrays, of which each of moving
    has time before them."""

    function: object
    moving: dict
    fixed: dict
    whole: tuple = ()  # results of which times are not the first dimension

    def arrays(self, rng, times, series):
        arrays = {name: rng.standard_normal((times, *series, *shape)) for name, shape in self.moving.items()}
        return arrays | {name: rng.standard_normal((*series, *shape)) for name, shape in self.fixed.items()}


def kalman(z, x0, u=None, **options):
    p = q = 0.1 * np.eye(2)
    return smallmm.kalman_filter(z, x0, p, F, H, q, np.eye(3), control=u, **options)


def varying(z, x0, h):
    p = q = 0.1 * np.eye(2)
    return smallmm.kalman_filter(z, x0, p, F, h, q, np.eye(3), varying="h", form="joseph")


def smoother(x, roots):
    return smallmm.rts_smoother(x, smallmm.congruence(roots, np.eye(2)), F, 0.1 * np.eye(2))


def one_matrix(b):
    dims = b.min_dims if isinstance(b, smallmm.Group) else b.ndim
    return smallmm.linear_recurrence(F[(None,) * (dims - 1)], b, F[0], reverse=True)


@smallmm.fuse("(n),(n),()->(n),(n),()")
def step(c, x, k):
    return 0.5 * c + k * x, c * x, x.sum()


@smallmm.fuse("(),(n),()->(n)")
def decay(t, y, k):
    return -k * y * np.cos(t)


def scanned(c, x, k, function=smallmm.scan, **options):
    return function(step, (c,), (x,), consts=k, **options)


def hmm(function, x):
    return function(np.log([0.3, 0.7]), np.log([[0.5, 0.5], [0.2, 0.8]]), x)


STEP = {"x": (4,)}, {"c": (4,), "k": ()}
CASES = {
    "kalman": Case(kalman, {"z": (3,), "u": (2,)}, {"x0": (2,)}, (2,)),
    "roots": Case(partial(kalman, form="square_root", smooth=True), {"z": (3,)}, {"x0": (2,)}, (2,)),
    "smoothed": Case(partial(kalman, loglik=False, smooth=True), {"z": (3,)}, {"x0": (2,)}, (2,)),
    "last": Case(partial(kalman, outputs="last"), {"z": (3,)}, {"x0": (2,)}, (0, 1, 2)),
    "varying": Case(varying, {"z": (3,), "h": (3, 2)}, {"x0": (2,)}, (2,)),
    "smoother": Case(smoother, {"x": (2,), "roots": (2, 2)}, {}),
    "numbers": Case(smallmm.linear_recurrence, {"a": (), "b": ()}, {"x0": ()}),
    "vectors": Case(smallmm.linear_recurrence, {"a": (3, 3), "b": (3,)}, {"x0": (3,)}),
    "one_matrix": Case(one_matrix, {"b": (2,)}, {}),
    "backward": Case(
        partial(smallmm.linear_recurrence, reverse=True), {"a": (3, 3), "b": (3,)}, {"x0": (3,)}
    ),
    "cumulative": Case(smallmm.cumulative_matmul, {"a": (3, 3)}, {}),
    "hmm_forward": Case(partial(hmm, smallmm.hmm_forward), {"x": (2,)}, {}, (0,)),
    "hmm_viterbi": Case(partial(hmm, smallmm.hmm_viterbi), {"x": (2,)}, {}, (1,)),
    "rk4": Case(lambda y, t, k: smallmm.rk4(decay, y, t, k), {"t": ()}, {"y": (3,), "k": ()}),
    "scan": Case(scanned, *STEP, (0,)),
    "scan_ex": Case(partial(scanned, function=smallmm.scan_ex), *STEP, (0, 2, 3)),
    "every": Case(partial(scanned, every=2), *STEP, (0,)),
    "reverse": Case(partial(scanned, reverse=True), *STEP, (0,)),
    "last_ys": Case(partial(scanned, outputs="last"), *STEP, (0, 1)),
}


def leaves(x, whole, at=()):
    """The arrays of a result, and whether times are their first dimension."""
    if isinstance(x, tuple):
        for i, y in enumerate(x):
            yield from leaves(y, whole, (*at, i))
    else:
        yield x, at[:1] == () or at[0] not in whole


def same(found, expected):
    assert (tuple(found.shape), found.dtype) == (tuple(expected.shape), expected.dtype)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("batch", [(), (2,)])
def test_groups(name, batch, rng):
    case = CASES[name]
    series = [case.arrays(rng, times, batch) for times in LENGTHS]
    moving = {label: smallmm.Group([x[label] for x in series]) for label in case.moving}
    fixed = {label: np.stack([x[label] for x in series]) for label in case.fixed}
    found = list(leaves(case.function(**moving, **fixed), case.whole))
    groups = {label: smallmm.Group(x) for label, x in fixed.items()}
    again = list(leaves(case.function(**moving, **groups), case.whole))
    for i, own in enumerate(series):
        expected = list(leaves(case.function(**own), case.whole))
        for (x, has_times), (y, _), (z, _) in zip(found, again, expected, strict=True):
            assert (x is None) == (z is None)
            if x is not None:
                assert isinstance(x, smallmm.Group if has_times else np.ndarray)
                same(x[i], z)
                same(y[i], z)


def test_what_serves_all_series(rng):
    case = CASES["scan"]
    series = [case.arrays(rng, times, ()) for times in LENGTHS]
    x = smallmm.Group([own["x"] for own in series])
    carry, ys = smallmm.scan(step, np.ones(4), x, consts=2.0)
    for i, own in enumerate(series):
        expected = smallmm.scan(step, np.ones(4), own["x"], consts=2.0)
        same(carry[i], expected.carry)
        same(ys[0][i], expected.ys[0])
    t = np.linspace(0, 1, 4)
    y = smallmm.rk4(decay, smallmm.Group([np.ones(2), np.ones(3)]), t, 1.0)
    same(y[1], smallmm.rk4(decay, np.ones(3), t, 1.0))


def test_states_of_different_orders(rng):
    """Groups of different matrices, and what ends with them is a group, too."""
    orders = [2, 3, 2]
    z = [rng.standard_normal((5, 1)), rng.standard_normal((4, 1)), rng.standard_normal((5, 1))]
    models = [(np.zeros(n), np.eye(n), 0.9 * np.eye(n), np.ones((1, n)), np.eye(n)) for n in orders]
    r = np.eye(1)
    groups = map(smallmm.Group, zip(*models, strict=True))
    found = smallmm.kalman_filter(smallmm.Group(z), *groups, r, outputs="last")
    assert isinstance(found.x, smallmm.Group)
    for i in range(3):
        expected = smallmm.kalman_filter(z[i], *models[i], r, outputs="last")
        same(found.x[i], expected.x)
        same(found.loglik[i], expected.loglik)


def test_keys_of_a_frame(rng):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"id": list("abbacb"), "z": rng.standard_normal(6)})
    z = smallmm.Group.from_frame(frame, by="id", columns=["z"])
    found = smallmm.kalman_filter(z, np.zeros(1), np.eye(1), np.eye(1), np.eye(1), np.eye(1), np.eye(1))
    table = found.x.to_frame(["level"])
    assert table.index.tolist() == ["a", "a", "b", "b", "b", "c"]
    assert found.loglik.shape == (3,)


@pytest.mark.parametrize("batch", [(), (2,)])
def test_failures_of_groups(rng, batch):
    """One exception for the series of all lengths."""
    h = np.zeros((7, *[1] * len(batch), 2, 2))
    h[..., 0] = 1
    h[:4] = np.eye(2)
    z = [rng.standard_normal((times, *batch, 2)) for times in LENGTHS]
    r = np.zeros((2, 2))
    arguments = np.zeros(2), np.eye(2), np.eye(2), h, 3 * np.eye(2), r
    with pytest.raises(smallmm.LinAlgError) as e:
        smallmm.kalman_filter(smallmm.Group(z), *arguments, smooth=True)
    first = (4, 0) if batch else 4
    count = 3 * (batch or (1,))[0]
    assert str(e.value).startswith("kalman_filter: the innovation covariance h p h^T + r is not positive")
    assert str(e.value).endswith(
        f"measurement 1 is constant or depends on those before it; series {first} was the first of {count} "
        f"of {7 * count // 3} that failed, at time 0"
    )
    assert e.value.info.shape == (7, *batch)
    np.testing.assert_array_equal(np.argwhere(e.value.info)[:, 0], np.repeat([4, 5, 6], count // 3))
    np.testing.assert_array_equal(e.value.time == 0, e.value.info != 0)
    assert isinstance(e.value.result, smallmm.KalmanFilterResult)
    for i in range(4):
        expected = smallmm.kalman_filter(z[i], *arguments[:3], np.eye(2), *arguments[4:])
        same(e.value.result.x[i], expected.x)


def test_misfits(rng):
    group = smallmm.Group([rng.standard_normal((n, 4)) for n in (3, 5)])
    other = smallmm.Group([np.ones((n, 4)) for n in (3, 5, 5)])
    deep = smallmm.Group([np.ones((3, 2, 4)), np.ones((5, 3, 4))])
    c, two = np.zeros(4), smallmm.fuse("(n),(n),(n)->(n)")(lambda c, x, y: c + x + y)
    for wrong, message in (
        (lambda: smallmm.scan(two, c, (group, other)),
         r"scan: xs\[1\] is a group of 3; expected 2, as xs\[0\]"),
        (lambda: smallmm.scan(step, np.zeros((3, 4)), group, consts=1.0),
         r"scan: carry\[0\] has shape \(3, 4\); expected a group, or what serves all or each of 2 series"),
        (lambda: smallmm.scan(step, c, deep, consts=1.0),
         r"scan: one of xs\[0\] has .*; expected equal batch dimensions"),
        (lambda: smallmm.scan(step, c, smallmm.Group([np.ones(3)]), consts=1.0),
         r"scan: a member of xs\[0\] has shape \(3,\); expected 2 dimensions or more, time first"),
        (lambda: smallmm.scan(step, c, smallmm.Group([]), consts=1.0),
         r"scan: xs\[0\] is a group of no series"),
        (lambda: smallmm.scan(step, c, group, consts=1.0, out=c), "scan: out is given for a Group"),
        (lambda: smallmm.scan(two, c, (group, np.ones((4, 4)))), r"xs\[0\] has 3 times, but xs\[1\] has 4"),
        (lambda: smallmm.scan(3, c, group), "scan: function is 3; expected a function"),
        (lambda: kalman(group, np.zeros(2)), r"h has shape \(3, 2\); expected \(\.\.\., 4, 2\)"),
        (lambda: kalman(smallmm.Group([np.ones(3)]), np.zeros(2)), "kalman_filter: a member of z has shape"),
        (lambda: kalman(list(group), np.zeros(2)),
         "kalman_filter: z is a list that NumPy .*; smallmm.Group takes arrays of different shapes"),
        (lambda: smallmm.explain(smallmm.scan, step, c, group, consts=1.0),
         "explain: a Group takes a scan for each length"),
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=message):
            wrong()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("batch", [(7,), (5, 4)])
def test_dask(name, batch, rng):
    da = pytest.importorskip("dask.array")
    case = CASES[name]
    arrays = case.arrays(rng, 6, batch)
    lazy = {
        label: da.from_array(x, chunks=dict.fromkeys(range(x.ndim), -1) | {int(label in case.moving): 3})
        for label, x in arrays.items()
    }
    found = list(leaves(case.function(**lazy), case.whole))
    expected = list(leaves(case.function(**arrays), case.whole))
    for (x, _), (y, _) in zip(found, expected, strict=True):
        assert (x is None) == (y is None)
        if x is not None:
            assert isinstance(x, da.Array)
            assert (x.shape, x.dtype) == (y.shape, y.dtype)
            same(x.compute(scheduler="sync"), y)


def test_dask_of_one_series(rng):
    da = pytest.importorskip("dask.array")
    z = rng.standard_normal((6, 3))
    found = kalman(da.from_array(z), np.zeros(2))
    same(found.loglik.compute(), kalman(z, np.zeros(2)).loglik)
    free = smallmm.fuse(lambda c: 0.5 * c)
    same(smallmm.scan(free, da.ones(4, chunks=2), length=3).carry.compute(), np.full(4, 0.125))


def test_dask_is_refused(rng):
    da = pytest.importorskip("dask.array")
    x, z = da.ones((6, 10, 4), chunks=(3, 5, 4)), da.ones((6, 10, 3), chunks=(6, 5, 3))
    for wrong, message in (
        (lambda: smallmm.scan(step, np.zeros(4), x, consts=1.0),
         r"scan: xs\[0\] has chunks \(3, 3\) along time, its first .*: call xs\[0\]\.rechunk\(\{0: -1\}\)"),
        (lambda: smallmm.scan(step, np.zeros(4), x.rechunk((6, 5, 2)), consts=1.0),
         r"scan: xs\[0\] has chunks \(2, 2\) along dimension 2; expected one"),
        (lambda: smallmm.scan(step, np.zeros(4), x, consts=1.0, out=x), "scan: out is given for a Group or"),
        (lambda: smallmm.scan(step, np.zeros(4), x[x[:, 0, 0] > 0], consts=1.0),
         r"nan for a number of times that is not computed yet|chunks \(nan, nan\) along time"),
        (lambda: kalman(z, np.zeros((9, 2))),
         r"batch dimensions do not broadcast: z has \(10,\), x0 has \(9,\)"),
        (lambda: kalman(z[:, 0, 0], np.zeros(2)),
         r"kalman_filter: z has shape \(6,\); expected 2 dimensions"),
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=message):
            wrong()
    bad = smallmm.kalman_filter(z, np.zeros(2), np.eye(2), F, H, np.eye(2), -9 * np.eye(3))
    with pytest.raises(smallmm.LinAlgError, match="kalman_filter: the innovation covariance"):
        bad.loglik.compute(scheduler="sync")
