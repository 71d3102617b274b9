"""Windows of series of samples."""

from typing import Any

from numpy.typing import ArrayLike

from .._base.catalog import composed_of_others
from .._base.options import integer
from .._calls.arrays import without_labels
from .._libraries import is_group, library_of
from .._libraries.base import places_of_windows
from .._programs.compose import array_of, namespace_of


@composed_of_others
def sliding(x: "ArrayLike", window: int, *, axis: int = -2, step: int = 1) -> Any:
    """The windows of each series of a stack, as a view.

    Parameters
    ----------
    x : array_like, shape (..., m, n)
        Series of m samples of n features. With ``axis=-1``, of shape (..., m), series of numbers.
    window : int
        How many samples a window has.
    axis : int
        The axis along which windows slide: by default that of the samples.
    step : int
        How many samples each window is after the one before.

    Returns
    -------
    array, shape (..., windows, window, n)
        A stack of sets of samples, as `cov` and `ridge` take them. There are
        ``(m - window) // step + 1`` windows. NumPy's are read-only.

    Raises
    ------
    ValueError, TypeError
        `window` is larger than m; `window` or `step` is below 1; there is no such axis.

    See Also
    --------
    numpy.lib.stride_tricks.sliding_window_view : with windows as the last axis.

    Notes
    -----
    No operations: a view of NumPy's, CuPy's and PyTorch's arrays, which functions of smallmm read as it
    lies. JAX has no views: there it is a copy, and so it is in a fused function.

    Examples
    --------
    >>> x = np.arange(10.0).reshape(5, 2)
    >>> smallmm.sliding(x, 3, step=2)
    array([[[0., 1.],
            [2., 3.],
            [4., 5.]],
    <BLANKLINE>
           [[4., 5.],
            [6., 7.],
            [8., 9.]]])
    """
    window, step = (integer("sliding", name, n, least=1) for name, n in (("window", window), ("step", step)))
    axis = integer("sliding", "axis", axis)
    values: Any = without_labels(x)
    if is_group(values):
        return values.each(lambda stack, ndim: _windows(stack, ndim, window, axis, step))
    values = array_of("sliding", "x", values)
    return _windows(values, values.ndim, window, axis, step)


def _windows(x: Any, ndim: int, window: int, axis: int, step: int) -> Any:
    """ndim: of a member, where x is a stack of them."""
    if not -ndim <= axis < ndim:
        raise ValueError(f"sliding: axis is {axis}; expected one of the {ndim} of x")
    place = axis % ndim - ndim
    if x.shape[place] < window:
        raise ValueError(f"sliding: window is {window}; expected at most {x.shape[place]}, the samples of x")
    view = library_of(x).windows(x, window, place, step)
    if view is not NotImplemented:
        return view
    xp = namespace_of(x)
    places = places_of_windows(x.shape[place], window, step)
    shape = list(x.shape)
    shape[place : place + 1 or None] = places.shape
    return xp.reshape(xp.take(x, xp.asarray(places.ravel()), axis=place), tuple(shape))
