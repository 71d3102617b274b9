"""PyTorch's tensors."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import numpy as np

from .._base.composition import Composition
from .._base.shapes import is_bfloat16
from .base import Call, type_name
from .dlpack import DLPack, StandardDevice, namespace_of_all
from .recording import has_rule


class Torch(DLPack):
    def is_traced(self, x: Any) -> bool:
        return _operators().is_followed(x)

    def elements(self, x: Any) -> Any:
        return _operators().elements(x)

    def records(self, gufunc: np.ufunc, operands: dict[str, Any]) -> bool:
        is_followed = _operators().is_followed
        for x in operands.values():
            if is_followed(x):
                return True
        return _wants_gradient(operands) and (isinstance(gufunc, Composition) or has_rule(gufunc))

    def recorded(self, op: str, gufunc: np.ufunc, operands: dict[str, Any], call: Call) -> Any:
        operators = _operators()
        follows = any(map(operators.is_followed, operands.values()))
        if isinstance(gufunc, Composition) and not has_rule(gufunc):  # composed of what PyTorch records
            results = None if follows else operators.recorded_composition(gufunc, op, operands, call)
            if results is None:
                results = operators.composed(gufunc, namespace_of_all(op, operands), op, operands)
        elif follows:
            for name, x in operands.items() if not has_rule(gufunc) else ():
                if operators.has_tangent(x):
                    raise TypeError(
                        f"{op}: {name} is a {type_name(x)} with a derivative in forward mode, which smallmm "
                        "does not compute for this"
                    )
                if _wants_gradient(operands):
                    self.shareable(op, name, x)  # refuses it
            results = operators.followed(call, op, gufunc, operands)
        else:
            results = operators.recorded(call, op, gufunc, tuple(operands), tuple(operands.values()))
        return results if gufunc.nout > 1 else results[0]

    def recorded_program(self, computed: Call, arrays: tuple[Any, ...]) -> Any:
        return _operators().recorded_program(computed, arrays)

    def written(self, op: str, name: str, out: Any, result: Any) -> Any:
        torch = sys.modules["torch"]
        if result.requires_grad or not torch.is_tensor(out):
            raise TypeError(
                f"{op}: {name} is given, but a derivative is wanted of the result, which is then a new array"
                if result.requires_grad
                else f"{op}: {name} is a {type_name(out)}; expected a torch.Tensor"
            )
        if out.shape != result.shape or not torch.can_cast(result.dtype, out.dtype):
            raise ValueError(
                f"{op}: {name} has shape {tuple(out.shape)} and dtype {out.dtype}; the result has "
                f"{tuple(result.shape)} and {result.dtype}"
            )
        return out.copy_(result)

    def shareable(self, op: str, name: str, x: Any) -> Any:
        """x without an unwanted gradient, with what its bits for negative, conjugate and zero mean."""
        if x.requires_grad:
            if sys.modules["torch"].is_grad_enabled():
                raise TypeError(
                    f"{op}: {name} is a {type_name(x)} that requires a gradient, which smallmm does not "
                    f"compute for this: call it under torch.no_grad(), or pass {name}.detach()"
                )
            x = x.detach()
        if x._is_zerotensor():  # which derivatives are where nothing depends: without memory
            return sys.modules["torch"].zeros(x.shape, dtype=x.dtype, device=x.device)
        if not x.is_neg() and not x.is_conj():
            return x
        if name.startswith("out"):
            bit = "negative" if x.is_neg() else "conjugate"
            raise TypeError(
                f"{op}: {name} is a {type_name(x)} with its {bit} bit set, which is not written to"
            )
        return x.resolve_conj().resolve_neg()

    def bfloat16_as_numpy(self, x: Any) -> np.ndarray:
        from ml_dtypes import bfloat16

        return np.from_dlpack(x.view(sys.modules["torch"].int16)).view(bfloat16)

    def from_numpy(self, namespace: Any, x: np.ndarray) -> Any:
        torch = sys.modules["torch"]
        if not is_bfloat16(x.dtype):
            return super().from_numpy(namespace, x)
        return torch.from_dlpack(x.view(np.int16)).view(torch.bfloat16)

    def to_host(self, x: Any) -> np.ndarray:
        return np.asarray(x.cpu())

    def windows(self, x: Any, window: int, axis: int, step: int) -> Any:
        return x.unfold(axis, window, step).movedim(-1, x.ndim + axis + 1)

    def on(self, x: Any, device: int) -> TorchDevice:
        if x.device not in _DEVICES:
            _DEVICES[x.device] = TorchDevice(self.name, x, device)
        return _DEVICES[x.device]


_DEVICES: dict[Any, TorchDevice] = {}


@cache
def _operators() -> Any:
    """The module that needs PyTorch, which is imported by whoever made a tensor."""
    from . import torch_operators

    return torch_operators


def _wants_gradient(operands: dict[str, Any]) -> bool:
    return sys.modules["torch"].is_grad_enabled() and any(
        getattr(x, "requires_grad", False) for x in operands.values()
    )


class TorchDevice(StandardDevice):
    def stream(self) -> int:
        return sys.modules["torch"].cuda.current_stream(self.device).cuda_stream

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """With memory: within torch.func new tensors are wrapped ones, which have none."""
        with sys.modules["torch"]._C._DisableFuncTorch():
            return super().empty(shape, dtype)

    def solve(self, a: Any, b: Any) -> Any:
        return sys.modules["torch"].linalg.solve_ex(a, b).result

    def solve_triangular(self, a: Any, b: Any, upper: bool) -> Any:
        return sys.modules["torch"].linalg.solve_triangular(a, b, upper=upper)

    def inv(self, a: Any) -> Any:
        return sys.modules["torch"].linalg.inv_ex(a).inverse

    def cholesky(self, a: Any) -> tuple[Any, Any]:
        lower, info = sys.modules["torch"].linalg.cholesky_ex(a)
        return lower, info != 0

    def lu_factor(self, a: Any) -> tuple[Any, Any]:
        lu, pivots, _ = sys.modules["torch"].linalg.lu_factor_ex(a)
        return lu, pivots - 1

    def eig(self, a: Any) -> tuple[Any, Any]:
        return tuple(sys.modules["torch"].linalg.eig(a))

    def expm(self, a: Any) -> Any:
        return sys.modules["torch"].linalg.matrix_exp(a)

    def asarray(self, x: np.ndarray) -> Any:
        """Without waiting: the copy is from page-locked memory, which PyTorch keeps until it is done, but not
        until a graph is replayed."""
        torch = sys.modules["torch"]
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError("this call copies from the host, so that no CUDA graph can have it")
        return torch.from_numpy(x).pin_memory().to(self._place, non_blocking=True)
