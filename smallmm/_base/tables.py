"""Named tuples as tables, as notebooks show them."""

from html import escape
from typing import Any

_LEFT = "style='text-align:left'"


def html_table(x: Any) -> str:
    """The fields of a named tuple that say something, below the first line of its text. Tuples of named
    tuples are tables of their own."""
    rows = "".join(
        f"<tr><th {_LEFT}>{escape(name)}</th><td {_LEFT}>{_cell(value)}</td></tr>"
        for name, value in zip(x._fields, x, strict=True)
        if value not in (None, "", (), 0)
    )
    return f"<table><caption>{escape(str(x).partition(chr(10))[0])}</caption>{rows}</table>"


def _cell(value: Any) -> str:
    if hasattr(value, "_fields"):
        return html_table(value)
    if isinstance(value, tuple) and value and hasattr(value[0], "_fields"):
        head = "".join(f"<th>{escape(name)}</th>" for name in value[0]._fields)
        body = "".join(f"<tr>{''.join(f'<td>{_cell(part)}</td>' for part in row)}</tr>" for row in value)
        return f"<table><tr>{head}</tr>{body}</table>"
    if isinstance(value, tuple):
        return " ".join(
            "(" + ", ".join(map(_cell, x)) + ")" if isinstance(x, tuple) else _cell(x) for x in value
        )
    if value is None:
        return ""
    return escape(f"{value:.4g}" if isinstance(value, float) else str(value))
