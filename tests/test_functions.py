"""Element-wise functions of the core: their errors against mpmath, special values, equal bits of all
instruction sets, and of NumPy where both are exact."""

import mpmath
import numpy as np
import pytest
from scipy import special

import smallmm._core as core
from smallmm._unfused import elementwise

mpmath.mp.prec = 200

RANGES = {  # where results are normal numbers
    "exp": [(-708, 709), (-1, 1), (-1e-9, 1e-9)],
    "expm1": [(-50, 700), (-1, 1), (-1e-9, 1e-9)],
    "log": [(1e-300, 1e300), (0.5, 2), (0.999, 1.001)],
    "log1p": [(-0.999, 10), (-0.3, 0.5), (-1e-9, 1e-9)],
    "sin": [(-0.8, 0.8), (-10, 10), (-1e6, 1e6), (-1e12, 1e12), (-1e20, 1e20), (-1e300, 1e300)],
    "cos": [(-0.8, 0.8), (-10, 10), (-1e6, 1e6), (-1e12, 1e12), (-1e20, 1e20), (-1e300, 1e300)],
    "tanh": [(-25, 25), (-1.2, 1.2), (-1e-7, 1e-7)],
    "erf": [(-6, 6), (-0.9, 0.9), (-1e-8, 1e-8), (0.8, 1.3)],
    "erfc": [(-6, 26), (-0.9, 0.9), (0.2, 0.3), (0.8, 1.3), (2.5, 3)],
    "ndtr": [(-37, 9), (-2, 2), (-0.3, 0.3)],
}
EXACT = {
    "exp": mpmath.exp,
    "expm1": mpmath.expm1,
    "log": mpmath.log,
    "log1p": mpmath.log1p,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tanh": mpmath.tanh,
    "erf": mpmath.erf,
    "erfc": mpmath.erfc,
    "ndtr": mpmath.ncdf,
}


def ulps(result, exact):
    """The largest error, in units of the last place of the exact value."""
    unit = np.spacing(np.abs(np.array([float(y) for y in exact], result.dtype)))
    errors = [abs(mpmath.mpf(float(x)) - y) / float(u) for x, y, u in zip(result, exact, unit, strict=True)]
    return float(max(errors))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", sorted(RANGES))
def test_error_is_at_most_two_units(name, dtype):
    rng = np.random.default_rng(7)
    for low, high in RANGES[name]:
        if dtype == "f4" and name in ("exp", "expm1", "log") and (abs(low) > 80 or high > 80):
            low, high = max(low, -80), min(high, 80)
        if name == "ndtr" and dtype == "f4":
            low = max(low, -12)
        if name == "erfc" and dtype == "f4":
            high = min(high, 8)
        low = max(low, 1e-30) if name == "log" and dtype == "f4" else low
        if dtype == "f4" and name in ("sin", "cos"):
            low, high = max(low, -1e38), min(high, 1e38)
        x = rng.uniform(low, high, 1000).astype(dtype)
        with mpmath.workprec(1400 if high > 1e15 else 200):
            exact = [EXACT[name](mpmath.mpf(float(v))) for v in x]
        assert ulps(elementwise(name, x), exact) <= (2 if name in ("expm1", "erf", "erfc", "ndtr") else 1)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_error_of_powers_is_at_most_two_units(dtype):
    rng = np.random.default_rng(8)
    x = np.exp(rng.uniform(-5, 5, 2000)).astype(dtype)
    y = rng.uniform(-12, 12, 2000).astype(dtype)
    x[:500] = rng.uniform(0.99, 1.01, 500)
    y[:500] = rng.uniform(-3000, 3000, 500)
    y[500:700] = rng.integers(-9, 9, 200)
    x[600:700] *= -1
    exact = [mpmath.power(mpmath.mpf(float(a)), mpmath.mpf(float(b))) for a, b in zip(x, y, strict=True)]
    assert ulps(elementwise("power", x, y), [v.real for v in exact]) <= 2


SPECIAL = [
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    1.0,
    -1.0,
    1e-320,
    -1e-320,
    5e-324,
    1e308,
    -1e308,
    800,
    -800,
    40,
    -40,
]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", sorted(RANGES))
def test_special_values(name, dtype):
    theirs = getattr(np, name, None) or getattr(special, name)
    with np.errstate(all="ignore"):
        x = np.array(SPECIAL, dtype)
        expected = theirs(x)
    ours = elementwise(name, x)
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(expected))
    np.testing.assert_allclose(
        ours, expected, rtol=1e-5 if dtype == "f4" else 1e-14, atol=1e-44 if dtype == "f4" else 1e-322
    )
    zeros = expected == 0
    np.testing.assert_array_equal(np.signbit(ours[zeros]), np.signbit(expected[zeros]))


def test_special_powers():
    values = np.array([0.0, -0.0, 1, -1, 2, -2, 0.5, 3, -3, 2.5, np.inf, -np.inf, np.nan, 1e300, -1e300])
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        expected = np.power(x, y)
    ours = elementwise("power", x, y)
    np.testing.assert_allclose(ours, expected, rtol=4e-16, atol=0)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(ours[numbers]), np.signbit(expected[numbers]))


def test_angles_nearest_to_multiples_of_quarters():
    """The double nearest to a multiple of pi/2, and others whose remainder is small."""
    x = [
        6381956970095103 * 2.0**797,
        *(float(k * mpmath.pi / 2) for k in (1, 2, 1000003, 2**39 - 1, 2**60 + 1)),
    ]
    x = np.array([*x, *np.negative(x), 2.0**40, np.nextafter(2.0**40, np.inf), np.finfo("f8").max])
    with mpmath.workprec(1400):
        assert ulps(elementwise("sin", x), [mpmath.sin(mpmath.mpf(float(v))) for v in x]) <= 1
        assert ulps(elementwise("cos", x), [mpmath.cos(mpmath.mpf(float(v))) for v in x]) <= 1


def test_subnormal_results():
    x = np.linspace(-745, -708, 1000)
    exact = [mpmath.exp(mpmath.mpf(float(v))) for v in x]
    assert ulps(elementwise("exp", x), exact) <= 1


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", sorted(core.functions))
def test_bits_are_those_of_every_instruction_set_and_place(name, dtype):
    rng = np.random.default_rng(9)
    arrays = [rng.standard_normal(1001).astype(dtype) * 3 for _ in range(core.functions[name][1])]
    for x in arrays:
        with np.errstate(over="ignore"):
            x[:16] = SPECIAL
        rng.shuffle(x)
    best = core.isa()
    results = {}
    try:
        for isa in core.isas_available():
            core.select_isa(isa)
            results[isa] = elementwise(name, *arrays)
            parts = [elementwise(name, *(x[i : i + 7] for x in arrays)) for i in range(0, 1001, 7)]
            np.testing.assert_array_equal(np.concatenate(parts), results[isa])
            backwards = elementwise(name, *(x[::-1] for x in arrays))
            np.testing.assert_array_equal(backwards[::-1], results[isa])
    finally:
        core.select_isa(best)
    for result in results.values():
        np.testing.assert_array_equal(result, results[best])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", sorted(set(core.functions) - {*RANGES, "power", "copy"}))
def test_bits_are_numpys(name, dtype):
    rng = np.random.default_rng(10)
    arrays = [rng.standard_normal(500).astype(dtype) for _ in range(core.functions[name][1])]
    for x in arrays:
        x[:4] = [np.inf, -np.inf, np.nan, 1.0]
        rng.shuffle(x)
    with np.errstate(all="ignore"):
        if name == "where":
            expected = np.where(arrays[0] != 0, *arrays[1:])
        elif name == "exponent":
            expected = np.where(np.isfinite(arrays[0]), np.frexp(arrays[0])[1], 0)
        elif name == "scaled":
            arrays[1] = np.nan_to_num(np.round(9 * arrays[1]), posinf=100, neginf=-100).astype(dtype)
            expected = np.ldexp(arrays[0], arrays[1].astype(int))
        else:
            expected = getattr(np, name)(*arrays)
    np.testing.assert_array_equal(elementwise(name, *arrays), expected.astype(dtype))
