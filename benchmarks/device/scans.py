"""Scans on a GPU beside one call for each time, and beside JAX: wall clock.

    python -m benchmarks.device.scans [--series N] [--times T] [--states N ...]

Kalman filters in float32, and one series of a million products. Rows are printed, not kept: nanoseconds for
each time and series. The scan's bits are compared with those of the calls before anything is timed. JAX, if
it is installed, runs `lax.scan` over matrices, multiplied by `einsum`, and over elements, each an array of
its own.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

import smallmm
from smallmm._tools.timing import clock

OBSERVED = {2: 1, 3: 1, 4: 2, 5: 2, 6: 3, 7: 3, 8: 3, 9: 3}  # measurements, of so many states


@smallmm.fuse("(n),(n,n),(m),(n,n),(m,n),(n,n),(m,m)->(n),(n,n),(n)")
def filtered(x: Any, p: Any, z: Any, f: Any, h: Any, q: Any, r: Any) -> Any:
    x, p = smallmm.kalman_step(x, p, z, f, h, q, r)
    return x, p, x


@smallmm.fuse("(n,n),(n,n)->(n,n)")
def product(a: Any, b: Any) -> Any:
    return a @ b


def model(n: int, m: int) -> tuple[np.ndarray, ...]:
    """f, h, q, r."""
    return np.eye(n) + 0.1 * np.eye(n, k=1), np.eye(m, n), 0.01 * np.eye(n), 0.1 * np.eye(m)


def by_matrices(jnp: Any, carry: Any, z: Any, f: Any, h: Any, q: Any, r: Any) -> Any:
    """One time of all series."""
    x, p = carry
    x, p = jnp.einsum("ij,bj->bi", f, x), jnp.einsum("ij,bjk,lk->bil", f, p, f) + q
    hp = jnp.einsum("ij,bjk->bik", h, p)
    gain = jnp.einsum("bji,bjk->bik", hp, jnp.linalg.inv(jnp.einsum("bij,kj->bik", hp, h) + r))
    x = x + jnp.einsum("bij,bj->bi", gain, z - jnp.einsum("ij,bj->bi", h, x))
    return (x, p - jnp.einsum("bij,bjk->bik", gain, hp)), x


def by_elements(jnp: Any, carry: Any, z: Any, f: Any, h: Any, q: Any, r: Any) -> Any:
    """The same with series last, for at most two measurements: every element is an array."""
    x, p = carry
    n, m = len(f), len(h)

    def times(a: Any, b: Any) -> Any:
        return [
            [sum(a[i][k] * b[k][j] for k in range(len(b))) for j in range(len(b[0]))] for i in range(len(a))
        ]

    def plus(a: Any, b: Any) -> Any:
        return [[a[i][j] + b[i][j] for j in range(len(a[0]))] for i in range(len(a))]

    f, h, q, r = ([[y[i, j] for j in range(y.shape[1])] for i in range(len(y))] for y in (f, h, q, r))
    turned = [list(row) for row in zip(*f, strict=True)]
    p = plus(times(times(f, [[p[i * n + j] for j in range(n)] for i in range(n)]), turned), q)
    x = times(f, [[x[i]] for i in range(n)])
    hp = times(h, p)
    s = plus(times(hp, [list(row) for row in zip(*h, strict=True)]), r)
    det = s[0][0] * s[1][1] - s[0][1] * s[1][0] if m == 2 else s[0][0]
    inverse = [[s[1][1] / det, -s[0][1] / det], [-s[1][0] / det, s[0][0] / det]] if m == 2 else [[1 / det]]
    gain = times([list(row) for row in zip(*hp, strict=True)], inverse)
    moved = times(gain, [[z[i] - times(h, x)[i][0]] for i in range(m)])
    taken = times(gain, hp)
    x = jnp.stack([x[i][0] + moved[i][0] for i in range(n)])
    return (x, jnp.stack([p[i][j] - taken[i][j] for i in range(n) for j in range(n)])), x


def of_jax(n: int, m: int, series: int, times: int) -> dict[str, Callable[[], Any]]:
    try:
        import jax
    except ImportError:
        return {}
    jnp = jax.numpy
    z = jax.random.normal(jax.random.key(0), (times, series, m))
    consts = [jnp.asarray(x, jnp.float32) for x in model(n, m)]
    x, p = jnp.zeros((series, n)), jnp.tile(jnp.eye(n), (series, 1, 1))

    def scanned(step: Any) -> Any:
        return jax.jit(lambda c, z: jax.lax.scan(lambda c, z: step(jnp, c, z, *consts), c, z))

    whole, single = scanned(by_matrices), scanned(by_elements)
    calls: dict[str, Callable[[], Any]] = {"JAX, matrices": lambda: whole((x, p), z)}
    if m <= 2:
        turned = x.T, p.reshape(series, -1).T, z.swapaxes(1, 2)
        calls["JAX, elements"] = lambda: single(turned[:2], turned[2])
    return calls


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--series", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=1000)
    parser.add_argument("--states", type=int, nargs="*", default=[2, 4, 6, 9])
    options = parser.parse_args()
    series, times = options.series, options.times

    def wait(last: Any) -> None:
        """For all arrays of the last result, whose library may have streams of its own."""
        while isinstance(last, tuple):
            last = last[0]
        if hasattr(last, "block_until_ready"):
            last.block_until_ready()
        torch.cuda.synchronize()

    def seconds(call: Callable[[], Any], repetitions: int = 3) -> float:
        sample = clock(wait)
        sample(call, 1)
        return min(sample(call, 1) for _ in range(repetitions)) * 1e-9

    print(torch.cuda.get_device_name(0))
    for n in options.states:
        m = OBSERVED[n]
        consts = [torch.as_tensor(x, dtype=torch.float32, device="cuda") for x in model(n, m)]
        x = torch.zeros(series, n, device="cuda")
        p = torch.eye(n, device="cuda").repeat(series, 1, 1)
        z = torch.randn(times, series, m, device="cuda")

        def calls(count: int, x: Any = x, p: Any = p, z: Any = z, consts: Any = consts) -> Any:
            for t in range(count):
                x, p = smallmm.kalman_step(x, p, z[t], *consts)
            return x, p

        def scan(outputs: str, x: Any = x, p: Any = p, z: Any = z, consts: Any = consts) -> Any:
            return smallmm.scan(filtered, (x, p), z, consts=consts, outputs=outputs)  # type: ignore[arg-type]

        found = scan("all")
        assert all(map(torch.equal, found.carry, calls(times))), "bits differ"
        del found
        took = {
            'scan, outputs="all"': seconds(lambda: scan("all")) / times,
            'scan, outputs="last"': seconds(lambda: scan("last")) / times,
            "calls": seconds(lambda: calls(100)) / 100,
        }
        took |= {who: seconds(call) / times for who, call in of_jax(n, m, series, times).items()}
        words = "  ".join(f"{who} {each / series * 1e9:.4f}" for who, each in took.items())
        print(f"{n} states, {m} measurements, ns: {words}", flush=True)
    a = torch.eye(4, device="cuda") + 0.001 * torch.randn(1_000_000, 4, 4, device="cuda")
    one = seconds(lambda: smallmm.associative_scan(product, a), 20)
    print(f"1,000,000 products of 4 x 4: {one * 1e3:.3f} ms")


if __name__ == "__main__":
    main()
