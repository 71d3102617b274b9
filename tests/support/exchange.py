"""DLPack's C exchange API for the arrays of `smallmm.cuda`, as PyTorch has it for its tensors: calls on them
take the paths that create no Python objects but results."""

import ctypes
from functools import cache

import numpy as np
from capsules import Tensor, Versioned, capsule_of

from smallmm import cuda
from smallmm._gpu.device_array import empty_on

CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
KINDS = {code: kind for kind, code in CODES.items()}
NAME = b"dlpack_exchange_api"
kept = []  # new arrays that have not been asked for
calls = []  # of the allocator, one for each new array


def function(*arguments):
    return ctypes.PYFUNCTYPE(ctypes.c_int, *arguments)


FIELDS = {
    "managed_tensor_allocator": function(
        ctypes.POINTER(Tensor), ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, ctypes.c_void_p
    ),
    "managed_tensor_from_py_object_no_sync": ctypes.c_void_p,
    "managed_tensor_to_py_object_no_sync": function(
        ctypes.POINTER(Versioned), ctypes.POINTER(ctypes.c_void_p)
    ),
    "dltensor_from_py_object_no_sync": function(ctypes.py_object, ctypes.POINTER(Tensor)),
    "current_work_stream": function(ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)),
}


class Api(ctypes.Structure):
    _fields_ = (
        *(("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p)),
        *FIELDS.items(),
    )


@cache
def integers(*values):
    return (ctypes.c_int64 * max(len(values), 1))(*values)


def allocate(wanted, out, context, set_error):
    x = wanted[0]
    shape = tuple(x.shape[i] for i in range(x.ndim))
    array = empty_on(x.device, shape, np.dtype(f"{KINDS[x.code]}{x.bits // 8}"))
    managed = Versioned(1, 0)
    kept.append((managed, array))
    calls.append(shape)
    out[0] = ctypes.addressof(managed)
    return 0


def to_object(managed, out):
    _, array = kept.pop()
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(array))
    out[0] = id(array)
    return 0


def describe(x, out):
    to = out[0]
    to.data, to.device_type, to.device, to.ndim = x._address, 2, x.device, x.ndim
    to.code, to.bits, to.lanes, to.byte_offset = CODES[x.dtype.kind], 8 * x.dtype.itemsize, 1, 0
    to.shape = integers(*x.shape)
    to.strides = integers(*(step // x.dtype.itemsize for step in x.strides))
    return 0


def current_stream(kind, device, out):
    out[0] = None
    return 0


def install():
    """Before the first call on such an array."""
    given = [
        *(FIELDS["managed_tensor_allocator"](allocate), None),
        FIELDS["managed_tensor_to_py_object_no_sync"](to_object),
        FIELDS["dltensor_from_py_object_no_sync"](describe),
        FIELDS["current_work_stream"](current_stream),
    ]
    api = Api(1, 0, None, *given)
    cuda.DeviceArray.__dlpack_c_exchange_api__ = capsule_of(api, NAME)
    cuda.DeviceArray._api = api, given  # which live as long
