"""Names that other libraries have for what smallmm has, and the advice for a name that nobody has."""

from collections.abc import Sequence
from difflib import get_close_matches

_OTHER_NAMES = {
    "batched_matmul": "addbmm baddbmm bmm gemm",
    "cho_solve": "cholesky_solve potrs",
    "cholesky": "chol potrf",
    "conv2d": "conv convolve",
    "det": "determinant",
    "eigh": "eigsh symeig syev",
    "expm": "matrix_exp",
    "gaussian_logpdf": "logpdf multivariate_normal",
    "inv": "cholesky_inverse getri inverse invert",
    "kalman_filter": "kalman",
    "kron_apply": "kron",
    "ldl_factor": "ldl",
    "logm": "matrix_log",
    "lstsq": "gels",
    "lu_factor": "getrf",
    "lu_solve": "getrs",
    "matmul": "dot mm",
    "matrix_rank": "rank",
    "matrix_transpose": "adjoint transpose",
    "matvec": "mv",
    "pinv": "pinverse pinvh",
    "qr": "geqrf",
    "slogdet": "logdet",
    "solve": "gesv",
    "solve_triangular": "triangular_solve trsm",
    "sqrtm": "sqrt",
    "svd": "gesvd",
    "svdvals": "singular_values",
}
_SYNONYMS = {word: name for name, words in _OTHER_NAMES.items() for word in words.split()}

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
