"""`smallmm.bench`: ours beside the libraries that are installed. Validate, then time, then say where we lost.

benchmarks/ uses the same timer (`measure`), rows, operations and checks (`operations`). It adds what a user
does not have: the machine's limits, compiled contenders, and files of rows. The libraries are in
`contenders`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import smallmm

from .._base.errors import shown
from .._base.options import flag, integer
from .._gpu.device import to_host
from .contenders import ON_DEVICE, ON_HOST, PEERS, BenchDevice, Contender, bench_device, our_own
from .operations import NUMBERS, OPERATIONS, Operation, Stack, bytes_of, sizes_of, stack, validate
from .plots import OURS, draw_times, legend, over_orders
from .progress import tqdm
from .timing import Call, Timing, clock, measure

Row = dict[str, Any]

ORDERS = (2, 3, 4, 6, 8, 12, 16, 24, 32)
QUICK = (2, 4, 8, 16, 32)
SECONDS, QUICK_SECONDS = 120.0, 25.0  # spent on timing, if no contender is slow
FOOTPRINT, DEVICE_FOOTPRINT = 2 << 20, 256 << 20  # bytes of operands: in a host's caches, beyond a GPU's


# --- cases ----------------------------------------------------------------------------------------


@dataclass
class Entry:
    """A call of a case, and what its row says: flops and bytes are the work and traffic of that call."""

    call: Call
    fields: Row


def enter(
    contender: Contender,
    op: Operation,
    dtype: str,
    on_host: Stack,
    there: Stack | None = None,
    *,
    limit: int = 2048,
    around: Callable[[Call], Call] = lambda call: call,
    **fields: Any,
) -> Entry | None:
    """Bind a contender to a stack, which may lie elsewhere (`there`), and validate what it computes.

    `around` changes the call that is validated and timed. None: it has no such function. A result that is
    wrong is an AssertionError.
    """
    job = contender.bind(op, on_host if there is None else there)
    if job is None:
        return None
    for out in on_host.outs if there is None else ():
        out.fill(-1)
    call = around(job.call)
    found = [to_host(x) for x in job.read(call())]
    batch = len(found[0])
    a = on_host.a if job.of is None else job.of
    validate(job.words, job.does or op, a, on_host.b, found, limit)
    m, k, n = sizes_of(op, on_host)
    who = {"contender": contender.name, "version": contender.version, "call": job.words, "less": job.less}
    case = {"op": op.name, "dtype": dtype, "m": m, "k": k, "n": n, "batch": batch}
    times = 4 if on_host.a.dtype.kind == "c" else 1  # a product of complex numbers is four of reals
    work = {"flops": times * op.flops(m, k, n) * batch, "bytes": on_host.nbytes(batch)}
    return Entry(call, case | who | work | fields)


def row(timing: Timing, *, batch: int, flops: float, bytes: float, repeats: int = 1, **fields: Any) -> Row:
    """What was measured: `flops` and `bytes` are those of one timed call, which works `repeats` times through
    the batch."""
    each = batch * repeats
    return {
        **fields,
        "batch": batch,
        "ns_per_matrix": float(f"{timing.median / each:.5g}"),
        "quartiles": [float(f"{t / each:.5g}") for t in (timing.low, timing.high)],
        "samples": timing.samples,
        "gflops": float(f"{flops / timing.median:.4g}"),
        "gbytes": float(f"{bytes / timing.median:.4g}"),
    }


def timed(entries: list[Entry], **how: Any) -> list[Row]:
    """Time the entries together: a row for each."""
    if not entries:
        return []
    times = measure({str(i): entry.call for i, entry in enumerate(entries)}, **how)
    return [row(times[str(i)], **entry.fields) for i, entry in enumerate(entries)]


# --- the benchmark --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Results:
    """What `bench` found. Print it, for a table of each operation and where we lost; or take the rows."""

    about: dict[str, Any]  # device, versions of the contenders, and show_config's
    rows: list[Row]
    left_out: dict[str, str]  # what was not timed, and why

    def __str__(self) -> str:
        groups = itertools.groupby(self.rows, lambda row: (row["op"], row["dtype"]))
        return "\n\n".join([self.head(), *(table(list(rows)) for _, rows in groups), self.tail()])

    __repr__ = __str__

    def head(self) -> str:
        """Where this is, and who takes part."""
        about = self.about
        versions = ", ".join(f"{name} {version}" for name, version in about["contenders"].items())
        on = f"{about['cpu']}, {about['isa']}, {about['threads']} thread(s)"
        settings = [f"{name}={value}" for name, value in about["environment"].items()]  # may slow others down
        return "\n".join([on if about["device"] == "cpu" else about["device"], versions, *settings])

    def tail(self) -> str:
        """What was left out; in the last line, where we lost."""
        return "\n".join([*(f"left out: {what}: {why}" for what, why in self.left_out.items()), self.lost()])

    def lost(self) -> str:
        """Where another is faster, in one line: its time / ours."""
        cases, at = 0, []
        for ours, others in _cases(self.rows):
            cases += bool(others)
            for r in others:
                if r["ns_per_matrix"] < ours["ns_per_matrix"]:
                    spread = " within the spread" if r["quartiles"][1] >= ours["quartiles"][0] else ""
                    ratio = r["ns_per_matrix"] / ours["ns_per_matrix"]
                    case = f"{ours['op']} {ours['dtype']} n = {ours['n']}"
                    at.append(f"{case}: {r['contender']} ({ratio:.2f}{spread})")
        if not cases:
            return "Where we lost: there was nobody to compare with."
        return f"Where we lost (their time / ours), of {cases} cases: {'; '.join(at) or 'nowhere'}."

    def to_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return {"about": self.about, "rows": self.rows, "left_out": self.left_out, "lost": self.lost()}

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw ns per matrix against n, for each operation and dtype, ours in black, with the quartiles.

        Returns the matplotlib Figure, which a notebook shows; with `path` it is written there too.
        """
        from matplotlib.figure import Figure

        ops, dtypes = (list(dict.fromkeys(row[field] for row in self.rows)) for field in ("op", "dtype"))
        columns = min(4, len(ops))
        lines = -(-len(ops) // columns)
        figure = Figure(figsize=(1 + 3.2 * columns, 1 + 2.8 * lines * len(dtypes)), layout="constrained")
        axes = figure.subplots(lines * len(dtypes), columns, squeeze=False, sharex=True, sharey=True)
        for axis in axes.flat:
            axis.set_visible(False)
        for (i, dtype), (j, op) in itertools.product(enumerate(dtypes), enumerate(ops)):
            axis = axes[i * lines + j // columns, j % columns]
            axis.set_visible(True)
            axis.set_title(f"{op} {dtype}", fontsize=10)
            of_case = [row for row in self.rows if (row["op"], row["dtype"]) == (op, dtype)]
            draw_times(axis, of_case, marker=".")
            over_orders(axis, sorted({row["n"] for row in of_case}))
            axis.tick_params(labelsize=8, labelbottom=True, labelleft=True)
        legend(figure, axes.flat)
        figure.supxlabel("n", fontsize=10)
        figure.supylabel("ns per matrix", fontsize=10)
        figure.suptitle(self.head().partition("\n")[0], fontsize=10, x=0.02, ha="left")
        if path is not None:
            figure.savefig(path, dpi=120)
        return figure


def _cases(rows: list[Row]) -> Iterator[tuple[Row, list[Row]]]:
    """Our row of each case, and the others'."""
    for _, case in itertools.groupby(rows, lambda row: (row["op"], row["dtype"], row["n"])):
        by_name = {row["contender"]: row for row in case}
        if OURS in by_name:
            yield by_name.pop(OURS), list(by_name.values())


def table(rows: list[Row]) -> str:
    """ns per matrix of one operation and dtype: a line for each n; quartiles after each median."""
    names = list(dict.fromkeys(row["contender"] for row in rows))
    lines = [["n", "batch", *names, "times faster"]]
    for ours, others in _cases(rows):
        cells = {row["contender"]: _cell(row) for row in (ours, *others)}
        best = min((row["ns_per_matrix"] for row in others), default=None)
        faster = _number(best / ours["ns_per_matrix"]) if best else ""
        lines.append([str(ours["n"]), str(ours["batch"]), *(cells.get(name, "") for name in names), faster])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    title = f"{rows[0]['op']} {rows[0]['dtype']}, ns per matrix (quartiles)"
    return "\n".join([title, *("  ".join(map(str.rjust, line, widths)) for line in lines)])


def _cell(row: Row) -> str:
    low, high = row["quartiles"]
    return f"{_number(row['ns_per_matrix'])} ({_number(low)}-{_number(high)})"


def _number(x: float) -> str:
    """Three digits, or all before the point."""
    return f"{x:.{max(0, 2 - math.floor(math.log10(x)))}f}" if x else "0"


def _listed(x: Any) -> list[Any]:
    """A list of one or several."""
    try:
        return [x] if isinstance(x, str) else list(x)
    except TypeError:
        return [x]


def _unknown(name: str, given: Iterable[Any], known: Iterable[Any]) -> None:
    for x in given:
        if not isinstance(x, str) or x not in known:
            raise ValueError(
                f"bench: {name} {shown(x)} is unknown; expected one of {', '.join(map(str, known))}"
            )


def bench(
    op: str | Iterable[str] | None = None,
    n: int | Iterable[int] | None = None,
    dtype: str | Iterable[str] = ("f64", "f32"),
    *,
    device: str = "cpu",
    batch: int | None = None,
    peers: Iterable[str] | None = None,
    quick: bool = False,
    seconds: float | None = None,
    show: Callable[[str], object] | None = None,
) -> Results:
    """Time smallmm beside the libraries that are installed.

    Every contender is validated before it is timed, all contenders of a case are timed in turn, and each with
    the threads that it takes by itself. Ours and the products write into memory that is there; other
    libraries' factorizations allocate, as their users' do.

    Parameters
    ----------
    op : str or iterable of str, optional
        Of ``matmul``, ``lu_factor``, ``solve``, ``inv``, ``det``, ``cholesky``, ``qr``,
        ``eig``, ``eigvals``, ``eigh``, ``eigvalsh``, ``svd``, ``svdvals``; by default all.
    n : int or iterable of int, optional
        Orders of the square matrices.
    dtype : {"f32", "f64", "c64", "c128"} or iterable of them
        Precisions; "c64" and "c128" are complex.
    device : str, optional
        ``"cpu"``, ``"cuda"`` or ``"cuda:1"``. Arrays on a GPU are PyTorch's, or else CuPy's.
    batch : int, optional
        Matrices of a stack; by default as many as make operands and results about 2 MB, on a GPU 256 MB.
    peers : iterable of str, optional
        The others: of ``NumPy``, ``SciPy`` and ``PyTorch``, on a GPU of ``PyTorch``, ``CuPy`` and ``JAX``;
        by default those installed.
    quick : bool, optional
        Fewer orders and less time for each: within a minute.
    seconds : float, optional
        How long the timing takes in all, about: 120 by default, 25 if quick.
    show : callable, optional
        Called with each table as it is done, `print` for example.

    Returns
    -------
    Results
        Print it for the tables; ``rows``, ``lost()``, ``plot()``, ``to_dict()`` for more.

    Raises
    ------
    CudaUnavailableError, RuntimeError
        The device is not there, or nothing that makes arrays on it.

    Examples
    --------
    >>> results = smallmm.bench("matmul", 3, "f64", seconds=0.1, peers=["NumPy"])
    >>> [row["contender"] for row in results.rows]
    ['smallmm', 'NumPy']
    """
    quick = flag("bench", "quick", quick)
    ops = _listed(OPERATIONS if op is None else op)
    orders = [integer("bench", "n", x) for x in _listed((QUICK if quick else ORDERS) if n is None else n)]
    dtypes = _listed(dtype)
    _unknown("op", ops, OPERATIONS)
    _unknown("dtype", dtypes, NUMBERS)
    peers = None if peers is None else _listed(peers)
    _unknown("peer", peers or (), PEERS)
    for order in orders:
        if order < 1:
            raise ValueError(f"bench: n is {order}; expected orders of at least 1")
    batch = None if batch is None else integer("bench", "batch", batch, bits=63, least=1)
    if seconds is not None and not (isinstance(seconds, Real) and seconds >= 0):
        raise ValueError(f"bench: seconds is {shown(seconds)}; expected a number >= 0")
    if show is not None and not callable(show):
        raise TypeError(f"bench: show is {shown(show)}; expected a function")
    place = bench_device(device)
    left_out: dict[str, str] = {}
    contenders = [our_own()]
    for name in ON_HOST if device == "cpu" else ON_DEVICE:
        if peers is None or name in peers:
            try:
                contenders.append(PEERS[name]())
            except ImportError as missing:
                left_out[name] = f"not installed ({missing})"
    about = {
        "device": place.name,
        "contenders": {contender.name: contender.version for contender in contenders},
        **smallmm.show_config("dicts"),
    }
    results = Results(about, [], left_out)
    if show:
        show(f"{results.head()}\n")
    cases = len(ops) * len(dtypes) * len(orders)
    seconds = (QUICK_SECONDS if quick else SECONDS) if seconds is None else seconds
    for name, kind in itertools.product(ops, dtypes):
        group: list[Row] = []
        # A bar on a terminal alone (disable=None), gone when the table comes.
        for order in tqdm(orders, desc=f"{name} {kind}", leave=False, disable=None):
            group += _case(
                OPERATIONS[name], kind, order, batch, place, contenders, left_out, budget_s=seconds / cases
            )
        results.rows.extend(group)
        if show and group:
            show(f"{table(group)}\n")
    if show:
        show(results.tail())
    return results


def _case(
    op: Operation,
    dtype: str,
    n: int,
    batch: int | None,
    place: BenchDevice,
    contenders: list[Contender],
    left_out: dict[str, str],
    budget_s: float,
) -> list[Row]:
    """Bind, validate and time all contenders of one case. No rows if ours does not take it."""
    on_host = place.name == "cpu"
    footprint = FOOTPRINT if on_host else DEVICE_FOOTPRINT
    operands = stack(op, dtype, n, batch or max(1, footprint // bytes_of(op, dtype, n)))
    there = None
    if not on_host:
        there = Stack(place.put(operands.a), operands.b if operands.b is None else place.put(operands.b))
    entries = []
    for contender in contenders:
        what = f"{contender.name} {op.name}" + ("" if on_host else " on a device")
        try:
            entry = enter(contender, op, dtype, operands, there, limit=256)
        except (TypeError, NotImplementedError, ImportError) as reason:  # ImportError: what it is built upon
            left_out[what] = str(reason)
            if contender.name == OURS:
                return []
            continue
        except AssertionError as wrong:
            if contender.name == OURS:
                raise
            left_out[what] = str(wrong)
            continue
        if entry:
            entries.append(entry)
    sample_s = 1e-3 if on_host else 1e-2
    return timed(entries, budget_s=budget_s, sample_s=sample_s, least=3, sample=clock(place.wait))
