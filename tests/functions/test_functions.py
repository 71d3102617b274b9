"""Element-wise functions of the core, of real and complex numbers: their errors against mpmath, special
values, equal bits of all instruction sets, and of NumPy where both are exact."""

import mpmath
import numpy as np
import pytest
from scipy import special

import smallmm._core as core
from smallmm._programs.record import elementwise

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


def units(name, dtype):
    """The promised error in ulp."""
    of_two = ("expm1", "erf", "erfc", "ndtr", *(("log1p", "tanh") if dtype == "f4" else ()))
    return 2 if name in of_two else 1


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
        assert ulps(elementwise(name, x), exact) <= units(name, dtype)


@pytest.mark.parametrize("name", sorted(RANGES))
def test_errors_of_float32_beside_float64(name):
    """Numbers of every exponent, with those where results become subnormal, zero or infinite."""
    limits = np.array([0, 88.7228, 88.7229, 89, -87.3, -103.97, -104, 10.05, -14.16, 2**-126, 1e-45], "f4")
    near = np.concatenate([limits.view("i4") + i for i in range(-50, 50)]).view("f4")
    x = np.concatenate([np.arange(0, 2**32, 997, "u8").astype("u4").view("f4"), near, -near])
    with np.errstate(all="ignore"):
        ours, exact = elementwise(name, x), elementwise(name, x.astype("f8"))
        rounded = exact.astype("f4")
        unit = np.spacing(np.minimum(np.abs(rounded), np.finfo("f4").max)).astype("f8")
        finite = np.isfinite(rounded)
        np.testing.assert_array_equal(ours[~finite], rounded[~finite])
        assert np.isfinite(ours[finite]).all()
        assert (np.abs(ours - exact)[finite] / unit[finite]).max() <= units(name, "f4") * (1 + 1e-6)
    zeros = rounded == 0
    np.testing.assert_array_equal(np.signbit(ours[zeros]), np.signbit(rounded[zeros]))


def arguments_of_powers(rng, kind, dtype, count=1000):
    """Bases, and exponents that lead to all results from the smallest to the largest."""
    info = np.finfo(dtype)
    least, most = info.minexp - info.nmant, info.maxexp
    base = rng.uniform(0.5, 2, count)
    match kind:
        case "near 1":  # as near as numbers are, and less so
            base = 1 + rng.choice([-1, 1], count) * 2 ** rng.uniform(-info.nmant, -4, count)
        case "where k changes":  # the largest terms, and the largest exponents
            base = np.sqrt(0.5) * rng.choice([1, 2], count) * (1 + 1e-4 * rng.standard_normal(count))
        case "any exponent":
            base = 2 ** rng.uniform(least, most, count)
        case "negative":
            base = -(2 ** rng.uniform(-9, 9, count))
    base = base.astype(dtype)
    base[base == 1] = 1.5
    results = rng.uniform(least, most, count)
    match kind:
        case "subnormal results":
            results = rng.uniform(least, info.minexp, count)
        case "where k changes":
            results = rng.choice([0.9 * least, 0.98 * most], count) * rng.uniform(0.99, 1.01, count)
    y = results / np.log2(abs(base.astype("f8")))
    return base, (np.round(y) if kind == "negative" else y).astype(dtype)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    "kind", ["near 1", "where k changes", "any exponent", "negative", "subnormal results", "usual"]
)
def test_error_of_powers_is_at_most_a_unit(kind, dtype):
    """Alone, and beside one that is special, with which the others are computed in another loop."""
    x, y = arguments_of_powers(np.random.default_rng(8), kind, dtype)
    ours = elementwise("power", x, y)
    info = np.finfo(dtype)
    exact = [mpmath.power(mpmath.mpf(float(a)), mpmath.mpf(float(b))).real for a, b in zip(x, y, strict=True)]
    inside = [i for i, v in enumerate(exact) if info.smallest_subnormal < abs(v) < info.max]
    assert len(inside) > 900
    assert ulps(ours[inside], [exact[i] for i in inside]) <= 1
    beside = elementwise("power", np.append(x, np.zeros(1, dtype)), np.append(y, np.ones(1, dtype)))
    np.testing.assert_array_equal(beside, np.append(ours, np.zeros(1, dtype)))
    for i in range(0, x.size, 100):
        np.testing.assert_array_equal(elementwise("power", x[i : i + 1], y[i : i + 1]), ours[i : i + 1])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_error_of_angles_is_at_most_a_unit(dtype):
    rng = np.random.default_rng(8)
    y, x = rng.standard_normal((2, 2000)).astype(dtype)
    x[:500] *= np.exp(rng.uniform(-60, 60, 500)).astype(dtype)
    x[500:1000] = y[500:1000] * (1 + 1e-6 * x[500:1000])  # around an eighth
    x[1000:1500] = (
        y[1000:1500] * np.sqrt(2) * (1 + 1e-3 * x[1000:1500]) + y[1000:1500]
    )  # where the formula changes
    exact = [mpmath.atan2(mpmath.mpf(float(a)), mpmath.mpf(float(b))) for a, b in zip(y, x, strict=True)]
    assert ulps(elementwise("arctan2", y, x), exact) <= 1


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


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_special_powers(dtype):
    """As C99 has them: whole exponents up to the largest odd one, and results beyond the exponents."""
    info = np.finfo(dtype)
    odd = 2.0 ** (info.nmant + 1)
    values = [0, 1, 2, 0.5, 3, 2.5, np.inf, odd, odd - 1, odd / 2 + 1, odd / 4 + 0.5, odd + 2, 2 * odd, 1e30]
    values += [info.max, info.tiny, info.smallest_subnormal, 1 + info.eps, 1 - info.epsneg, info.maxexp]
    values += [info.maxexp - 0.25, -info.minexp, info.nmant - info.minexp, info.nmant - info.minexp + 1, 1e-8]
    values = np.array([np.nan, *values, *np.negative(values)], dtype)
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        expected = np.power(x, y)
    ours = elementwise("power", x, y)
    np.testing.assert_allclose(ours, expected, rtol=info.eps, atol=info.smallest_subnormal)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(ours[numbers]), np.signbit(expected[numbers]))
    beyond = (expected == 0) | np.isinf(expected)
    np.testing.assert_array_equal(ours[beyond], expected[beyond])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_exact_powers(dtype):
    """Small whole numbers to whole powers, as far as the results are numbers of the type."""
    x, y = (v.ravel() for v in np.meshgrid(np.arange(-12, 13), np.arange(0, 12)))
    exact = x**y
    is_number = abs(exact) < 2 ** np.finfo(dtype).nmant
    x, y, exact = x[is_number].astype(dtype), y[is_number].astype(dtype), exact[is_number]
    np.testing.assert_array_equal(elementwise("power", x, y), exact)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_special_angles(dtype):
    y, x = (v.ravel() for v in np.meshgrid(*[np.array(SPECIAL).clip(-1e38, 1e38).astype(dtype)] * 2))
    x[np.abs(x) == 1e38] = np.inf
    ours, expected = elementwise("arctan2", y, x), np.arctan2(y, x)
    np.testing.assert_allclose(ours, expected, rtol=2 * np.finfo(dtype).eps)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(ours[numbers]), np.signbit(expected[numbers]))


# --- complex numbers ---

OF_COMPLEX = ("exp", "log", "sqrt", "sin", "cos")


def numbers(rng, kind, count, dtype):
    """Of such magnitudes, that results are neither too large nor too small."""
    x, y = rng.standard_normal((2, count))
    most = 80 if dtype == "F" else 700
    match kind:
        case "near a unit":
            z = np.exp(1j * rng.uniform(-np.pi, np.pi, count)) * (1 + 1e-7 * x)
        case "near 1":
            z = 1 - 0.5e-6 * y * y + 1e-3j * y * 10 ** rng.uniform(-6, 0, count) + 1e-9 * x
        case "large":
            z = most * (np.tanh(x) + 1j * np.tanh(y))
        case "small":
            z = np.exp(-most / 4) * (x + 1j * y)
        case "far angles":  # of exp, and of sin and cos
            z = 1e15 * y + 1j * np.tanh(x) if count % 2 else np.tanh(x) + 1e15j * y
        case "found":
            z = np.resize(FOUND, count)
        case "graded":
            z = x * np.exp(rng.uniform(-30, 4, count)) + 1j * y * np.exp(rng.uniform(-30, 4, count))
        case _:
            z = x + 1j * y
    return z.astype(dtype)


FOUND = [  # where formulas that round squares, exponentials and hyperbolic functions have large errors
    1.1298169560745392 + 0.017370114434287341j,
    -0.83119407280816549 - 1.3298981519900619j,
    0.40059358908564663 - 1.3182751803253558j,
    -8.640072438867696 - 1.3823434321295405j,
    -1.0491759760040864e-15 - 0.80182958167605589j,
]
KINDS = ("ordinary", "near a unit", "near 1", "large", "small", "far angles", "graded", "found")


@pytest.mark.parametrize("dtype", ["F", "D"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OF_COMPLEX)
def test_errors_of_complex_functions(name, kind, dtype):
    """At most 2 ulp of the magnitude; those of complex64 are computed in float64."""
    rng = np.random.default_rng(7)
    z = np.concatenate([numbers(rng, kind, count, dtype) for count in (200, 201)])
    unit = 2 if dtype == "D" else 1
    with mpmath.workprec(300):
        exact = [getattr(mpmath, name)(mpmath.mpc(complex(v))) for v in z]
        errors = [
            float(abs(mpmath.mpc(complex(v)) - w)) / np.spacing(z.real.dtype.type(abs(w)))
            for v, w in zip(elementwise(name, z), exact, strict=True)
            if np.finfo(dtype).tiny < abs(w) < np.finfo(dtype).max
        ]
    assert len(errors) > 150
    assert max(errors) <= unit


@pytest.mark.parametrize("dtype", ["F", "D"])
@pytest.mark.parametrize("name", OF_COMPLEX)
def test_special_complex_numbers(name, dtype):
    """Branch cuts, zeros and infinities as NumPy has them, but for signs beside a NaN."""
    parts = np.array([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, 1e-320, 1e30, -1e30, 60, -60, 800], "d")
    z = np.empty(parts.size**2, dtype)
    z.real, z.imag = (v.ravel() for v in np.meshgrid(parts, parts))
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(z)
    ours = elementwise(name, z)
    unknown = np.isnan(expected.real) | np.isnan(expected.imag)
    for x, y in ((ours.real, expected.real), (ours.imag, expected.imag)):
        np.testing.assert_array_equal(np.isnan(x), np.isnan(y))
        np.testing.assert_allclose(abs(x), abs(y), rtol=4 * np.finfo(dtype).eps, atol=np.finfo(dtype).tiny)
        np.testing.assert_array_equal(np.signbit(x)[~unknown], np.signbit(y)[~unknown])


@pytest.mark.parametrize("dtype", ["F", "D"])
@pytest.mark.parametrize("name", OF_COMPLEX)
def test_bits_of_complex_functions_are_those_of_every_instruction_set_and_place(name, dtype):
    rng = np.random.default_rng(9)
    z = np.concatenate([numbers(rng, kind, 143, dtype) for kind in KINDS])
    best = core.isa()
    expected = elementwise(name, z)
    try:
        for isa in core.isas_available():
            core.select_isa(isa)
            np.testing.assert_array_equal(elementwise(name, z), expected)
            parts = [elementwise(name, z[i : i + 7]) for i in range(0, z.size, 7)]
            np.testing.assert_array_equal(np.concatenate(parts), expected)
            np.testing.assert_array_equal(elementwise(name, z[::-1])[::-1], expected)
    finally:
        core.select_isa(best)


# --- angles and small results ---


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
@pytest.mark.parametrize("name", sorted(set(core.functions) - {*RANGES, "power", "arctan2", "copy"}))
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
