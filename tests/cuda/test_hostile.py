"""Objects that tell lies of themselves by `__cuda_array_interface__`, `__dlpack__` or `__dlpack_device__`:
each is refused by name of function and argument, before anything of CUDA is needed."""

import ctypes
import re

import numpy as np
import pytest
from capsules import DELETER, Unversioned, Versioned, capsule_of

import smallmm
from smallmm import _core
from smallmm._gpu import device as _device

FAR = 10**30


class Raises:
    def __index__(self):
        raise OSError("no number")

    __bool__ = __index__


def interface(without=(), **fields):
    """An array of 3 x 3 float32 by the CUDA array interface, but for some fields."""
    given = {"shape": (3, 3), "typestr": "<f4", "data": (1 << 20, False), "strides": None, "version": 3}
    given = {k: x for k, x in (given | fields).items() if k not in without}
    return type("Array", (), {"__cuda_array_interface__": given})()


@pytest.mark.parametrize("key", ["version", "shape", "typestr", "data"])
def test_interface_without(key):
    expected = (
        rf"inv: a is a test_hostile\..*Array whose __cuda_array_interface__ has no '{key}'; expected vers"
    )
    with pytest.raises(BufferError, match=expected):
        smallmm.inv(interface(without=[key]))


@pytest.mark.parametrize(
    ("field", "values", "said"),
    [
        ("version", [None, "3", 4, -1, FAR, -FAR, 3.0, Raises()], "expected 3 or one before"),
        (
            "shape",
            [None, 3, [3, 3], "33", (3, -3), (3, 3.0), (3, None), (FAR, 3), (3, Raises()), (1,) * 11, {}],
            "expected a tuple of up to 10 integers >= 0",
        ),
        (
            "typestr",
            [
                *(None, 4, b"<f4", "", "<", "f4", "<f", ">f4", "<f-1", "<f0", "<f3", "<f260", "<f4294967300"),
                *("<q4", "<U4", "|V4", "<f4 ", "<f4\0", "<f\udc80", "<i16", "<f16", "<" + "f4" * 1000),
            ],
            "expected one of a little-endian number, such as '<f4'",
        ),
        (
            "strides",
            [3, "12", [12, 4], (12,), (12, 4, 4), (12, 3), (12, 4.0), (FAR, 4), (12, -FAR), (Raises(), 4)],
            "expected None or a tuple of 2 multiples of 4 bytes",
        ),
        (
            "data",
            [
                *(
                    None,
                    1 << 20,
                    (1 << 20,),
                    [1 << 20, False],
                    (1 << 20, False, 0),
                    (None, False),
                    (-4, False),
                ),
                *((FAR, False), (2**63, False), ("1", False), (1 << 20, Raises()), (Raises(), False), {}),
            ],
            "expected a tuple of an address and whether it is read-only",
        ),
        ("mask", [0, np.ones((3, 3))], "has a mask, which smallmm does not heed; expected None"),
        ("stream", ["0", -1, FAR, 1.0, Raises()], "expected None or a stream's address"),
    ],
)
def test_interface_with(field, values, said):
    for value in values:
        with pytest.raises(
            BufferError, match="solve: b is a .*Array whose __cuda_array_interface__ .*" + said
        ):
            _device.same_device("solve", {"b": interface(**{field: value})})
        with pytest.raises(BufferError, match="inv: a is a .*Array whose __cuda_array_interface__ .*" + said):
            smallmm.inv(interface(**{field: value}))


@pytest.mark.parametrize(
    "fields",
    [
        {"shape": (2**40, 2**40)},
        {"shape": (2**62, 3), "strides": (4, 4)},
        {"strides": (2**62, 4)},
        {"strides": (-(2**63), 4)},
        {"data": (2**63 - 4, False), "shape": (2**62, 1)},
    ],
)
def test_interface_beyond_memory(fields):
    with pytest.raises(BufferError, match="gave lengths, strides or an offset beyond 64 bits of addresses"):
        smallmm.inv(interface(**fields))


def test_interface_without_memory():
    with pytest.raises(BufferError, match="gave no memory for its elements: the address 0"):
        smallmm.inv(interface(data=(0, False)))


@pytest.mark.parametrize("value", [None, 3, "text", [("data", 0)], (), object()])
def test_interface_that_is_no_dictionary(value):
    class Array:
        __cuda_array_interface__ = value

    with pytest.raises(BufferError, match=f"is a {type(value).__name__}; expected a dict"):
        smallmm.det(Array())


def test_interface_that_raises():
    class Array:
        @property
        def __cuda_array_interface__(self):
            raise OSError("the GPU is gone")

    with pytest.raises(
        BufferError, match=r"whose __cuda_array_interface__ raised OSError\('the GPU"
    ) as caught:
        smallmm.det(Array())
    assert type(caught.value.__cause__) is OSError


def test_interface_that_changes():
    """A number that empties the dictionary it stands in while it is read."""

    class Number:
        def __index__(self):
            x.__cuda_array_interface__.clear()
            return 3

    x = interface(shape=(Number(), Number()), typestr="x")
    with pytest.raises(BufferError, match="has the typestr 'x'"):
        smallmm.det(x)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        2,
        (2,),
        (2, 0, 0),
        (2, None),
        ("2", 0),
        (2.0, 0),
        (2, -1),
        (2, FAR),
        (2, 2**31),
        (None, 0),
        (2, Raises()),
    ],
)
def test_dlpack_device(answer):
    class Array:
        shape, dtype = (3, 3), "float32"

        def __dlpack_device__(self):
            return answer

        def __dlpack__(self, **_):
            raise AssertionError("asked for")

    with pytest.raises(
        TypeError, match=r"inv: a is a .*Array whose __dlpack_device__ failed or returned no pair"
    ):
        smallmm.inv(Array())


@pytest.mark.parametrize("error", [BufferError, OSError, TypeError, ZeroDivisionError])
def test_dlpack_device_that_raises(error):
    class Array:
        shape, dtype = (3, 3), "float32"

        def __dlpack_device__(self):
            raise error("no answer")

        __dlpack__ = __dlpack_device__

    said = rf"inv: a is a .*Array whose __dlpack_device__ failed .*{error.__name__}\('no answer'\)"
    with pytest.raises(TypeError, match=said):
        smallmm.inv(Array())


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({}, "without a dtype and a shape"),
        ({"dtype": "float32"}, "without a dtype and a shape"),
        ({"dtype": "float32", "shape": None}, "without a dtype and a shape"),
        ({"dtype": "float32", "shape": (3, "3")}, "without a dtype and a shape"),
        ({"dtype": "float32", "shape": (3, Raises())}, "without a dtype and a shape"),
        ({"dtype": "(", "shape": (3, 3)}, "expected an array of PyTorch, CuPy, JAX or Numba"),
    ],
)
def test_dlpack_attributes(attributes, said):
    def device(self):
        return (2, 0)

    given = type("Array", (), {**attributes, "__dlpack_device__": device, "__dlpack__": device})()
    with pytest.raises(TypeError, match=f"det: a .*{said}"):
        smallmm.det(given)


class Array:
    """What a capsule of DLPack says, 3 x 3 of float32 but for some fields; and whether it was given back."""

    def __init__(self, versioned=False, major=1, flags=0, name=None, shape=(3, 3), strides=None, **fields):
        self.deleted = 0
        self.deleter = DELETER(self.delete)
        self.managed = (Versioned if versioned else Unversioned)(
            **({"major": major, "flags": flags} if versioned else {}),
            deleter=self.deleter,
        )
        self.lists = [x and (ctypes.c_int64 * len(x))(*x) for x in (shape, strides)]
        given = {
            "data": 1 << 20,
            "device_type": 2,
            "ndim": len(shape or ()),
            "code": 2,
            "bits": 32,
            "lanes": 1,
        }
        for field, value in (given | fields).items():
            setattr(self.managed.tensor, field, value)
        self.managed.tensor.shape, self.managed.tensor.strides = self.lists
        self.name = name or (b"dltensor_versioned" if versioned else b"dltensor")
        self.dtype, self.shape = "float32", (3, 3)

    def delete(self, _):
        self.deleted += 1

    def __dlpack_device__(self):
        return (self.managed.tensor.device_type, 0)

    def __dlpack__(self, **_):
        return capsule_of(self.managed, self.name)


FLAWS = [
    ({"device_type": 1}, r"device type 1; expected 2, a CUDA GPU"),
    ({"device_type": -7}, r"device type -7; expected 2"),
    ({"device": -1}, r"device -1; expected a number >= 0"),
    ({"bits": 0}, r"elements of 0 bits in 1 lanes; expected whole bytes in 1 lane"),
    ({"bits": 4}, r"elements of 4 bits in 1 lanes"),
    ({"lanes": 0}, r"elements of 32 bits in 0 lanes"),
    ({"lanes": 4}, r"elements of 32 bits in 4 lanes"),
    ({"ndim": -1}, r"-1 dimensions; expected at most 10"),
    ({"ndim": 2**31 - 1}, r"2147483647 dimensions; expected at most 10"),
    ({"shape": None, "ndim": 2}, r"no shape for its 2 dimensions"),
    ({"shape": (3, -3)}, r"a length of -3; expected numbers >= 0"),
    ({"shape": (2**40, 2**40)}, r"beyond 64 bits of addresses"),
    ({"shape": (3, 3), "strides": (2**62, 1)}, r"beyond 64 bits of addresses"),
    ({"shape": (3, 3), "strides": (-(2**63), 1)}, r"beyond 64 bits of addresses"),
    ({"byte_offset": 2**64 - 8}, r"beyond 64 bits of addresses"),
    ({"data": None}, r"no memory for its elements: the address 0"),
]


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize(("fields", "said"), FLAWS)
def test_capsule_on_device(fields, said, versioned):
    """It is given back, too."""
    x = Array(versioned, **fields)
    with pytest.raises(BufferError, match=rf"inv: a is a test_hostile.Array whose __dlpack__ gave .*{said}"):
        _core.device_run(_core.inv, 0, x, x, x, labels=("inv: a", "inv: out", "info"))
    assert x.deleted == 1


@pytest.mark.parametrize(
    ("fields", "labels", "said"),
    [
        (
            {"code": 0},
            (),
            "operand 0 is a test_hostile.Array of int32; expected float16, bfloat16, float32, float64, "
            "complex64 or complex128",
        ),
        ({"code": 6, "bits": 8}, ("det: a",), "det: a is a test_hostile.Array of bool; expected float16"),
        (
            {"code": 4, "bits": 32},
            ("det: a",),
            "det: a is a test_hostile.Array of bfloat32; expected float16",
        ),
        ({"code": 99}, ("det: a",), "det: a is a test_hostile.Array of other32; expected float16"),
        (
            {"bits": 128},
            ("det: a",),
            "det: a is a test_hostile.Array of float128; expected float16, bfloat16, float32, float64, c",
        ),
        (
            {"data": 1 << 20 | 2},
            ("det: a",),
            "whose data begin at the address 0x100002; expected a multiple of 4",
        ),
        ({"shape": (3, 4)}, ("det: a",), "of shape (3, 4), which does not fit the operands before it"),
        ({"shape": (3,)}, ("det: a",), "of shape (3,), which does not fit"),
        (
            {},
            ("det: a", "det: out"),
            "det: out is a test_hostile.Array of shape (3, 3); expected (), and no two",
        ),
        (
            {"strides": (2**62 - 3, 1)},  # -3 as CuPy gives it: -12 bytes as an unsigned number, divided by 4
            ("det: a", "det: out"),
            "det: out is a test_hostile.Array of shape (3, 3); expected (), and no two",
        ),
    ],
)
def test_operands_that_do_not_fit(fields, labels, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        _core.device_run(_core.det, 0, Array(**fields), Array(), labels=labels)


def test_operands_that_do_not_fit_each_other():
    """float32 and float64, one device and another, too many batch dimensions, an int64 as pivots."""
    out = Array(shape=(3, 1))
    for x, y, said in (
        (
            Array(),
            Array(bits=64, shape=(3, 1)),
            "b is a test_hostile.Array of float64; expected float32, as the",
        ),
        (
            Array(),
            Array(device=1, shape=(3, 1)),
            "b is a test_hostile.Array on CUDA device 1; expected device 0",
        ),
        (Array(), Array(shape=(1,) * 9 + (3,)), "b is a test_hostile.Array of shape"),
    ):
        with pytest.raises(ValueError, match=f"solve: {said}"):
            _core.device_run(_core.solve, 0, x, y, out, out, labels=("solve: a", "solve: b", "x", "y"))
    vectors = Array(shape=(1,) * 9 + (3,))
    with pytest.raises(
        ValueError, match=r"x2 is a test_hostile\.Array with 9 batch dimensions; expected at most 8"
    ):
        _core.device_run(_core.matvec, 0, Array(), vectors, vectors, labels=("x1", "x2", "out"))
    pivots = Array(code=0, bits=64, shape=(3,))
    with pytest.raises(ValueError, match=r"pivots is a test_hostile\.Array of int64; expected int32"):
        _core.device_run(_core.lu_solve, 0, Array(), pivots, out, out, labels=("a", "pivots", "b", "x"))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"versioned": True, "flags": 1}, "inv: out is read-only; expected an array that can be written to"),
        (
            {"versioned": True, "flags": 2},
            "inv: out is an array that __dlpack__ gives a copy of; expected an",
        ),
    ],
)
def test_outputs_that_are_not_written_to(fields, said):
    x, out = Array(), Array(**fields)
    with pytest.raises(ValueError, match=said):
        _core.device_run(_core.inv, 0, x, out, x, labels=("inv: a", "inv: out", "info"))
    assert (x.deleted, out.deleted) == (1, 1)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda: None, r"returned a NoneType; expected a new capsule of DLPack"),
        (lambda: Array(name=b"used_dltensor").__dlpack__(), r"returned a PyCapsule; expected a new capsule"),
        (lambda: Array(name=b"other").__dlpack__(), r"returned a PyCapsule; expected a new capsule"),
        (lambda: Array(True, major=2).__dlpack__(), r"returned a tensor of DLPack 2\.0; expected version 1"),
        (lambda: 1 / 0, r"raised ZeroDivisionError\('division by zero'\)"),
        (lambda: int(None), r"raised TypeError"),
    ],
)
def test_dlpack_that_gives_no_tensor(answer, said):
    class Other(Array):
        def __dlpack__(self, **_):
            self.kept = answer()
            return self.kept

    x = Other()
    with pytest.raises(BufferError, match=rf"inv: a is a .*Other whose __dlpack__ {said}"):
        _core.device_run(_core.inv, 0, x, x, x, labels=("inv: a", "inv: out", "info"))


@pytest.mark.parametrize(
    "fields",
    [
        {"bits": 0},
        {"lanes": 4},
        {"code": 99},
        {"ndim": -1},
        {"ndim": 2**31 - 1},
        {"shape": (3, -3)},
        {"shape": (2**40, 2**40)},
        {"name": b"other"},
    ],
)
def test_capsule_on_host(monkeypatch, fields):
    """NumPy takes these apart."""
    compat = pytest.importorskip("array_api_compat")
    monkeypatch.setattr(compat, "array_namespace", lambda x: np)
    with pytest.raises(TypeError, match=r"inv: a is a test_hostile\.Array that cannot be shared by DLPack"):
        smallmm.inv(Array(device_type=1, **fields))


def test_unknown_library_on_host():
    pytest.importorskip("array_api_compat")
    with pytest.raises(
        TypeError, match=r"inv: a is a test_hostile\.Array; expected an array of NumPy or of an"
    ):
        smallmm.inv(Array(device_type=1))
