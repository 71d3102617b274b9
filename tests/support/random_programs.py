"""Random functions for `fuse`: chains of 1 to 8 of the steps that can be recorded. Each works on one matrix
of NumPy and on symbols. Arguments of functions with poles or steep places are kept from them, and only what
has the same bits everywhere meets functions with jumps, so that results may be compared with a tolerance."""

import warnings
from collections.abc import Callable
from math import ceil, log2
from typing import Any, NamedTuple

import numpy as np

import smallmm

SAMPLES = 4  # matrices that tell how large the values become
LARGEST = 4.0  # and what larger ones are scaled to
MAX_SIZE = 1e6  # which are too large for that


class Step(NamedTuple):
    text: str
    operands: tuple[int, ...]  # of the values so far: inputs, then one for each step
    function: Callable[..., Any]


class Case(NamedTuple):
    signature: str
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[np.dtype, ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]

    @property
    def function(self) -> Callable[..., Any]:
        count = len(self.shapes)

        def function(*arrays: Any) -> Any:
            values = list(arrays)
            for step in self.steps:
                values.append(step.function(*(values[i] for i in step.operands)))
            return tuple(values[i] for i in self.results)

        parameters = ", ".join(f"x{i}" for i in range(count))
        return eval(f"lambda {parameters}: function({parameters})", {"function": function})

    def inputs(self, rng: np.random.Generator, batch: tuple[int, ...]) -> list[np.ndarray]:
        return [random_numbers(rng, (*batch, *x), y) for x, y in zip(self.shapes, self.dtypes, strict=True)]

    @property
    def tolerance(self) -> float:
        """Of the largest element of a result."""
        return 2e-3 if any(x.char in "efF" for x in self.dtypes) else 1e-8

    def describe(self) -> str:
        count = len(self.shapes)
        lines = [f"x{i}: {x} {y}" for i, (x, y) in enumerate(zip(self.shapes, self.dtypes, strict=True))]
        lines += [
            f"x{count + i} = {step.text} of {', '.join(f'x{j}' for j in step.operands)}"
            for i, step in enumerate(self.steps)
        ]
        return "\n".join([*lines, f"return {', '.join(f'x{i}' for i in self.results)}"])


def random_program(rng: np.random.Generator, dtypes: str = "fffdddFDil") -> Case:
    """A function of 1 to 3 inputs. dtypes: the characters of those that inputs have."""
    sizes = [int(x) for x in rng.choice([0, 1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 32], 2, p=_FREQUENCIES)]
    first = np.dtype(rng.choice(list(dtypes)))
    shapes, chosen = [], []
    for _ in range(rng.integers(1, 4)):
        shapes.append(tuple(int(rng.choice(sizes)) for _ in range(rng.choice(4, p=[0.1, 0.3, 0.5, 0.1]))))
        chosen.append(first if rng.random() < 0.8 else np.dtype(rng.choice(list(dtypes))))
    names = iter("abcdefghijklmn")
    signature = ",".join(f"({','.join(next(names) for _ in shape)})" for shape in shapes)
    values = [
        _Value([random_numbers(rng, x, y) for _ in range(SAMPLES)], y.kind in "fc")
        for x, y in zip(shapes, chosen, strict=True)
    ]
    steps: list[Step] = []
    wanted = rng.integers(1, 9)
    while len(steps) < wanted:
        made = _step(rng, values)
        if made is not None:
            steps.extend(made)
    last = len(values) - 1
    others = rng.choice(last, min(int(rng.integers(0, 3)), last), replace=False) if last else []
    results = (*(int(i) for i in others), last)
    return Case(signature, tuple(shapes), tuple(chosen), tuple(steps), results)


_FREQUENCIES = [0.04, 0.08, *[0.11] * 6, *[0.05] * 3, 0.04, 0.03]


class _Value(NamedTuple):
    samples: list[np.ndarray]
    is_exact: bool  # whether its bits are the same however the steps before are computed

    @property
    def shape(self) -> tuple[int, ...]:
        return self.samples[0].shape

    @property
    def kind(self) -> str:
        return self.samples[0].dtype.kind


def random_numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    if dtype.kind in "iu":
        return rng.integers(-3 if dtype.kind == "i" else 0, 4, shape).astype(dtype)
    x = rng.uniform(-1, 1, shape)
    return np.asarray(x + 1j * rng.uniform(-1, 1, shape) if dtype.kind == "c" else x).astype(dtype)


def _step(rng: np.random.Generator, values: list[_Value]) -> list[Step] | None:
    """One step more, and another that scales what becomes large; None if the one drawn does not fit."""
    integers = [i for i, x in enumerate(values) if x.kind in "iu"]
    family = _FAMILIES[int(rng.integers(len(_FAMILIES)))]
    at = tuple(int(i) for i in rng.integers(len(values), size=rng.integers(1, 4)))
    drawn = family(rng, [values[i] for i in at])
    if drawn is None:
        return None
    text, count, is_exact, function = drawn
    at = at[:count]
    if set(at) & set(integers) and family is not _view:
        text, inner = f"{text} of 1.0 *", function
        function = lambda *x: inner(*(y * 1.0 if getattr(y, "dtype", None).kind in "iu" else y for y in x))  # noqa: E731
    try:
        with warnings.catch_warnings(action="ignore"):
            samples = [np.asarray(function(*(values[i].samples[k] for i in at))) for k in range(SAMPLES)]
    except (ValueError, IndexError, TypeError, ZeroDivisionError, np.linalg.LinAlgError):
        return None
    if samples[0].size > 4096 or samples[0].ndim > 5:
        return None
    if samples[0].dtype.kind in "iu" and family is not _view:
        return None
    largest = max((float(np.abs(x).max()) for x in samples if x.size and x.dtype.kind in "fc"), default=0.0)
    if not largest < MAX_SIZE:
        return None
    values.append(_Value(samples, is_exact and all(values[i].is_exact for i in at)))
    steps = [Step(text, at, function)]
    if largest > LARGEST:
        factor = 2.0 ** -ceil(log2(largest / LARGEST))
        steps.append(Step(f"{factor} *", (len(values) - 1,), lambda x: factor * x))
        values.append(_Value([factor * x for x in samples], values[-1].is_exact))
    return steps


# A family draws a step for some values: its text, how many operands it takes, whether it keeps exact bits,
# and the function; or None.

_UNARY = {  # kinds, whether bits are exact
    "-": ("fc", True, lambda x: -x),
    "abs": ("f", True, abs),
    "abs of complex": ("c", False, abs),
    "sqrt(1 + |.|)": ("f", True, lambda x: np.sqrt(1 + abs(x))),
    "square": ("f", True, np.square),
    "1 / (1 + |.|)": ("f", True, lambda x: 1 / (1 + abs(x))),
    "exp(-|.|)": ("f", False, lambda x: np.exp(-abs(x))),
    "exp": ("c", False, lambda x: np.exp(x / (1 + abs(x)))),
    "expm1": ("f", False, lambda x: np.expm1(np.minimum(x, 2))),
    "log(1 + |.|)": ("f", False, lambda x: np.log(1 + abs(x))),
    "log1p(|.|)": ("f", False, lambda x: np.log1p(abs(x))),
    "sin": ("f", False, np.sin),
    "cos": ("f", False, np.cos),
    "tanh": ("f", False, np.tanh),
    "tan(. / (1 + |.|))": ("f", False, lambda x: np.tan(x / (1 + abs(x)))),
    "arctan": ("f", False, np.arctan),
    "(1 + |.|) ** 1.5": ("f", False, lambda x: (1 + abs(x)) ** 1.5),
    ". ** 2": ("fc", False, lambda x: x**2),
    "(0.5 + |.|) ** -1": ("f", True, lambda x: (0.5 + abs(x)) ** -1),
    "clip": ("f", True, lambda x: np.clip(x, -0.5, 0.25)),
    "conj": ("fc", True, np.conj),
    "real": ("fc", True, np.real),
    "imag": ("c", True, np.imag),
    "isfinite": ("fc", True, np.isfinite),
    "isnan": ("fc", True, np.isnan),
    "~": ("b", True, np.logical_not),
    "where(., 1.0, -1.0)": ("b", True, lambda x: np.where(x, 1.0, -1.0)),
    "0.5 * . - 0.25": ("fc", True, lambda x: 0.5 * x - 0.25),
}
_JUMPS = {
    "floor": lambda x: np.floor(4 * x),
    "ceil": lambda x: np.ceil(3 * x),
    "sign": np.sign,
    "> 0": lambda x: x > 0,
    "<= 0.25": lambda x: x <= 0.25,
    "copysign(1, .)": lambda x: np.copysign(1.0, x),
}
_BINARY = {
    "+": ("fc", True, lambda x, y: x + y),
    "-": ("fc", True, lambda x, y: x - y),
    "*": ("fc", False, lambda x, y: x * y),
    "/ (1 + |.|)": ("fc", False, lambda x, y: x / (1 + abs(y))),
    "/ (. . + 1)": ("f", True, lambda x, y: x / (y * y + 1)),
    "minimum": ("f", True, np.minimum),
    "maximum": ("f", True, np.maximum),
    "arctan2(., 1 + |.|)": ("f", False, lambda x, y: np.arctan2(x, 1 + abs(y))),
    "(1 + |.|) ** .": ("f", False, lambda x, y: (1 + abs(x)) ** np.minimum(y, 2)),
    "&": ("b", True, np.logical_and),
    "|": ("b", True, np.logical_or),
}
_JUMPS_OF_TWO = {
    "<": lambda x, y: x < y,
    ">=": lambda x, y: x >= y,
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
}


def _kind(x: _Value) -> str:
    return "f" if x.kind in "iu" else x.kind


def _unary(rng: Any, given: list[_Value]) -> Any:
    name = rng.choice(list(_UNARY))
    kinds, is_exact, function = _UNARY[name]
    return (name, 1, is_exact, function) if _kind(given[0]) in kinds else None


def _jump(rng: Any, given: list[_Value]) -> Any:
    if not given[0].is_exact or given[0].kind != "f":
        return None
    if len(given) > 1 and given[1].is_exact and given[1].kind == "f":
        name = rng.choice(list(_JUMPS_OF_TWO))
        return name, 2, True, _JUMPS_OF_TWO[name]
    name = rng.choice(list(_JUMPS))
    return name, 1, True, _JUMPS[name]


def _binary(rng: Any, given: list[_Value]) -> Any:
    name = rng.choice(list(_BINARY))
    kinds, is_exact, function = _BINARY[name]
    return (
        (name, 2, is_exact, function)
        if len(given) > 1 and all(_kind(x) in kinds for x in given[:2])
        else None
    )


def _where(rng: Any, given: list[_Value]) -> Any:
    if len(given) < 3 or any(_kind(x) == "b" for x in given[1:]):
        return None
    if given[0].kind == "b":
        return "where", 3, True, np.where
    if given[0].is_exact and given[0].kind == "f":
        return "where(. > 0, ., .)", 3, True, lambda x, y, z: np.where(x > 0, y, z)
    return None


def _axes(rng: Any, x: _Value) -> Any:
    """None, one axis or some, negative ones too."""
    count = len(x.shape)
    if not count or rng.random() < 0.2:
        return None
    axis = int(rng.integers(-count, count))
    if rng.random() < 0.7:
        return axis
    chosen = rng.choice(count, int(rng.integers(1, count + 1)), replace=False)
    return tuple(int(i) - count * int(rng.integers(2)) for i in chosen)


def _reduction(rng: Any, given: list[_Value]) -> Any:
    x = given[0]
    names = {"b": ("any", "all", "sum"), "c": ("sum", "mean", "cumsum")}.get(x.kind, _REDUCTIONS)
    name = rng.choice(names)
    axis, keepdims = _axes(rng, x), bool(rng.integers(2))
    if name in ("norm", "cumsum"):
        if not x.shape or isinstance(axis, tuple) or (axis is None and name == "norm" and len(x.shape) > 2):
            return None
        function = np.linalg.norm if name == "norm" else np.cumsum
        return f"{name}(axis={axis})", 1, False, lambda y: function(y, axis=axis)
    if name == "trace":
        return ("trace", 1, False, np.trace) if len(x.shape) == 2 else None
    if name == "any":  # of numbers
        return None if x.kind != "b" and not x.is_exact else _reduced(np.any, axis, keepdims, x.kind == "b")
    is_exact = name in ("max", "min", "all")
    return _reduced(getattr(np, name), axis, keepdims, is_exact)


_REDUCTIONS = ("sum", "mean", "max", "min", "prod", "any", "cumsum", "norm", "trace")


def _reduced(function: Any, axis: Any, keepdims: bool, is_exact: bool) -> Any:
    text = f"{function.__name__}(axis={axis}, keepdims={keepdims})"
    return text, 1, is_exact, lambda y: function(y, axis=axis, keepdims=keepdims)


_VIEWS = [
    *("T", "slice", "index", "none", "reshape", "permute", "broadcast", "diagonal"),
    *("ravel", "flip", "squeeze", "moveaxis"),
]


def _view(rng: Any, given: list[_Value]) -> Any:
    shape = given[0].shape
    n = len(shape)
    name = rng.choice(_VIEWS)
    axis = int(rng.integers(-n, n)) if n else 0
    key: Any = ...
    match name:
        case "T":
            return "T", 1, True, lambda x: x.T
        case "slice" if n:
            step = int(rng.choice([-2, -1, 1, 2, 3]))
            first = int(rng.integers(0, shape[axis] + 1))
            part = slice(first, None, step) if step > 0 else slice(None, first, step)
            key = (*(slice(None),) * (axis % n), part)
        case "index" if n and shape[axis]:
            key = (*(slice(None),) * (axis % n), int(rng.integers(-shape[axis], shape[axis])))
        case "none":
            key = (..., None) if rng.random() < 0.5 else (None,)
        case "reshape" if n > 1:
            split = int(rng.integers(1, n))
            to = (*shape[: split - 1], shape[split - 1] * shape[split], *shape[split + 1 :])
            to = (-1, *to[1:]) if rng.random() < 0.3 and 0 not in shape else to
            return f"reshape{to}", 1, True, lambda x: x.reshape(to)
        case "permute" if n:
            order = tuple(int(i) for i in rng.permutation(n))
            return f"transpose{order}", 1, True, lambda x: np.transpose(x, order)
        case "broadcast":
            to = (int(rng.integers(1, 4)), *shape)
            return f"broadcast_to{to}", 1, True, lambda x: np.broadcast_to(x, to)
        case "diagonal" if n > 1:
            offset = int(rng.integers(-1, 2))
            return f"diagonal({offset})", 1, True, lambda x: np.diagonal(x, offset)
        case "ravel":
            return "ravel", 1, True, np.ravel
        case "flip" if n:
            return f"flip({axis})", 1, True, lambda x: np.flip(x, axis)
        case "squeeze":
            return "squeeze", 1, True, np.squeeze
        case "moveaxis" if n:
            return f"moveaxis({axis}, 0)", 1, True, lambda x: np.moveaxis(x, axis, 0)
    return None if key is ... else (f"[{key}]", 1, True, lambda x: x[key])


def _join(rng: Any, given: list[_Value]) -> Any:
    x = given[0]
    n = len(x.shape)
    axis = int(rng.integers(-n, n)) if n else 0
    name = rng.choice(["concatenate", "stack", "take", "hstack", "tril", "triu", "diag", "expand_dims"])
    same = [y for y in given if y.kind == x.kind]
    match name:
        case "concatenate" if n and len(same) == len(given):
            return f"concatenate({axis})", len(given), True, lambda *y: np.concatenate(y, axis)
        case "stack" if len(same) == len(given):
            return f"stack({axis})", len(given), True, lambda *y: np.stack(y, axis)
        case "hstack" if n and len(same) == len(given):
            return "hstack", len(given), True, lambda *y: np.hstack(y)
        case "take" if n and x.shape[axis]:
            own = [int(i) for i in rng.integers(-x.shape[axis], x.shape[axis], int(rng.integers(1, 4)))]
            return f"take({own}, {axis})", 1, True, lambda y: np.take(y, own, axis)
        case "tril" if n > 1 and x.kind != "b":
            return "tril", 1, True, np.tril
        case "triu" if n > 1 and x.kind != "b":
            return "triu", 1, True, lambda y: np.triu(y, 1)
        case "diag" if n == 1 and x.kind != "b":
            return "diag", 1, True, np.diag
        case "expand_dims":
            return f"expand_dims({axis})", 1, True, lambda y: np.expand_dims(y, axis)
    return None


def _product(rng: Any, given: list[_Value]) -> Any:
    if any(x.kind == "b" for x in given):
        return None
    if len(given) == 1:
        return ("x x^T", 1, False, lambda x: x @ x.conj().mT) if len(given[0].shape) > 1 else None
    x, y = given[:2]
    if not x.shape or not y.shape:
        return None
    name = rng.choice(["@", "@ T", "T @", "outer", "einsum"])
    match name:
        case "@":
            return "@", 2, False, lambda x, y: x @ y
        case "@ T":
            return "@ .T", 2, False, lambda x, y: x @ y.T
        case "T @":
            return ".T @", 2, False, lambda x, y: x.T @ y
        case "outer" if len(x.shape) == len(y.shape) == 1:
            return "outer", 2, False, lambda x, y: smallmm.outer(x, y)
        case "einsum" if len(x.shape) == len(y.shape) == 2 and x.shape[0] == y.shape[0]:
            return "einsum(ij,ik->jk)", 2, False, lambda x, y: np.einsum("ij,ik->jk", x, y)
    return None


def _dominant(x: Any) -> Any:
    """A well-conditioned matrix of that shape: its largest elements are on the diagonal."""
    bounded = x / (1 + abs(x))
    return bounded + 2.0 * max(x.shape) * np.eye(*x.shape, dtype=x.dtype)


def _gram(x: Any) -> Any:
    """A well-conditioned Hermitian matrix."""
    y = x / (1 + abs(x))
    n = x.shape[-1]
    return y.conj().mT @ y / float(max(x.shape[-2], 1)) + np.eye(n, dtype=x.dtype)


def _from_eigh(x: Any) -> Any:
    w, v = smallmm.eigh(_gram(x))
    return (v * w) @ v.conj().mT


def _from_svd(x: Any) -> Any:
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    return (u * s) @ vh


def _from_qr(x: Any) -> Any:
    q, r = np.linalg.qr(x)
    return q @ r


_OF_A_MATRIX = {  # whether of square matrices alone
    "inv": (True, lambda x: np.linalg.inv(_dominant(x))),
    "slogdet": (True, lambda x: np.linalg.slogdet(_dominant(x))[1]),
    "lu_factor": (False, lambda x: smallmm.lu_factor(_dominant(x))[0]),
    "det": (True, lambda x: np.linalg.det(_dominant(x) / (2.0 * max(x.shape[-1], 1)))),
    "cholesky": (False, lambda x: np.linalg.cholesky(_gram(x))),
    "eigvalsh": (False, lambda x: smallmm.eigvalsh(_gram(x))),
    "eigh": (False, _from_eigh),
    "svdvals": (False, lambda x: smallmm.svdvals(x)),
    "svd": (False, _from_svd),
    "qr": (False, _from_qr),
    "pinv": (False, lambda x: smallmm.pinv(_dominant(x))),
    "matrix_power": (True, lambda x: smallmm.matrix_power(x / float(2 * max(x.shape)), 3)),
}
_OF_A_SYSTEM = {
    "solve": lambda x, y: smallmm.solve(_dominant(x), y),
    "lu_solve": lambda x, y: smallmm.lu_solve(smallmm.lu_factor(_dominant(x)), y),
    "cho_solve": lambda x, y: smallmm.cho_solve((smallmm.cholesky(_gram(x)), True), y),
    "solve_triangular": lambda x, y: smallmm.solve_triangular(_dominant(x), y, lower=True),
    "lstsq": lambda x, y: smallmm.lstsq(_dominant(x), y).x,
}


def _linalg(rng: Any, given: list[_Value]) -> Any:
    x = given[0]
    if len(x.shape) != 2 or 0 in x.shape or max(x.shape) > 32 or any(y.kind == "b" for y in given):
        return None
    is_square = x.shape[0] == x.shape[1]
    if len(given) > 1 and given[1].shape[:1] == x.shape[:1] and len(given[1].shape) < 3:
        name = rng.choice(list(_OF_A_SYSTEM) if is_square else ["lstsq"])
        if name == "lstsq" and x.shape[0] < x.shape[1]:
            return None
        return name, 2, False, _OF_A_SYSTEM[name]
    name = rng.choice([name for name, (square, _) in _OF_A_MATRIX.items() if is_square or not square])
    return name, 1, False, _OF_A_MATRIX[name][1]


_FAMILIES = (
    *(_jump, _unary, _unary, _binary, _binary, _where, _where),
    *(_reduction, _reduction, _view, _view, _join, _join, _product, _product, _linalg, _linalg),
)
