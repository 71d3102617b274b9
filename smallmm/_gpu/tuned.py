"""The tuned rows of CUDA kernels: smallmm/tuned/<device>/*.json, a folder for each device that was tuned, and
those that `tune` found for this user, in the folder tuned/<device>/ of the user's cache, a file each."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from .. import _core
from .._base.errors import shown

if TYPE_CHECKING:  # it would take a quarter of the time that importing smallmm does
    from collections.abc import Callable
    from pathlib import Path

# What a row says besides its problem and its kernel's parameters: nanoseconds a matrix, percent of a copy,
# in which of the table's runs it was measured, and the next best kernel.
MEASURED = frozenset(("ns", "percent", "run", "runner_up"))
RUN = ("date", "commit", "driver", "nvrtc")  # of which what is unknown is null
OF_RUN = (*RUN, "version", "texts")
MAX_BYTES = 1 << 16  # of a file of one row
Row = dict[str, Any]


class Tuned(NamedTuple):
    """All rows that this build understands, and what was skipped."""

    rows: list[Row]  # each with its table's "device" and "arch"; "date" and so on are its run's
    skipped: dict[str, str]  # of a file: why, or how many of its rows


def load(folder: Path | None = None) -> Tuned:
    """The tables of a folder, which is that of the package.

    A table may come from another version. Files that are no tables are skipped, and so are rows of kernels,
    operations or parameters that this build lacks."""
    from pathlib import Path

    folder = Path(__file__).parents[1] / "tuned" if folder is None else folder
    return _load(folder, lambda path: path.read_text(encoding="utf-8"), lambda row: True)


def _load(folder: Path, read: Callable[[Path], str], holds: Callable[[Row], bool]) -> Tuned:
    """The rows that this build understands, and that hold here."""
    import json  # here and below: every import of smallmm would take longer
    import math

    def finite(text: str) -> float:
        """A number with a point or an exponent, or what json takes for one."""
        number = float(text)
        if not math.isfinite(number):
            raise ValueError(f"{text} is not finite")
        return number

    catalog = _core.cuda_catalog()
    rows: list[Row] = []
    skipped: dict[str, str] = {}
    for path in sorted(folder.glob("*/*.json")):
        name = path.relative_to(folder).as_posix()
        try:
            table = json.loads(read(path), parse_float=finite, parse_constant=finite)
            device = {"device": table["device"], "arch": table["compute_capability"]}
            if not (isinstance(device["device"], str) and device["device"].isprintable()):
                raise ValueError(f"device is {shown(device['device'])}")
            if not _is_natural(device["arch"]):
                raise ValueError(f"compute_capability is {shown(device['arch'])}")
            runs = dict(enumerate({x: run[x] for x in OF_RUN if x in run} for run in table["runs"]))
            given = [(row, runs[row["run"]]) for row in table["rows"]]
            known = [{**run, **row, **device} for row, run in given if _is_known(row, catalog)]
            known = [row for row in known if holds(row)]
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            skipped[name] = f"no table: {type(error).__name__} {error}"
            continue
        rows += known
        if len(known) < len(given):
            skipped[name] = f"{len(given) - len(known)} of {len(given)} rows"
    return Tuned(rows, skipped)


def _is_natural(x: Any) -> bool:
    return type(x) is int and 0 <= x < 1 << 16


def _is_known(row: Row, catalog: dict[str, Any]) -> bool:
    parameters = catalog["kernels"].get(str(row["kernel"]))
    if parameters is None or row["dtype"] not in catalog["ops"].get(str(row["op"]), ()):
        return False
    numbers = row.keys() - MEASURED - {"op", "dtype", "kernel"}
    return (
        numbers <= catalog["problem"].keys() | parameters.keys()
        and all(_is_natural(row[x]) for x in numbers)
        and all(type(row.get(x, 0)) in (int, float, type(None)) for x in ("ns", "percent"))
        and isinstance(row.get("runner_up"), dict | None)
    )


def table(device: str, arch: int, runs: list[Row], rows: list[Row]) -> str:
    """The text of a table: a line for each run, and for each row, whose "run" is the number of one."""
    import json

    head = f'"device": {json.dumps(device)}, "compute_capability": {arch}'
    lists = [",\n".join(map(json.dumps, x)) for x in (runs, rows)]
    return '{{{},\n"runs": [\n{}\n],\n"rows": [\n{}\n]}}\n'.format(head, *lists)


def slug_of(device: str) -> str:
    """A device's name in file names: nvidia-h200."""
    import re

    return re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")


def driver_version() -> str | None:
    """Of the NVIDIA driver, by its library NVML, which does not start CUDA; None: there is none."""
    import ctypes

    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    version = ctypes.create_string_buffer(96)
    if nvml.nvmlInit_v2() or nvml.nvmlSystemGetDriverVersion(version, len(version)):
        return None
    nvml.nvmlShutdown()
    return version.value.decode()


# --- the user's -----------------------------------------------------------------------------------

_kept: dict[str, Row] = {}  # what this process found, whether or not it was saved


def load_own(cache: Path | None) -> Tuned:
    """The user's rows, in the folder tuned/ of a cache, which may be none.

    Those of another driver, or of kernels whose texts have changed since, are skipped, and so are files that
    another user could have written."""
    if cache is None or not (cache / "tuned").is_dir():
        return Tuned([], {})
    driver = driver_version()

    def holds(row: Row) -> bool:
        return row["driver"] == driver and row["texts"] == _core.cuda_texts(row["kernel"])

    return _load(cache / "tuned", _read_own, holds)


def open_without_waiting(path: Path) -> BinaryIO:
    """What is no link, to read: nobody is waited for if it is a pipe."""
    return open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_NOFOLLOW))


def _read_own(path: Path) -> str:
    """A file's text; PermissionError where it, or its folders, do not belong to this user alone."""
    for folder in (path.parent, path.parent.parent):
        if not _core.cuda_may_cache(os.fsencode(folder)):
            raise PermissionError(f"{folder} does not belong to this user, or others may write to it")
    with open_without_waiting(path) as file:
        about = os.fstat(file.fileno())
        if about.st_uid != os.geteuid() or about.st_mode & 0o022:
            raise PermissionError("it does not belong to this user, or others may write to it")
        if about.st_size > MAX_BYTES:
            raise ValueError(f"it has {about.st_size} bytes")
        return file.read(MAX_BYTES).decode()


def keep(
    device: str, problem: Row, row: Row, ns: float, runner_up: Row, cache: Path | None, save: bool
) -> Path | None:
    """Have this process plan by a row that was found; and, to save it in the cache, others, too.

    Returns the file; None: it was not to be saved, or there is no cache. OSError: it cannot be written, but
    this process has the row."""
    import datetime

    arch = problem["arch"]
    numbers = {x: y for x, y in problem.items() if x != "arch"}
    whole = {**numbers, **row, "ns": ns, "percent": None, "runner_up": runner_up, "run": 0}
    run = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "version": _core.__version__,
        "driver": driver_version(),
        "nvrtc": _core.cuda_nvrtc_version(),
        "texts": _core.cuda_texts(row["kernel"]),
    }
    name = _name_of(numbers)
    place = f"{slug_of(device)}-sm{arch}"
    _kept[f"{place}/{name}"] = {**whole, "device": device, "arch": arch}
    use(cache)
    if cache is None or not save:
        return None
    path = cache / "tuned" / place / name
    _write(path, table(device, arch, [run], [whole]))
    return path


def _name_of(problem: Row) -> str:
    """A file's name says which problem it is of; the same problem has the same name."""
    usual = _core.cuda_catalog()["problem"]
    sizes = "x".join(str(problem[x]) for x in "mkn")
    rest = [f"{x}{y}" for x, y in sorted(problem.items()) if x in usual and x not in "mkn" and y != usual[x]]
    return "-".join([slug_of(problem["op"]), problem["dtype"], sizes, *rest]) + ".json"


def _write(path: Path, text: str) -> None:
    """By an atomic rename: readers see the file of before, or this one."""
    import tempfile

    for folder in (path.parent.parent.parent, path.parent.parent, path.parent):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def use(cache: Path | None) -> None:
    """Have the core plan by the package's rows and the user's."""
    own = load_own(cache)
    for name, why in own.skipped.items():
        if why.startswith("no table"):
            import warnings

            warnings.warn(
                f"smallmm ignores the tuned row {cache}/tuned/{name}: {why}; remove the file, or tune again",
                RuntimeWarning,
                stacklevel=2,
            )
    users = [{**row, "by_user": 1} for row in (*_kept.values(), *own.rows)]
    _core.cuda_tune([*users, *load().rows])
