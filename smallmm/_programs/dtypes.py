"""The dtypes of recorded values, and the common dtype of several."""

from collections.abc import Iterable

import numpy as np

from .._base.shapes import arithmetic

FLOATS = (np.dtype("f4"), np.dtype("f8"))
COMPLEX = (np.dtype("c8"), np.dtype("c16"))
NUMBERS = {
    **dict(zip(FLOATS, ("f32", "f64"), strict=True)),
    **dict(zip(COMPLEX, ("c64", "c128"), strict=True)),
}
INT32, BOOL = np.dtype("i4"), np.dtype("?")
INTEGERS = tuple(map(np.dtype, ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")))
SUPPORTED = "float16, bfloat16, float32, float64, complex64, complex128, integers or bool"
PYTHONS = (bool, int, float, complex)  # numbers that have no dtype of their own


def is_half(dtype: np.dtype) -> bool:
    """Whether numbers of this dtype are only stored, and computed in float32."""
    return arithmetic(dtype) != dtype


def is_number(dtype: np.dtype) -> bool:
    return dtype in NUMBERS or is_half(dtype)


def is_supported(dtype: np.dtype) -> bool:
    return dtype in INTEGERS or dtype == BOOL or is_number(dtype)


def result_dtype(name: str, dtypes: Iterable[np.dtype]) -> np.dtype:
    """The dtype of numbers of these, as NumPy has it; but integers are computed in float64."""
    given = list(dict.fromkeys(dtypes))
    try:
        common = np.result_type(*given)
    except TypeError:
        raise TypeError(
            f"{name}: dtypes {' and '.join(map(str, given))} have none in common; convert one of them"
        ) from None
    return common if is_number(common) else FLOATS[1]


def weak_promotion(dtype: np.dtype, kind: type) -> np.dtype:
    """The dtype of numbers of this one with a number of Python, of that kind."""
    return complex_of(dtype) if kind is complex else dtype


def real_of(dtype: np.dtype) -> np.dtype:
    """That of the parts of complex numbers; of real numbers their own."""
    return FLOATS[COMPLEX.index(dtype)] if dtype in COMPLEX else dtype


def complex_of(dtype: np.dtype) -> np.dtype:
    """That of complex numbers with parts of this dtype, computed."""
    return COMPLEX[FLOATS.index(arithmetic(dtype))] if arithmetic(dtype) in FLOATS else dtype
