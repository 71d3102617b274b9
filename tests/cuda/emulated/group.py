"""Groups whose members are on the emulated GPU: results, infos and errors are those of the host, and each
combination of shapes is one launch."""

import os
from functools import partial

import numpy as np
from checks import raised

import smallmm
from smallmm import Group as group_of
from smallmm import _core, cuda


def on_device(arrays):
    return group_of(map(cuda.to_device, arrays))


def on_host(x):
    """An array, or a group's members, in tuples where there are several."""
    if isinstance(x, tuple):
        return tuple(map(on_host, x))
    return [*map(cuda.to_host, x)] if isinstance(x, smallmm.Group) else cuda.to_host(x)


def same(function, *groups):
    """The bits of the host's groups."""
    found = on_host(function(*map(on_device, groups)))
    expected = function(*map(group_of, groups))
    if not isinstance(expected, tuple):
        found, expected = (found,), (expected,)
    for ours, theirs in zip(found, expected, strict=True):
        for x, y in zip(ours, theirs, strict=True):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            np.testing.assert_array_equal(x, y)


def results():
    rng = np.random.default_rng(0)
    sizes = (3, 2, 2, 3, 2)
    a = [rng.standard_normal((n, n)) + n * np.eye(n) for n in sizes]
    b = [rng.standard_normal((n, k)) for n, k in zip(sizes, (1, 1, 2, 2, 2), strict=True)]
    singular = [*a, np.zeros((3, 3)), np.ones((2, 2))]
    same(smallmm.matmul, a, a)
    same(smallmm.solve, a, b)  # members of a change places
    same(smallmm.inv_ex, singular)
    same(smallmm.slogdet, a)
    same(smallmm.pinv, a)
    same(smallmm.mahalanobis, [x[0] for x in a], [x[1] for x in a], [x @ x.T for x in a])
    same(smallmm.cov, a)
    same(lambda x: x @ x.mT, a)
    same(lambda x: smallmm.lu_solve(smallmm.lu_factor(x), x), a)
    matrix = rng.standard_normal((3, 2))
    three, halves = [x for x in a if len(x) == 3], [x.astype(np.float16) for x in a]
    found = smallmm.matmul(on_device(three), cuda.to_device(matrix))
    for x, y in zip(found, three, strict=True):
        np.testing.assert_array_equal(cuda.to_host(x), smallmm.matmul(y, matrix))
    same(smallmm.det, halves)

    # members that lie in many ways, of which equal ones are one stack
    wide = cuda.to_device(rng.standard_normal((4, 5, 6)))
    views = [wide[0, :2, :2], wide[1, :2, :3:2], wide[1, :2, :2], wide[2, 1::-1, 3:5], wide[3, :2, :2].mT]
    views += [wide[:2, 0, :2], wide[1, :0, :0]]
    group = group_of(views)
    assert repr(group) == "<Group of 7 arrays of 6 shapes>", group
    for x, y in zip(group, views, strict=True):
        np.testing.assert_array_equal(cuda.to_host(x), cuda.to_host(y))
    wide[0][...] = np.zeros((5, 6))  # the group has copies
    assert cuda.to_host(group[0]).all()

    # a launch for each combination of shapes
    plan = smallmm.explain("solve", on_device(a), on_device(b))
    assert (plan.matrices, plan.calls, plan.isa) == (5, 4, "sm_90"), plan
    assert plan.flops == sum(smallmm.explain("solve", x, y).flops for x, y in zip(a, b, strict=True))


def errors():
    a = [np.eye(2), np.zeros((3, 3)), np.eye(3)]
    group = on_device(a)
    error = raised(smallmm.inv, group)
    assert str(error) == str(raised(smallmm.inv, group_of(a))), error
    assert "1 of 3 matrices is singular, the first at index (1,)" in str(error)
    assert cuda.to_host(error.info).tolist() == [0, 1, 0]
    np.testing.assert_array_equal(cuda.to_host(error.result[2]), np.eye(3))
    wrong = [np.ones((3, 1))] * 3
    assert str(raised(smallmm.solve, group, on_device(wrong))) == str(
        raised(smallmm.solve, group_of(a), group_of(wrong))
    )
    x, z = cuda.to_device(np.eye(2)), cuda.to_device(np.eye(2) * 1j)
    for said, function, *arguments in (
        ("arrays[1] is a numpy.ndarray on the host but arrays[0] is", group_of, [x, np.eye(2)]),
        ("arrays[0] is a numpy.ndarray on the host but arrays[1] is", group_of, [np.eye(2), x]),
        ("x2 is a numpy.ndarray on the host but x1 is", smallmm.matmul, group_of([x]), np.eye(2)),
        ("x1 is a numpy.ndarray on the host but x2 is", smallmm.matmul, np.eye(2), group_of([x])),
        ("x1 is a numpy.ndarray on the host but x2 is", smallmm.matmul, group_of([np.eye(2)]), x),
        ("x1 is a numpy.ndarray on the host but x2", smallmm.matmul, group_of([np.eye(2)]), group_of([x])),
        ("b is a group of 1; expected 3", smallmm.solve, group, group_of([x])),
        ("x2 is a DeviceArray of shape (1, 2, 2); expected a group, or one matrix for all members",
         *(smallmm.matmul, group_of([x]), x[None])),
        ("out is given for a Group", partial(smallmm.whiten, out=x), group),
    ):  # fmt: skip
        error = raised(function, *arguments)
        assert isinstance(error, TypeError | ValueError), error
        assert said in str(error), error
    one, other = smallmm.det(group_of([x, cuda.to_device(2 * np.eye(3, dtype=np.float32))]))
    assert (cuda.to_host(one), cuda.to_host(other), other.dtype) == (1, 8, np.float64)
    (row,) = smallmm.vecmat(group_of([z[0]]), group_of([z]))
    np.testing.assert_array_equal(cuda.to_host(row), [1, 0])
    error = raised(smallmm.inv, group_of([cuda.to_device(np.eye(140))]))
    assert isinstance(error, NotImplementedError), error
    error = raised(smallmm.inv, group, out=x)
    assert "out is given for <Group of 3 arrays of 2 shapes>" in str(error), error


if __name__ == "__main__":
    cuda.device_name()
    _core.cuda_configure(os.fsencode(os.environ["EMULATED_LIBRARY"]), b"")
    results()
    errors()
