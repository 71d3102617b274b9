"""What PyTorch follows: one operator for each gufunc, ``torch.ops.smallmm.<gufunc>``, made when a call is
first recorded, and the autograd functions around them. Imported with the first tensor: PyTorch is there then.

An operator's first argument is the call as messages name it, "solve(a,b)". Its operands are tensors with all
their core dimensions; their batch dimensions broadcast. torch.compile and torch.export have it as a node of
their graphs, and know its results' shapes. torch.vmap adds a batch dimension.
"""

from __future__ import annotations

from functools import partial
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad

from .. import _core
from .._base.composition import Composition
from .._base.errors import refuse_misfits, wrong_dtype
from .._base.later import later
from .._base.shapes import (
    NUMBERS,
    absent_dimensions,
    core_dimensions,
    is_complex,
    operand_dtypes,
    output_dtypes,
    register_bfloat16,
    stand_in,
    with_dimensions,
    without_dimensions,
    working_dtype,
)
from .base import Call, type_name
from .dlpack import namespace_of_all, refuse_without_ml_dtypes
from .recording import gradients, has_rule

Arrays = tuple[Any, ...]

_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
_modes = torch._C._len_torch_dispatch_stack


def _passes() -> Any:
    return later("_derivatives.backward")


def elements(x: torch.Tensor) -> torch.Tensor | None:
    """The whole tensor of which torch.vmap and torch.func show a part; None if it has no elements."""
    while _is_wrapped(x):
        x = torch._C._functorch.get_unwrapped(x)
    return None if is_followed(x) else x


def is_followed(x: Any) -> bool:
    """Whether PyTorch must see what becomes of x: x is on the device "meta", without elements, or of a type
    with rules of its own, has a tangent, or is met while a mode (tracing, counting) is on."""
    if not isinstance(x, torch.Tensor):
        return False
    plain = type(x) is torch.Tensor or type(x).__torch_dispatch__ is torch.Tensor.__torch_dispatch__
    usual = plain and not x.is_meta and not _is_wrapped(x) and not _modes()
    return not usual or (forward_ad._current_level >= 0 and has_tangent(x))


def has_tangent(x: Any) -> bool:
    """Whether x carries a derivative in forward mode."""
    within = forward_ad._current_level >= 0 and isinstance(x, torch.Tensor)
    return within and forward_ad.unpack_dual(x).tangent is not None


def followed(call: Call, op: str, gufunc: Any, operands: dict[str, Any]) -> Any:
    """The results of a call that PyTorch follows, and its autograd where there is a rule."""
    inputs, outputs = core_dimensions(gufunc)
    _refuse_what_does_not_fit(op, gufunc, operands)
    absent = absent_dimensions(operands.values(), inputs)
    like = _on_one_device(op, operands)
    own = operand_dtypes(gufunc, operands)
    whole = tuple(
        with_dimensions(_as_tensor(x, like, own[name]), dims, absent)
        for (name, x), dims in zip(operands.items(), inputs, strict=True)
    )
    results = recorded(call, op, gufunc, tuple(operands), whole)
    return tuple(without_dimensions(x, dims, absent) for x, dims in zip(results, outputs, strict=True))


def composed(gufunc: Any, namespace: Any, op: str, operands: dict[str, Any]) -> Arrays:
    """The results of a composition by operations that PyTorch records, in the dtypes that NumPy's have."""
    if any(is_followed(x) or is_complex(x) for x in operands.values()):
        _refuse_what_does_not_fit(op, gufunc, operands)
    dtypes = _output_dtypes(gufunc, tuple(operands.values()))
    number = getattr(torch, working_dtype(gufunc, operands).name)
    arrays = tuple(x.to(number) if torch.is_tensor(x) else x for x in operands.values())
    return tuple(x.to(dtype) for x, dtype in zip(gufunc.run(namespace, arrays), dtypes, strict=True))


def recorded(call: Call, op: str, gufunc: Any, names: tuple[str, ...], operands: Arrays) -> Arrays:
    """The results, for autograd to differentiate if there is a rule."""
    if not has_rule(gufunc):
        return _computed(call, op, gufunc, names, operands)
    if torch._C._are_functorch_transforms_active():
        return Transformed.apply(call, op, gufunc, names, *operands)
    results = _computed(call, op, gufunc, names, operands)
    return differentiated(_passes().backward_of(gufunc), results, operands)


def differentiated(backward: Any, results: Arrays, operands: Arrays) -> Arrays:
    """The results of a call, which autograd has the backward pass of."""
    return Recorded.apply(backward, results, *operands)


def recorded_composition(
    composition: Composition, op: str, operands: dict[str, Any], call: Call
) -> Arrays | None:
    """The results, for autograd to differentiate in one pass; None: it is to see each operation."""
    arrays = tuple(operands.values())
    if torch._C._are_functorch_transforms_active():
        return None
    results = _computed(call, op, composition, tuple(operands), arrays)
    backward = _passes().backward_of(composition)
    return differentiated(backward, results, arrays) if _has_rules(backward, arrays, results) else None


def recorded_program(computed: Any, arrays: Arrays) -> Arrays | None:
    """The results of a fused function, or a scan, for autograd to differentiate in one pass; None: it is to
    see each step. computed(*arrays): the backward pass, and the results of arrays that record nothing."""
    if any(map(is_followed, arrays)) or torch._C._are_functorch_transforms_active():
        return None
    backward, results = computed(*map(_detached, arrays))
    return differentiated(backward, results, arrays) if _has_rules(backward, arrays, results) else None


def _has_rules(backward: Any, operands: Any, results: Any) -> bool:
    wanted = tuple([i for i, x in enumerate(operands) if getattr(x, "requires_grad", False)])
    return backward.is_recordable([*map(_detached, operands)], results, wanted)


class Recorded(torch.autograd.Function):
    """The autograd function that all calls are: their results are given. Its backward pass is recorded, too,
    where that is wanted, and so are derivatives in forward mode."""

    @staticmethod
    def forward(context: Any, backward: Any, results: Arrays, *operands: Any) -> Arrays:
        _remember(context, backward, operands, results)
        return results

    @staticmethod
    def backward(context: Any, *grads: Any) -> Any:
        found = _differentiated(context, grads)
        return (*(None,) * (len(context.needs_input_grad) - len(found)), *found)

    @staticmethod
    def jvp(context: Any, *tangents: Any) -> Any:
        with forward_ad._set_fwd_grad_enabled(True):  # off here, also for an outer derivative in forward mode
            return _along(context, tangents[-len(context.rule.inputs) :])


class Transformed(torch.autograd.Function):
    """The same within torch.vmap and torch.func, which want it in parts that cost an ordinary call more."""

    @staticmethod
    def forward(call: Call, op: str, gufunc: Any, names: tuple[str, ...], *operands: Any) -> Arrays:
        return _computed(call, op, gufunc, names, operands)

    @staticmethod
    def setup_context(context: Any, inputs: Arrays, output: Arrays) -> None:
        _remember(context, _passes().backward_of(inputs[2]), inputs[4:], output)

    backward = Recorded.backward
    jvp = Recorded.jvp

    @staticmethod
    def vmap(
        info: Any, in_dims: Arrays, call: Call, op: str, gufunc: Any, names: tuple[str, ...], *operands: Any
    ) -> tuple[Arrays, Arrays]:
        results = recorded(call, op, gufunc, names, _with_mapped_first(gufunc, in_dims[4:], operands))
        return results, (0,) * len(results)


def _computed(call: Call, op: str, gufunc: Any, names: tuple[str, ...], operands: Arrays) -> Arrays:
    arrays = tuple(map(_detached, map(_without_tangent, operands)))  # which the direct path takes
    if any(map(is_followed, arrays)):
        results = operator(call, gufunc)(f"{op}({','.join(names)})", *arrays)
        return results if gufunc.nout > 1 else (results,)
    if isinstance(gufunc, Composition):
        results = gufunc.directly(arrays)
    else:
        results = _core.direct[gufunc.__name__](*arrays, *(None,) * gufunc.nout)  # with info
    if results is NotImplemented:
        outs = None if gufunc.nout == 1 else ()
        results = call(op, gufunc, dict(zip(names, arrays, strict=True)), outs, {})
    return results if gufunc.nout > 1 else (results,)


def _remember(context: Any, backward: Any, operands: Arrays, results: Arrays) -> None:
    """What the backward pass needs."""
    arrays = (*operands, *results) if backward.gufunc is not None else operands
    context.rule = backward
    tensors = arrays
    context.values = None  # operands and results that are no tensors
    if not all(isinstance(x, torch.Tensor) for x in arrays):
        tensors = tuple([x if isinstance(x, torch.Tensor) else None for x in arrays])
        context.values = [None if isinstance(x, torch.Tensor) else x for x in arrays]
    context.save_for_backward(*tensors)
    if forward_ad._current_level >= 0:
        context.save_for_forward(*tensors)
    if constant := [x for x in results if x is not None and not _is_smooth(x)]:
        context.mark_non_differentiable(*constant)
    context.set_materialize_grads(False)


def _saved(context: Any) -> Arrays:
    """The operands and results that it remembers."""
    if context.values is None:
        return context.saved_tensors
    return tuple(
        x if x is not None else value for x, value in zip(context.saved_tensors, context.values, strict=True)
    )


def _differentiated(context: Any, grads: Arrays) -> Arrays:
    """The gradients of the operands."""
    rule, arrays = context.rule, _saved(context)
    operands, results = arrays[: len(rule.inputs)], arrays[len(rule.inputs) :]
    answers: list[Any] = [None] * len(operands)
    if all(x is None for x in grads):
        return tuple(answers)
    needed = context.needs_input_grad[-len(operands) :]
    wanted = tuple([i for i, x in enumerate(needed) if x])
    found = None
    if rule.gufunc is None or (not torch.is_grad_enabled() and not any(map(is_followed, grads))):
        found = rule.gradients(operands, results, grads, wanted)
    if found is None:
        namespace = namespace_of_all("backward", {"results": results[0]})
        return tuple(gradients(namespace, rule.gufunc, operands, results, grads, True, wanted))
    for i, x in zip(wanted, found, strict=True):
        answers[i] = x if x.shape == operands[i].shape else x.sum_to_size(operands[i].shape)
    return tuple(answers)


def _along(context: Any, tangents: Arrays) -> Arrays:
    """The tangents of the results, from those of the operands: `gradients` is linear in the gradients of the
    results, and this is its adjoint."""
    gufunc = context.rule.gufunc
    arrays = tuple(map(_without_tangent, _saved(context)))
    operands, results = arrays[: gufunc.nin], arrays[gufunc.nin :]
    namespace = namespace_of_all("jvp", {"results": results[0]})
    smooth = [i for i, x in enumerate(results) if _is_smooth(x)]
    moved = [i for i, t in enumerate(tangents) if t is not None]
    found: list[int] = []  # operands that have a gradient and a tangent

    def adjoint(*some: Any) -> Arrays:
        grads = dict(zip(smooth, some, strict=True))
        given = tuple(grads.get(i) for i in range(len(results)))
        answers = gradients(namespace, gufunc, operands, results, given, True, moved)
        found[:] = [i for i in moved if answers[i] is not None]
        return tuple(answers[i] for i in found)

    answers: list[Any] = [None] * len(results)
    _, transposed = torch.func.vjp(adjoint, *(torch.zeros_like(results[i]) for i in smooth))
    if found:
        for i, tangent in zip(smooth, transposed(tuple(tangents[i] for i in found)), strict=True):
            answers[i] = tangent
    return tuple(answers)


def _with_mapped_first(gufunc: Any, in_dims: Arrays, operands: Arrays) -> Arrays:
    """The operands with the dimension that torch.vmap maps as the first of their batch dimensions."""
    inputs, _ = core_dimensions(gufunc)
    batches = [
        x.ndim - len(dims) - (d is not None) if torch.is_tensor(x) else 0
        for x, d, dims in zip(operands, in_dims, inputs, strict=True)
    ]
    return tuple(
        x if d is None else _widened(x.movedim(d, 0), max(batches) - batch)
        for x, d, batch in zip(operands, in_dims, batches, strict=True)
    )


def _widened(x: Any, count: int) -> Any:
    return x.reshape((x.shape[0], *(1,) * count, *x.shape[1:]))


def _is_smooth(x: torch.Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()


def _without_tangent(x: Any) -> Any:
    return forward_ad.unpack_dual(x).primal if has_tangent(x) else x


def _detached(x: Any) -> Any:
    return x.detach() if hasattr(x, "detach") else x


def _as_tensor(x: Any, like: Any, number: np.dtype) -> Any:
    """Numbers as tensors, too: Python's have the dtype of its operand."""
    if torch.is_tensor(x):
        return x
    if type(x) in NUMBERS:
        return torch.full((), x, dtype=getattr(torch, number.name), device=like.device)
    return torch.from_numpy(np.array(x)).to(like.device)


def _on_one_device(op: str, operands: dict[str, Any]) -> Any:
    """A tensor on the device of all."""
    name, like = next((name, x) for name, x in operands.items() if torch.is_tensor(x))
    for other, x in operands.items():
        if torch.is_tensor(x) and x.device != like.device:
            raise TypeError(
                f"{op}: {name} is a {type_name(like)} on {like.device} but {other} is a {type_name(x)} on "
                f"{x.device}; expected arrays of one library on one device"
            )
    return like


def _refuse_what_does_not_fit(op: str, gufunc: Any, operands: dict[str, Any]) -> None:
    """With names of arguments, before an operator or torch.vmap sees them."""
    for name, x in operands.items():
        if torch.is_tensor(x):
            if x.dtype == torch.bfloat16:
                refuse_without_ml_dtypes(op, name)
            try:
                numpys_dtype(x.dtype)
            except TypeError:
                raise wrong_dtype(op, name, x.dtype) from None
    if not all(type(n) is int for x in operands.values() for n in getattr(x, "shape", ())):
        return  # torch.compile's symbols: the operator checks them
    shaped = {
        name: stand_in(x.shape, numpys_dtype(x.dtype)) if torch.is_tensor(x) else x
        for name, x in operands.items()
    }
    refuse_misfits(op, gufunc, shaped)


def numpys_dtype(dtype: torch.dtype) -> np.dtype:
    """The same of NumPy; TypeError if there is none."""
    if dtype == torch.bfloat16:
        import ml_dtypes

        register_bfloat16(np.dtype(ml_dtypes.bfloat16))
    return np.dtype(str(dtype).removeprefix("torch."))


# --- operators ---------------------------------------------------------------------------------------------

_library: Any = None
_operators: dict[str, Any] = {}
_defining = Lock()


def operator(call: Call, gufunc: Any) -> Any:
    """``torch.ops.smallmm.<gufunc>``."""
    name = gufunc.__name__
    with _defining:
        if name not in _operators:
            _operators[name] = _defined(call, gufunc)
    return _operators[name]


def _defined(call: Call, gufunc: Any) -> Any:
    global _library
    _library = _library or torch.library.Library("smallmm", "FRAGMENT")
    name = gufunc.__name__
    tensors = ", ".join(f"Tensor x{i}" for i in range(gufunc.nin))
    results = ", ".join(["Tensor"] * gufunc.nout)
    _library.define(f"{name}(str call, {tensors}) -> ({results})")
    _library.impl(name, partial(_run, call, gufunc), "CompositeExplicitAutograd")
    full = f"smallmm::{name}"
    torch.library.register_fake(full, partial(_outline, gufunc), lib=_library)
    torch.library.register_vmap(full, partial(_mapped, call, gufunc), lib=_library)
    if has_rule(gufunc):
        torch.library.register_autograd(
            full,
            lambda context, *grads: (None, *_differentiated(context, grads)),
            setup_context=partial(_set_up, gufunc),
            lib=_library,
        )
    return getattr(torch.ops.smallmm, name).default


def _run(call: Call, gufunc: Any, label: str, *operands: Any) -> Any:
    op, names = _parsed(label)
    results = tuple(x.contiguous() for x in _computed(call, op, gufunc, names, operands))
    return results if gufunc.nout > 1 else results[0]


def _outline(gufunc: Any, label: str, *operands: Any) -> Any:
    """Results without elements."""
    op, names = _parsed(label)
    inputs, outputs = core_dimensions(gufunc)
    sizes: dict[str, Any] = {}
    for name, x, dims in zip(names, operands, inputs, strict=True):
        core = x.shape[x.ndim - len(dims) :]
        for dim, size in zip(dims, core, strict=True):
            if sizes.setdefault(dim, size) != size:
                raise ValueError(f"{op}: {name} has shape {tuple(x.shape)}; expected {sizes[dim]} for {dim}")
    batch = torch.broadcast_shapes(
        *(x.shape[: x.ndim - len(dims)] for x, dims in zip(operands, inputs, strict=True))
    )
    dtypes = _output_dtypes(gufunc, operands)
    results = tuple(
        operands[0].new_empty((*batch, *(sizes[dim] for dim in dims)), dtype=dtype)
        for dims, dtype in zip(outputs, dtypes, strict=True)
    )
    return results if gufunc.nout > 1 else results[0]


def _output_dtypes(gufunc: Any, operands: Arrays) -> list[torch.dtype]:
    for x in operands:
        if torch.is_tensor(x):
            numpys_dtype(x.dtype)
    return [getattr(torch, dtype.name) for dtype in output_dtypes(gufunc, dict(enumerate(operands)), {})]  # type: ignore[arg-type]


def _mapped(call: Call, gufunc: Any, info: Any, in_dims: Arrays, label: str, *operands: Any) -> Any:
    results = operator(call, gufunc)(label, *_with_mapped_first(gufunc, in_dims[1:], operands))
    return results, (0,) * gufunc.nout if gufunc.nout > 1 else 0


def _set_up(gufunc: Any, ctx: Any, inputs: Arrays, output: Any) -> None:
    _remember(
        ctx,
        _passes().backward_of(gufunc),
        inputs[1:],
        output if gufunc.nout > 1 else (output,),
    )


def _parsed(label: str) -> tuple[str, tuple[str, ...]]:
    """The function and the names of its operands."""
    op, _, names = label.rstrip(")").rpartition("(")
    return op, tuple(names.split(","))
