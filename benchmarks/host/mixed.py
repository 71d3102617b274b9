"""What mixed precision gives and costs, by condition number, beside float64 and float32: the tables of
docs/refinement.md.

    python -m benchmarks.host.mixed            errors, steps and fallbacks
    python -m benchmarks.host.mixed --time     time beside float64, too
"""

import argparse

import numpy as np

import smallmm
from smallmm._functions.mixed import mixed_solve_ex
from smallmm._functions.mixed_least_squares import mixed_lstsq_ex
from smallmm._tools.timing import measure

CONDITIONS = (1e1, 1e3, 1e5, 1e6, 1e7, 1e8, 1e10)
BITS = 40  # of elements: with whole numbers as solutions, right-hand sides are exact


def problem(rng, count, m, n, condition):
    """Matrices with singular values from 1 to 1 / condition, exact solutions and right-hand sides."""
    left, right = (np.linalg.qr(rng.standard_normal((count, k, n)))[0] for k in (m, n))
    a = (left * np.geomspace(1, 1 / condition, n)) @ right.mT
    a = np.round(a * 2.0**BITS) / 2.0**BITS
    x = rng.integers(-7, 8, (count, n, 1)).astype(float)
    x[:, 0] = 7
    return a, a @ x, x


def off(x, exact):
    return (np.abs(x - exact).max(-2) / np.abs(exact).max(-2)).max()


def rows(solve, mixed, shapes, count):
    for m, n in shapes:
        for condition in CONDITIONS:
            a, b, exact = problem(np.random.default_rng([m, n]), count, m, n, condition)
            found = mixed(a, b)
            kept = found.iterations >= 0
            steps = found.iterations[kept]
            errors = [
                off(solve(a, b), exact),
                off(solve(a.astype("f"), b.astype("f")), exact),
                off(found.x, exact),
            ]
            yield (
                f"{m} x {n}",
                f"{condition:.0e}",
                *(f"{x:.0e}" for x in errors),
                f"{np.median(steps):.0f} ({steps.max()})" if len(steps) else "-",
                f"{100 * np.mean(~kept):.0f}",
            )


def table(head, lines):
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for line in lines:
        print("| " + " | ".join(line) + " |")
    print()


def times(orders, size):
    for n in orders:
        count = size // n**2
        a, b, _ = problem(np.random.default_rng(n), count, n, n, 10)
        calls = {
            "fixed": lambda a=a, b=b: smallmm.solve(a, b),
            "mixed": lambda a=a, b=b: mixed_solve_ex("solve", a, b),
        }
        fixed, mixed = (x.median / count for x in measure(calls, repetitions=1, least=5).values())
        yield f"{n}", f"{fixed:.0f}", f"{mixed:.0f}", f"{fixed / mixed:.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200, help="matrices of each kind")
    parser.add_argument("--time", action="store_true", help="time beside float64, too")
    arguments = parser.parse_args()
    head = ("order", "cond", "float64", "float32", "mixed", "steps, median (most)", "fallbacks, %")
    table(
        head,
        rows(
            lambda a, b: smallmm.solve_ex(a, b).x,
            lambda a, b: mixed_solve_ex("solve", a, b),
            [(4, 4), (16, 16), (32, 32)],
            arguments.count,
        ),
    )
    table(
        head,
        rows(
            lambda a, b: smallmm.lstsq(a, b).x,
            lambda a, b: mixed_lstsq_ex("lstsq", a, b),
            [(8, 4), (64, 16)],
            arguments.count,
        ),
    )
    if arguments.time:
        table(("order", "float64, ns", "mixed, ns", "times as fast"), times((4, 8, 16, 24, 32), 1 << 21))


if __name__ == "__main__":
    main()
