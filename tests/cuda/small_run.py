"""A small run over every kind of kernel, for compute-sanitizer (`make sanitize-cuda`): exact allocations, few
matrices, last blocks that are not full, misaligned and strided operands."""

import itertools
import os

os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"  # so that a byte too far is outside an allocation

import torch

import smallmm


def main() -> None:
    for dtype, n in itertools.product(
        (torch.float32, torch.float64), (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 31, 32)
    ):
        batch = 37
        x = torch.rand(batch, n, n, device="cuda", dtype=dtype)
        y = torch.rand(batch, n, n, device="cuda", dtype=dtype)
        odd = torch.rand(batch * n * n + 1, device="cuda", dtype=dtype)[1:].view(batch, n, n)
        apart = torch.rand(batch, n, 2 * n, device="cuda", dtype=dtype)[:, :, ::2]
        for a, b in [
            (x, y),
            (x.mT, y.mT),
            (odd, x),
            (apart, odd),
            (x[:1].expand_as(y), y),
            (x[:, :1], y[:, :, :1]),
        ]:
            c = smallmm.batched_matmul(a, b)
            expected = torch.matmul(a.double().cpu(), b.double().cpu())
            torch.testing.assert_close(c.double().cpu(), expected, rtol=1e-4, atol=1e-5)
        smallmm.batched_matmul(x, y, out=odd, alpha=2, beta=1)
        smallmm.batched_matmul(x, y, out=x)
    torch.cuda.synchronize()
    print("done")


if __name__ == "__main__":
    main()
