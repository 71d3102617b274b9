"""PyTorch on a GPU without and with `smallmm.patch_torch`, and smallmm's own functions.

    python -m benchmarks.device.patched_torch [float32|float64]

Prints a table: microseconds of a call, device and host together, the median of several; those of the forward
and backward passes of two models; and those of the host alone for calls of ten matrices.
"""

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import torch

import smallmm
from smallmm._tools import bench

ORDERS = (3, 8, 16, 32, 64)  # 64: products alone
COUNTS = (1000, 200_000)
REPEATS, MAX = 15, 0.5e6  # calls of each; microseconds of a call, beyond which one is enough
LONGEST = 5e6  # microseconds of PyTorch, beyond which those of few matrices tell: it computes one at a time

THEIRS: dict[str, Callable[[torch.Tensor], Any]] = {
    "bmm": lambda a: torch.bmm(a, a),
    "baddbmm": lambda a: torch.baddbmm(a, a, a),
    "inv_ex": torch.linalg.inv_ex,
    "cholesky_ex": torch.linalg.cholesky_ex,
    "cholesky_solve": lambda a: torch.cholesky_solve(a, a),
    "solve_triangular": lambda a: torch.linalg.solve_triangular(a, a, upper=True),
    "solve_ex": lambda a: torch.linalg.solve_ex(a, a[..., :1]),
    "lu_factor_ex": torch.linalg.lu_factor_ex,
    "det": torch.linalg.det,
    "slogdet": torch.linalg.slogdet,
    "lu_solve": lambda a: torch.linalg.lu_solve(a, pivots_of(a), a[..., :1]),
    "ldl_factor_ex": torch.linalg.ldl_factor_ex,
    "ldl_solve": lambda a: torch.linalg.ldl_solve(a, pivots_of(a), a[..., :1]),
    "qr": torch.linalg.qr,
    "lstsq": lambda a: torch.linalg.lstsq(a, a[..., :1]),
    "matrix_exp": torch.linalg.matrix_exp,
    "eigh": torch.linalg.eigh,
    "svd": lambda a: torch.linalg.svd(a, full_matrices=False),
}
OURS: dict[str, Callable[[torch.Tensor], Any]] = {
    "bmm": lambda a: smallmm.batched_matmul(a, a),
    "baddbmm": lambda a: smallmm.batched_matmul(a, a, beta=1, out=a.clone()),
    "inv_ex": smallmm.inv_ex,
    "cholesky_ex": smallmm.cholesky_ex,
    "cholesky_solve": lambda a: smallmm.cho_solve((a, True), a),
    "solve_triangular": lambda a: smallmm.solve_triangular(a, a),
    "solve_ex": lambda a: smallmm.solve_ex(a, a[..., :1]),
    "lu_factor_ex": smallmm.lu_factor_ex,
    "det": smallmm.det,
    "slogdet": smallmm.slogdet,
    "lu_solve": lambda a: smallmm.lu_solve((a, pivots_of(a) - 1), a[..., :1]),
    "ldl_factor_ex": smallmm.ldl_factor_ex,
    "ldl_solve": lambda a: smallmm.ldl_solve(a, pivots_of(a), a[..., :1]),
    "qr": smallmm.qr,
    "lstsq": lambda a: smallmm.lstsq(a, a[..., :1]),
    "matrix_exp": smallmm.expm,
    "eigh": smallmm.eigh,
    "svd": lambda a: smallmm.svd(a, full_matrices=False),
}


def pivots_of(a: torch.Tensor) -> torch.Tensor:
    """Those of matrices whose rows are in place."""
    return torch.arange(1, a.shape[-1] + 1, dtype=torch.int32, device=a.device).expand(a.shape[:-1])


def kalman_filter(a: torch.Tensor, steps: int = 5) -> torch.Tensor:
    """The likelihood of measurements of half the states, of filters whose matrices a are."""
    n = a.shape[-1]
    one = torch.eye(n, dtype=a.dtype, device=a.device)
    h, move = one[: n // 2], one + 0.1 * a / n
    noise, p = one + a.mT @ a / n, one.expand_as(a)
    x, total = a[..., :1], a.new_zeros(())
    for _ in range(steps):
        x, p = move @ x, move @ p @ move.mT + noise
        s, error = h @ p @ h.mT + h @ h.mT, 1 - h @ x
        gain = torch.linalg.solve(s, h @ p).mT
        x, p = x + gain @ error, p - gain @ (h @ p)
        total = total + (error.mT @ torch.linalg.solve(s, error)).sum() + torch.linalg.slogdet(s)[1].sum()
    return total


def whitening(a: torch.Tensor) -> torch.Tensor:
    """Samples, the columns of a, with their covariance made the identity by its symmetric square root."""
    n = a.shape[-1]
    w, v = torch.linalg.eigh(a @ a.mT / n + torch.eye(n, dtype=a.dtype, device=a.device))
    return ((v * w.rsqrt()[..., None, :]) @ (v.mT @ a)).square().sum()


def trained(layer: Callable[[torch.Tensor], torch.Tensor], a: torch.Tensor) -> torch.Tensor:
    """Its gradient."""
    a = a.detach().requires_grad_()
    layer(a).backward()
    assert a.grad is not None
    return a.grad


def wait(_: Any = None) -> None:
    torch.cuda.synchronize()


def microseconds(call: Callable[[], Any]) -> float | None:
    """Of a call and the wait for it. None: there is no result, most often for want of memory."""
    sample = bench.clock(wait)
    try:
        call()  # which may compile
        wait()
        times: list[float] = []
        while len(times) < REPEATS + 2 and not (times and times[-1] > MAX):
            times.append(sample(call, 1) / 1e3)
        return statistics.median(times[2:] or times)
    except RuntimeError:  # of memory, or cuSOLVER's for counts beyond its own
        torch.cuda.empty_cache()
        return None


def host_microseconds(call: Callable[[], Any], calls: int = 200) -> float:
    sample, times = bench.clock(), []
    for _ in range(10):
        wait()
        times.append(sample(call, calls) / 1e3)
    wait()
    return min(times)


def words(x: float | None) -> str:
    return "fails" if x is None else f"{x:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("dtype", nargs="?", default="float32", choices=["float32", "float64"])
    dtype = getattr(torch, parser.parse_args().dtype)
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__, dtype)
    print(f"{'':12}{'n':>4}{'matrices':>10}{'PyTorch':>12}{'patched':>12}{'smallmm':>12}{'factor':>9}")
    for name in THEIRS:
        for n in ORDERS:
            each = 0.0  # of PyTorch, for a matrix
            for count in COUNTS if n <= 32 or "bmm" in name else ():
                a = torch.randn(count, n, n, dtype=dtype, device="cuda")
                if name in ("cholesky_ex", "eigh"):
                    a = a @ a.mT + n * torch.eye(n, dtype=dtype, device="cuda")
                elif name in ("solve_triangular", "lu_solve"):  # of float32 numbers some are zero
                    a.diagonal(dim1=-2, dim2=-1).add_(n)
                theirs: float | None = each * count
                if each * count < LONGEST:
                    theirs = microseconds(lambda name=name, a=a: THEIRS[name](a))
                    each = (theirs or 0) / count
                with smallmm.patched("torch"):
                    patched = microseconds(lambda name=name, a=a: THEIRS[name](a))
                    served = smallmm.patch_report().served > 0
                ours = microseconds(lambda name=name, a=a: OURS[name](a))
                factor = f"{theirs / patched:.1f}" if theirs and patched else ""
                print(
                    f"{name:12}{n:4}{count:10}{words(theirs):>12}{words(patched):>12}{words(ours):>12}"
                    f"{factor:>9}{'' if served else '  handed on'}",
                    flush=True,
                )
    print("\nforward and backward, 20,000 of 4 x 4, us: PyTorch, patched")
    a = torch.randn(20_000, 4, 4, dtype=dtype, device="cuda")
    for layer in (kalman_filter, whitening):
        theirs = microseconds(lambda layer=layer: trained(layer, a))
        with smallmm.patched("torch"):
            patched = microseconds(lambda layer=layer: trained(layer, a))
        print(f"{layer.__name__:14}{words(theirs):>10}{words(patched):>10}", flush=True)
    print("\nhost, us of a call of ten 3 x 3: PyTorch, patched, smallmm; and of two 100 x 100, handed on")
    small, large = (torch.randn(*shape, dtype=dtype, device="cuda") for shape in ((10, 3, 3), (2, 100, 100)))
    small = small @ small.mT + torch.eye(3, dtype=dtype, device="cuda")
    for name in ("bmm", "inv_ex", "cholesky_ex", "solve_ex", "lu_factor_ex", "det", "slogdet"):
        plain = [host_microseconds(lambda name=name, a=a: THEIRS[name](a)) for a in (small, large)]
        with smallmm.patched("torch"):
            patched_times = [
                host_microseconds(lambda name=name, a=a: THEIRS[name](a)) for a in (small, large)
            ]
        own = host_microseconds(lambda name=name: OURS[name](small))
        print(
            f"{name:12} {plain[0]:.1f} {patched_times[0]:.1f} {own:.1f};"
            f" {plain[1]:.1f} {patched_times[1]:.1f}"
        )


if __name__ == "__main__":
    main()
