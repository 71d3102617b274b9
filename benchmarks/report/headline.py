"""The figure at the top of README, and where we lose in it: f64, one CPU and one GPU."""

from __future__ import annotations

from smallmm._tools.bench import OURS

from .device import suite_of
from .markdown import losses, picture
from .results import Cases, Results

HEADLINE = {"matmul": "products", "solve": "systems"}  # op: what README calls it


def panels(results: Results) -> dict[str, dict[str, Cases]]:
    """For each operation its rows on one core and on a GPU, without those who do less than was asked."""
    found: dict[str, dict[str, Cases]] = {}
    for op, words in HEADLINE.items():
        machines = {where: results.first(where, suite_of(op)) for where in ("host", "device")}
        found[words] = {
            machine.name + (", one core" if where == "host" else ""): {
                n: {who: r for who, r in case.items() if not r.get("less")}
                for n, case in sorted(machine.cases("square", "f64", op).items())
            }
            for where, machine in machines.items()
        }
    return found


def section(results: Results) -> str:
    lost = [
        f"{words}, {machine}: "
        + losses(((who, n, r, case[OURS]) for n, case in cases.items() for who, r in case.items()), "nowhere")
        for words, by_machine in panels(results).items()
        for machine, cases in by_machine.items()
    ]
    words = "times faster than NumPy and than the best other library, against n"
    return (
        f"{picture(words, 'headline.svg', docs=False)}\n\n"
        f"f64. Where another is faster (its time / ours): {'; '.join(lost)}. In cache on the CPU; operands "
        "of 1 GiB on the GPU, where PyTorch and CuPy call cuBLAS. Every size, precision and operation is in "
        "[Performance](docs/performance.md) and [Arrays on NVIDIA GPUs](docs/cuda.md)."
    )
