"""Derivatives of functions of tensors on a GPU: PyTorch's own check, and the bits of the CPU's."""

import numpy as np
import pytest
from scans import SCANS, drawn

import smallmm


@pytest.mark.parametrize("name", ["solve", "inv", "cholesky", "eigh", "svd", "matmul", "lstsq"])
def test_gradcheck(torch_cuda, name):
    torch = torch_cuda
    generator = torch.Generator().manual_seed(0)
    functions = {
        "solve": lambda a, b: smallmm.solve(a, b),
        "inv": lambda a, b: smallmm.inv(a),
        "cholesky": lambda a, b: smallmm.cholesky(a @ a.mT + torch.eye(4, dtype=a.dtype, device=a.device)),
        "eigh": lambda a, b: smallmm.eigh(a + a.mT),
        "svd": lambda a, b: smallmm.svd(a, full_matrices=False),
        "matmul": smallmm.matmul,
        "lstsq": lambda a, b: smallmm.lstsq(a, b).x,
    }
    x = [torch.randn(s, dtype=torch.float64, generator=generator) for s in ((3, 4, 4), (4, 2))]
    on_device = [y.cuda().requires_grad_() for y in x]
    assert torch.autograd.gradcheck(functions[name], on_device, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(functions[name], on_device)


@pytest.mark.parametrize("name", ["solve", "cholesky", "slogdet", "qr", "eigvalsh", "svdvals", "lstsq"])
def test_gradcheck_of_complex_numbers(torch_cuda, name):
    torch = torch_cuda
    generator = torch.Generator().manual_seed(0)
    functions = {
        "solve": smallmm.solve,
        "cholesky": lambda a, b: smallmm.cholesky(a @ a.mH + torch.eye(4, device=a.device)),
        "slogdet": lambda a, b: tuple(smallmm.slogdet(a)),
        "qr": lambda a, b: smallmm.qr(a),
        "eigvalsh": lambda a, b: smallmm.eigvalsh(a + a.mH),
        "svdvals": lambda a, b: smallmm.svdvals(a),
        "lstsq": lambda a, b: smallmm.lstsq(a, b).x,
    }
    x = [torch.randn(s, dtype=torch.complex128, generator=generator) for s in ((3, 4, 4), (4, 2))]
    on_device = [y.cuda().requires_grad_() for y in x]
    assert torch.autograd.gradcheck(functions[name], on_device, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(functions[name], on_device, fast_mode=True)


@pytest.mark.parametrize("name", ["solve", "inv", "matmul"])
def test_bits_of_the_cpu(torch_cuda, name):
    torch = torch_cuda
    generator = torch.Generator().manual_seed(0)
    x = [torch.randn(s, dtype=torch.float32, generator=generator) for s in ((1000, 5, 5), (1000, 5, 2))]
    found = []
    for device in ("cpu", "cuda"):
        a, b = (y.to(device).detach().requires_grad_() for y in x)
        result = smallmm.inv(a) if name == "inv" else getattr(smallmm, name)(a, b)
        result.backward(torch.ones_like(result))
        found.append([y.grad.cpu() for y in (a, b) if y.grad is not None])
    for y, z in zip(*found, strict=True):
        assert torch.equal(y, z)


@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"every": 4}])
@pytest.mark.parametrize("name", ["filtered32", "product", "solved", "number"])
def test_scans(torch_cuda, name, options):
    """Backward passes are scans of the device, too. Those of constants sum over series in its order."""
    torch = torch_cuda
    case = SCANS[name]
    sides = drawn(case, np.random.default_rng(0), 40, (100,))
    results = []
    for device in ("cpu", "cuda"):
        given = [[torch.from_numpy(x).to(device).requires_grad_() for x in side] for side in sides]
        carry, ys = smallmm.scan(case.function, given[0], given[1], consts=given[2], **options)
        loss = sum((x * x).sum() for x in (*carry, *(ys if isinstance(ys, tuple) else [ys])))
        arrays = [x for side in given for x in side]
        results.append([x.cpu() for x in torch.autograd.grad(loss, arrays)])
    moving = len(sides[0]) + len(sides[1])
    for i, (x, y) in enumerate(zip(*results, strict=True)):
        assert torch.equal(x, y) if i < moving else torch.allclose(x, y, rtol=1e-4)
