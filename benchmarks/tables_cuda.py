"""The tables and the plot of docs/cuda.md, from the rows that bench_cuda.py and
bench_cuda_linalg.py wrote.

python benchmarks/tables_cuda.py            # rewrite them
python benchmarks/tables_cuda.py --check    # fail if they differ
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "cuda.md"
RESULTS = HERE / "results" / "cuda"
TUNED = HERE.parent / "smallmm" / "tuned"
BEGIN, END = "<!-- begin: cuda -->", "<!-- end: cuda -->"
PEERS = ("cuBLAS", "torch.bmm", "cupy.matmul", "jax")
Row = dict[str, Any]


def read(path: Path) -> tuple[Row, list[Row]]:
    head, *rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return head["machine"], rows


def table(head: list[str], lines: list[list[str]]) -> str:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, rule, *lines])


def commits(rows: list[Row]) -> str:
    """Of the rows, and which operations were measured again later, at another one."""
    of_op = {r["op"]: r["commit"] for r in rows if r["contender"] == "smallmm"}
    first, *later = dict.fromkeys(of_op.values())
    again = [f"{', '.join(op for op in of_op if of_op[op] == x)} at {x}" for x in later]
    return f"commit {first}" + (f" ({'; '.join(again)})" if again else "")


def square(about: Row, rows: list[Row], plot: str) -> list[str]:
    found = {(r["contender"], r["dtype"], r["n"]): r for r in rows}
    orders = sorted({n for *_, n in found})
    parts = [
        f"![percent of the copy against n](../benchmarks/results/cuda/{plot})",
        f"{about['device']}, driver {about['driver']}, operands of 1 GiB, square matrices, `out=` "
        f"preallocated; the copy moves {about['copy_bytes_per_s'] / 1e12:.2f} TB/s (read and write "
        f"counted); commit {about['commit']}, {about['date']}. Percent: compulsory traffic over "
        "time, as a share of the copy. "
        "JAX allocates its results.",
    ]
    for dtype in ("f64", "f32"):
        lines = []
        for n in orders:
            ours = found["smallmm", dtype, n]
            ratios = [
                f"{found[p, dtype, n]['ns_per_matrix'] / ours['ns_per_matrix']:.3g}x"
                if (p, dtype, n) in found
                else ""
                for p in PEERS
            ]
            lines.append([str(n), f"{ours['ns_per_matrix']:.3g}", f"{ours['percent']:.0f}", *ratios])
        parts.append(table([f"{dtype}, n", "ns", "% of copy", *(f"faster than {p}" for p in PEERS)], lines))
    return parts


def larger(rows: list[Row]) -> str:
    """Above the orders that the library is for."""
    lines: dict[str, list[str]] = {}
    for ours in (r for r in rows if r["contender"] == "smallmm"):
        others = (
            r for r in rows if r["contender"] in PEERS and r["dtype"] == ours["dtype"] and r["n"] == ours["n"]
        )
        best = min(others, key=lambda r: r["ns_per_matrix"])
        ratio = best["ns_per_matrix"] / ours["ns_per_matrix"]
        lines.setdefault(ours["dtype"], [ours["dtype"]]).append(
            f"{ours['percent']:.0f} %, {ratio:.2f}x {best['contender']}"
        )
    orders = sorted({r["n"] for r in rows})
    return table(["% of copy, times faster than the best other; n =", *map(str, orders)], [*lines.values()])


def rect(rows: list[Row]) -> str:
    ours = [r for r in rows if r["contender"] == "smallmm"]
    theirs = [r for r in rows if r["contender"] == "torch.bmm"]
    percents = [r["percent"] for r in ours]
    ratios = [t["ns_per_matrix"] / o["ns_per_matrix"] for o, t in zip(ours, theirs, strict=True)]
    return (
        f"{len(ours)} random (m, k, n) in 1..32: {statistics.median(percents):.0f} % of the copy on the "
        f"median, {min(percents):.0f} % at least; {statistics.median(ratios):.3g} times faster than "
        f"`torch.bmm` on the median, {min(ratios):.3g} at least."
    )


def layout(rows: list[Row]) -> str:
    base = {(r["dtype"], r["n"]): r["percent"] for r in rows if r["layout"] == "contiguous"}
    lines = []
    for kind in dict.fromkeys(r["layout"] for r in rows if r["layout"] != "contiguous"):
        shares = [(r["percent"] / base[r["dtype"], r["n"]], r) for r in rows if r["layout"] == kind]
        least, worst = min(shares, key=lambda x: x[0])
        median = statistics.median(share for share, _ in shares)
        lines.append([kind, f"{100 * median:.0f}", f"{100 * least:.0f} ({worst['dtype']} n = {worst['n']})"])
    return table(["share of the contiguous figure, %", "median", "least"], lines)


def small(rows: list[Row]) -> str:
    names = [name for name in ("smallmm", *PEERS) if any(r["contender"] == name for r in rows)]
    batches = sorted({r["batch"] for r in rows})
    found = {
        (r["contender"], r["dtype"], r["n"], r["batch"]): r["ns_per_matrix"] * r["batch"] / 1e3 for r in rows
    }
    lines = [
        [
            f"{dtype} n = {n}",
            *(" / ".join(f"{found[name, dtype, n, batch]:.3g}" for name in names) for batch in batches),
        ]
        for dtype, n in dict.fromkeys((r["dtype"], r["n"]) for r in rows)
    ]
    return table([f"us, {' / '.join(names)}; batch =", *(f"{batch:,}" for batch in batches)], lines)


def call(rows: list[Row]) -> str:
    def median(contender: str) -> float:
        return statistics.median(r["host_us"] for r in rows if "host_us" in r and r["contender"] == contender)

    def most(what: str) -> float:
        return max(r["ms"] for r in rows if r.get("what") == what)

    return (
        f"Host side of a call on tensors (1000, n, n): {median('smallmm'):.1f} us, `torch.bmm` "
        f"{median('torch.bmm'):.1f}. First compile of a kernel at most {most('first compile'):.0f} ms, "
        f"from disk {most('from disk'):.2g} ms."
    )


def pyplot() -> Any:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "smallmm"
    from matplotlib import pyplot as plt

    return plt


def draw(path: Path, about: Row, rows: list[Row]) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    for axis, dtype in zip(axes, ("f64", "f32"), strict=True):
        for name in ("smallmm", *PEERS):
            points = sorted(
                (r["n"], r["percent"]) for r in rows if (r["contender"], r["dtype"]) == (name, dtype)
            )
            if points:
                axis.plot(*zip(*points, strict=True), label=name, linewidth=2.5 if name == "smallmm" else 1.2)
        axis.set(title=f"{dtype}, {about['device']}", xlabel="n", ylim=(0, None))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("percent of a device-to-device copy")
    axes[1].legend()
    figure.savefig(path, metadata={"Date": None})


NAMES = {
    "lu": "`lu_factor_ex`",
    "cholesky": "`cholesky_ex`",
    "inv": "`inv_ex`",
    "solve": "`solve_ex`, 1 right-hand side",
    "qr_raw": '`qr(mode="raw")`',
    "qr": "`qr`",
    "det": "`det`",
    "lu_solve": "`lu_solve`",
    "cho_solve": "`cho_solve`",
    "solve_triangular": "`solve_triangular`",
    "lstsq": "`lstsq`",
}
LISTED = (2, 3, 4, 6, 8, 12, 16, 24, 32)


def linalg(about: Row, rows: list[Row], plot: str) -> list[str]:
    """A table for each dtype: of each operation ns a matrix, percent of the copy, the best of the others."""
    parts = [
        "### Factorizations and solves",
        f"![percent of the copy against n](../benchmarks/results/cuda/{plot})",
        f"{about['device']}, driver {about['driver']}, operands of 1 GiB, one matrix in and one out "
        "(of solves, one right-hand side in and out), pivots, info and tau not counted; others timed on at "
        f"most 100,000 matrices; {commits(rows)}, {about['date']}. ns a matrix; percent of the "
        "copy; times faster than the best other, which is named.",
    ]
    for dtype in ("f64", "f32"):
        lines = []
        for op in dict.fromkeys(r["op"] for r in rows):
            line = [NAMES[op]]
            for n in LISTED:
                found = {r["contender"]: r for r in rows if (r["op"], r["dtype"], r["n"]) == (op, dtype, n)}
                ours = found.pop("smallmm", None)
                cell = f"{ours['ns_per_matrix']:.3g} ns, {ours['percent']:.0f} %" if ours else ""
                if ours and found:
                    best = min(found.values(), key=lambda r: r["ns_per_matrix"])
                    ratio = best["ns_per_matrix"] / ours["ns_per_matrix"]
                    cell += f", {ratio:.3g}x {short(best['contender'])}"
                line.append(cell)
            lines.append(line)
        parts.append(table([f"{dtype}, n =", *map(str, LISTED)], lines))
    return parts


def tuned() -> list[str]:
    """Where there are no rows beside others yet: what the sweep that filled smallmm/tuned/ measured."""
    rows: dict[str, dict[tuple[str, int], Row]] = {}
    for path in sorted(TUNED.glob("nvidia-h200-sm90/*.json")):
        for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
            if row["op"] != "MATMUL" and not row["small"] and row["m"] == row["n"]:
                rows.setdefault(row["op"].lower(), {})[row["dtype"], row["n"]] = row
    parts = [
        "### Factorizations and solves",
        "NVIDIA H200; of operands of 1 GiB, as the sweep measured that chose the kernels' parameters: ns a "
        "matrix, and percent of the copy (one matrix in and one out; of solves, a right-hand side each way; "
        "pivots, info and tau not counted). Not yet measured beside other libraries. Since then the Cholesky "
        "kernel has another, correctly rounded, square root.",
    ]
    for dtype in ("f64", "f32"):
        lines = [
            [
                NAMES[op],
                *(
                    f"{of[dtype, n]['ns']:.3g} ns, {of[dtype, n]['percent']:.0f} %"
                    if (dtype, n) in of
                    else ""
                    for n in LISTED
                ),
            ]
            for op, of in rows.items()
            if op in NAMES
        ]
        parts.append(table([f"{dtype}, n =", *map(str, LISTED)], lines))
    return parts


def short(contender: str) -> str:
    """The library of a contender."""
    return contender.partition(".")[0]


def draw_linalg(path: Path, about: Row, rows: list[Row]) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    for axis, dtype in zip(axes, ("f64", "f32"), strict=True):
        for op in ("lu", "cholesky", "inv", "solve", "qr_raw"):
            points = sorted(
                (r["n"], r["percent"])
                for r in rows
                if (r["contender"], r["dtype"], r["op"]) == ("smallmm", dtype, op)
            )
            if points:
                axis.plot(*zip(*points, strict=True), label=NAMES[op].replace("`", ""))
        axis.set(title=f"{dtype}, {about['device']}", xlabel="n", ylim=(0, None))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("percent of a device-to-device copy")
    axes[1].legend()
    figure.savefig(path, metadata={"Date": None})


def call_linalg(rows: list[Row]) -> str:
    def text(op: str, contender: str) -> str:
        found = [r["host_us"] for r in rows if (r["op"], r["contender"]) == (op, contender)]
        return f"{statistics.median(found):.1f}"

    return (
        f"Host side of `inv_ex` on tensors (1000, n, n): {text('inv', 'smallmm')} us, "
        "PyTorch's "
        f"{text('inv', 'torch.linalg.inv_ex')}; of `solve_ex`: {text('solve', 'smallmm')} and "
        f"{text('solve', 'torch.linalg.solve_ex')}."
    )


def small_linalg(rows: list[Row]) -> str:
    orders = sorted({r["n"] for r in rows})
    found = {(r["op"], r["dtype"], r["n"], r["batch"]): r["ns_per_matrix"] * r["batch"] / 1e3 for r in rows}
    lines = [
        [
            f"{NAMES[op]} {dtype}",
            *(
                " / ".join(
                    f"{found[op, dtype, n, b]:.3g}" if (op, dtype, n, b) in found else ""
                    for b in (100, 1000, 10_000)
                )
                for n in orders
            ),
        ]
        for op, dtype in dict.fromkeys((r["op"], r["dtype"]) for r in rows)
    ]
    return table(["us for a batch of 100 / 1,000 / 10,000; n =", *map(str, orders)], lines)


def page(drawing: bool) -> str:
    parts = []
    for path in sorted(RESULTS.glob("matmul-nvidia-*-square.jsonl")):
        slug = path.name.removesuffix("-square.jsonl")
        about, rows = read(path)
        if drawing:
            draw(RESULTS / f"{slug}.svg", about, rows)
        parts += square(about, rows, f"{slug}.svg")
        topics = {"larger": larger, "rect": rect, "layout": layout, "small": small, "call": call}
        for topic, words in topics.items():
            other = RESULTS / f"{slug}-{topic}.jsonl"
            if other.exists():
                its, of_topic = read(other)
                parts.append(words(of_topic))
                if (its["commit"], its["date"]) != (about["commit"], about["date"]):
                    parts[-1] += f"\n\n(commit {its['commit']}, {its['date']})"
    measured = sorted(RESULTS.glob("linalg-nvidia-*-square.jsonl"))
    if not measured:
        parts += tuned()
    for path in measured:
        slug = path.name.removesuffix("-square.jsonl")
        about, rows = read(path)
        if drawing:
            draw_linalg(RESULTS / f"{slug}.svg", about, rows)
        parts += linalg(about, rows, f"{slug}.svg")
        for topic, words in (("small", small_linalg), ("call", call_linalg)):
            other = RESULTS / f"{slug}-{topic}.jsonl"
            if other.exists():
                parts.append(words(read(other)[1]))
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.index(BEGIN) + len(BEGIN), text.index(END)
    return text[:before] + "\n" + "\n\n".join(parts) + "\n" + text[after:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    text = page(drawing=not arguments.check)
    if arguments.check:
        sys.exit(text != PAGE.read_text(encoding="utf-8") and f"{PAGE} is not what its rows say")
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
