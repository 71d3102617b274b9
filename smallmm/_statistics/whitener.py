"""Whitening as an estimator, in the conventions of scikit-learn, which is not imported for it."""

import sys
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._calls.arrays import without_labels
from .._functions.systems import solve
from .._libraries import type_name
from .._programs.compose import array_of
from .._programs.fuse import fuse
from .whitening import Method, whitening


@fuse("(m,n),(n),(n,n)->(m,n)")
def _whitened(x: Any, mean: Any, matrix: Any) -> Any:
    return (x - mean) @ matrix.mT


class Whitener:
    """Whitening with a mean and a matrix that are found once, as an estimator of scikit-learn.

    Parameters
    ----------
    method : {"cholesky", "pca", "zca"}
        Which matrix, as in `whiten`.
    eps : float
        What is added to the diagonal of the covariance, as in `whiten`.

    Attributes
    ----------
    mean_ : array, shape (..., n)
        The means of the features.
    matrix_ : array, shape (..., n, n)
        W of ``W (x - mean)``.
    n_features_in_ : int
        n.
    feature_names_in_ : array of str
        The names of the columns, where `fit` was given a data frame whose columns have names.

    See Also
    --------
    whiten : the same for samples that are met once.

    Notes
    -----
    Samples are a matrix, shape (m, n), as in scikit-learn, or a stack of them, shape (..., m, n), of which
    each set has a mean and a matrix of its own. They are real: scikit-learn has estimators refuse complex
    ones, which `whitening` takes.

    Examples
    --------
    >>> x = np.array([[1.0, 0.0], [2.0, 5.0], [4.0, 1.0]])
    >>> white = smallmm.Whitener(method="pca").fit(x)
    >>> np.allclose(smallmm.cov(white.transform(x)), np.eye(2))
    True
    >>> np.allclose(white.inverse_transform(white.transform(x)), x)
    True
    """

    mean_: Any
    matrix_: Any
    n_features_in_: int
    feature_names_in_: np.ndarray

    def __init__(self, *, method: Method = "cholesky", eps: float = 0.0) -> None:
        self.method = method
        self.eps = eps

    def __repr__(self) -> str:
        return f"Whitener(method={self.method!r}, eps={self.eps!r})"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by their names."""
        return {"method": self.method, "eps": self.eps}

    def set_params(self, **params: Any) -> "Whitener":
        """Change parameters. ValueError if there is no such one."""
        for name, value in params.items():
            if name not in self.get_params():
                raise ValueError(f"Whitener has no parameter {name!r}; expected 'method' or 'eps'")
            setattr(self, name, value)
        return self

    def fit(self, X: "ArrayLike", y: Any = None) -> "Whitener":
        """Find the mean and the matrix. y is there for pipelines, and has no effect."""
        names = _names_of(X)
        x = _samples(X, "fit")
        if x.shape[-2] < 2:
            raise ValueError(f"Whitener: n_samples={x.shape[-2]}; a minimum of 2 samples is required by fit")
        self.mean_, self.matrix_ = whitening(x, eps=self.eps, method=self.method)
        self.n_features_in_ = x.shape[-1]
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = names
        return self

    def transform(self, X: "ArrayLike") -> Any:
        """White samples."""
        return _whitened(self._known(X, "transform"), self.mean_, self.matrix_)

    def fit_transform(self, X: "ArrayLike", y: Any = None) -> Any:
        """`fit`, and the white samples."""
        return self.fit(X).transform(X)

    def inverse_transform(self, X: "ArrayLike") -> Any:
        """The samples that white ones were made of."""
        x = self._known(X, "inverse_transform", with_names=False)
        return solve(self.matrix_, x.mT).mT + self.mean_[..., None, :]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the features: those of `fit`, or x0, x1, ..."""
        self._check_is_fitted("get_feature_names_out")
        own = getattr(self, "feature_names_in_", None)
        names = own if input_features is None else np.asarray(input_features, object)
        if own is not None and not np.array_equal(np.asarray(names), own):
            raise ValueError("input_features is not equal to feature_names_in_")
        if names is None:
            names = np.array([f"x{i}" for i in range(self.n_features_in_)], object)
        if len(names) != self.n_features_in_:
            raise ValueError(
                f"input_features should have length equal to number of features ({self.n_features_in_}), got "
                f"{len(names)}"
            )
        return names

    def _known(self, X: Any, method: str, with_names: bool = True) -> Any:
        """Samples with the features of `fit`."""
        self._check_is_fitted(method)
        names, own = _names_of(X), getattr(self, "feature_names_in_", None)
        if with_names and names is not None and own is not None and not np.array_equal(names, own):
            raise ValueError(_other_names(own.tolist(), names.tolist()))
        x = _samples(X, method)
        if x.shape[-1] != self.n_features_in_:
            raise ValueError(
                f"X has {x.shape[-1]} features, but Whitener is expecting {self.n_features_in_} features as "
                "input"
            )
        return x

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "matrix_")

    def _check_is_fitted(self, method: str) -> None:
        if self.__sklearn_is_fitted__():
            return
        exceptions: Any = sys.modules.get("sklearn.exceptions")
        error = ValueError if exceptions is None else exceptions.NotFittedError  # which is one, too
        raise error(f"This Whitener instance is not fitted yet. Call 'fit' before '{method}'")

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of an estimator."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type="transformer",
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=["float64", "float32"]),
            input_tags=InputTags(two_d_array=True, three_d_array=True),
        )


def _names_of(X: Any) -> np.ndarray | None:
    """The names of a frame's columns, if all are str."""
    columns = getattr(X, "columns", None)
    names = [] if columns is None else list(columns)
    return np.array(names, object) if names and all(isinstance(x, str) for x in names) else None


def _other_names(own: list[str], given: list[str]) -> str:
    new = [f"- {x}" for x in given if x not in own]
    lost = [f"- {x}" for x in own if x not in given]
    lines = ["The feature names should match those that were passed during fit."]
    lines += ["Feature names unseen at fit time:", *new] if new else []
    lines += ["Feature names seen at fit time, yet now missing:", *lost] if lost else []
    if not new and not lost:
        lines.append("Feature names must be in the same order as they were in fit.")
    return "\n".join([*lines, ""])


def _samples(X: Any, method: str) -> Any:
    """X as floating-point numbers, all finite; ValueError in the words of scikit-learn."""
    x = array_of("Whitener", "X", without_labels(X))
    if hasattr(X, "toarray"):
        raise TypeError(f"Whitener: X is a sparse {type_name(X)}; expected a dense array, as X.toarray()")
    if x.ndim < 2:
        raise ValueError(
            f"Whitener: Expected 2D array, got {('scalar', '1D')[x.ndim]} array instead: shape {x.shape}. "
            "Reshape your data: X.reshape(-1, 1) has one feature, X.reshape(1, -1) one sample"
        )
    if isinstance(x, np.ndarray):
        x = _finite_numbers(x)
    for n, what in ((x.shape[-1], "feature"), (x.shape[-2], "sample")):
        if not n:
            raise ValueError(
                f"0 {what}(s) (shape={tuple(x.shape)}) while a minimum of 1 is required by {method}"
            )
    return x


def _finite_numbers(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "c":
        raise ValueError("Whitener: Complex data not supported; use whitening and whiten")
    if x.dtype.kind != "f":
        x = x.astype(np.float64)  # objects that are numbers, as scikit-learn takes them, too
    if not np.isfinite(x).all():
        raise ValueError("Whitener: X contains NaN or infinity; expected finite numbers")
    return x
