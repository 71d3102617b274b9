"""What README shows of the rows: six lines beside NumPy, and the figure, with where we lose in it. Both are
of float64, on the CPU and the GPU that most was measured on."""

from __future__ import annotations

from smallmm._tools.bench import OURS

from .device import suite_of
from .markdown import losses, number, picture
from .results import EVERY_ORDER, NUMPY, Cases, Results, ns

HEADLINE = ("matmul", "solve")
ORDER = 4
# Lines of README, and the operation that each times
LINES = {
    "c = smallmm.batched_matmul(a, b)": "matmul",
    "x = smallmm.solve(a, b[..., :1])": "solve",
    "y = smallmm.inv(a)": "inv",
    "d = smallmm.det(a)": "det",
    "l = smallmm.cholesky(s)": "cholesky",
    "q, r = smallmm.qr(a)": "qr",
}


def six_lines(results: Results) -> str:
    """Code beside its times."""
    rows = []
    for line, op in LINES.items():
        machine = results.first("host", suite_of(op))
        case = machine.cases("square", "f64", op)[ORDER]
        rows.append((line, number(ns(case[NUMPY])), number(ns(case[OURS]))))
    head = f"# ns per matrix, float64, one core of {machine.name}: {NUMPY:>7} {OURS:>8}"
    # ruff leaves two spaces before a comment; those in it align the times.
    timed = [f"{line}  #{theirs:>{len(head) - len(line) - 12}} {own:>8}" for line, theirs, own in rows]
    return "\n".join(
        (
            "```python",
            f"a, b = np.random.default_rng(0).random((2, 2_500, {ORDER}, {ORDER}))",
            f"s = a @ a.mT + {ORDER} * np.eye({ORDER})",
            head,
            *timed,
            "```",
        )
    )


def panels(results: Results) -> dict[str, dict[str, Cases]]:
    """For each operation its rows on one core and on a GPU, without those who do less than was asked."""
    found: dict[str, dict[str, Cases]] = {}
    for op in HEADLINE:
        machines = {where: results.first(where, suite_of(op)) for where in ("host", "device")}
        found[op] = {
            machine.name + (", one core" if where == "host" else ""): {
                n: {who: r for who, r in case.items() if not r.get("less")}
                for n, case in sorted(machine.cases(EVERY_ORDER, "f64", op).items())
            }
            for where, machine in machines.items()
        }
    return found


def section(results: Results) -> str:
    found = panels(results)
    core, gpu = next(iter(found.values()))
    lost = [
        f"`{op}` on {machine}: {words}"
        for op, by_machine in found.items()
        for machine, cases in by_machine.items()
        if (
            words := losses(
                ((who, n, r, case[OURS]) for n, case in cases.items() for who, r in case.items()), ""
            )
        )
    ]
    words = "how many times faster matmul and solve are, against the order n"
    return (
        f"{picture(words, 'headline.svg')}\n\n"
        "How many times as fast smallmm is in float64 `matmul` and `solve` of order n; below 1 it is slower. "
        "The blue line compares it with NumPy, the grey line with the fastest other library, which the "
        f"colour of a dot names. Left: {core}, operands in cache. Right: {gpu}, operands of 1 GiB; PyTorch "
        "and CuPy call cuBLAS there. Faster than smallmm, with their times divided by its time: "
        f"{'; '.join(lost)}. All sizes, precisions and operations: [on CPUs](docs/performance.md), [on "
        "GPUs](docs/cuda.md)."
    )
