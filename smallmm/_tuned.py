"""The tuned rows of CUDA kernels: smallmm/tuned/<device>/*.json, a folder for each device that was tuned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from . import _core

if TYPE_CHECKING:  # it would take a quarter of the time that importing smallmm does
    from pathlib import Path

# What a row says besides its problem and its kernel's parameters: nanoseconds a matrix, percent of a copy,
# in which of the table's runs it was measured, and the next best kernel.
MEASURED = frozenset(("ns", "percent", "run", "runner_up"))
RUN = ("date", "commit", "driver", "nvrtc")  # of which what is unknown is null


class Tuned(NamedTuple):
    """All rows that this build understands, and what was skipped."""

    rows: list[dict[str, Any]]  # each with its table's "device" and "arch"; "date" and so on are its run's
    skipped: dict[str, str]  # of a file: why, or how many of its rows


def load(folder: Path | None = None) -> Tuned:
    """The tables of a folder, which is that of the package.

    A table may come from another version. Files that are no tables are skipped, and so are rows of kernels,
    operations or parameters that this build lacks."""
    import json
    from pathlib import Path

    folder = Path(__file__).parent / "tuned" if folder is None else folder
    catalog = _core.cuda_catalog()
    rows: list[dict[str, Any]] = []
    skipped: dict[str, str] = {}
    for path in sorted(folder.glob("*/*.json")):
        name = path.relative_to(folder).as_posix()
        try:
            table = json.loads(path.read_text(encoding="utf-8"))
            device = {"device": str(table["device"]), "arch": int(table["compute_capability"])}
            given = [(row, table["runs"][row["run"]]) for row in table["rows"]]
            known = [{**run, **row, **device} for row, run in given if _is_known(row, catalog)]
        except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
            skipped[name] = f"no table: {type(error).__name__} {error}"
            continue
        rows += known
        if len(known) < len(given):
            skipped[name] = f"{len(given) - len(known)} of {len(given)} rows"
    return Tuned(rows, skipped)


def _is_known(row: dict[str, Any], catalog: dict[str, Any]) -> bool:
    parameters = catalog["kernels"].get(str(row["kernel"]))
    if parameters is None or row["op"] not in catalog["ops"] or row["dtype"] not in catalog["dtypes"]:
        return False
    numbers = row.keys() - MEASURED - {"op", "dtype", "kernel"}
    return numbers <= catalog["problem"].keys() | parameters.keys() and all(
        type(row[x]) is int and 0 <= row[x] < 1 << 16 for x in numbers
    )
