"""JAX's arrays, which are never written to."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache, lru_cache
from typing import Any

import numpy as np

from .. import _core
from .._base import lapack
from .._base.composition import Composition
from .._base.errors import refuse_misfits, wrong_dtype
from .._base.shapes import (
    NUMBERS,
    SCALED,
    absent_dimensions,
    computed_dtypes,
    core_dimensions,
    core_sizes,
    is_bfloat16,
    is_complex,
    is_number_type,
    number_dtype,
    operand_dtypes,
    output_shapes,
    register_bfloat16,
    resolved_dtypes,
    stand_in,
    with_dimensions,
    without_dimensions,
)
from .base import CUDA, Call, Named, type_name
from .dlpack import DLPack, StandardDevice
from .jax_promotion import own_promotion
from .recording import has_rule

TARGET = "smallmm"  # the name by which XLA knows the core


class Jax(DLPack):
    def is_traced(self, x: Any) -> bool:
        return isinstance(x, sys.modules["jax"].core.Tracer)

    def is_divided(self, x: Any) -> bool:
        return len(_devices(x)) > 1

    def nearest(self, dtype: np.dtype) -> np.dtype:
        return _nearest(dtype)

    def records(self, gufunc: np.ufunc, operands: dict[str, Any]) -> bool:
        """Within jit, vmap and grad; also of arrays on several devices, whose parts JAX brings together."""
        return any(self.is_traced(x) or self.is_divided(x) for x in operands.values())

    def recorded(self, op: str, gufunc: np.ufunc, operands: dict[str, Any], call: Call) -> Any:
        import jax
        from jax import numpy as xp

        if not any(map(self.is_traced, operands.values())):  # on several devices
            return jax.jit(lambda *x: self.recorded(op, gufunc, dict(zip(operands, x, strict=True)), call))(
                *operands.values()
            )
        with own_promotion():
            if isinstance(gufunc, Composition) and not has_rule(gufunc):  # composed of what JAX records
                if any(map(is_complex, operands.values())):
                    _refuse_what_does_not_fit(op, gufunc, operands)
                results = gufunc.run(xp, tuple(operands.values()))
                return results if gufunc.nout > 1 else results[0]
            arrays = _as_arrays(xp, gufunc, operands)
            return _recorded(call, op, gufunc, tuple(arrays))(*arrays.values())

    def looped(self, step: Call, carry: list[Any], xs: list[Any], length: int, every: int) -> Any:
        """By `jax.lax.scan`. For a backward pass it keeps the carry before each time, and computes again what
        else that needs, in half of the time that it takes to read it (AMD Zen 5, November 2026)."""
        import jax
        from jax import numpy as xp

        step = jax.checkpoint(step, prevent_cse=False)

        def until_kept(carry: list[Any], xs: list[Any], count: int = every) -> Any:
            if count > 1:
                before = [x[:-1] for x in xs]
                carry, _ = jax.lax.scan(lambda c, x: (step(c, x)[0], None), carry, before, count - 1)
            return step(carry, [x[-1] for x in xs])

        kept, first = divmod(length, every)
        if not first:
            groups = [x.reshape((kept, every, *x.shape[1:])) for x in xs]
            return jax.lax.scan(until_kept, carry, groups, kept)
        carry, ys = until_kept(carry, [x[:first] for x in xs], first)
        if not kept:
            return carry, [y[None] for y in ys]
        carry, others = self.looped(step, carry, [x[first:] for x in xs], length - first, every)
        return carry, [xp.concat([y[None], x]) for y, x in zip(ys, others, strict=True)]

    def call(self, op: str, gufunc: np.ufunc, operands: Named, outs: Named, kwargs: Named) -> Any:
        """With results on the operands' device: XLA may have several devices on the host."""
        import jax

        (device,) = _devices(_committed(op, {**operands, **outs}))
        results = super().call(op, gufunc, operands, outs, kwargs)
        return jax.tree.map(lambda x: x if _devices(x) == {device} else jax.device_put(x, device), results)

    def if_any(self, condition: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
        if not self.is_traced(condition):
            return super().if_any(condition, then, otherwise)
        return sys.modules["jax"].lax.cond(condition.any(), then, otherwise)

    def is_capturing(self, x: Any) -> bool:
        """JAX gives nobody its streams to capture."""
        return False

    def refuse_traced(self, op: str, name: str, x: Any) -> None:
        if self.is_traced(x):
            raise TypeError(f"{op}: {name} is a {type_name(x)}, which has no elements yet; pass its values")

    def on(self, x: Any, device: int) -> JaxDevice:
        return JaxDevice(self.name, x, device)


def _nearest(dtype: np.dtype) -> np.dtype:
    import jax

    return np.dtype(jax.dtypes.canonicalize_dtype(dtype))  # float32 while jax_enable_x64 is off


def _devices(x: Any) -> set[Any]:
    return x.devices() if isinstance(x, sys.modules["jax"].Array) else set()


def _committed(op: str, operands: dict[str, Any]) -> Any:
    """An array on the device of all: arrays that were not put on a device follow the others."""
    arrays = {name: x for name, x in operands.items() if _devices(x)}
    bound = {name: x for name, x in arrays.items() if x.committed} or arrays
    (first_name, first), *others = bound.items()
    for name, x in others:
        if _devices(x) != _devices(first) and x.committed:
            raise TypeError(
                f"{op}: {name} is on {_devices(x)} but {first_name} on {_devices(first)}; expected arrays of "
                "one device"
            )
    return first


def _platform() -> str:
    """Of what JAX compiles, as XLA names it."""
    jax = sys.modules["jax"]
    device = jax.config.jax_default_device
    platform = getattr(device, "platform", device) if device else jax.default_backend()
    return "cpu" if platform == "cpu" else "CUDA"


def _as_arrays(xp: Any, gufunc: np.ufunc, operands: dict[str, Any]) -> dict[str, Any]:
    """Numbers of Python, and what JAX makes of them (weak_type), have the dtype that they are computed in."""
    kinds = {"i": int, "f": float, "c": complex}
    given = {
        name: kinds[x.dtype.kind]() if getattr(x, "weak_type", False) and x.dtype.kind in kinds else x
        for name, x in operands.items()
    }
    if not any(type(x) in NUMBERS for x in given.values()):
        return {name: xp.asarray(x) for name, x in operands.items()}
    canonical = sys.modules["jax"].dtypes.canonicalize_dtype
    for x in operands.values():
        register_bfloat16(np.dtype(getattr(x, "dtype", float)))
    own = operand_dtypes(gufunc, given)
    return {
        name: xp.asarray(x, canonical(own[name]) if type(given[name]) in NUMBERS else None)
        for name, x in operands.items()
    }


@lru_cache(maxsize=256)
def _recorded(call: Call, op: str, gufunc: np.ufunc, names: tuple[str, ...]) -> Any:
    """The call as a function that JAX compiles, vectorizes and differentiates once."""
    import jax

    inputs, outputs = core_dimensions(gufunc)

    @own_promotion()
    def plain(*operands: Any) -> Any:
        absent = absent_dimensions(operands, inputs)
        whole = [with_dimensions(x, dims, absent) for x, dims in zip(operands, inputs, strict=True)]
        results = _compiled(call, op, gufunc, dict(zip(names, whole, strict=True)))
        results = tuple(without_dimensions(x, dims, absent) for x, dims in zip(results, outputs, strict=True))
        return results if gufunc.nout > 1 else results[0]

    if not has_rule(gufunc):
        return plain

    function = jax.custom_jvp(plain)

    def derivative(operands: Any, tangents: Any) -> Any:
        results = function(*operands)  # which has a derivative, for second ones
        moved = _derivatives().tangents(
            gufunc, operands, results if gufunc.nout > 1 else (results,), tangents
        )
        return results, moved if gufunc.nout > 1 else moved[0]

    function.defjvp(derivative, symbolic_zeros=True)
    return function


@cache
def _derivatives() -> Any:
    """The module that needs JAX, which is imported by whoever made an array."""
    from . import jax_derivatives

    return jax_derivatives


def _compiled(call: Call, op: str, gufunc: np.ufunc, operands: dict[str, Any]) -> tuple[Any, ...]:
    """The results in a program that JAX compiles. Operands have all their dimensions; with as many batch
    dimensions each, they broadcast however JAX adds some."""
    import jax

    inputs, _ = core_dimensions(gufunc)
    shaped = _refuse_what_does_not_fit(op, gufunc, operands)
    most = max(x.ndim - len(dims) for x, dims in zip(operands.values(), inputs, strict=True))
    widened = [
        x.reshape((*(1,) * (most - x.ndim + len(dims)), *x.shape))
        for x, dims in zip(operands.values(), inputs, strict=True)
    ]
    dtypes = [jax.dtypes.canonicalize_dtype(dtype) for dtype in computed_dtypes(gufunc, shaped, {})]
    wanted = tuple(map(jax.ShapeDtypeStruct, output_shapes(gufunc, shaped), dtypes))
    platform = _platform()
    if _is_handled(gufunc, shaped, platform) and _has_handler(platform):
        return _by_handler(gufunc, shaped, widened, wanted)
    if platform == "CUDA":
        if isinstance(gufunc, Composition):
            results = gufunc.run(jax.numpy, tuple(operands.values()))
            return tuple(results) if gufunc.nout > 1 else (results,)
        name, x = next(iter(operands.items()))
        raise TypeError(
            f"{op}: {name} has shape {x.shape} and dtype {x.dtype}, for which no kernel can be called from "
            "what JAX compiles for a GPU"
        )

    def compute(*arrays: Any) -> tuple[np.ndarray, ...]:
        views = dict(zip(operands, map(np.asarray, arrays), strict=True))
        results = call(op, gufunc, views, None if gufunc.nout == 1 else (), {})
        results = results if gufunc.nout > 1 else (results,)
        return tuple(np.asarray(x, dtype) for x, dtype in zip(results, dtypes, strict=True))

    return tuple(jax.pure_callback(compute, wanted, *widened, vmap_method="expand_dims"))


def _refuse_what_does_not_fit(op: str, gufunc: Any, operands: dict[str, Any]) -> dict[str, np.ndarray]:
    """With names of arguments. Arrays of those shapes and dtypes without memory to speak of."""
    for name, x in operands.items():
        if hasattr(x, "dtype"):
            register_bfloat16(x.dtype)
            if x.dtype.kind not in "biufc" and not is_bfloat16(x.dtype):
                raise wrong_dtype(op, name, x.dtype)
    shaped = {name: stand_in(x.shape, x.dtype) if hasattr(x, "dtype") else x for name, x in operands.items()}
    refuse_misfits(op, gufunc, shaped)
    return shaped


def _by_handler(
    gufunc: np.ufunc, shaped: dict[str, np.ndarray], arrays: list[Any], wanted: tuple[Any, ...]
) -> tuple[Any, ...]:
    """The results by a call that XLA makes of the core."""
    import jax

    dtypes = [jax.dtypes.canonicalize_dtype(x) for x in resolved_dtypes(gufunc, shaped)]
    inputs = [x.astype(dtype) for x, dtype in zip(arrays, dtypes[: gufunc.nin], strict=True)]
    outputs = tuple(
        jax.ShapeDtypeStruct(x.shape, dtype) for x, dtype in zip(wanted, dtypes[gufunc.nin :], strict=True)
    )
    results = jax.ffi.ffi_call(TARGET, outputs, vmap_method="expand_dims")(*inputs, gufunc=gufunc.__name__)
    return tuple(x.astype(y.dtype) for x, y in zip(results, wanted, strict=True))


@lru_cache(maxsize=2)
def _has_handler(platform: str) -> bool:
    """Whether XLA takes the core's handler, which runs without Python."""
    import jax

    try:
        if platform == "CUDA":
            _core.cuda_device(0)  # loads the driver
            _has_handler("cpu")  # for programs that JAX is told to compile for it
        jax.ffi.register_ffi_target(TARGET, _core.xla_handlers[platform], platform=platform)
    except (
        AttributeError,
        RuntimeError,
        ValueError,
    ):  # no driver, JAX before 0.5, or a later interface of XLA's
        return False
    return True


def _is_handled(gufunc: Any, operands: dict[str, np.ndarray], platform: str) -> bool:
    """Not compositions, nor what LAPACK computes, nor integers and bools, whose products have rules."""
    if not isinstance(gufunc, np.ufunc) or gufunc.__name__ in SCALED:
        return False
    if not all(is_number_type(x.dtype) or name == "pivots" for name, x in operands.items()):
        return False
    if platform == "cpu":
        return not lapack.takes(gufunc, operands)
    sizes = core_sizes(gufunc, operands)
    n, k = sizes.get("n", 1), sizes.get("k", 1)
    number = number_dtype(gufunc, operands)
    return 0 not in sizes.values() and _core.cuda_takes(gufunc, number, sizes.get("m", n), k, n)


class JaxDevice(StandardDevice):
    """New arrays are memory of ours, which JAX takes over when it is written. JAX's runtime waits for the
    stream that it names for external work, and the same stream is made to wait for its arrays."""

    writable = False

    def __init__(self, name: str, x: Any, device: int):
        super().__init__(name, x, device)
        (self._jax_device,) = x.devices()

    def stream(self) -> int:
        return self._jax_device.get_stream_for_external_ready_events()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> _Memory:
        return _Memory(shape, dtype, self.device, self.stream())

    def finished(self, out: _Memory) -> Any:
        import jax

        return jax.dlpack.from_dlpack(_Export(out))

    def nearest(self, dtype: np.dtype) -> np.dtype:
        return _nearest(dtype)

    def in_own_precision(self) -> AbstractContextManager[Any]:
        """By default JAX rounds float32 to fewer bits for tensor cores."""
        import jax

        return jax.default_matmul_precision("highest")

    def solve_triangular(self, a: Any, b: Any, upper: bool) -> Any:
        import jax

        return jax.scipy.linalg.solve_triangular(a, b, lower=not upper)

    def lu_factor(self, a: Any) -> tuple[Any, Any]:
        import jax

        lu, pivots, _ = jax.lax.linalg.lu(a)
        return lu, pivots

    def expm(self, a: Any) -> Any:
        import jax

        return jax.scipy.linalg.expm(a)

    def astype(self, x: Any, dtype: str) -> Any:
        return x.astype(dtype)


class _Memory:
    """New memory of ours, to write to."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, device: int, stream: int):
        self.device = device
        self.capsule, address = _core.device_empty(shape, dtype.str, device, stream)
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": dtype.str,
            "data": (address, False),
            "strides": None,
            "stream": None,
            "version": 3,
        }


class _Export:
    """The same, for another library to take over by DLPack."""

    def __init__(self, memory: _Memory):
        self._memory = memory

    def __dlpack_device__(self) -> tuple[int, int]:
        return (CUDA, self._memory.device)

    def __dlpack__(self, **_: Any) -> Any:
        return self._memory.capsule
