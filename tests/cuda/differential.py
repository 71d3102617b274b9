"""Compare host and device on calls that nobody chose: `differential.py --seconds 300`.

A shape is a public function with its options, a dtype, an order, and how its operands lie in memory: what
kernels are compiled for. Some calls of it follow, with other numbers of matrices and other values: easy ones,
hard ones, singular ones, some that are not finite. What the function does with NumPy's arrays it must do with
those of the device: the same bits, the same info, the same type of exception. Every third shape is a fused
function of random steps.

Each shape has a seed of its own, which is printed where something differs: `--only SEED` runs that shape
alone. A process compiles one kernel at a time, so several at once see more shapes."""

import argparse
import itertools
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "support")]

import paths  # noqa: E402, F401
from cases import ACCURATELY, COMPOSITIONS, FUNCTIONS, OF_MATRICES, WITH_B  # noqa: E402
from matrices import deficient, extreme, good, good_definite, normal, not_finite  # noqa: E402
from random_programs import random_numbers, random_program  # noqa: E402
from scans import PREFIXES, elements  # noqa: E402

import smallmm  # noqa: E402
from smallmm import cuda  # noqa: E402
from smallmm._derivatives.backward import backward_of_plan  # noqa: E402

MAX_MATRICES = 4000  # matrices
MAX_OF_LARGE = 12  # above order 32
DTYPES = ["f4", "f8", "c8", "c16"]


# --- what is called ---


class Case(NamedTuple):
    """One function of arrays, which may be those of any library."""

    name: str
    function: object
    draw: object  # (generator, number of matrices) -> stacks, a list of NumPy's arrays
    cores: tuple[int, ...]  # how many dimensions of each are those of a matrix
    tolerance: float = 0  # of the largest element of a matrix, in units of its dtype's eps
    program: object = None  # a fused function, which says whether a kernel runs its steps
    most: int = MAX_MATRICES  # matrices


# Logarithms, exponentials, powers and complex quotients are NumPy's here, those of the array's library there.
OF_LIBRARIES = {"expm, sym": 64, "logm": 1e3, "logm_ex": 1e3, "powm": 1e3, "powm_ex": 1e3}
MIXED = "linsolve_ex, {'precision': 'mixed'}"
TWO = {*WITH_B, MIXED, "backward_error", "refine"}  # functions that take right-hand sides
OF_LIBRARIES |= {"linsolve, diagonal": 8}


def stack(rng, m, n, dtype, count, definite=False):
    """Matrices of every kind. Most are easy, so that a call often succeeds."""
    dtype = np.dtype(dtype)
    if definite:
        return np.resize(rng.permutation(good_definite(rng, n, dtype)), (count, n, n))
    kind = rng.choice([normal, good, extreme, deficient, not_finite], p=[0.5, 0.2, 0.15, 0.05, 0.1])
    with np.errstate(all="ignore"):
        easy = normal(rng, (count, m, n), dtype)
        if kind is not normal and count:
            some = rng.random(count) < rng.choice([0.1, 1])
            easy[some] = np.resize(kind(rng, m, n, dtype), (count, m, n))[some]
    return easy


def order(rng):
    return int(rng.choice([rng.integers(1, 9), rng.integers(1, 17), rng.integers(1, 33)]))


def of_matrices(rng, dtype):
    """A function of a square matrix, and perhaps of right-hand sides."""
    return of_order(rng, dtype, str(rng.choice(OF_MATRICES)), order(rng), MAX_MATRICES)


def of_mixed_precision(rng, _):
    return of_order(rng, "f8", MIXED, order(rng), MAX_MATRICES)


def of_large_matrices(rng, dtype):
    """The same of matrices that a block shares."""
    return of_order(rng, dtype, str(rng.choice(OF_MATRICES)), int(rng.integers(33, 129)), MAX_OF_LARGE)


def of_order(rng, dtype, name, n, most):
    function, k = (FUNCTIONS | ACCURATELY)[name], int(rng.integers(1, 5))
    definite = rng.random() < 0.3

    def draw(rng, count):
        a = stack(rng, n, n, dtype, count, definite)
        return [a, normal(rng, (count, n, k), np.dtype(dtype))] if name in TWO else [a]

    def call(a, b=None):
        return function(a, b)

    cores = (2, 2) if name in TWO else (2,)
    return Case(f"{name} n={n} k={k}", call, draw, cores, OF_LIBRARIES.get(name, 0), most=most)


def of_large_rectangles(rng, dtype):
    m = int(rng.choice([rng.integers(33, 129), rng.integers(9, 700)]))
    n = int(rng.integers(-(-1025 // m), min(16384 // m, 129)))
    return of_rectangles(rng, dtype, *(int(x) for x in rng.permutation([m, n])))


def of_rectangles(rng, dtype, m=0, n=0):
    m, n = m or order(rng), n or order(rng)
    name = str(
        rng.choice(
            [
                "qr",
                "qr r",
                "qr raw",
                "qr complete",
                "svd",
                "svd reduced",
                "svdvals",
                "lstsq_ex",
                "lu_factor_ex",
            ]
        )
    )
    function, _, mode = name.partition(" ")
    options = {"mode": mode} if function == "qr" and mode else {"full_matrices": False} if mode else {}

    def draw(rng, count):
        a = stack(rng, m, n, dtype, count)
        return [a, normal(rng, (count, m, 2), np.dtype(dtype))] if function == "lstsq_ex" else [a]

    def call(*arrays):
        return getattr(smallmm, function)(*arrays, **options)

    most = MAX_MATRICES if m * n <= 1024 else MAX_OF_LARGE
    return Case(f"{name} {m}x{n}", call, draw, (2, 2) if function == "lstsq_ex" else (2,), most=most)


def of_products(rng, dtype):
    m, k, n = (int(rng.choice([order(rng), rng.integers(1, 130)])) for _ in "mkn")
    kind = str(
        rng.choice(["matmul", "scaled", "matvec", "vecmat", "vecdot", "outer", "congruence", "multi_dot"])
    )
    shapes = {
        "matmul": [(m, k), (k, n)],
        "scaled": [(m, k), (k, n)],
        "matvec": [(m, k), (k,)],
        "vecmat": [(k,), (k, n)],
        "vecdot": [(k,), (k,)],
        "outer": [(m,), (n,)],
        "congruence": [(m, k), (k, k)],
        "multi_dot": [(m, k), (k, 3), (3, n)],
    }[kind]
    function = {
        "scaled": lambda a, b: smallmm.batched_matmul(a, b, alpha=-1.5),
        "multi_dot": lambda *x: smallmm.multi_dot(x),
    }.get(kind) or getattr(smallmm, kind)

    def draw(rng, count):
        return [normal(rng, (count, *shape), np.dtype(dtype)) for shape in shapes]

    return Case(f"{kind} {m},{k},{n}", function, draw, tuple(len(shape) for shape in shapes))


def of_compositions(rng, dtype):
    name, n = str(rng.choice(list(COMPOSITIONS))), int(rng.integers(3, 17))
    definite = name.partition(",")[0].removesuffix("_ex") in ("sqrtm", "logm", "powm") or rng.random() < 0.5

    def draw(rng, count):
        return [stack(rng, n, n, dtype, count, definite)]

    return Case(f"{name} n={n}", COMPOSITIONS[name], draw, (2,), OF_LIBRARIES.get(name, 0))


def of_diagonals(rng, dtype):
    n, k = int(rng.choice([order(rng), rng.integers(2, 100)])), int(rng.integers(1, 4))
    low, up = (int(x) for x in rng.integers(0, 4, 2))
    kind = str(rng.choice(["tridiagonal", "unpivoted", "banded", "definite"]))
    shapes = {
        "tridiagonal": [(n - 1,), (n,), (n - 1,)],
        "unpivoted": [(n - 1,), (n,), (n - 1,)],
        "banded": [(low + up + 1, n)],
        "definite": [(up + 1, n)],
    }[kind]
    function = {
        "tridiagonal": smallmm.solve_tridiagonal,
        "unpivoted": lambda *x: smallmm.solve_tridiagonal(*x, pivot=False),
        "banded": lambda *x: smallmm.solve_banded((low, up), *x),
        "definite": lambda *x: smallmm.solveh_banded(*x, lower=True),
    }[kind]

    def draw(rng, count):
        arrays = [normal(rng, (count, *shape), np.dtype(dtype)) for shape in shapes]
        main = arrays[1] if len(arrays) == 3 else arrays[0][:, up if kind == "banded" else 0]
        main += 9 * (rng.random((count, 1)) < 0.9)
        return [*arrays, normal(rng, (count, n, k), np.dtype(dtype))]

    return Case(f"{kind} n={n} {low},{up} k={k}", function, draw, (*map(len, shapes), 2))


def of_programs(rng, _):
    program = random_program(rng)  # its dtypes are its own
    function = smallmm.fuse(program.function, program.signature)

    def draw(rng, count):
        return program.inputs(rng, (count,))

    cores = tuple(x.ndim - 1 for x in program.inputs(rng, (1,)))
    eps = np.finfo(np.float32 if program.tolerance > 1e-6 else np.float64).eps
    return Case(program.describe(), function.ex, draw, cores, program.tolerance / eps, function)


def of_backward_passes(rng, _):
    """Of fused functions, as one pass: of the operands and the gradients of the results."""
    while True:
        program = random_program(rng, "fdFD")
        function = smallmm.fuse(program.function, program.signature)
        examples = program.inputs(rng, (1,))
        plan = function._plan(function._operands(examples), {})
        backward = backward_of_plan(function, plan, {})
        given = [i for i, x in enumerate(plan.results) if x.dtype.kind in "fc"]
        wanted = tuple(range(len(examples)))
        results = [np.zeros((1, *plan.results[i].shape), plan.results[i].dtype) for i in given]
        if given and backward.is_recordable(examples, results, wanted):
            break

    def draw(rng, count):
        grads = [random_numbers(rng, (count, *x.shape[1:]), x.dtype) for x in results]
        return [*program.inputs(rng, (count,)), *grads]

    def call(*arrays):
        grads = dict(zip(given, arrays[len(examples) :], strict=True))
        all_grads = [grads.get(i) for i in range(len(backward.outputs))]
        return tuple(backward.gradients(arrays[: len(examples)], (), all_grads, wanted))

    cores = tuple(x.ndim - 1 for x in (*examples, *results))
    eps = np.finfo(np.float32 if program.tolerance > 1e-6 else np.float64).eps
    one_pass = backward._pass(tuple(given), wanted)
    return Case(program.describe(), call, draw, cores, 100 * program.tolerance / eps, one_pass)


class ScanCall:
    """A scan with a carry, xs and consts, of a fused function."""

    def __init__(self, function, moves, options):
        self.function, self.moves, self.options = function, moves, options

    def _arguments(self, arrays):
        moving = [x for x, moves in zip(arrays[1:], self.moves, strict=True) if moves]
        return (
            arrays[0],
            moving or None,
            [x for x, moves in zip(arrays[1:], self.moves, strict=True) if not moves],
        )

    def __call__(self, *arrays):
        carry, xs, consts = self._arguments(arrays)
        return smallmm.scan_ex(self.function, carry, xs, consts=consts, **self.options)

    def explain(self, *arrays):
        carry, xs, consts = self._arguments(arrays)
        return smallmm.explain(smallmm.scan, self.function, carry, xs, consts=consts, **self.options)


def of_scans(rng, _):
    """A random program whose first operand is carried, with a share of the last result."""
    while True:
        program = random_program(rng, "fdFD")
        example = program.inputs(rng, ())
        last = np.asarray(program.function(*example)[-1])
        if last.dtype.kind == example[0].dtype.kind:
            break
    names = ", ".join(f"x{i}" for i in range(len(example)))

    def step(carried, *others):
        results = program.function(carried, *others)
        return 0.5 * carried + 0.1 * results[-1].sum(), *results

    written = eval(f"lambda {names}: step({names})", {"step": step})
    function = smallmm.fuse(written, program.signature)
    moves = [bool(rng.random() < 0.6) for _ in example[1:]]
    times = int(rng.choice([1, 2, rng.integers(3, 12)]))
    options = {"reverse": bool(rng.random() < 0.3)}
    options |= [{}, {}, {"outputs": "last"}, {"every": int(rng.integers(2, 5))}][rng.integers(4)]
    options |= {} if any(moves) else {"length": times}

    def draw(rng, count):
        carried, *others = program.inputs(rng, (count,))
        xs = program.inputs(rng, (times, count))[1:]
        return [carried, *(x if own else y for x, y, own in zip(xs, others, moves, strict=True))]

    cores = tuple(x.ndim for x in example)
    eps = np.finfo(np.float32 if program.tolerance > 1e-6 else np.float64).eps
    call = ScanCall(function, moves, options)
    text = f"scan, {moves} of {times} times move, {options}\n{program.describe()}"
    return Case(text, call, draw, cores, 100 * program.tolerance / eps, call)


def of_prefixes(rng, _):
    """An associative scan, by the kernels of all levels."""
    name = str(rng.choice(list(PREFIXES)))
    case, times = PREFIXES[name], int(rng.choice([33, 34, rng.integers(33, 300), 1100]))
    reverse, some_fail = bool(rng.random() < 0.5), rng.random() < 0.5 and name == "sum_of_inverses"

    def draw(rng, _):
        return list(elements(case, rng, times, some_fail))

    def call(*arrays):
        return smallmm.associative_scan(case.function, arrays, reverse=reverse)

    cores = tuple(len(shape) for shape in case.shapes)
    return Case(f"associative_scan of {name}, {times} times", call, draw, cores)


KINDS = [of_matrices, of_matrices, of_rectangles, of_products, of_compositions, of_diagonals]
KINDS += [of_mixed_precision]
KINDS_OF_LARGE = [of_large_matrices, of_large_rectangles]


# --- how operands lie in memory: what is moved to the device, and how it is seen there and here ---


def _padded(x):
    memory = np.full((*x.shape[:-1], x.shape[-1] + 3), np.nan, x.dtype) if x.dtype.kind in "fc" else x
    if memory is x:
        return x, lambda y: y
    memory[..., 1:-2] = x
    return memory, lambda y: y[..., 1:-2]


def _every_other(x):
    return np.repeat(x, 2, 0), lambda y: y[::2]


def _later(x):
    return np.concatenate([x[:1], x]), lambda y: y[1:]


def _swapped(x):
    """The last two dimensions."""
    if x.ndim < 3:
        return x, lambda y: y
    return np.ascontiguousarray(x.swapaxes(-1, -2)), lambda y: y.swapaxes(-1, -2)


def _matrices_last(x):
    return np.ascontiguousarray(x.swapaxes(0, -1)), lambda y: y.swapaxes(0, -1)


LAYOUTS = {
    "dense": lambda x: (x, lambda y: y),
    "transposed": _swapped,
    "padded": _padded,
    "every other": _every_other,
    "later": _later,
    "matrices last": _matrices_last,
}


class Host:
    """No device: copies in row-major order beside the layouts that were drawn."""

    put = get = staticmethod(lambda x: x)
    taken = staticmethod(np.array)


class Own:
    """smallmm's arrays on a device."""

    put = staticmethod(cuda.to_device)
    get = staticmethod(cuda.to_host)
    taken = staticmethod(lambda x: x)


class Torch:
    @staticmethod
    def put(x):
        import torch

        return torch.from_numpy(np.ascontiguousarray(x)).cuda()

    @staticmethod
    def get(x):
        return x.cpu().numpy()

    taken = staticmethod(lambda x: x)


class CuPy:
    @staticmethod
    def put(x):
        import cupy

        return cupy.asarray(x)

    @staticmethod
    def get(x):
        return x.get()

    taken = staticmethod(lambda x: x)


LIBRARIES = {"host": Host, "own": Own, "torch": Torch, "cupy": CuPy}


# --- comparison ---


def leaves(x):
    return [z for y in x for z in leaves(y)] if isinstance(x, tuple | list) else [x]


def outcome(function, arrays, get=None):
    """Results as NumPy's arrays, or what was raised."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            results = function(*arrays)
    except smallmm.LinAlgError as error:
        results = (error.result, error.info)
        kind = smallmm.LinAlgError
    except Exception as error:
        return type(error), str(error), []
    else:
        kind = None
    given = [x for x in leaves(results) if x is not None]
    if get is not None:  # numbers and empty results may be those of the host
        given = [x if isinstance(x, np.generic | np.ndarray | int | float) else get(x) for x in given]
    return kind, "", [np.asarray(x) for x in given]


def difference(x, y, tolerance, least):
    """What differs between two arrays, or nothing. The sign of a NaN does not count."""
    if (x.dtype, x.shape) != (y.dtype, y.shape):
        return f"{x.dtype} {x.shape} here, {y.dtype} {y.shape} there"
    if x.dtype.kind not in "fc":
        return "" if np.array_equal(x, y) else f"{np.count_nonzero(x != y)} of {x.size} elements"
    parts = [(x.real, y.real), (x.imag, y.imag)] if x.dtype.kind == "c" else [(x, y)]
    bad = np.zeros(x.shape, bool)
    for a, b in parts:
        bad |= ~((a == b) & (np.signbit(a) == np.signbit(b)) | (np.isnan(a) & np.isnan(b)))
    if not bad.any():
        return ""
    with np.errstate(all="ignore"):
        axes = tuple(range(1, x.ndim))
        size = np.nanmax(np.where(np.isfinite(x), np.abs(x), 0), axis=axes, keepdims=True, initial=0)
        worst = np.nanmax(np.where(bad, np.abs(x - y) / size, 0), initial=0) / np.finfo(x.dtype).eps
        allowed = tolerance * np.finfo(x.dtype).eps * size + least
        off = bad & ~(np.abs(x - y) <= allowed) if tolerance or least else bad
    if not off.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(off)[0])
    count = f"{np.count_nonzero(off)} of {x.size} elements, by {worst:.3g} eps"
    return f"{count}; at {at} {x[at]} here, {y[at]} there"


class Run:
    def __init__(self, library, share_of_programs, share_of_large, verbose):
        self.library, self.share, self.verbose = LIBRARIES[library], share_of_programs, verbose
        self.share_of_large = share_of_large
        self.compared, self.refused, self.shapes, self.wrong = Counter(), Counter(), Counter(), 0

    def shape(self, seed, calls):
        if self.verbose:
            print(seed, flush=True)
        rng = np.random.default_rng(seed)
        dtype = str(rng.choice(DTYPES, p=[0.35, 0.35, 0.15, 0.15]))
        programs = [of_programs, of_backward_passes, of_scans, of_prefixes]
        kinds = programs if rng.random() < self.share else KINDS
        if kinds is KINDS and self.share_of_large and rng.random() < self.share_of_large:
            kinds = KINDS_OF_LARGE
        kind = kinds[rng.integers(len(kinds))]
        case = kind(rng, dtype)
        ways = [str(rng.choice(list(LAYOUTS))) for _ in case.cores]
        for _ in range(calls):
            self.call(seed, kind.__name__, dtype, case, ways, rng)
        self.shapes[kind.__name__] += 1

    def call(self, seed, kind, dtype, case, ways, rng):
        count = int(rng.choice([1, rng.integers(1, 40), rng.integers(1, MAX_MATRICES)], p=[0.2, 0.6, 0.2]))
        stacks = case.draw(rng, min(count, case.most))
        here, there = [], []
        for x, way in zip(stacks, ways, strict=True):
            memory, view = LAYOUTS[way](x)
            for arrays, put in ((here, lambda y: y), (there, self.library.put)):
                arrays.append(view(put(memory)))
        if rng.random() < 0.2:  # one operand is the same for all
            i = rng.integers(len(here))
            here[i], there[i] = here[i][0], there[i][0]
        tolerance, least = case.tolerance, 0
        if case.program is not None and _is_fused(case.program, there):
            tolerance = 0  # otherwise the steps are the array's library's
        if self.library is CuPy and kind == "of_compositions":
            least = 1e-35  # it takes subnormal float32 numbers for zeros
        expected = outcome(case.function, here)
        found = outcome(case.function, list(map(self.library.taken, there)), self.library.get)
        text = ""
        if found[0] is not expected[0] and found[0] is NotImplementedError:
            self.refused[f"{case.name.partition(' ')[0]}: {found[1][:60]}"] += 1
            return
        if found[0] is not expected[0]:
            text = f"{_word(expected)} here, {_word(found)} there"
        elif len(found[2]) != len(expected[2]):
            text = f"{len(expected[2])} results here, {len(found[2])} there"
        else:
            texts = (difference(x, y, tolerance, least) for x, y in zip(expected[2], found[2], strict=True))
            text = next((f"result {i}: {t}" for i, t in enumerate(texts) if t), "")
        self.compared[kind] += 1
        if text:
            self.wrong += 1
            shapes = ", ".join(f"{way} {tuple(x.shape)}" for way, x in zip(ways, here, strict=True))
            print(f"DIFFERENT --only {seed}: {case.name}, {dtype}, {shapes}: {text}", flush=True)


def _is_fused(program, arrays):
    try:
        return program.explain(*arrays).fused
    except Exception:  # which the call will raise, too
        return True


def _word(found):
    return f"{found[0].__name__} ({found[1][:200]})" if found[0] else "results"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--shapes", type=int, default=None, help="at most so many")
    parser.add_argument("--calls", type=int, default=24, help="of each shape")
    parser.add_argument("--seed", type=int, default=None, help="by default a new one")
    parser.add_argument("--only", type=int, help="the shape with this seed alone")
    parser.add_argument(
        "--library", choices=LIBRARIES, default="torch", help="whose arrays are on the device"
    )
    parser.add_argument("--programs", type=float, default=1 / 3, help="the share of fused functions")
    parser.add_argument(
        "--large", type=float, default=1 / 4, help="of the other functions, the share of orders above 32"
    )
    parser.add_argument("--verbose", action="store_true", help="print the seed of each shape before it runs")
    arguments = parser.parse_args()
    run = Run(arguments.library, arguments.programs, arguments.large, arguments.verbose)
    seed = np.random.SeedSequence().entropy % 10**9 if arguments.seed is None else arguments.seed
    seeds = itertools.count(seed * 10**6)
    if arguments.only is not None:
        seeds = iter([arguments.only])
    end = time.monotonic() + arguments.seconds
    for shape in itertools.islice(seeds, arguments.shapes):
        if time.monotonic() > end:
            break
        run.shape(shape, arguments.calls)
    compared, shapes = run.compared.total(), run.shapes.total()
    print(f"seed {seed}: {compared} calls of {shapes} shapes compared, {run.wrong} differ")
    print("calls", dict(run.compared), "shapes", dict(run.shapes))
    print("refused on the device:", dict(run.refused.most_common(40)))
    return min(run.wrong, 100)


if __name__ == "__main__":
    sys.exit(main())
