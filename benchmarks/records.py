"""Rows of results, and where they come from: the one reader and writer of benchmarks/results/.

A file is one JSON document with a row a line, so it can be read and compared as text:

    {"machine": {...},                                   what `machine` of host/ or device/ says
    "shared": [
    [{}, {"commit": "...", "date": "..."}],              every row has these fields
    [{"contender": "NumPy"}, {"version": "..."}]],       so has every row with these values
    "columns": ["op", "n", "contender", ...],
    "rows": [
    ["solve", 3, "NumPy", ...],
    ["solve", 3, "smallmm", ..., {"extra": 1}]]}         fields that not every row has come last

`read` gives each row as a dictionary of all its fields.
"""

from __future__ import annotations

import datetime
import json
import shutil
import subprocess
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

Row = dict[str, Any]

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).resolve().parent / "results"

# Rows that agree in these fields may share others; a group of such rows has at least FEWEST on the average.
SHARED_BY = ((), ("contender",), ("contender", "op"), ("contender", "op", "dtype"))
FEWEST = 4


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _groups(rows: list[Row], fields: tuple[str, ...]) -> dict[str, list[Row]]:
    """The rows that agree in some fields, by these, in their order."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[_text({field: row[field] for field in fields})].append(row)
    return groups


def _agree(rows: list[Row], field: str) -> bool:
    """All rows have the same value, or none has the field."""
    return len({_text(row[field]) if field in row else None for row in rows}) == 1


def _share(rows: list[Row]) -> tuple[list[tuple[Row, Row]], list[Row]]:
    """Pairs (values, fields that rows with these values share); and the rows without what is shared."""
    fields = list(dict.fromkeys(field for row in rows for field in row))
    pairs: list[tuple[Row, Row]] = []
    for by in SHARED_BY:
        if not all(field in row for field in by for row in rows):
            continue
        groups = _groups(rows, by)
        if by and len(groups) * FEWEST > len(rows):
            continue
        alike = [
            field
            for field in fields
            if field not in by and all(_agree(group, field) for group in groups.values())
        ]
        for values, group in groups.items():
            shared = {field: group[0][field] for field in alike if field in group[0]}
            if shared:
                pairs.append((json.loads(values), shared))
        fields = [field for field in fields if field not in alike]
    return pairs, [{field: row[field] for field in fields if field in row} for row in rows]


def dumps(machine: Row, rows: list[Row]) -> str:
    """The text of a file."""
    pairs, rest = _share(rows)
    columns = [
        field for field in dict.fromkeys(f for row in rest for f in row) if all(field in r for r in rest)
    ]
    lines = []
    for row in rest:
        extra = {field: value for field, value in row.items() if field not in columns}
        lines.append(_text([*(row[field] for field in columns), *([extra] if extra else [])]))
    parts = {
        "machine": _text(machine),
        "shared": "[\n" + ",\n".join(map(_text, pairs)) + "]",
        "columns": _text(columns),
        "rows": "[\n" + ",\n".join(lines) + "]",
    }
    return "{" + ",\n".join(f'"{name}": {text}' for name, text in parts.items()) + "}\n"


def loads(text: str) -> tuple[Row, list[Row]]:
    """The machine and the rows of a file."""
    document = json.loads(text)
    rows = []
    for line in document["rows"]:
        extra = line[len(document["columns"]) :]
        row = dict(zip(document["columns"], line, strict=False)) | (extra[0] if extra else {})
        for values, fields in document["shared"]:
            # Values that are shared themselves came with an earlier pair.
            if values.items() <= row.items():
                row |= fields
        rows.append(row)
    return document["machine"], rows


def read(path: Path) -> tuple[Row, list[Row]]:
    """The machine and the rows of a file."""
    return loads(path.read_text(encoding="utf-8"))


def write(path: Path, machine: Row, rows: list[Row]) -> None:
    """Replace a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dumps(machine, rows), encoding="utf-8")


# --- where rows come from -------------------------------------------------------------------------


@cache
def commit() -> str:
    """The commit, with +dirty when the code that is measured, or measures, differs from it."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(ROOT), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    if not shutil.which("git"):
        return "unknown"
    code = ("csrc", "smallmm", "setup.py", "benchmarks/**/*.py", "benchmarks/**/*.c")
    changed = git(
        "status", "--porcelain", "--", *(f":(glob){path}" if "*" in path else path for path in code)
    )
    return (git("rev-parse", "--short=12", "--verify", "-q", "HEAD") or "none") + (
        "+dirty" if changed else ""
    )


def today() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")


class Run:
    """The rows of one topic: `add` them, then `write` them with machine, commit and date."""

    def __init__(self, path: Path, machine: Row, commit: str):
        self.path, self.machine = path, machine
        self.origin = {"commit": commit, "date": today()}
        self.rows: list[Row] = []

    def add(self, row: Row) -> Row:
        self.rows.append(row | self.origin)
        return self.rows[-1]

    def write(self) -> None:
        write(self.path, self.machine, self.rows)
