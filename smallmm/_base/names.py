"""Names that other libraries have for what smallmm has, and the advice for a name that nobody has."""

from collections.abc import Sequence
from difflib import get_close_matches

_SYNONYMS = {
    "adjoint": "matrix_transpose",
    "addbmm": "batched_matmul",
    "baddbmm": "batched_matmul",
    "bmm": "batched_matmul",
    "chol": "cholesky",
    "cholesky_inverse": "inv",
    "cholesky_solve": "cho_solve",
    "conv": "conv2d",
    "convolve": "conv2d",
    "determinant": "det",
    "dot": "matmul",
    "eigsh": "eigh",
    "gels": "lstsq",
    "gemm": "batched_matmul",
    "geqrf": "qr",
    "gesv": "solve",
    "gesvd": "svd",
    "getrf": "lu_factor",
    "getri": "inv",
    "getrs": "lu_solve",
    "inverse": "inv",
    "invert": "inv",
    "kalman": "kalman_filter",
    "kron": "kron_apply",
    "ldl": "ldl_factor",
    "logdet": "slogdet",
    "logpdf": "gaussian_logpdf",
    "matrix_exp": "expm",
    "matrix_log": "logm",
    "mm": "matmul",
    "multivariate_normal": "gaussian_logpdf",
    "mv": "matvec",
    "pinverse": "pinv",
    "pinvh": "pinv",
    "potrf": "cholesky",
    "potrs": "cho_solve",
    "rank": "matrix_rank",
    "singular_values": "svdvals",
    "sqrt": "sqrtm",
    "symeig": "eigh",
    "syev": "eigh",
    "transpose": "matrix_transpose",
    "triangular_solve": "solve_triangular",
    "trsm": "solve_triangular",
}

# Functions that only SciPy has: those that are asked for most
_OF_SCIPY = ("block_diag", "cosm", "hessenberg", "null_space", "orth", "signm", "sinm")


def advice(name: str, public: Sequence[str]) -> str:
    """The end of a message about a name that is none of the public ones."""
    if name == "linalg":
        return "; its functions are smallmm's own: smallmm.inv"
    if name in _OF_SCIPY:
        return f"; use scipy.linalg.{name}"
    close = get_close_matches(name, public, n=3, cutoff=0.7)
    found = [_SYNONYMS[name]] if name in _SYNONYMS else close
    return f"; did you mean {' or '.join(map(repr, found))}?" if found else ""
