"""Arrays of other libraries: the same library's arrays come back, without a copy and without surprises."""

import itertools
import sys

import numpy as np
import pytest
from accuracy import as_tuple, assert_same_bits
from matrices import normal

import smallmm


class TestDask:
    @pytest.fixture
    def stacks(self, rng):
        da = pytest.importorskip("dask.array")
        a, b = rng.random((50, 3, 4)), rng.random((50, 4, 2))
        return a, b, da.from_array(a, chunks=(7, 3, 4)), da.from_array(b, chunks=(7, 4, 2))

    @pytest.mark.parametrize("function", [smallmm.batched_matmul, smallmm.matmul])
    def test_stays_lazy(self, stacks, function):
        a, b, lazy_a, lazy_b = stacks
        c = function(lazy_a, lazy_b)
        assert type(c) is type(lazy_a)
        assert c.numblocks[0] == lazy_a.numblocks[0]
        assert_same_bits(c.compute(), smallmm.batched_matmul(a, b))

    def test_mixed_with_numpy(self, stacks):
        a, b, lazy_a, _ = stacks
        c = smallmm.batched_matmul(lazy_a, b[0])
        assert type(c) is type(lazy_a)
        assert_same_bits(c.compute(), smallmm.batched_matmul(a, b[0]))

    def test_vectors(self, stacks):
        a, b, lazy_a, lazy_b = stacks
        for x1, x2, y1, y2 in [(a, b[0, :, 0], lazy_a, lazy_b[0, :, 0]), (a[0, 0], b, lazy_a[0, 0], lazy_b)]:
            c = smallmm.matmul(y1, y2)
            assert type(c) is type(lazy_a)
            assert_same_bits(c.compute(), smallmm.matmul(x1, x2))
        assert_same_bits(smallmm.matvec(lazy_a, lazy_b[:, :, 0]).compute(), smallmm.matvec(a, b[:, :, 0]))

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_scaling(self, stacks, dtype):
        a, b, lazy_a, lazy_b = (x.astype(dtype) for x in stacks)
        c = smallmm.batched_matmul(lazy_a, lazy_b, alpha=2.5)
        assert_same_bits(c.compute(), smallmm.batched_matmul(a, b, alpha=2.5))
        x = smallmm.lstsq(lazy_a, lazy_a[:, :, :1], rtol=1e-3).x
        assert_same_bits(x.compute(), smallmm.lstsq(a, a[:, :, :1], rtol=1e-3).x)

    def test_keywords_of_gufuncs(self, stacks):
        a, b, lazy_a, lazy_b = stacks
        c = smallmm.matmul(lazy_a, lazy_b, dtype=np.float32)
        assert c.dtype == np.float32
        assert_same_bits(c.compute(), smallmm.matmul(a, b, dtype=np.float32))
        axes = [(-1, -2), (-1, -2), (-2, -1)]
        c = smallmm.matmul(lazy_b, lazy_a, axes=axes)
        assert_same_bits(c.compute(), smallmm.matmul(b, a, axes=axes))

    def test_chunks_that_differ(self, stacks):
        a, b, lazy_a, lazy_b = stacks
        for other in (b, lazy_b.rechunk((20, 4, 2)), b[:1], lazy_b[0]):
            c = smallmm.matmul(lazy_a, other)
            expected = smallmm.matmul(a, other if isinstance(other, np.ndarray) else other.compute())
            assert_same_bits(c.compute(), expected)


class TestTorch:
    def test_same_library_back(self, torch, rng):
        a, b = torch.from_numpy(rng.random((9, 3, 4))), torch.from_numpy(rng.random((9, 4, 2)))
        c = smallmm.batched_matmul(a, b)
        assert type(c) is torch.Tensor
        assert_same_bits(c.numpy(), smallmm.batched_matmul(a.numpy(), b.numpy()))
        assert_same_bits(smallmm.matmul(b.mT, a.mT).numpy(), c.mT.numpy())
        assert smallmm.matvec(a.float(), b[0, :, 0].float()).dtype == torch.float32
        assert smallmm.matmul(b[0, :, 0], b[0, :, 0]).shape == ()

    def test_out_is_written_in_place(self, torch):
        a, out = torch.ones(9, 3, 3), torch.full((9, 3, 3), 5.0)
        address = out.data_ptr()
        assert smallmm.batched_matmul(a, a, out=out, alpha=2, beta=1) is out
        assert out.data_ptr() == address
        assert (out == 11).all()

    def test_mixing_libraries(self, torch):
        x, y = torch.ones(2, 2), np.ones((2, 2))
        with pytest.raises(TypeError, match=r"batched_matmul: b is a numpy.ndarray but a is a torch.Tensor"):
            smallmm.batched_matmul(x, y)
        with pytest.raises(TypeError, match=r"matmul: x1 is a numpy.ndarray but x2 is a torch.Tensor"):
            smallmm.matmul(y, x)
        with pytest.raises(
            TypeError, match=r"out is a torch.Tensor|out is a numpy.ndarray but a is a torch.Tensor"
        ):
            smallmm.batched_matmul(x, x, out=y)

    def test_what_dlpack_does_not_share(self, torch):
        x = torch.ones(2, 2)
        with pytest.raises(
            TypeError, match=r"a is a torch.Tensor that requires a gradient.*no_grad.*a\.detach"
        ):
            smallmm.qr(torch.ones(2, 2).requires_grad_(), mode="raw")
        with pytest.raises(TypeError, match=r"x1 is a torch.Tensor that cannot be shared by DLPack"):
            smallmm.matmul(x.detach().to_sparse(), x.detach())

    @pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
    def test_gradients_that_nobody_wants(self, torch, mode):
        x, out = (2 * torch.eye(3)).requires_grad_(), torch.empty(3, 3, requires_grad=True)
        with getattr(torch, mode)():
            assert torch.equal(smallmm.inv(x), torch.eye(3) / 2)
            assert smallmm.solve(x, x, out=out) is out
        assert torch.equal(out, torch.eye(3))
        assert x.requires_grad

    def test_pytorch_is_not_imported_for_it(self, run_python):
        code = """
            import sys, numpy as np, smallmm
            smallmm.lstsq([[1.0]], [1.0]), smallmm.matmul(np.eye(2, dtype=int), [[1, 2], [3, 4]])
            print("torch" in sys.modules)
        """
        assert run_python(code).stdout == "False\n"

    def test_negative_bit(self, torch):
        """Memory that PyTorch means the negative of."""
        x = torch.complex(torch.zeros(2, 2), torch.eye(2)).conj().imag
        assert x.is_neg()
        assert torch.equal(smallmm.matmul(x, torch.eye(2)), -torch.eye(2))
        assert smallmm.det(x[:1, :1]) == -1
        with pytest.raises(TypeError, match=r"out is a torch.Tensor with its negative bit set"):
            smallmm.matmul(torch.eye(2), torch.eye(2), out=x)

    def test_errors_name_the_argument(self, torch):
        with pytest.raises(ValueError, match=r"b has shape \(4, 3\); expected \(..., 5, n\)"):
            smallmm.batched_matmul(torch.ones(4, 5), torch.ones(4, 3))

    def test_explain(self, torch):
        assert smallmm.explain("matmul", torch.ones(9, 3, 3), torch.ones(9, 3, 3)).matrices == 9


# Functions of the shapes behind them
COMPILED = {
    "matmul": (lambda a, b: smallmm.matmul(a, b), (3, 4), (4, 2)),
    "matvec": (lambda a, b: smallmm.matvec(a, b), (3, 4), (4,)),
    "inv": (lambda a: smallmm.inv(a), (3, 3)),
    "solve": (lambda a, b: smallmm.solve(a, b), (5, 5), (5, 2)),
    "lu_factor": (lambda a: tuple(smallmm.lu_factor(a)), (5, 5)),
    "lu_solve": (lambda a, b: smallmm.lu_solve(smallmm.lu_factor(a), b), (4, 4), (4, 3)),
    "slogdet": (lambda a: tuple(smallmm.slogdet(a)), (7, 7)),
    "qr": (lambda a: tuple(smallmm.qr(a)), (6, 3)),
    "lstsq": (lambda a, b: tuple(smallmm.lstsq(a, b)), (6, 3), (6, 2)),
    "eigh": (lambda a: tuple(smallmm.eigh(a)), (9, 9)),
    "svd": (lambda a: tuple(smallmm.svd(a, full_matrices=False)), (2, 6)),
}


class TestJax:
    def test_same_library_back(self, jax, rng):
        jnp = jax.numpy
        a, b = normal(rng, (9, 3, 4), np.float32), normal(rng, (9, 4, 2), np.float32)
        x, y = jnp.asarray(a), jnp.asarray(b)
        c = smallmm.batched_matmul(x, y, alpha=2)
        assert isinstance(c, type(x))
        assert_same_bits(np.asarray(c), smallmm.batched_matmul(a, b, alpha=2))
        assert_same_bits(np.asarray(smallmm.matmul(y.mT, x.mT)), smallmm.matmul(b.mT, a.mT))
        assert smallmm.matvec(x, y[0, :, 0]).shape == (9, 3)
        assert (np.asarray(x) == a).all()

    def test_mixing_libraries(self, jax):
        with pytest.raises(TypeError, match=r"matmul: x2 is a numpy.ndarray but x1 is a jax.*ArrayImpl"):
            smallmm.matmul(jax.numpy.eye(2), np.eye(2))

    def test_devices_of_the_host(self, jax, run_python):
        """Results are where operands are; arrays on several devices become one for the call."""
        code = """
            import jax, numpy as np, smallmm
            from jax.sharding import Mesh, NamedSharding, PartitionSpec

            first, second = jax.devices("cpu")
            a = jax.device_put(2 * jax.numpy.eye(3) + jax.numpy.zeros((4, 3, 3)), second)
            for result in (smallmm.inv(a), smallmm.matmul(a, 2.0 * jax.numpy.eye(3)), smallmm.cond(a),
                           *smallmm.qr(a), jax.grad(lambda x: smallmm.det(x).sum())(a)):
                assert result.devices() == {second}
            try:
                smallmm.matmul(a, jax.device_put(a, first))
            except TypeError as error:
                print(error)
            mesh = Mesh(np.array([first, second]), "x")
            shared = jax.device_put(a, NamedSharding(mesh, PartitionSpec("x")))
            for function in (smallmm.inv, smallmm.matrix_norm, jax.jit(smallmm.inv)):
                assert np.array_equal(function(shared), function(a))
            try:
                smallmm.inv(0 * shared)
            except smallmm.LinAlgError as error:
                print(error)
            try:
                smallmm.whiten(shared)
            except TypeError as error:
                print(error)
            for within in (jax.jit, jax.vmap):
                within(smallmm.fuse("(n,n)")(np.linalg.inv))(shared)
        """
        mixed, singular, divided = run_python(
            code, {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
        ).stdout.splitlines()
        assert mixed.startswith(
            "matmul: x2 is on {CpuDevice(id=0)} but x1 on {CpuDevice(id=1)}; expected arrays"
        )
        assert divided.endswith("jax.jit, or within jax.shard_map, where each device computes its part")
        assert singular.startswith("inv: 4 of 4 matrices are singular")

    def test_compiled_for_a_gpu_without_a_kernel(self, jax, monkeypatch):
        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
        with jax.default_device(None):
            for transform in (jax.jit, jax.vmap):
                for function in (smallmm.inv, smallmm.qr, lambda a: smallmm.matmul(a, a)):
                    with pytest.raises(TypeError, match=r"(a|x1) has shape .*80, 80\).* for a GPU"):
                        transform(function)(jax.numpy.ones((1, 80, 80)))

    @pytest.mark.parametrize("name", COMPILED)
    @pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
    def test_compiled(self, jax, rng, name, dtype):
        """XLA calls the core, and results have the bits of calls on NumPy's arrays."""
        function, *shapes = COMPILED[name]
        with jax.enable_x64(True):
            x = [jax.numpy.asarray(rng.standard_normal((5, *shape)), dtype) for shape in shapes]
            expected = function(*map(np.asarray, x))
            compiled = jax.jit(function).lower(*x)
            assert "@smallmm(" in compiled.as_text()
            assert "callback" not in compiled.as_text()
            shared = jax.jit(jax.vmap(function, in_axes=(0, *[None] * (len(x) - 1))))(
                x[0], *(y[0] for y in x[1:])
            )
            few = function(np.asarray(x[0]), *(np.asarray(y[0]) for y in x[1:]))
            mapped = jax.jit(jax.vmap(function))(*x)
            for found, wanted in ((compiled.compile()(*x), expected), (mapped, expected), (shared, few)):
                for y, z in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
                    assert y.dtype == z.dtype
                    np.testing.assert_array_equal(np.asarray(y, np.float64), np.asarray(z, np.float64))

    @pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
    def test_numbers_that_are_traced(self, jax, dtype):
        """They follow the arrays, as Python's do."""
        a = jax.numpy.asarray([[[1.0, 2.0], [3.0, 4.0]]], dtype)
        expected = smallmm.batched_matmul(a, a, alpha=0.1)
        for found in (
            jax.jit(smallmm.batched_matmul)(a, a, alpha=0.1),
            jax.jit(lambda x: smallmm.batched_matmul(x, x, alpha=0.1))(a),
        ):
            assert found.dtype == dtype
            assert (found == expected).all()

    def test_compiled_calls_of_lapack_and_integers(self, jax, rng):
        with jax.enable_x64(True):
            a = rng.standard_normal((2, 40, 40))
            np.testing.assert_array_equal(jax.jit(smallmm.inv)(a), smallmm.inv(a))
            whole = rng.integers(-5, 5, (4, 3, 3))
            np.testing.assert_array_equal(jax.jit(smallmm.matmul)(whole, whole), smallmm.matmul(whole, whole))

    def test_compiled_calls_of_nothing(self, jax):
        assert jax.jit(smallmm.inv)(jax.numpy.ones((0, 3, 3))).shape == (0, 3, 3)
        assert jax.jit(smallmm.det)(jax.numpy.ones((2, 0, 0))).tolist() == [1, 1]

    def test_a_singular_matrix_among_others(self, jax):
        x = jax.numpy.stack([jax.numpy.eye(3), jax.numpy.zeros((3, 3)), 2 * jax.numpy.eye(3)])
        assert jax.jit(smallmm.inv)(x)[:, 0, 0].tolist()[::2] == [1, 0.5]
        assert np.isnan(jax.jit(smallmm.inv)(x)[1]).all()

    @pytest.mark.parametrize(
        ("gufunc", "operands", "results", "message"),
        [
            ("none", ["float32"], ["float32", "int32"], "no such gufunc"),
            ("inv", ["float32", "float32"], ["float32", "int32"], "of another gufunc"),
            ("inv", ["int32"], ["float32", "int32"], "of another gufunc"),
            ("inv", ["float32"], ["int32", "float32"], "do not fit"),
            ("solve", ["float32", "int32"], ["float32", "int32"], "do not fit"),
            ("gemm", ["float32"] * 4, ["float32"], "of another gufunc"),
        ],
    )
    def test_what_the_handler_refuses(self, jax, gufunc, operands, results, message):
        jax.jit(smallmm.inv)(jax.numpy.eye(2))  # registers the handler
        arrays = [jax.numpy.ones((2, 2), dtype) for dtype in operands]
        wanted = [jax.ShapeDtypeStruct((2, 2), dtype) for dtype in results]
        with pytest.raises(Exception, match=f"smallmm: .*{message}"):
            jax.block_until_ready(jax.ffi.ffi_call("smallmm", wanted)(*arrays, gufunc=gufunc))


class TestPandas:
    @pytest.fixture
    def pd(self):
        return pytest.importorskip("pandas")

    def test_values(self, pd, rng):
        a, b = rng.random((3, 3)), rng.random((3, 3))
        for keywords in ({}, {"alpha": 2}):
            c = smallmm.batched_matmul(pd.DataFrame(a), pd.DataFrame(b, columns=list("xyz")), **keywords)
            assert type(c) is np.ndarray
            assert_same_bits(c, smallmm.batched_matmul(a, b, **keywords))
        with pytest.raises(TypeError, match=r"out is a pandas.*DataFrame; expected a numpy.ndarray"):
            smallmm.batched_matmul(a, a, out=pd.DataFrame(a), beta=1)

    def test_products_of_numpy_are_left_to_pandas(self, pd, rng):
        a, b = pd.DataFrame(rng.random((3, 3)), columns=list("xyz")), rng.random((3, 3))
        pd.testing.assert_frame_equal(smallmm.matmul(a, b), np.matmul(a, b))


def test_whatever_numpy_makes_an_array_of(rng):
    class Table:
        def __init__(self, values):
            self.values = values

        def __array__(self, dtype=None, copy=None):
            return np.array(self.values, dtype)

    a, b = rng.random((5, 3, 3)), rng.random((5, 3, 1))
    assert_same_bits(smallmm.solve(Table(a), Table(b)), smallmm.solve(a, b))
    assert_same_bits(smallmm.matmul(Table(a), b), smallmm.matmul(a, b))


class OnDevice:
    """As little of a device array as it takes to recognise one."""

    def __init__(self, protocol):
        if protocol == "cuda array interface":
            self.__cuda_array_interface__ = {}
        if protocol == "array ufunc":
            self.__array_ufunc__ = None

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self):
        raise AssertionError("moved off the device")


@pytest.mark.parametrize("protocol", ["dlpack", "cuda array interface", "array ufunc"])
def test_device_arrays_do_not_move(protocol):
    x = OnDevice(protocol)
    for make_call, host in (
        (lambda: smallmm.matmul(np.eye(2), x), "x1"),
        (lambda: smallmm.batched_matmul(np.eye(2), np.eye(2), out=x), "a"),
    ):
        with pytest.raises(
            TypeError, match=rf"{host} is a numpy.ndarray on the host but .*OnDevice on a device"
        ):
            make_call()


def test_array_ufunc_is_respected():
    class Recorder:
        def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
            return ufunc.__name__, method, len(inputs), kwargs

    x = Recorder()
    assert smallmm.batched_matmul(x, np.eye(2)) == ("batched_matmul", "__call__", 2, {})
    assert smallmm.batched_matmul(np.eye(2), x, alpha=3)[:3] == ("gemm", "__call__", 4)


def test_array_ufunc_none_opts_out():
    class OptsOut:
        __array_ufunc__ = None

    with pytest.raises(TypeError):
        smallmm.batched_matmul(OptsOut(), np.eye(2))


def _catalogue():
    """Every function of the catalogue, and a call of each of them with arrays of NumPy."""
    pytest.importorskip("dask.array")
    from test_dask import ALL, case_of, stacks

    calls = {name: (ALL[name], case_of(name)) for name in sorted(ALL)}
    others = {
        "conv2d": lambda f, x: f(x["cube"], x["cube"][:, :, :1], padding=1),
        "linsolve": lambda f, x: f(x["s"], x["b"], assume_a="banded", return_rcond=True),
        "linsolve_ex": lambda f, x: f(x["a"], x["b"], precision="mixed"),
        "lstsq": lambda f, x: f(x["tall"], x["tall"][..., :2], precision="mixed"),
        "lu_factor": lambda f, x: f(x["tall"]),
        "qr": lambda f, x: f(x["tall"]),
        "solve": lambda f, x: f(x["s"], x["b"], assume_a="pos"),
        "svd": lambda f, x: f(x["tall"].mT, compute_uv=False),
        "svdvals": lambda f, x: f(x["tall"]),
    }
    calls |= {f"{name}, others": (getattr(smallmm, name), case) for name, case in others.items()}
    return stacks(), calls


def _replaced(x, other, at=None, count=None):
    """x with other things in place of its arrays, or of that one alone, also within tuples and lists."""
    count = [0] if count is None else count
    if isinstance(x, tuple | list):
        parts = [_replaced(y, other, at, count) for y in x]
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
    if not isinstance(x, np.ndarray):
        return x
    count[0] += 1
    return other(x) if at in (None, count[0] - 1) else x


class Lying:
    """Says that it has another shape and dtype than the array that NumPy makes of it."""

    def __init__(self, values, shape, dtype):
        self.values, self.shape, self.ndim, self.dtype = values, shape, len(shape), np.dtype(dtype)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype)


LIES = (
    lambda x: Lying(x, tuple(n + 1000 for n in x.shape), x.dtype),
    lambda x: Lying(x, (*x.shape[:-1], 2 * x.shape[-1]), x.dtype),
    lambda x: Lying(x, (*x.shape[:-1], 1), x.dtype),
    lambda x: Lying(x, (2, *x.shape), x.dtype),
    lambda x: Lying(x, x.shape[::-1], x.dtype),
    lambda x: Lying(x, (), bool),
    lambda x: Lying(x, x.shape, "f4"),
    lambda x: Lying(x, x.shape, "c16"),
)


def _arrays_of(function, case, given):
    """How many arrays the function is given."""
    counts = [0]
    case(
        lambda *args, **options: [_replaced(args, np.asarray, None, counts), function(*args, **options)][1],
        given,
    )
    return counts[0]


def _told(function, case, given, lie, at):
    return as_tuple(case(lambda *args, **options: function(*_replaced(args, lie, at), **options), given))


def find_wrong_answers_to_lies():
    """Prints each function before it is called with lies: what crashes is the last of them."""
    given, calls = _catalogue()
    for name, (function, case) in calls.items():
        print(name, flush=True)
        expected = as_tuple(case(function, given))
        for at, lie in itertools.product(range(_arrays_of(function, case, given)), LIES):
            for x, y in zip(_told(function, case, given, lie, at), expected, strict=True):
                assert not hasattr(y, "dtype") or x.dtype == y.dtype, (name, at)
                np.testing.assert_array_equal(x, y)


class TestArrayLikes:
    @pytest.mark.parametrize("form", [memoryview, np.ndarray.tolist], ids=["memoryview", "list"])
    def test_every_function(self, form):
        given, calls = _catalogue()
        for function, case in calls.values():
            found = case(lambda *args, f=function, **options: f(*_replaced(args, form), **options), given)
            for x, y in zip(as_tuple(found), as_tuple(case(function, given)), strict=True):
                np.testing.assert_array_equal(x, y)

    def test_shapes_and_elements_are_of_one_conversion(self, run_python):
        """Every function takes the elements, whatever the object says of them."""
        pytest.importorskip("dask.array")
        code = f"import sys; sys.path[:0] = {sys.path!r}\n"
        result = run_python(
            code + "import test_arrays\ntest_arrays.find_wrong_answers_to_lies()", check=False
        )
        assert result.returncode == 0, result.stdout[-200:] + result.stderr[-2000:]
