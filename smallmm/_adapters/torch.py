"""PyTorch's tensors."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .._shapes import is_bfloat16
from .base import type_name
from .dlpack import DLPack, StandardDevice


class Torch(DLPack):
    def refuse_traced(self, op: str, name: str, x: Any) -> None:
        if sys.modules["torch"]._C._functorch.is_functorch_wrapped_tensor(x):
            raise TypeError(
                f"{op}: {name} is a {type_name(x)} within torch.vmap or torch.func, which smallmm cannot "
                f"follow; call it outside: {op} takes whole stacks"
            )

    def shareable(self, op: str, name: str, x: Any) -> Any:
        """x without a gradient that is not wanted, and with the sign that its negative bit stands for."""
        if x.requires_grad:
            if sys.modules["torch"].is_grad_enabled():
                raise TypeError(
                    f"{op}: {name} is a {type_name(x)} that requires a gradient, which smallmm does not "
                    f"compute: call it under torch.no_grad(), or pass {name}.detach()"
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
