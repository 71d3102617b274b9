"""Somebody who trains with PyTorch: tensors in and out, gradients, a module, a compiled function."""

import torch

import smallmm

torch.manual_seed(0)
a = torch.randn(64, 4, 4) + 4 * torch.eye(4)
b = torch.randn(64, 4, 1)

x = smallmm.solve(a, b)
assert isinstance(x, torch.Tensor)
torch.testing.assert_close(x, torch.linalg.solve(a, b), rtol=1e-4, atol=1e-5)
torch.testing.assert_close(smallmm.matmul(a, b), a @ b)


class Precision(torch.nn.Module):
    """A normal distribution whose covariance is learned by its Cholesky factor."""

    def __init__(self, n):
        super().__init__()
        self.factor = torch.nn.Parameter(torch.eye(n))

    def forward(self, x):
        white = smallmm.solve_triangular(self.factor.tril(), x, lower=True)
        return 0.5 * white.square().sum((-2, -1)) + smallmm.slogdet(self.factor.tril()).logabsdet


model = Precision(4)
samples = (torch.tensor([1.0, 2.0, 3.0, 4.0])[:, None] * torch.randn(4, 512)).T[..., None]
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for _ in range(200):
    optimizer.zero_grad()
    model(samples).mean().backward()
    optimizer.step()
print("learned:", model.factor.diagonal().tolist())
deviations = samples[..., 0].square().mean(0).sqrt()
torch.testing.assert_close(model.factor.diagonal().abs(), deviations, rtol=0.1, atol=0.1)

# As PyTorch's own checks see it
double = a[:3].double().requires_grad_()
assert torch.autograd.gradcheck(smallmm.inv, double)
assert torch.autograd.gradcheck(lambda y: smallmm.cholesky(y @ y.mT), double)
x, info = smallmm.inv_ex(torch.zeros(2, 3, 3))
assert info.tolist() == [1, 1]
assert x.isnan().all()

# Batched by vmap, and PyTorch's own function with smallmm's kernels
one_by_one = torch.vmap(smallmm.det)(a)
torch.testing.assert_close(one_by_one, torch.linalg.det(a), rtol=1e-4, atol=1e-4)
with smallmm.patched("torch"):
    torch.testing.assert_close(torch.linalg.inv(a) @ a, torch.eye(4).expand(64, 4, 4), rtol=1e-4, atol=1e-4)
