"""Groups: operators, compositions and fused functions of members of different sizes."""

import operator

import numpy as np
import pytest

import smallmm

SHAPES = ((3, 3), (2, 2), (3, 3), (4, 4), (2, 2))
STACKS = smallmm.Group([np.eye(2), np.ones((1, 3, 3))])


def members(rng, shapes=SHAPES):
    return [rng.standard_normal(shape) + (4 * np.eye(*shape) if len(shape) > 1 else 0) for shape in shapes]


def assert_members(found, expected):
    """The bits of what single calls give, of groups and of arrays of numbers."""
    assert len(found) == len(expected)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, y)


class TestOperators:
    @pytest.mark.parametrize("op", [operator.add, operator.sub, operator.mul, operator.truediv])
    def test_arithmetic(self, rng, op):
        a, b = members(rng), members(rng)
        one, other = smallmm.Group(a), smallmm.Group(b)
        assert_members(op(one, other), [op(x, y) for x, y in zip(a, b, strict=True)])
        for number in (2, 2.5, np.float32(3), 1j, np.ones(())):
            assert_members(op(one, number), [op(x, number) for x in a])
            assert_members(op(number, one), [op(number, x) for x in a])
        assert_members(-one, [-x for x in a])

    def test_members_broadcast(self, rng):
        a, v = members(rng), members(rng, [shape[:1] for shape in SHAPES])
        s = [float(i + 1) for i in range(len(a))]
        group, vectors, numbers = map(smallmm.Group, (a, v, s))
        assert_members(group - vectors, [x - y for x, y in zip(a, v, strict=True)])
        assert_members(vectors / group, [y / x for x, y in zip(a, v, strict=True)])
        assert_members(numbers * group, [x * y for x, y in zip(a, s, strict=True)])
        assert_members(vectors + numbers, [x + y for x, y in zip(v, s, strict=True)])

    def test_an_array_serves_all_members(self, rng):
        a = members(rng, [(5, 3), (2, 3), (5, 3)])
        group, v = smallmm.Group(a), rng.standard_normal(3)
        assert_members(group * v, [x * v for x in a])
        assert_members(v - group, [v - x for x in a])
        assert_members(rng.standard_normal((0, 3))[:0] @ group.mT, [np.empty((0, len(x))) for x in a])
        assert_members(np.eye(3) @ group.mT, [x.T for x in a])

    def test_other_orders_of_classes(self, rng):
        """Stacks of the groups hold other members each."""
        a, b = members(rng, [(2, 2), (3, 3), (2, 2)]), members(rng, [(2, 2), (3, 3), (2, 1)])
        assert_members(smallmm.Group(a) + smallmm.Group(b), [x + y for x, y in zip(a, b, strict=True)])

    def test_on_tensors(self, torch, rng):
        a = members(rng)
        group = smallmm.Group([torch.from_numpy(x) for x in a])
        assert_members(group + 2 * group, [x + 2 * x for x in a])

    @pytest.mark.parametrize(
        ("call", "error", "message"),
        [
            (lambda g: g + "a", TypeError, "unsupported operand"),
            (lambda g: g + smallmm.Group([np.eye(2)]), ValueError, r"Group \+ Group: of 5 and 1 members"),
            (
                lambda g: g * np.ones((5, 3, 3)),
                ValueError,
                r"Group \* a ndarray of shape \(5, 3, 3\): expected",
            ),
            (lambda g: g - np.ones(5), ValueError, r"Group -: members of shapes \(3, 3\) and \(5,\)"),
            (lambda g: np.asarray(g), TypeError, "<Group of 5 arrays of 3 shapes> is no array: its members"),
            (lambda g: smallmm.cross(g, g), TypeError, "its members have several shapes"),
            (lambda g: smallmm.norm(g), TypeError, "its members have several shapes"),
            (lambda g: smallmm.cond(g), TypeError, "its members have several shapes"),
        ],
    )
    def test_what_is_refused(self, rng, call, error, message):
        with pytest.raises(error, match=message):
            call(smallmm.Group(members(rng)))

    def test_tensors_that_want_a_gradient(self, torch):
        with pytest.raises(TypeError, match=r"Group: arrays\[0\] is a torch.Tensor that requires a gradient"):
            smallmm.Group([torch.ones(2, requires_grad=True)])

    def test_members_of_one_shape_are_an_array(self, rng):
        a = rng.standard_normal((4, 3, 2))
        np.testing.assert_array_equal(np.asarray(smallmm.Group(list(a))), a)
        assert np.asarray(smallmm.Group(list(a)), np.float32).dtype == np.float32
        assert np.asarray(smallmm.Group([])).shape == (0,)


COMPOSED = {
    "pinv": smallmm.pinv,
    "pinv, hermitian": lambda a: smallmm.pinv(a, hermitian=True),
    "polar": smallmm.polar,
    "orthogonalize": smallmm.orthogonalize,
    "rcond": smallmm.rcond,
    "trace": smallmm.trace,
    "sqrtm": smallmm.sqrtm,
    "sqrtm, sym": lambda a: smallmm.sqrtm(a, assume_a="sym"),
    "logm": smallmm.logm,
    "powm": lambda a: smallmm.powm(a, 0.3),
    "expm": lambda a: smallmm.expm(a, assume_a="sym"),
}
FACTORED = {
    "lstsq": lambda a: smallmm.lstsq(a, a),
    "svd": lambda a: smallmm.svd(a, full_matrices=False),
    "svd, full": smallmm.svd,
    "svdvals": smallmm.svdvals,
    "qr": smallmm.qr,
    "qr, r": lambda a: smallmm.qr(a, mode="r"),
    "pinv": smallmm.pinv,
}
FUSED = {
    "cov": smallmm.cov,
    "corr": smallmm.corr,
    "whiten": lambda a: smallmm.whiten(a, eps=0.1),
    "whitening": lambda a: smallmm.whitening(a, eps=0.1, method="pca"),
    "congruence": lambda a: smallmm.congruence(a.mT, a @ a.mT),
    "own": smallmm.fuse("(m,n)")(lambda a: (np.sqrt((a * a).sum()), a.mean(axis=0))),
}


def assert_all(function, arrays):
    found = function(smallmm.Group(arrays))
    expected = [function(x) for x in arrays]
    if not isinstance(found, tuple):
        return assert_members(found, expected)
    assert not isinstance(expected[0], tuple) or type(found) is type(expected[0])
    for i, x in enumerate(found):
        assert_members(x, [y[i] for y in expected])
    return None


class TestFunctions:
    @pytest.mark.parametrize("name", COMPOSED)
    def test_compositions(self, rng, name):
        assert_all(COMPOSED[name], [x @ x.T for x in members(rng)])

    def test_roots_are_complex_where_one_is(self, rng):
        group = smallmm.Group([np.eye(2), -np.eye(3), np.eye(2)])
        assert smallmm.sqrtm(group).dtype == complex
        assert_members(smallmm.sqrtm(group), [np.eye(2) + 0j, 1j * np.eye(3), np.eye(2) + 0j])

    @pytest.mark.parametrize("name", FACTORED)
    @pytest.mark.parametrize("shapes", [((5, 3), (4, 2), (5, 3)), ((3, 5), (2, 4)), SHAPES])
    def test_factorizations(self, rng, name, shapes):
        assert_all(FACTORED[name], members(rng, shapes))

    @pytest.mark.parametrize("name", FUSED)
    @pytest.mark.parametrize("shapes", [((9, 3), (8, 2), (7, 3), (9, 3)), ((40, 35), (6, 2)), ((4, 4),)])
    def test_fused_functions(self, rng, name, shapes):
        assert_all(FUSED[name], members(rng, shapes))

    @pytest.mark.parametrize("shapes", [((5, 3), (3, 5)), ((2, 2), (3, 4), (4, 3))])
    def test_tall_and_wide_members(self, rng, shapes):
        """One call has one kernel of a factorization: of tall matrices, or of wide ones."""
        arrays = members(rng, shapes)
        for name in ("pinv", "polar", "orthogonalize", "svd", "svd_ex", "svdvals", "qr", "lu_factor"):
            assert_all(getattr(smallmm, name), arrays)
        assert_all(lambda a: smallmm.qr(a, "complete"), arrays)

    def test_ridge_of_ragged_groups(self, rng):
        a, b = members(rng, [(9, 3), (7, 3), (9, 3)]), members(rng, [(9,), (7,), (9,)])
        w, alpha = [np.abs(x) for x in b], [0.1, 0.2, 0.3]
        groups = smallmm.Group(a), smallmm.Group(b), smallmm.Group(alpha)
        found = smallmm.ridge(*groups, weights=smallmm.Group(w), intercept=True)
        expected = [
            smallmm.ridge(*each[:3], weights=each[3], intercept=True)
            for each in zip(a, b, alpha, w, strict=True)
        ]
        assert_members(found.x, [x for x, _ in expected])
        np.testing.assert_array_equal(found.intercept, [c for _, c in expected])
        matrices = smallmm.Group([x[:, None] for x in b])
        assert_members(
            smallmm.ridge(groups[0], matrices, 0.5),
            [smallmm.ridge(x, y[:, None], 0.5) for x, y in zip(a, b, strict=True)],
        )
        assert_members(
            smallmm.ridge(groups[0], groups[1], 0.5),
            [smallmm.ridge(x, y, 0.5) for x, y in zip(a, b, strict=True)],
        )

    def test_kalman_step(self, rng):
        """A filter of its own size each; the covariance of the measurement serves all."""
        orders = (4, 2, 4)
        x, f = members(rng, [(n,) for n in orders]), members(rng, [(n, n) for n in orders])
        h, p = members(rng, [(2, n) for n in orders]), [np.eye(n) for n in orders]
        r, z = np.eye(2), np.ones(2)
        found = smallmm.kalman_step(*map(smallmm.Group, (x, p)), z, *map(smallmm.Group, (f, h, p)), r)
        expected = [smallmm.kalman_step(x, p, z, f, h, p, r) for x, p, f, h in zip(x, p, f, h, strict=True)]
        assert_members(found.x, [y.x for y in expected])
        assert_members(found.p, [y.p for y in expected])

    def test_members_that_fail(self, rng):
        a = [*members(rng, [(9, 3), (7, 2), (9, 3)]), np.ones((9, 3))]
        with pytest.raises(
            smallmm.LinAlgError, match=r"whiten: the covariance of x is not .* in 1 of 4 cases.*\(3,\)"
        ) as caught:
            smallmm.whiten(smallmm.Group(a))
        assert_members([*caught.value.result][:3], [smallmm.whiten(x) for x in a[:3]])
        assert np.isnan(caught.value.result[3]).all()
        result, info = smallmm.whiten.ex(smallmm.Group(a))
        assert (info != 0).tolist() == [False, False, False, True]
        assert len(result) == 4

    def test_no_members(self):
        empty = smallmm.Group([])
        assert len(smallmm.cov(empty)) == len(smallmm.pinv(empty)) == len(empty + 1) == 0
        assert len(smallmm.ridge(empty, empty, 1.0, intercept=True).intercept) == 0
        assert smallmm.mahalanobis(empty, empty, empty).shape == (0,)

    def test_on_tensors(self, torch, rng):
        a = members(rng, [(9, 3), (7, 2), (9, 3)])
        found = smallmm.whiten(smallmm.Group([torch.from_numpy(x) for x in a]))
        assert_members(found, [smallmm.whiten(x) for x in a])

    @pytest.mark.parametrize(
        ("call", "error", "message"),
        [
            (lambda g: smallmm.cov(g, out=np.eye(3)), TypeError, "cov: out is given for a Group"),
            (
                lambda g: smallmm.cov(smallmm.Group([np.ones(3)])),
                ValueError,
                "a member of x has fewer",
            ),
            (
                lambda g: smallmm.cov(g, smallmm.Group([np.ones(3)])),
                ValueError,
                "weights is a group of 1",
            ),
            (
                lambda g: smallmm.congruence(g, np.ones((5, 3, 3))),
                ValueError,
                "expected a group, or one",
            ),
            *[
                (lambda g, f=f: f(STACKS), ValueError, rf"{f.__name__}: a member of \w has more than 2 dim")
                for f in (smallmm.inv, smallmm.pinv, smallmm.trace, smallmm.whiten)
            ],
            (lambda g: smallmm.congruence(g), TypeError, "congruence: x is missing; expected 2 arrays, a, x"),
            (
                lambda g: smallmm.explain(smallmm.cov, g),
                TypeError,
                "cov: x is a smallmm.Group, which a fused function does not take",
            ),
            (
                lambda g: smallmm.pinv(smallmm.Group([np.ones(3)] * 3)),
                ValueError,
                "a member of a has fewer",
            ),
        ],
    )
    def test_what_is_refused(self, rng, call, error, message):
        with pytest.raises(error, match=message):
            call(smallmm.Group(members(rng)))
