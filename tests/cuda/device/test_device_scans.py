"""Scans on a GPU: one kernel for all times has the bits of the host."""

import numpy as np
import pytest
from scans import PREFIXES, SCANS, compare, compare_prefixes, drawn, elements, failing

import smallmm
from smallmm._recurrences.associative import _Series
from smallmm._recurrences.scan import Scan

OPTIONS = [{}, {"reverse": True}, {"every": 3}, {"outputs": "last"}]


@pytest.fixture(autouse=True)
def by_kernels(monkeypatch):
    by_calls, by_kernels = Scan._by_calls, _Series.on_device

    def empty_by_calls(scan, times, *others):  # no kernel runs for no times or series
        assert not times.length or 0 in scan.batch
        return by_calls(scan, times, *others)

    def checked(series, arrays, reverse):
        found = by_kernels(series, arrays, reverse)
        assert found is not None or isinstance(arrays[0], np.ndarray)
        return found

    monkeypatch.setattr(Scan, "_by_calls", empty_by_calls)
    monkeypatch.setattr(_Series, "on_device", checked)


def to_host(x):
    return x.cpu().numpy()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", SCANS)
def test_scans(torch, name, options, rng):
    for batch in ((1000,), (), (3, 50)):
        operands = drawn(SCANS[name], rng, 10, batch)
        compare(SCANS[name], *operands, options, lambda x: torch.from_numpy(x).cuda(), to_host)


@pytest.mark.parametrize("name", ["filtered", "product_complex", "solved8"])
def test_layouts(torch, name, rng):
    """Times, series, rows and columns have arbitrary strides; some operands are the same for all series."""
    case = SCANS[name]
    carry, xs, consts = drawn(case, rng, 6, (40,))
    on_device = lambda x: torch.from_numpy(np.ascontiguousarray(x)).cuda()  # noqa: E731
    for lies in (
        lambda x: on_device(x.swapaxes(-1, -2)).mT if x.ndim > 2 else on_device(x),
        lambda x: on_device(np.repeat(x, 2, axis=0))[::2],
        lambda x: on_device(np.moveaxis(x, 0, -1)).movedim(-1, 0) if x.ndim > 1 else on_device(x),
        lambda x: on_device(np.concatenate([x[:1], x]))[1:],
    ):
        compare(case, carry, xs, consts, {"reverse": True}, lies, to_host)
    compare(case, carry, tuple(x[:, 0] for x in xs), consts, {}, on_device, to_host)
    compare(case, tuple(x[0] for x in carry), xs, consts, {}, on_device, to_host)


@pytest.mark.parametrize("options", [{}, {"reverse": True}], ids=str)
@pytest.mark.parametrize("name", ["solved", "solved8"])
def test_failures(torch, name, options, rng):
    case = SCANS[name]
    operands = drawn(case, rng, 12, (50,), some_fail=True)
    info, time = failing(case, *operands, **options)
    given = [tuple(torch.from_numpy(x).cuda() for x in own) for own in operands[:2]]
    for more in ({}, {"progress": lambda done, length: None}):
        found = smallmm.scan_ex(case.function, *given, **options, **more)
        np.testing.assert_array_equal(found.info, info)
        np.testing.assert_array_equal(found.time, time)
    with pytest.raises(smallmm.LinAlgError, match=f"fails in {np.count_nonzero(info)} of 50"):
        smallmm.scan(case.function, *given, **options)


def test_numbers(torch):
    """Numbers are constants, and carries of all series."""
    found, _ = smallmm.scan(lambda c, x, k: c * k + x, 1.0, torch.ones(5, 70, device="cuda"), consts=0.5)
    expected, _ = smallmm.scan(lambda c, x, k: c * k + x, 1.0, np.ones((5, 70), np.float32), consts=0.5)
    np.testing.assert_array_equal(to_host(found), expected)


def test_explain(torch, rng):
    case = SCANS["filtered32"]
    carry, xs, consts = (tuple(torch.from_numpy(x).cuda() for x in own) for own in drawn(case, rng, 9, (8,)))
    plan = smallmm.explain(smallmm.scan, case.function, carry, xs, consts=consts)
    assert (plan.fused, plan.lanes, plan.times, plan.carried) == (True, 1, 9, 48)
    assert "9 times, on 8 series" in str(plan)
    assert "are carried in registers" in str(plan)


@pytest.mark.parametrize("times", [2, 33, 97, 4200])
@pytest.mark.parametrize("name", PREFIXES)
def test_associative_scan(torch, name, times, rng):
    case = PREFIXES[name]
    arrays = elements(case, rng, times, name == "sum_of_inverses")
    for reverse in (False, True):
        compare_prefixes(case, arrays, reverse, lambda x: torch.from_numpy(x).cuda(), to_host)

    def turned(x):
        memory = torch.from_numpy(np.ascontiguousarray(np.repeat(x, 2, axis=0).T)).cuda()
        return memory.permute(*reversed(range(x.ndim)))[::2]

    compare_prefixes(case, arrays, False, turned, to_host)
