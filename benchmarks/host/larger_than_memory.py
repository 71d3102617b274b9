"""A job larger than memory on Dask's worker processes, one of which is killed on the way.

    python -m benchmarks.host.larger_than_memory --size 2GB --memory-limit 1GB

Workers make random matrices a chunk at a time, drop those that are ill-conditioned, and solve, decompose and
measure the others. Sums of the results are kept, and the results of a sample of chunks, which are compared
with NumPy's.
"""

import argparse
import os
import signal
import sys
import time

import dask.array as da
import numpy as np
from dask.utils import format_bytes, parse_bytes
from distributed import Client, LocalCluster, progress, wait

import smallmm
from smallmm._tools.timing import clock

from .machine import machine

N = 4
ROW_BYTES = 8 * N * (N + 1)  # of a matrix and its right-hand side
SINGULAR = 1e-3  # matrices of a smaller reciprocal condition number are dropped


@smallmm.fuse("(n,n),(n)->()")
def energy(a, b):
    """b^T (A A^T + I)^-1 b"""
    return (b * smallmm.solve(a @ a.mT + np.eye(N), b[:, None])[:, 0]).sum()


def problem(rows: int, chunk: int) -> tuple[da.Array, da.Array]:
    """The matrices that are kept, and their right-hand sides."""
    rng = da.random.default_rng(0)  # seeds each chunk: a chunk that is lost is made again with the same bits
    a = rng.standard_normal((rows, N, N), chunks=(chunk, N, N))
    b = rng.standard_normal((rows, N), chunks=(chunk, N))
    kept = smallmm.rcond(a) > SINGULAR
    return a[kept], b[kept]


def results(a: da.Array, b: da.Array) -> dict[str, da.Array]:
    return {
        "solve": smallmm.solve(a, b[..., None])[..., 0],
        "eigh": smallmm.eigh(smallmm.matmul(a, a.swapaxes(1, 2))).eigenvalues,
        "norm": smallmm.matrix_norm(a),
        "energy": energy(a, b),
    }


def by_numpy(a: np.ndarray, b: np.ndarray) -> dict[str, np.ndarray]:
    s = a @ a.mT
    return {
        "solve": np.linalg.solve(a, b[..., None])[..., 0],
        "eigh": np.linalg.eigvalsh(s),
        "norm": np.linalg.matrix_norm(a),
        "energy": np.vecdot(b, np.linalg.solve(s + np.eye(N), b[..., None])[..., 0]),
    }


def peak_memory() -> int:
    """Bytes that this process had at most."""
    with open("/proc/self/status", encoding="utf-8") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))


def kill_one(client: Client) -> int:
    """Kill a worker as soon as the workers hold results; its process id."""
    process, *_ = client.run(os.getpid).values()
    while not any(client.has_what().values()):
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    return process


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.host.larger_than_memory")
    parser.add_argument("--size", type=parse_bytes, default="2GB", help="of all operands (%(default)s)")
    parser.add_argument("--chunk", type=parse_bytes, default="32MB", help="of a chunk (%(default)s)")
    parser.add_argument("--memory-limit", default="1GB", help="of each worker (%(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="processes (%(default)s)")
    options = parser.parse_args(arguments)

    rows, chunk = options.size // ROW_BYTES, options.chunk // ROW_BYTES
    a, b = problem(rows, chunk)
    found = results(a, b)
    chunks = sorted({0, a.numblocks[0] // 2, a.numblocks[0] - 1})
    wanted = {
        "rows": da.ones_like(b[:, 0]).sum(),
        "sums": {name: x.sum() for name, x in found.items()},
        "sample": [({k: x.blocks[i] for k, x in found.items()}, a.blocks[i], b.blocks[i]) for i in chunks],
    }
    print(f"{machine()['cpu']}, {options.workers} workers of {options.memory_limit}, one thread each")
    with (
        LocalCluster(
            n_workers=options.workers,
            threads_per_worker=1,
            memory_limit=options.memory_limit,
            dashboard_address=None,
        ) as cluster,
        Client(cluster) as client,
    ):
        ran = {}

        def job() -> None:
            future = client.compute(wanted)
            ran["killed"] = kill_one(client)
            progress(future, notebook=False)
            wait(future)
            ran["result"] = future.result()

        seconds = clock()(job, 1) / 1e9
        killed, done = ran["killed"], ran["result"]
        peak = max(client.run(peak_memory).values())
    for computed, *operands in done["sample"]:
        expected = by_numpy(*operands)
        for name, x in computed.items():
            np.testing.assert_allclose(x, expected[name], rtol=1e-7, atol=1e-9, err_msg=name)
    assert all(map(np.isfinite, done["sums"].values()))
    print(f"\n{format_bytes(rows * ROW_BYTES)}, {rows:,} matrices, {int(done['rows']):,} kept")
    print(
        f"{seconds:.1f} s, {format_bytes(rows * ROW_BYTES / seconds)}/s, {rows / seconds / 1e6:.2f} million/s"
    )
    print(f"worker {killed} was killed; peak memory of a worker that is left {format_bytes(peak)}")
    print(f"{len(chunks)} chunks agree with NumPy")


if __name__ == "__main__":
    main(sys.argv[1:])
