"""`fuse`: a function of one matrix of each stack becomes a function of whole stacks, all of whose steps run
on a few matrices at a time."""

from collections.abc import Callable
from typing import Any, overload

from .._base.errors import shown
from .fused import Fused, P, R


@overload
def fuse(
    function: str, /, *, reasons: dict[str, str] | None = None
) -> Callable[[Callable[P, R]], Fused[P, R]]: ...


@overload
def fuse(
    function: Callable[P, R], signature: str | None = None, /, *, reasons: dict[str, str] | None = None
) -> Fused[P, R]: ...


def fuse(
    function: Any = None, signature: str | None = None, /, *, reasons: dict[str, str] | None = None
) -> Any:
    """Make one pass of a function that is a chain of operations on small matrices.

    The function is written for one matrix, or vector, or number. It is called once with symbols, which record
    what it does with them. The fused function takes whole stacks: a few matrices at a time go through all
    steps, so that what is between the steps stays in the cache.

    Parameters
    ----------
    function : callable
        Takes and returns arrays. It may use operators, NumPy's functions, and functions of smallmm;
        ``docs/programs.md`` lists them. Returns an array, or a tuple or named tuple of them.
    signature : str, optional
        The core dimensions of each argument, as in `numpy.vectorize`: ``"(n),(n,n)->(n)"``. Dimensions before
        them are batch dimensions, and broadcast. The part from ``->`` on may be missing. Without a signature
        all arguments are numbers, and the function is applied element by element.
    reasons : dict, optional
        For functions of smallmm that can fail, by their names, what that means in the words of your callers,
        which `LinAlgError` then says: ``{"cholesky": "the covariance is not positive definite: feature {i}
        depends on those before it"}``. ``{k}`` becomes info, which counts from 1, and ``{i}`` becomes k - 1.

    Returns
    -------
    function
        ``f(*arrays, out=None, **options)``. Arrays are given by place or by name. Arguments that have a
        default are options: they are given by name, must be hashable, and each combination is recorded for
        itself. Also a decorator: ``@fuse``, ``@fuse("(n,n),(n)")``. ``f.ex(...)`` returns a named tuple
        ``(result, info)`` and does not raise for matrices that fail; ``f.explain(...)`` says how a call would
        run.

    Raises
    ------
    TypeError
        The function branches on the elements of an array (use ``where``), or uses what cannot be fused; when
        it is called, an argument is not float16, bfloat16, float32, float64, complex64, complex128, integer
        or bool, or two have no dtype in common.
    ValueError
        The signature is invalid; when it is called, shapes do not fit it.
    LinAlgError
        When it is called: some matrices are singular, say. The exception holds ``info``, shape (...),
        ``result``, and ``step``, the step that failed.

    See Also
    --------
    kalman_step, ridge, mahalanobis : fused functions.

    Notes
    -----
    Results have the bits of the separate calls of smallmm and NumPy, except that exp, log, sin, erf, powers
    and sums are smallmm's own: errors of at most 3 ulp, and sums in a fixed order. So are products,
    quotients, magnitudes and functions of complex numbers. The fused function does the operations of its
    steps.

    Steps have the dtypes that `numpy.result_type` gives; of integers alone they are float64. float16 and
    bfloat16 are computed in float32: each result is rounded once, and nothing between the steps is.

    The function is recorded once for each combination of core shapes, dtypes and keywords. On a CUDA device
    one kernel runs all steps. Where PyTorch or JAX record derivatives, beyond order 32, and where the kernel
    has no such step, the steps run one after the other.

    Examples
    --------
    >>> @smallmm.fuse("(m,n),(n)->(m)")
    ... def relu(a, x):
    ...     return np.maximum(a @ x, 0)
    >>> relu(np.array([[[1.0, -1.0]], [[-1.0, 1.0]]]), np.array([3.0, 1.0]))
    array([[2.],
           [0.]])
    """
    if isinstance(function, str):
        if signature is not None:
            raise TypeError("fuse: function is a str")
        return lambda own: fuse(own, function, reasons=reasons)
    if not callable(function):
        raise TypeError(f"fuse: function is {shown(function)}; expected a function, or a signature")
    return Fused(function, signature, reasons)
