"""Calls on arrays of any library. NumPy's and those that follow its `__array_ufunc__` protocol go to the
gufunc as they are; Dask's are computed later, chunk by chunk; those that only speak DLPack (PyTorch, JAX) are
seen as NumPy arrays, without a copy, and get their results back in their own library. Of pandas' objects the
values are taken, as numpy.linalg does."""

import re
import sys
from functools import partial
from typing import Any

import numpy as np

from . import _core, _lapack
from ._errors import explain_failure, explain_pivots, wrong_dtype
from ._signatures import core_dimensions, fixed_signature, narrow_dtype, output_dtypes

# Devices whose memory the CPU reads and writes: kDLCPU, kDLCUDAHost, kDLROCMHost, kDLCUDAManaged of DLPack.
_HOST_DEVICES = (1, 3, 11, 13)

# What NumPy has as ufuncs too, which leave pandas' objects to pandas
_NUMPY_UFUNCS = (_core.matmul, _core.matvec, _core.vecmat)


def call(op: str, gufunc: np.ufunc, operands: dict[str, Any], out: Any, kwargs: dict[str, Any]) -> Any:
    """``gufunc(*operands.values(), *out, **kwargs)`` for arrays of any library.

    out is an array, None, or a tuple of as many of them as the caller may give, in the order of the outputs.
    """
    leave_to_python()
    outs = _named(out if isinstance(out, tuple) else (out,))
    if gufunc not in _NUMPY_UFUNCS:
        operands = {name: without_labels(x) for name, x in operands.items()}
        for name, x in outs.items():
            if without_labels(x) is not x:
                raise TypeError(f"{op}: {name} is a {_type_name(x)}; expected a numpy.ndarray")
    if gufunc.nout == 1 and len(outs) != 1:
        raise ValueError(f"{op}: out is a tuple of {len(outs)}; expected an array, or a tuple of one")
    arrays = {**operands, **{name: x for name, x in outs.items() if x is not None}}
    for name, x in arrays.items():
        if _is_foreign(x):
            _refuse_traced(op, name, x)
    if any(on_device(x) for x in arrays.values()):
        from . import _device

        return _device.call(op, gufunc, operands, outs, kwargs, on_device)
    if any(map(is_lazy, arrays.values())):
        return _call_lazily(op, gufunc, operands, outs, kwargs)
    foreign = {name: x for name, x in arrays.items() if _is_foreign(x)}
    if not foreign:
        return _call_numpy(op, gufunc, operands, outs, kwargs)

    library = _library_of_all(op, arrays, foreign)
    views = {name: _as_numpy(op, name, x) if name in foreign else x for name, x in arrays.items()}
    out_views = {name: views.pop(name, None) for name in outs}
    results = _call_numpy(op, gufunc, views, out_views, kwargs)
    if gufunc.nout == 1:
        return _given_or(library, next(iter(outs.values())), results)
    given = (*outs.values(), *(None,) * gufunc.nout)
    return tuple(_given_or(library, x, result) for x, result in zip(given, results, strict=False))


def leave_to_python() -> None:
    """Have torch.compile break its graph here, and skip smallmm from here on: what reads memory has no graph.

    It does not trace a function with the attribute below, but runs it. PyTorch is not imported for this.
    """
    rules = sys.modules.get("torch._dynamo.trace_rules")
    if rules is not None and not hasattr(rules, "_skips_smallmm"):
        rules._skips_smallmm = True  # type: ignore[attr-defined]
        rules.add("smallmm")


leave_to_python._torchdynamo_disable = True  # type: ignore[attr-defined]


def core_shape(a: Any) -> tuple[int, int]:
    """Rows and columns of a stack of matrices. If it is none, the call says so."""
    if type(a) is not np.ndarray:
        leave_to_python()
    try:
        shape = np.shape(a)
    except ValueError:
        shape = ()
    return shape[-2:] if len(shape) > 1 else (1, 1)


def as_numpy(op: str, name: str, x: Any) -> np.ndarray:
    """A NumPy array of x, without a copy where x is an array."""
    return _as_numpy(op, name, x) if _is_foreign(x) else np.asarray(x)


def on_device(x: Any) -> bool:
    """Whether x is an array whose memory the CPU does not read."""
    if isinstance(x, np.ndarray):
        return False
    try:
        if not hasattr(x, "__dlpack_device__"):
            return hasattr(x, "__cuda_array_interface__")
        return x.__dlpack_device__()[0] not in _HOST_DEVICES
    except Exception:  # a device that DLPack has no number for, or no answer, which `_device` refuses by name
        return True


def without_labels(x: Any) -> Any:
    """x, or the values of an object of pandas, which takes ufuncs it does not know for ufuncs of elements: it
    aligns the operands' labels, and lays them on the result."""
    if type(x) is np.ndarray:
        return x
    leave_to_python()
    labelled = any(base.__module__.partition(".")[0] == "pandas" for base in type(x).__mro__)
    return np.asarray(x) if labelled else x


def is_lazy(x: Any) -> bool:
    """Whether x is an array of Dask, which computes when asked to."""
    dask = sys.modules.get("dask.array")
    return dask is not None and isinstance(x, dask.Array)


def lazily(function: Any, signature: str, *arrays: Any, **kwargs: Any) -> Any:
    """Dask arrays of what `function` will give chunk by chunk, the chunks of the batch being those of all."""
    from dask.array import apply_gufunc, asarray
    from dask.array.core import unify_chunks

    cores = [
        part.count(",") + (part != "") for part in re.findall(r"\((.*?)\)", signature.partition("->")[0])
    ]
    pairs = []
    for i, (x, core) in enumerate(zip(arrays, cores, strict=True)):
        x = asarray(x)
        batch = [("batch", d) for d in reversed(range(x.ndim - core))]
        pairs += [x, (*batch, *((i, d) for d in range(core)))]
    if "axes" not in kwargs:
        arrays = unify_chunks(*pairs)[1]
    return apply_gufunc(function, signature, *arrays, **kwargs)


def _call_lazily(
    op: str, gufunc: np.ufunc, operands: dict[str, Any], outs: dict[str, Any], kwargs: dict[str, Any]
) -> Any:
    for name, x in outs.items():
        if x is not None:
            raise TypeError(f"{op}: {name} is given, but a call of Dask arrays writes to none")
    dasks = ("axes", "axis", "keepdims")  # Dask's part
    where = {name: x for name, x in kwargs.items() if name in dasks}
    others = {name: x for name, x in kwargs.items() if name not in dasks}
    try:
        dtypes = output_dtypes(gufunc, operands, kwargs)
        return lazily(
            partial(_call_chunks, op, gufunc, tuple(operands), others),
            fixed_signature(gufunc, operands),
            *(np.asarray(x, dtypes[0]) if type(x) in (int, float) else x for x in operands.values()),
            output_dtypes=dtypes if gufunc.nout > 1 else dtypes[0],
            **where,
        )
    except (IndexError, OverflowError, TypeError, ValueError):
        if any(n != n for x in operands.values() if is_lazy(x) for n in x.shape):  # NaN: not known yet
            raise
        explanation = explain_failure(op, gufunc, {k: _outline(x) for k, x in operands.items()}, {}, kwargs)
        if explanation is None:
            raise
        raise explanation from None  # Dask's messages know of no operands


def _outline(x: Any) -> Any:
    """x, or an array of the shape and dtype of a lazy one, all of it one element."""
    return np.broadcast_to(np.empty((), x.dtype), x.shape) if is_lazy(x) else x


def _call_chunks(
    op: str, gufunc: np.ufunc, names: tuple[str, ...], kwargs: dict[str, Any], *chunks: np.ndarray
) -> Any:
    return _call_numpy(op, gufunc, dict(zip(names, chunks, strict=True)), {}, kwargs)


def _call_numpy(
    op: str, gufunc: np.ufunc, operands: dict[str, Any], outs: dict[str, Any], kwargs: dict[str, Any]
) -> Any:
    operands = {name: _without_mask(op, name, x) for name, x in operands.items()}
    # numpy.matrix has two dimensions, unlike stacks, infos and determinants: results become it at the end
    is_matrix = {name: isinstance(x, np.matrix) for name, x in operands.items()}
    operands = {name: np.asarray(x) if is_matrix[name] else x for name, x in operands.items()}
    matrices = any(is_matrix.values()) and kwargs.get("subok", True)
    targets = {name: x.data if isinstance(x, np.ma.MaskedArray) else x for name, x in outs.items()}
    pivots = operands.get("pivots")
    try:
        if pivots is not None:
            operands["pivots"] = _narrowed(pivots)
        results = _computed(gufunc, operands, targets, kwargs)
    except (OverflowError, TypeError, ValueError):
        explanation = explain_failure(op, gufunc, operands, targets, kwargs)
        if explanation is None and pivots is not None:
            explanation = explain_pivots(op, pivots)
        if explanation is not None:
            raise explanation from None  # NumPy's message numbers the operands; ours names them
        if not _lapack.takes(gufunc, operands):
            raise
        results = _lapack.call(op, gufunc, operands, targets)
    if matrices or any(targets[name] is not x for name, x in outs.items()):
        return _dressed(gufunc, outs, results, matrices)
    return results


def _narrowed(pivots: Any) -> Any:
    """Pivots as int32, where NumPy would take them modulo 2^32: those beyond become others that are no rows.
    Without an element they may be floats, as the array of an empty list is."""
    if _overrides_ufuncs(pivots):
        return pivots
    array = np.asarray(pivots)
    if not array.size:
        return array.astype(np.int32)
    if array.dtype.kind not in "iu" or array.dtype.itemsize < 4 or array.dtype == np.int32:
        return array
    return np.clip(array, max(np.iinfo(array.dtype).min, -1), 2**31 - 1).astype(np.int32)


def _computed(
    gufunc: np.ufunc, operands: dict[str, Any], targets: dict[str, Any], kwargs: dict[str, Any]
) -> Any:
    """The gufunc's results. Products of float16 or bool are computed in a wider dtype, and rounded once."""
    ours = not kwargs.keys() & {"dtype", "signature"} and not any(map(_overrides_ufuncs, operands.values()))
    narrow = narrow_dtype(gufunc, operands) if ours else None
    target = next(iter(targets.values()), None)
    if narrow is None or (narrow == np.float16 and target is not None):  # to which NumPy rounds
        return gufunc(*operands.values(), *targets.values(), **kwargs)
    if target is None:
        with np.errstate(all="ignore"):
            return gufunc(*operands.values(), **kwargs).astype(narrow)
    wide = np.empty(np.shape(target))  # NumPy casts no sums to bool
    gufunc(*operands.values(), wide, **kwargs)
    np.copyto(target, wide.astype(narrow), casting=kwargs.get("casting", "same_kind"))
    return target


def _overrides_ufuncs(x: Any) -> bool:
    return hasattr(x, "__array_ufunc__") and not isinstance(x, np.ndarray | np.generic)


def _without_mask(op: str, name: str, x: Any) -> Any:
    """The values of a masked array. No kernel heeds a mask, so nothing may be masked."""
    if not isinstance(x, np.ma.MaskedArray):
        return x
    if masked := np.count_nonzero(x.mask):
        raise TypeError(
            f"{op}: {name} is a masked array, {masked} of whose {x.size} elements are masked; expected none: "
            f"pass {name}.filled(0), or whatever stands for them"
        )
    return x.data


def _dressed(gufunc: np.ufunc, outs: dict[str, Any], results: Any, matrices: bool) -> Any:
    """The results, those written to a part of `out` as `out`; if `matrices`, single matrices as such."""
    _, dims = core_dimensions(gufunc)
    given = (*outs.values(), *(None,) * gufunc.nout)
    single = {1, 2} if gufunc in _NUMPY_UFUNCS else {2}  # NumPy makes a row of a vector
    dressed = tuple(
        out if out is not None else x.view(np.matrix) if matrices and {x.ndim, len(core)} <= single else x
        for out, x, core in zip(given, results if gufunc.nout > 1 else (results,), dims, strict=False)
    )
    return dressed if gufunc.nout > 1 else dressed[0]


def _named(outs: tuple[Any, ...]) -> dict[str, Any]:
    return {"out": outs[0]} if len(outs) == 1 else {f"out[{i}]": x for i, x in enumerate(outs)}


def _given_or(library: Any, given: Any, result: Any) -> Any:
    return given if given is not None else library.from_dlpack(np.asarray(result))


def _type_name(x: Any) -> str:
    return f"{type(x).__module__}.{type(x).__qualname__}".removeprefix("builtins.")


def _is_foreign(x: Any) -> bool:
    return hasattr(x, "__dlpack__") and not hasattr(x, "__array_ufunc__")


def _library_of_all(op: str, arrays: dict[str, Any], foreign: dict[str, Any]) -> Any:
    """The array API namespace that all arrays share. Numbers belong to every library."""
    from array_api_compat import array_namespace

    (first_name, first), *_ = foreign.items()
    try:
        library = array_namespace(first)
    except TypeError as error:
        raise TypeError(
            f"{op}: {first_name} is a {_type_name(first)}; expected an array of NumPy or of another "
            "library of the array API standard"
        ) from error
    for name, x in arrays.items():
        if name not in foreign and not isinstance(x, list | tuple) and np.ndim(x) == 0:
            continue
        if name not in foreign or array_namespace(x) is not library:
            raise TypeError(
                f"{op}: {name} is a {_type_name(x)} but {first_name} is a {_type_name(first)}; "
                "expected arrays of one library"
            )
    return library


def _refuse_traced(op: str, name: str, x: Any) -> None:
    """Arrays that stand for others while a function is traced or vectorised, and have no memory."""
    kind = type(x).__module__.partition(".")[0]
    if kind == "jax" and isinstance(x, sys.modules["jax"].core.Tracer):
        raise TypeError(
            f"{op}: {name} is a {_type_name(x)}, which has no elements yet: call smallmm outside jit, vmap "
            "and grad, or through jax.pure_callback, as docs/integrations.md shows"
        )
    if kind == "torch" and sys.modules["torch"]._C._functorch.is_functorch_wrapped_tensor(x):
        raise TypeError(
            f"{op}: {name} is a {_type_name(x)} within torch.vmap or torch.func, which smallmm cannot "
            f"follow; call it outside: {op} takes whole stacks"
        )


def shareable(op: str, name: str, x: Any) -> Any:
    """x without what PyTorch means and DLPack does not describe: a gradient that is not wanted, a sign."""
    if getattr(x, "requires_grad", False):
        torch = sys.modules.get("torch")
        if torch is None or torch.is_grad_enabled():
            raise TypeError(
                f"{op}: {name} is a {_type_name(x)} that requires a gradient, which smallmm does not "
                f"compute: call it under torch.no_grad(), or pass {name}.detach()"
            )
        x = x.detach()
    if not getattr(x, "is_neg", bool)():
        return x
    if name.startswith("out"):
        raise TypeError(
            f"{op}: {name} is a {_type_name(x)} with its negative bit set, which is not written to"
        )
    return x.resolve_neg()


def _as_numpy(op: str, name: str, x: Any) -> np.ndarray:
    x = shareable(op, name, x)
    if str(getattr(x, "dtype", None)).endswith("bfloat16"):
        raise wrong_dtype(op, name, "bfloat16")
    try:
        view = np.from_dlpack(x)
        if (
            name.startswith("out") and not view.flags.writeable
        ):  # as all of them before NumPy 2.1: try another way
            other = np.asarray(x)
            view = other if np.shares_memory(view, other) else view
        return view
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TypeError(
            f"{op}: {name} is a {_type_name(x)} that cannot be shared by DLPack: {error}"
        ) from error
