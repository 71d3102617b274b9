"""Calls that `_core.Prepared` runs without Python: which it takes, what it returns, and what it leaves to
Python. Functions that use it are tested where they are: test_programs.py, test_compositions.py."""

import gc
import threading
import weakref
from typing import NamedTuple

import numpy as np
import pytest

import smallmm
from smallmm import _core
from smallmm._programs import fuse


class Both(NamedTuple):
    x: object
    y: object


@smallmm.fuse("(n,n),(n),()")
def scaled(a, x, t):
    return a @ x * t


@smallmm.fuse("(n,n),(n)")
def solved(a, x, add=0):
    y = smallmm.solve(a, x)
    return Both(y + add, y @ y)


@pytest.fixture
def unprepared(monkeypatch):
    """Says of how many calls Python had to do."""
    seen = []
    run = fuse.Fused._run
    monkeypatch.setattr(fuse.Fused, "_run", lambda self, *x: (seen.append(x), run(self, *x))[1])
    for function in (scaled, solved):
        function._plans.clear()
        function._forget_calls()
    return seen


@pytest.fixture
def arrays(rng):
    return rng.standard_normal((6, 4, 4)), rng.standard_normal((6, 4))


def test_shapes_by_turns(rng, unprepared):
    stacks = [(rng.standard_normal((5, n, n)), rng.standard_normal((5, n))) for n in range(1, 9)]
    first = [scaled(a, x, 2.0) for a, x in stacks]
    assert len(unprepared) == len(stacks)
    for _ in range(3):
        for (a, x), expected in zip(stacks, first, strict=True):
            np.testing.assert_array_equal(scaled(a, x, 2.0), expected)
            np.testing.assert_array_equal(scaled(a[2], x[2], 2.0), expected[2])
            np.testing.assert_array_equal(scaled(a[:, None], x, 2.0)[3, 3], expected[3])
    assert len(unprepared) == len(stacks)


def test_numbers(arrays, unprepared):
    """Of Python they follow the arrays, and NumPy's have a dtype: each kind is a call of its own."""
    a, x = (y.astype(np.float32) for y in arrays)
    numbers = (0.1, 3, np.float32(0.1), np.float64(0.1), np.array(0.1), np.int32(3), True, 10**400)
    for _ in range(3):
        for number in numbers[:-1]:
            found = scaled(a, x, number)
            assert found.dtype == np.result_type(a, number)
            t = number if isinstance(number, np.ndarray | np.generic) else np.float32(number)
            np.testing.assert_array_equal(found, (smallmm.matvec(a, x) * t).astype(found.dtype))
    assert len(unprepared) == 5 + 3  # truth is left to Python
    for _ in range(2):
        with pytest.raises((OverflowError, TypeError)):
            scaled(a, x, numbers[-1])


def test_keywords(arrays, unprepared):
    """Equal values of other types are others."""
    for _ in range(3):
        for add in (1, 1.0, True, 0, False, 2, 2.5, 0.0, -0.0, np.nan):
            np.testing.assert_array_equal(solved(*arrays, add=add).x, solved(*arrays).x + add)
    assert len(unprepared) == 11
    with pytest.raises(TypeError, match="solved"):
        solved(*arrays, addd=1)
    with pytest.raises(TypeError, match="add is"):
        solved(*arrays, add=[1])


def test_results(arrays, unprepared):
    for _ in range(3):
        found = solved(*arrays)
        assert type(found) is Both
        result, info = solved.ex(*arrays)
        assert type(result) is Both
        assert info.tolist() == [0] * 6
        single = solved(arrays[0][0], arrays[1][0])
        assert type(single.y) is np.float64
        assert single.y == found.y[0]
    assert len(unprepared) == 1


def test_failures(arrays, unprepared):
    a, x = arrays
    solved(a, x)
    a[2] = 0
    for _ in range(2):
        with pytest.raises(smallmm.LinAlgError, match="1 of 6") as caught:
            solved(a, x)
        assert caught.value.info.ravel().tolist() == [0, 0, 1, 0, 0, 0]
        assert np.isnan(caught.value.result.x[2]).all()
        assert np.isfinite(caught.value.result.x[[0, 1, 3, 4, 5]]).all()
    assert len(unprepared) == 1


def test_out(arrays, unprepared):
    a, x = arrays
    expected = scaled(a, x, 2.0)
    seen = len(unprepared)
    out = np.empty((6, 4))
    assert scaled(a, x, 2.0, out=out) is out
    np.testing.assert_array_equal(out, expected)
    one = np.empty(4)
    assert scaled(a[0], x[0], 2.0, out=one) is one
    given = np.empty((6, 4)), np.empty(6)
    assert solved(a, x, out=given).y is given[1]
    assert solved(a, x, out=(None, given[1])).y is given[1]
    for other in (np.empty((4, 6)).T, np.empty((6, 4), np.float32), np.empty((6, 8))[:, ::2]):
        assert scaled(a, x, 2.0, out=other) is other  # by Python
        np.testing.assert_array_equal(other, expected.astype(other.dtype))
    for own in (x.copy(), x.copy()[::-1]):
        wanted = scaled(a, own, 2.0)
        assert scaled(a, own, 2.0, out=own) is own
        np.testing.assert_array_equal(own, wanted)
    locked = np.empty((6, 4))
    locked.flags.writeable = False
    for wrong, error in ((locked, "read-only"), (np.empty((5, 4)), "shape"), (given, "expected 1")):
        with pytest.raises((ValueError, TypeError), match=error):
            scaled(a, x, 2.0, out=wrong)
    assert len(unprepared) > seen


def test_more_calls_than_are_kept(rng, unprepared):
    """Older ones are forgotten, and found again."""
    for _ in range(2):
        for n in range(1, 33):
            wide = rng.standard_normal((2, 2 * n))
            for x in (wide[:, :n], wide[:, ::2], np.asfortranarray(wide[:, :n])):
                np.testing.assert_array_equal(solved(np.eye(n), x).x, x)


def test_threads(rng):
    """Calls of many kinds are met at once."""
    function = smallmm.fuse("(m,n)")(lambda a: a + a)
    wrong = []

    def work(seed):
        own = np.random.default_rng(seed)
        for _ in range(300):
            a = own.standard_normal((3, *own.integers(1, 9, 2)))
            if not np.array_equal(function(a), a + a):
                wrong.append(a)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_is_collected(arrays):
    """A function refers to its calls, and they to it."""
    function = smallmm.fuse("(n,n),(n)")(lambda a, x: smallmm.solve(a, x))
    for _ in range(2):
        function(*arrays), function.ex(*arrays)
    gone = weakref.ref(function)
    del function
    gc.collect()
    assert gone() is None


def test_large_stacks_of_few_threads():
    """What is faster by other means with few threads is left to Python."""
    prepared = _core.Prepared()
    assert prepared.add(lambda x: ((x,), False), (None,), {}, 1, 0, None, None, 100, 3)
    few, many = np.ones(100), np.ones(101)
    with smallmm.threads(2):
        assert prepared(few) is few
        assert prepared(many) is NotImplemented
    with smallmm.threads(3):
        assert prepared(many) is many


def test_wrong():
    prepared = _core.Prepared()
    assert prepared() is NotImplemented
    for given in [(), (1, 2), (None, (None,), {}, 0, 0, None, None), (None, (None,), {}, 1, 7, None, None)]:
        with pytest.raises((TypeError, ValueError)):
            prepared.add(*given)
    assert prepared.add(lambda x: ((x, x), False), (None,), {}, 2, 0, None, None)
    x = np.ones(3)
    assert prepared(x)[1] is x
    assert prepared(x, x) is NotImplemented
    assert prepared(x, t=1) is NotImplemented
    assert prepared([1.0]) is NotImplemented
    failing = _core.Prepared()
    failing.add(lambda x: 1 / 0, (None,), {}, 1, 0, None, None)
    with pytest.raises(ZeroDivisionError):
        failing(x)
    strange = _core.Prepared()
    strange.add(lambda x: 5, (None,), {}, 1, 0, None, None)
    with pytest.raises(TypeError):
        strange(x)


def test_tensors(torch, arrays, unprepared):
    """As NumPy's arrays; results are tensors, which keep the memory of NumPy's alive."""
    a, x = map(torch.from_numpy, arrays)
    for _ in range(3):
        found = scaled(a, x, 2.0)
        assert type(found) is torch.Tensor
        np.testing.assert_array_equal(found.numpy(), scaled(*arrays, 2.0))
        result, info = solved.ex(a, x)
        assert type(info) is type(result.x) is torch.Tensor
        single = solved(a[0], x[0]).y
        assert (type(single), single.shape) == (torch.Tensor, ())
        assert single == result.y[0]
        np.testing.assert_array_equal(
            scaled(a, x[::2].repeat(2, 1), 2), scaled(a.numpy(), x[::2].repeat(2, 1).numpy(), 2)
        )
    assert len(unprepared) == 3  # a float, an int, and what fails
    kept = [scaled(a, x, float(i)) for i in range(100)]
    gc.collect()
    for i, y in enumerate(kept):
        np.testing.assert_array_equal(y.numpy(), scaled(*arrays, float(i)))
    y = kept[1]
    y.add_(1)  # its own memory
    assert not torch.equal(y, scaled(a, x, 1.0))


def test_tensors_out(torch, arrays, unprepared):
    a, x = map(torch.from_numpy, arrays)
    expected = scaled(*arrays, 2.0)
    scaled(a, x, 2.0)
    seen = len(unprepared)
    out = torch.empty(6, 4, dtype=torch.float64)
    assert scaled(a, x, 2.0, out=out) is out
    np.testing.assert_array_equal(out.numpy(), expected)
    solved(a, x)
    given = torch.empty_like(out), torch.empty(6, dtype=torch.float64)
    assert solved(a, x, out=given).y is given[1]
    assert solved(a, x, out=(None, given[1])).y is given[1]
    assert len(unprepared) == seen + 1
    own = x.clone()
    assert scaled(a, own, 2.0, out=own) is own  # by Python, since it is read, too
    np.testing.assert_array_equal(own.numpy(), expected)
    with pytest.raises(ValueError, match="out"):
        scaled(a, x, 2.0, out=torch.empty(5, 4, dtype=torch.float64))


def test_tensors_that_are_left_to_python(torch, arrays, unprepared):
    a, x = map(torch.from_numpy, arrays)
    scaled(a, x, 2.0)
    seen = len(unprepared)
    z = a + 1j * a
    scaled(z, x, 2.0)
    for conj in (z.conj(), torch.zeros_like(z).conj()):
        expected = scaled(conj.resolve_conj().numpy(), x.numpy(), 2.0)
        np.testing.assert_array_equal(scaled(conj, x, 2.0).resolve_conj().numpy(), expected)
    assert len(unprepared) == seen + 3
    assert scaled(a[:0], x[:0], 2.0).shape == (0, 4)
    mapped = torch.vmap(lambda a, x: scaled(a, x, 2.0))(a, x)
    np.testing.assert_allclose(mapped.numpy(), scaled(*arrays, 2.0), rtol=1e-14)
    with torch.device("meta"):
        assert scaled(torch.empty(3, 4, 4), torch.empty(3, 4), 2.0).is_meta


def test_tensors_that_require_a_gradient(torch, arrays, unprepared):
    a, x = map(torch.from_numpy, arrays)
    tracked = x.clone().requires_grad_()
    for _ in range(3):
        result = scaled(a, tracked, 2.0)
        (gradient,) = torch.autograd.grad(result.sum(), tracked)
        expected = 2 * a.sum(dim=-2)
        torch.testing.assert_close(gradient, expected)
        assert result.grad_fn.name() == "RecordedBackward"  # one node for all steps
    with torch.no_grad():
        assert not scaled(a, tracked, 2.0).requires_grad
    a[2] = 0
    with pytest.raises(smallmm.LinAlgError, match="1 of 6") as caught:
        solved(a, tracked)
    assert caught.value.info.ravel().tolist() == [0, 0, 1, 0, 0, 0]
    y, info = solved.ex(a, tracked)
    assert info.ravel().tolist() == [0, 0, 1, 0, 0, 0]
    (gradient,) = torch.autograd.grad(y.y[torch.tensor([0, 1, 3])].sum(), tracked)
    assert gradient[[0, 1, 3]].isfinite().all()


@pytest.mark.parametrize("name", ["matrix_norm", "trace", "cond", "pinv", "rcond", "matrix_rank", "expm"])
def test_compositions_of_tensors(torch, rng, name):
    a = rng.standard_normal((7, 4, 4))
    a = a @ a.mT + np.eye(4)
    function = getattr(smallmm, name)
    expected = function(a)
    for _ in range(20):
        found = function(torch.from_numpy(a))
        assert type(found) is torch.Tensor
        np.testing.assert_array_equal(found.numpy(), expected)
