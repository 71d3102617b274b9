"""Every function that a fused function may call, beside NumPy's: values, shapes and dtypes, and what raises.
Where NumPy raises, so does the fused function; what cannot be fused is a TypeError that says so."""

import re
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smallmm
from smallmm._programs.symbol_functions import ELEMENTWISE, LINALG, METHODS, PRODUCTS, SHAPES

UNARY = (
    *(
        "negative",
        "positive",
        "absolute",
        "abs",
        "fabs",
        "sqrt",
        "square",
        "reciprocal",
        "floor",
        "ceil",
        "sign",
    ),
    *("exp", "expm1", "log", "log1p", "sin", "cos", "tan", "tanh", "arctan", "atan", "angle", "logical_not"),
    *("invert", "isnan", "isfinite", "isinf", "real", "imag", "conj", "conjugate"),
)
BINARY = (
    *("add", "subtract", "multiply", "divide", "true_divide", "copysign", "arctan2", "atan2", "minimum"),
    *("maximum", "power", "pow", "less", "less_equal", "greater", "greater_equal", "equal", "not_equal"),
    *("logical_and", "logical_or", "bitwise_and", "bitwise_or"),
)
# What the documentation says that fused functions do not have
REFUSED = re.compile(
    r"booleans|complex|cannot be fused|expected comparisons|expected a comparison|of a reduction; expected|"
    r"reciprocal of integers|astype\(|beside the diagonal|expected .*axis|numbers? has no|refused"
)

small = st.integers(0, 3)
dtypes = st.sampled_from("ffdddeFD?bil")
axes = st.one_of(st.none(), st.integers(-3, 3), st.integers(-2, 2).map(np.int64))
many_axes = st.one_of(axes, st.lists(st.integers(-3, 2), max_size=3).map(tuple), st.just(0.5))
numbers = st.sampled_from([0, 1, 2, -1, 3, 0.5, -1.5, 2.0, True, 1j])


@st.composite
def arrays(draw, shape=None, dtype=None):
    shape = tuple(draw(st.lists(small, max_size=3))) if shape is None else shape
    dtype = np.dtype(draw(dtypes) if dtype is None else dtype)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    x = rng.integers(-3, 4, shape)
    if dtype.kind in "fc":
        x = x + rng.choice([0, 0.25, 0.5], shape)
        x = x + 1j * rng.choice([0, 1.5, -1], shape) if dtype.kind == "c" else x
        x = np.where(rng.random(shape) < 0.05, rng.choice([np.nan, np.inf, -np.inf]), x)
    return np.asarray(x).astype(dtype)


@st.composite
def like(draw, x):
    """An array of that shape, mostly."""
    return draw(arrays(x.shape if draw(st.booleans()) or draw(st.booleans()) else None))


@st.composite
def broadcast(draw, x):
    """One that broadcasts with it, mostly, or a number."""
    if draw(st.integers(0, 3)) == 0:
        return draw(numbers)
    shape = [1 if draw(st.integers(0, 3)) == 0 else n for n in x.shape]
    return draw(arrays(tuple(shape[draw(st.integers(0, len(shape))) :]) if draw(st.integers(0, 5)) else None))


def keywords(draw, **strategies):
    """Some of them."""
    return {name: draw(strategy) for name, strategy in strategies.items() if draw(st.booleans())}


floating = st.sampled_from(["f4", "f8", None, "i4"])


def call_of(draw, name):
    """Arguments of a function: positional ones, of which arrays become operands, and keywords."""
    x = draw(arrays())
    if name in UNARY:
        return (x if not name.startswith("conj") or x.dtype != bool else x.astype(float),), {}  # NumPy: int8
    if name in BINARY:
        given = draw(st.permutations([x, draw(broadcast(x))]))
        if name.endswith("divide") and any(np.asarray(y).dtype.kind == "c" for y in given):
            given[1] = np.where(
                np.asarray(given[1]) == 0, given[1] + 1, given[1]
            )  # of 0 the kernels have NaN
        return given, {}
    match name:
        case "where":
            return (draw(broadcast(x)), x, draw(broadcast(x))), {}
        case "clip":
            return (x, draw(st.none() | numbers), draw(broadcast(x))), {}
        case "sum" | "mean" | "prod":
            return (
                x,
                *draw(st.sampled_from([(), (draw(many_axes),), (draw(many_axes), draw(floating))])),
            ), keywords(draw, keepdims=st.booleans())
        case "max" | "min" | "amax" | "amin" | "any" | "all":
            return (x,), keywords(draw, axis=many_axes, keepdims=st.booleans())
        case "cumsum":
            return (x,), keywords(draw, axis=axes, dtype=floating)
        case "cumulative_sum":
            return (x,), keywords(draw, axis=axes, dtype=floating, include_initial=st.booleans())
        case "concatenate" | "concat" | "stack":
            given = [x, *(draw(like(x)) for _ in range(draw(st.integers(0, 2))))]
            return (given,), keywords(draw, axis=axes if name != "stack" else st.integers(-3, 3))
        case "hstack" | "vstack":
            return ([x, *(draw(like(x)) for _ in range(draw(st.integers(0, 2))))],), {}
        case "reshape":
            sizes = st.lists(st.integers(-1, 6), max_size=3).map(tuple) | st.permutations(x.shape).map(tuple)
            return (x, draw(sizes | st.just(-1) | st.just(x.size))), {}
        case "squeeze":
            return (x,), keywords(draw, axis=many_axes)
        case "expand_dims":
            return (x, draw(st.integers(-4, 9) | st.lists(st.integers(-4, 4), max_size=2).map(tuple))), {}
        case "broadcast_to":
            to = st.lists(small, max_size=2).map(lambda some: (*some, *x.shape)) | st.lists(
                small, max_size=3
            ).map(tuple)
            return (x, draw(to | small)), {}
        case "permute_dims" | "transpose":
            order = st.permutations(range(x.ndim)).map(
                lambda some: [int(i) - x.ndim * draw(st.booleans()) for i in some]
            )
            return (x, draw(st.none() | order | st.lists(st.integers(-3, 3), max_size=3).map(tuple))), {}
        case "swapaxes":
            return (x, draw(st.integers(-3, 3)), draw(st.integers(-3, 3))), {}
        case "moveaxis":
            one = st.integers(-3, 3) | st.lists(st.integers(-2, 2), max_size=2).map(tuple)
            return (x, draw(one), draw(one)), {}
        case "flip" | "size":
            return (x,), keywords(draw, axis=many_axes if name == "flip" else axes)
        case "diagonal" | "trace":
            return (x,), keywords(
                draw, offset=st.integers(-2, 2), axis1=st.integers(-3, 3), axis2=st.integers(-3, 3)
            )
        case "tril" | "triu" | "diag":
            return (x,), keywords(draw, k=st.integers(-2, 2))
        case "take":
            own = st.integers(-3, 3) | st.lists(st.integers(-3, 2), max_size=3) | st.just([[0, 0], [0, -1]])
            own |= st.just([[], []])
            return (x, draw(own)), keywords(draw, axis=axes)
        case "zeros_like" | "ones_like" | "empty_like":
            return (x,), keywords(draw, dtype=st.sampled_from(["f4", "f8", "?", "i4"]))
        case "full_like":
            return (x, draw(st.sampled_from([2, 0.5, True]))), keywords(
                draw, dtype=st.sampled_from(["f4", "i4"])
            )
        case "astype":
            return (x, draw(st.sampled_from(["f4", "f8", "i4", "F", "?"]))), {}
        case "dot" | "inner" | "vdot" | "outer":
            x = np.asarray(
                np.nan_to_num(x, posinf=2, neginf=-2)
            )  # real factors stay real beside complex ones
            return (x, draw(st.one_of(like(x), like(x.T), arrays()))), {}
        case "einsum":
            text = draw(
                st.sampled_from(["ij,jk", "ij,jk->ki", "ii", "i,i", "ij->j", "...i,...i", "ij,ij->", "i,j"])
            )
            return (text, x, *([draw(like(x))] if "," in text else [])), {}
    return (x,), {}  # matrix_transpose, ravel, copy, shape, ndim


def is_array(x):
    return isinstance(x, np.ndarray)


def outcome(function, *given):
    """What is returned, or the exception."""
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        try:
            return function(*given)
        except (TypeError, ValueError, IndexError) as error:  # also AxisError and LinAlgError
            return error


def dtypes_of_result(expected, given):
    """NumPy's; or where that has integers, or halves of them, float64."""
    computed = expected.kind in "iu" or (expected.char == "e" and all(x.dtype.kind in "biu" for x in given))
    return [expected, np.dtype(np.float64)] if computed else [expected]


def is_beyond(result, expected, given):
    """Whether it is a corner in which the two differ, as the documentation says or for good reasons."""
    if isinstance(result, TypeError):
        return REFUSED.search(str(result))
    if isinstance(result, (ValueError, IndexError)):  # NumPy takes axis 0 of numbers, and 1 for n in einsum
        return any(x.ndim == 0 or x.size == 0 for x in given) or "expected one length" in str(result)
    return "negative integer powers" in str(expected)  # by elements, which are not known


def assert_as_numpy(function, args, kwargs, theirs=None):
    """Of one matrix, and of a stack of three."""
    lists = [x if isinstance(x, list) and any(map(is_array, x)) else [x] for x in args]
    given = [x for some in lists for x in some if is_array(x)]

    def called(function, *values):
        rest = iter(values)
        filled = [[next(rest) if is_array(x) else x for x in some] for some in lists]
        own = (x if some is y else x[0] for x, some, y in zip(filled, lists, args, strict=True))
        return function(*own, **kwargs)

    def of_symbols(*values):
        result = called(function, *values)
        is_shape = isinstance(result, int) or (isinstance(result, tuple) and name == "shape")
        return np.asarray(result) if is_shape else result

    name = getattr(function, "__name__", "")
    signature = ",".join(f"({','.join(f'd{i}_{j}' for j in range(x.ndim))})" for i, x in enumerate(given))
    names = ", ".join(f"x{i}" for i in range(len(given)))
    fused = smallmm.fuse(eval(f"lambda {names}: f({names})", {"f": of_symbols}), signature)
    expected = outcome(called, theirs or function, *given)
    result = outcome(fused, *given)
    if isinstance(result, Exception) and isinstance(expected, Exception):
        return
    if isinstance(result, Exception) or isinstance(expected, Exception):
        assert is_beyond(result, expected, given), (result, expected)
        return
    assert_equal(result, expected, given)
    stacks = [np.stack([x, x[(slice(None, None, -1),) * x.ndim], x]) for x in given]
    batch = fused(*stacks)
    for i in range(3):
        assert_equal(
            batch, outcome(called, theirs or function, *(np.asarray(x[i]) for x in stacks)), given, i
        )


def assert_equal(result, expected, given, i=...):
    if isinstance(result, tuple):
        assert len(result) == len(expected)
        for x, y in zip(result, expected, strict=True):
            assert_equal(x, y, given, i)
        return
    result, expected = np.asarray(result)[i], np.asarray(expected)
    assert result.shape == expected.shape
    assert result.dtype in dtypes_of_result(expected.dtype, given)
    kinds = {x.dtype.char for x in (*given, result, expected)}
    tolerance = 4e-2 if "e" in kinds else 1e-4 if kinds & {"f", "F"} else 1e-10
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


FORMS = {
    "any": lambda x: np.any(x),
    "all": lambda x: np.all(x, axis=0),
    "cumsum": lambda x: np.cumsum(x),
    "take": lambda x: np.take(x, [1, 0]),
    "diagonal": lambda x: np.diagonal(x),
    "dot": lambda x: np.dot(x, x),
    "outer": lambda x: np.outer(x, x),
    "vdot": lambda x: np.vdot(x, x),
    "prod": lambda x: np.prod(x > 0),
    "sum": lambda x: x.sum(dtype=np.float32),
    "an axis of NumPy": lambda x: np.sum(x, axis=np.int64(0)),
    "dtype in its place": lambda x: np.sum(x, 0, np.float32),
    "squeeze": lambda x: np.squeeze(x, axis=0),
    "concatenate": lambda x: np.concatenate([x, x], axis=3),
    "expand_dims": lambda x: np.expand_dims(x, 9),
    "reshape": lambda x: np.reshape(x, (-1, 0)),
    "transpose": lambda x: np.transpose(x, (0, 1)),
    "fabs": lambda x: np.fabs(x * 1j),
    "matrix_power": lambda x: np.linalg.matrix_power(x, 0),
    "zeros": lambda x: np.zeros_like(x > 0),
}


@pytest.mark.parametrize("shape", [(3, 3, 3), (2, 3), (3,), (0,), (3, 0)])
@pytest.mark.parametrize("name", FORMS)
def test_forms(name, shape):
    x = np.arange(np.prod(shape), dtype=float).reshape(shape) - 2.5
    assert_as_numpy(FORMS[name], [x], {})


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.sum(x, where=x > 0),
        lambda x: np.max(x, initial=0),
        lambda x: np.reshape(x, (-1,), order="F"),
        lambda x: np.take(x, [9], mode="wrap"),
        lambda x: np.emath.sqrt(x),
        lambda x: np.zeros_like(x, shape=(2,)),
        lambda x: (x > 0) @ (x > 0),
        lambda x: np.tan(x > 0),
        lambda x: np.linalg.lstsq(x[:, None], x)[0],
    ],
)
def test_refused_forms(function):
    with pytest.raises(TypeError, match=r"^<lambda>: .*(cannot be fused|of booleans)"):
        smallmm.fuse("(n)")(lambda x: function(x))(np.ones(3))


NAMES = sorted(x for x in {*ELEMENTWISE, *SHAPES, *PRODUCTS} if hasattr(np, x))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=50)
@given(data=st.data())
def test_functions(name, data):
    args, kwargs = call_of(data.draw, name)
    if name == "empty_like":
        return assert_as_numpy(np.empty_like, args, kwargs, np.zeros_like)
    assert_as_numpy(getattr(np, name), args, kwargs)


@pytest.mark.parametrize("name", METHODS)
@settings(max_examples=25)
@given(data=st.data())
def test_methods(name, data):
    args, kwargs = call_of(data.draw, name)
    if is_array(args[0]):
        assert_as_numpy(lambda x, *args, **kwargs: getattr(x, name)(*args, **kwargs), args, kwargs)


@st.composite
def matrices(draw, shape):
    """Of the numbers that linear algebra takes, well conditioned."""
    x = draw(arrays(shape, draw(st.sampled_from("fdDiF"))))
    x = np.asarray(np.nan_to_num(x, posinf=1, neginf=-1))
    return (x + 9 * np.eye(*shape[-2:])).astype(x.dtype) if len(shape) > 1 else x


orders = st.sampled_from([None, 1, 2, -1, -2, 0, 3, np.inf, -np.inf, "fro", "nuc", "text"])
shapes = st.lists(st.integers(1, 3), max_size=3).map(tuple)
squares = st.integers(0, 4).map(lambda n: (n, n))
hermitian = lambda x: x + x.conj().mT  # noqa: E731


def with_axes(draw):
    axis = axes | st.lists(st.integers(-3, 2), max_size=3).map(tuple)
    return [draw(matrices(draw(shapes)))], keywords(draw, ord=orders, axis=axis, keepdims=st.booleans())


OF_LINALG = {
    "norm": with_axes,
    "vector_norm": with_axes,
    "matrix_norm": lambda draw: (
        [draw(matrices(draw(shapes)))],
        keywords(draw, ord=orders, keepdims=st.booleans()),
    ),
    "cond": lambda draw: ([draw(matrices(draw(squares)))], keywords(draw, p=orders)),
    "matrix_rank": lambda draw: (
        [draw(matrices(draw(shapes)))],
        keywords(draw, tol=st.just(0.1), rtol=st.just(0.1)),
    ),
    "det": lambda draw: ([draw(matrices(draw(squares | shapes)))], {}),
    "slogdet": lambda draw: ([draw(matrices(draw(squares | shapes)))], {}),
    "inv": lambda draw: ([draw(matrices(draw(squares | shapes)))], {}),
    "cholesky": lambda draw: (
        [hermitian(draw(matrices(draw(squares))))],
        keywords(draw, upper=st.booleans()),
    ),
    "solve": lambda draw: (
        [
            x := draw(matrices(draw(squares | shapes))),
            draw(matrices(draw(st.sampled_from([x.shape[:-1], x.shape, (*x.shape[:-1], 2), (2,)])))),
        ],
        {},
    ),
    "eigvalsh": lambda draw: (
        [hermitian(draw(matrices(draw(squares))))],
        keywords(draw, UPLO=st.sampled_from("LUx")),
    ),
    "eigh": lambda draw: (
        [hermitian(draw(matrices(draw(squares))))],
        keywords(draw, UPLO=st.sampled_from("LU")),
    ),
    "svdvals": lambda draw: ([draw(matrices(draw(shapes)))], {}),
    "svd": lambda draw: (
        [draw(matrices(draw(shapes)))],
        keywords(draw, full_matrices=st.booleans(), compute_uv=st.just(False), hermitian=st.just(True)),
    ),
    "qr": lambda draw: (
        [draw(matrices(draw(shapes)))],
        keywords(draw, mode=st.sampled_from(["reduced", "r", "complete", "raw", "x"])),
    ),
    "pinv": lambda draw: (
        [draw(matrices(draw(shapes)))],
        keywords(draw, rcond=st.just(1e-3), hermitian=st.just(True)),
    ),
    "matrix_power": lambda draw: (
        [draw(matrices(draw(squares | shapes))), draw(st.sampled_from([0, 1, 2, 3, -1, 5, 0.5]))],
        {},
    ),
    "eigvals": lambda draw: ([draw(matrices(draw(squares)))], {}),
    "eig": lambda draw: ([draw(matrices(draw(squares)))], {}),
    "multi_dot": lambda draw: (
        [[draw(matrices((2, 3))), draw(matrices((3, 2))), draw(matrices((2, 4)))]],
        {},
    ),
    "trace": lambda draw: (
        [draw(matrices(draw(shapes)))],
        keywords(draw, offset=st.integers(-2, 2), dtype=floating),
    ),
    "diagonal": lambda draw: ([draw(matrices(draw(shapes)))], keywords(draw, offset=st.integers(-2, 2))),
    "outer": lambda draw: ([draw(matrices(draw(shapes))), draw(matrices(draw(shapes)))], {}),
    "cross": lambda draw: (
        [draw(matrices(draw(st.sampled_from([(3,), (2, 3), (3, 2), (4,)])))) for _ in range(2)],
        keywords(draw, axis=st.integers(-3, 2)),
    ),
    "vecdot": lambda draw: (
        [x := draw(matrices(draw(shapes))), draw(matrices(draw(st.just(x.shape) | shapes)))],
        keywords(draw, axis=st.integers(-3, 2)),
    ),
    "matmul": lambda draw: (
        [x := draw(matrices(draw(shapes))), draw(matrices(draw(st.just(x.shape[::-1]) | shapes)))],
        {},
    ),
    "matrix_transpose": lambda draw: ([draw(matrices(draw(shapes)))], {}),
}
WITHOUT_SIGNS = {  # of vectors
    "eigh": lambda x, **options: np.abs(np.linalg.eigh(x, **options)[1] ** 2).sum(axis=-1),
    "svd": lambda x, **options: np.abs(np.linalg.svd(x, **options)[1]),
    "qr": lambda x, **options: np.abs(np.linalg.qr(x, **options)[1]),
    "eig": lambda x: ((z := np.linalg.eig(x))[1] * z[0]) @ np.linalg.inv(z[1]) * 1j,
    "eigvals": lambda x: np.linalg.eigvals(x).sum() * 1j,
}


def test_all_of_linalg_are_here():
    assert {x for x in LINALG if hasattr(np.linalg, x)} <= set(OF_LINALG)


@pytest.mark.parametrize("name", OF_LINALG)
@settings(max_examples=30)
@given(data=st.data())
def test_linear_algebra(name, data):
    args, kwargs = OF_LINALG[name](data.draw)
    assert_as_numpy(WITHOUT_SIGNS.get(name, getattr(np.linalg, name)), args, kwargs)
