"""Whatever is wrong with a call, the message names the argument, what was given and what was expected."""

import copy
import inspect
import pickle
import pydoc
import re
import runpy
import traceback
import typing
from pathlib import Path

import numpy as np
import pytest

import smallmm
from smallmm._base import names

ONES = np.ones


def read_only(shape):
    x = ONES(shape)
    x.flags.writeable = False
    return x


SHAPES = [
    (
        lambda: smallmm.batched_matmul(ONES((10, 4, 5)), ONES((10, 4, 3))),
        "batched_matmul: b has shape (10, 4, 3); expected (..., 5, n) to match a of shape (10, 4, 5)",
    ),
    (
        lambda: smallmm.batched_matmul(ONES((10, 4, 5)), ONES((9, 5, 3))),
        "b has shape (9, 5, 3), whose batch dimensions (9,) do not broadcast against (10,) of a",
    ),
    (
        lambda: smallmm.batched_matmul(ONES(4), ONES((4, 4))),
        "batched_matmul: a has shape (4,); expected at least 2 dimensions, (..., m, k)",
    ),
    (
        lambda: smallmm.batched_matmul(ONES((4, 4)), 3),
        "batched_matmul: b has shape (); expected at least 2 dimensions, (..., k, n)",
    ),
    (
        lambda: smallmm.batched_matmul(ONES((7, 4, 4)), ONES((4, 3)), ONES((7, 4, 4))),
        "batched_matmul: out has shape (7, 4, 4); expected (7, 4, 3)",
    ),
    (
        lambda: smallmm.batched_matmul(ONES((7, 4, 4)), ONES((4, 4)), ONES((4, 4))),
        "batched_matmul: out has shape (4, 4); expected (7, 4, 4)",
    ),
    (
        lambda: smallmm.batched_matmul(ONES((7, 4, 4)), ONES((4, 4)), alpha=ONES(3)),
        "alpha has shape (3,), whose batch dimensions (3,) do not broadcast against (7,) of a and b",
    ),
    (
        lambda: smallmm.matmul(ONES(3), ONES(4)),
        "matmul: x2 has shape (4,); expected (..., 3) to match x1 of shape (3,)",
    ),
    (
        lambda: smallmm.matmul(ONES(4), ONES((5, 3, 4))),
        "matmul: x2 has shape (5, 3, 4); expected (..., 4, n) to match x1 of shape (4,)",
    ),
    (lambda: smallmm.matmul(2, ONES(3)), "matmul: x1 has shape (); expected at least 1 dimension, (..., k)"),
    (
        lambda: smallmm.matvec(ONES((3, 3)), ONES(2)),
        "matvec: x2 has shape (2,); expected (..., 3) to match x1 of shape (3, 3)",
    ),
    (
        lambda: smallmm.vecmat(ONES(3), ONES((2, 4))),
        "vecmat: x2 has shape (2, 4); expected (..., 3, n) to match x1 of shape (3,)",
    ),
    (
        lambda: smallmm.batched_matmul(ONES((4, 4)), ONES((4, 4)), read_only((4, 4))),
        "batched_matmul: out is read-only; expected an array that can be written to",
    ),
    (
        lambda: smallmm.batched_matmul([[1, 2], [3]], ONES((2, 2))),
        "batched_matmul: a is a list that NumPy cannot make an array of",
    ),
]

EXPECTED_DTYPES = (
    "expected float16, bfloat16, float32, float64, complex64, complex128, an integer type or bool"
)
TYPES = [
    (
        lambda: smallmm.batched_matmul(ONES((2, 2), np.clongdouble), ONES((2, 2))),
        f"a has dtype {np.dtype(np.clongdouble)}; {EXPECTED_DTYPES}",
    ),
    (
        lambda: smallmm.batched_matmul(ONES((2, 2)), ONES((2, 2), np.longdouble)),
        f"b has dtype {np.dtype(np.longdouble)}; {EXPECTED_DTYPES}",
    ),
    (lambda: smallmm.matmul(ONES((2, 2)), ONES((2, 2), object)), f"x2 has dtype object; {EXPECTED_DTYPES}"),
    (lambda: smallmm.matmul("text", ONES((2, 2))), f"x1 has dtype <U4; {EXPECTED_DTYPES}"),
    (lambda: smallmm.matmul(None, ONES((2, 2))), f"x1 has dtype object; {EXPECTED_DTYPES}"),
    (
        lambda: smallmm.matvec(ONES((2, 2)), np.zeros(2, "M8[s]")),
        f"x2 has dtype datetime64[s]; {EXPECTED_DTYPES}",
    ),
    (
        lambda: smallmm.batched_matmul(ONES((2, 2)), ONES((2, 2)), alpha=np.clongdouble(1j)),
        f"alpha has dtype {np.dtype(np.clongdouble)}; {EXPECTED_DTYPES}",
    ),
    (
        lambda: smallmm.batched_matmul(ONES((2, 2)), ONES((2, 2)), alpha=10**400),
        f"alpha has dtype object; {EXPECTED_DTYPES}",
    ),
    (
        lambda: smallmm.batched_matmul(ONES((2, 2)), ONES((2, 2)), ONES((2, 2), int)),
        "out has dtype int64; the result is float64, and casting is 'same_kind'",
    ),
    (
        lambda: smallmm.batched_matmul(ONES((2, 2)), ONES((2, 2)), [[0, 0], [0, 0]]),
        "out is a list; expected a numpy.ndarray",
    ),
]


@pytest.mark.parametrize(("make_call", "message"), SHAPES, ids=[message for _, message in SHAPES])
def test_value_errors(make_call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make_call()


@pytest.mark.parametrize(("make_call", "message"), TYPES, ids=[message for _, message in TYPES])
def test_type_errors(make_call, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        make_call()


def test_missing_argument():
    with pytest.raises(TypeError, match=r"batched_matmul\(\) missing 1 required positional argument"):
        smallmm.batched_matmul(np.eye(2))


def test_failed_call_leaves_out_alone():
    out = np.full((10, 4, 3), 7.0)
    with pytest.raises(ValueError, match="b has shape"):
        smallmm.batched_matmul(ONES((10, 4, 5)), ONES((10, 4, 3)), out)
    assert (out == 7).all()


def test_too_large_a_result_is_a_memory_error():
    a = np.broadcast_to(np.float64(1), (2**45, 8, 8))
    with pytest.raises(MemoryError):
        smallmm.batched_matmul(a, a)


VECTOR, WIDE = ONES(3), ONES((2, 3))


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        *[
            (name, (a,))
            for name in ("inv", "det", "slogdet", "cholesky")
            for a in (VECTOR, WIDE, ONES((5, 2, 3)), 3.0)
        ],
        *[("solve", (a, ONES(3))) for a in (VECTOR, WIDE, 3.0)],
        *[("qr", (a,)) for a in (VECTOR, 3.0)],
        *[("lstsq", (a, ONES(3))) for a in (VECTOR, WIDE, 3.0)],
        ("lstsq", (WIDE, ONES((4, 1)))),
    ],
)
def test_linalg_errors_are_those_of_numpy(function, arguments):
    """They are ValueErrors too, as before."""
    for library in (np.linalg, smallmm):
        with pytest.raises(np.linalg.LinAlgError) as caught:
            getattr(library, function)(*arguments)
        assert isinstance(caught.value, ValueError)
    assert str(caught.value).startswith(f"{function}: ")
    assert not isinstance(caught.value, smallmm.LinAlgError)  # that one has info and result


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("solve", (np.eye(3), ONES((2, 1)))),
        ("solve", (ONES((4, 3, 3)), ONES((5, 3, 1)))),
        ("matmul", (WIDE, WIDE)),
        ("matmul", (3.0, WIDE)),
    ],
)
def test_value_errors_are_those_of_numpy(function, arguments):
    library = np if function == "matmul" else np.linalg
    for call in (getattr(library, function), getattr(smallmm, function)):
        with pytest.raises(ValueError) as caught:
            call(*arguments)
        assert type(caught.value) is ValueError


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("inv", (ONES((2, 2)),)),
        ("solve", (ONES((2, 2)), ONES(2))),
        ("cholesky", (-np.eye(2),)),
    ],
)
def test_text_of_one_matrix_begins_with_that_of_numpy(function, arguments):
    with pytest.raises(np.linalg.LinAlgError) as theirs:
        getattr(np.linalg, function)(*arguments)
    with pytest.raises(smallmm.LinAlgError, match=f"^{theirs.value} ") as ours:
        getattr(smallmm, function)(*arguments)
    assert f"{function}: " in str(ours.value)


def test_linalg_error_by_its_public_name():
    with pytest.raises(smallmm.LinAlgError) as caught:
        smallmm.inv(ONES((2, 2)))
    assert traceback.format_exception_only(caught.value)[0].startswith("smallmm.LinAlgError: Singular matrix")
    for again in (
        copy.copy(caught.value),
        copy.deepcopy(caught.value),
        pickle.loads(pickle.dumps(caught.value)),
    ):
        assert type(again) is smallmm.LinAlgError
        assert str(again) == str(caught.value)
        assert again.info == 2
        assert np.isnan(again.result).all()


@pytest.mark.parametrize("name", ["orth", "hessenberg"])
def test_functions_of_scipy_are_pointed_at(name):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; use scipy.linalg.{name}$"):
        getattr(smallmm, name)


def test_all_of_numpy_linalg():
    assert set(np.linalg.__all__) <= set(dir(smallmm))


def test_names_that_nobody_has():
    for name, end in (
        ("sovle", "; did you mean 'solve'?"),
        ("logdet", "; did you mean 'slogdet'?"),
        ("matrix_exp", "; did you mean 'expm'?"),
        ("bmm", "; did you mean 'batched_matmul'?"),
        ("linalg", "; its functions are smallmm's own: smallmm.inv"),
        ("zzz", ""),
        ("_repr_html_", ""),
    ):
        with pytest.raises(AttributeError) as caught:
            getattr(smallmm, name)
        assert str(caught.value) == f"module 'smallmm' has no attribute {name!r}{end}"
    assert set(names._SYNONYMS.values()) <= set(smallmm.__all__)
    assert not {*names._SYNONYMS, *names._OF_SCIPY} & set(smallmm.__all__)
    assert not hasattr(smallmm, "__array_namespace_info__")


def test_names():
    """What `dir` lists is public, and what `help` says is short."""
    assert dir(smallmm) == sorted(smallmm.__all__)
    for name in smallmm.__all__:
        x = getattr(smallmm, name)
        if isinstance(x, type):
            assert (x.__module__, x.__name__) == ("smallmm", name)
    for name in ("solve", "matmul", "lstsq", "explain"):
        first = pydoc.plain(pydoc.render_doc(getattr(smallmm, name))).splitlines()[2]
        assert first.startswith(f"{name}(")
        assert len(first) < 400
    for name in smallmm.__all__:
        if inspect.isfunction(x := getattr(smallmm, name)):
            assert "numpy._typing" not in str(inspect.signature(x))
    assert typing.get_type_hints(smallmm.LUResult).keys() == {"LU", "pivots"}
    assert typing.get_type_hints(smallmm.solve).keys() > {"a", "b", "out"}


def test_users_script(capsys):
    """Of which a type checker thinks well, in `make lint`."""
    runpy.run_path(str(Path(__file__).parents[1] / "typing" / "user.py"))
    assert capsys.readouterr().out
