"""PyTorch's tensors."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import numpy as np

from .. import _core
from .._composition import Composition
from .._shapes import is_bfloat16
from .base import Call, type_name
from .dlpack import DLPack, StandardDevice, namespace_of_all
from .recording import gradients, has_rule


class Torch(DLPack):
    def is_traced(self, x: Any) -> bool:
        torch = sys.modules["torch"]
        return torch.is_tensor(x) and torch._C._functorch.is_functorch_wrapped_tensor(x)

    def refuse_traced(self, op: str, name: str, x: Any) -> None:
        if self.is_traced(x):
            raise TypeError(
                f"{op}: {name} is a {type_name(x)} within torch.vmap or torch.func, which smallmm cannot "
                f"follow; call it outside: {op} takes whole stacks"
            )

    def records(self, gufunc: np.ufunc, operands: dict[str, Any]) -> bool:
        return (
            sys.modules["torch"].is_grad_enabled()
            and any(getattr(x, "requires_grad", False) for x in operands.values())
            and not any(map(self.is_traced, operands.values()))
            and (isinstance(gufunc, Composition) or has_rule(gufunc))
        )

    def recorded(self, op: str, gufunc: np.ufunc, operands: dict[str, Any], call: Call) -> Any:
        if has_rule(gufunc):
            results = _recorded(call).apply(op, gufunc, tuple(operands), *operands.values())
        else:  # composed of what autograd records
            composition: Any = gufunc
            results = composition.run(namespace_of_all(op, operands), tuple(operands.values()))
        return results if gufunc.nout > 1 else results[0]

    def shareable(self, op: str, name: str, x: Any) -> Any:
        """x without a gradient that is not wanted, and with the sign that its negative bit stands for."""
        if x.requires_grad:
            if sys.modules["torch"].is_grad_enabled():
                raise TypeError(
                    f"{op}: {name} is a {type_name(x)} that requires a gradient, which smallmm does not "
                    f"compute for this: call it under torch.no_grad(), or pass {name}.detach()"
                )
            x = x.detach()
        if not x.is_neg():
            return x
        if name.startswith("out"):
            raise TypeError(
                f"{op}: {name} is a {type_name(x)} with its negative bit set, which is not written to"
            )
        return x.resolve_neg()

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

    def on(self, x: Any, device: int) -> TorchDevice:
        return TorchDevice(self.name, x, device)


@cache
def _recorded(call: Call) -> Any:
    """The autograd function that all calls are. Its backward pass is recorded, too, where that is wanted."""
    import torch

    class Recorded(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, op: str, gufunc: np.ufunc, names: tuple[str, ...], *operands: Any) -> Any:
            arrays = tuple(map(_detached, operands))  # which the direct path takes
            direct = _core.direct.get(gufunc.__name__)
            results = direct(*arrays) if direct else NotImplemented
            if results is NotImplemented:
                outs = None if gufunc.nout == 1 else ()
                results = call(op, gufunc, dict(zip(names, arrays, strict=True)), outs, {})
            results = results if gufunc.nout > 1 else (results,)
            arrays = (*operands, *results)
            context.gufunc = gufunc
            context.values = [None if torch.is_tensor(x) else x for x in arrays]
            context.save_for_backward(*(x if torch.is_tensor(x) else None for x in arrays))
            context.mark_non_differentiable(*(x for x in results if not x.is_floating_point()))
            context.set_materialize_grads(False)
            return results

        @staticmethod
        def backward(context: Any, *grads: Any) -> Any:
            arrays = tuple(
                x if x is not None else value
                for x, value in zip(context.saved_tensors, context.values, strict=True)
            )
            if not torch.is_grad_enabled():  # nobody wants a second derivative
                arrays, grads = (tuple(map(_detached, x)) for x in (arrays, grads))
            operands, results = arrays[: context.gufunc.nin], arrays[context.gufunc.nin :]
            if all(x is None for x in grads):
                return (None,) * (3 + len(operands))
            namespace = namespace_of_all("backward", {"results": results[0]})
            return (None, None, None, *gradients(namespace, context.gufunc, operands, results, grads))

    return Recorded


def _detached(x: Any) -> Any:
    return x.detach() if hasattr(x, "detach") else x


class TorchDevice(StandardDevice):
    def stream(self) -> int:
        return sys.modules["torch"].cuda.current_stream(self.device).cuda_stream


def leave_to_python() -> None:
    """Have torch.compile break its graph here, and skip smallmm from here on: what reads memory has no graph.

    It does not trace a function with the attribute below, but runs it. PyTorch is not imported for this.
    """
    rules = sys.modules.get("torch._dynamo.trace_rules")
    if rules is not None and not hasattr(rules, "_skips_smallmm"):
        rules._skips_smallmm = True  # type: ignore[attr-defined]
        rules.add("smallmm")


leave_to_python._torchdynamo_disable = True  # type: ignore[attr-defined]
