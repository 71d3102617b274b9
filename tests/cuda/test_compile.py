"""Without a GPU: every kernel, and samples of what is tuned and planned, compile for three devices."""

import itertools
import os
import random
import re

import numpy as np
import pytest
from test_device_complex import TRIED

import smallmm
from smallmm import _core, cuda
from smallmm._gpu import tuned
from smallmm._programs.compile import compiled, dense_strides
from smallmm._programs.cuda_kernel import Layout, kernel_of

ARCHS = {80: 163 << 10, 90: 227 << 10, 100: 227 << 10}  # bytes of shared memory that a block may use
MAX_SPILLED = 48
MAX_IN_PHASES = 1024  # of rows of 512 bytes: timed, these kernels are faster than what does not spill
PROBLEM = ("op", "small", "dtype", "m", "k", "n", "order_a", "order_b", "source_a", "source_b")
FLAGS = ("order_a", "order_b", "aligned", "scaled", "in_place")
DTYPES = ("f32", "f64", "f16", "bf16")
SOURCES = (0, 1, 2)  # flat, one for all, strided
OF_STRIDES, OF_IMAGES = 2, 3


@pytest.fixture(scope="module", autouse=True)
def nvrtc():
    """It is there, and its logs are seen: nothing comes from disk."""
    try:
        cuda.compile_for([{"dtype": "f32", "m": 1, "k": 1, "n": 1}], 90)
    except cuda.CudaUnavailableError as error:
        pytest.skip(str(error))
    directory = cuda.cache_directory()
    nvrtc = os.fsencode(cuda._nvrtc_path() or "")
    _core.cuda_configure(nvrtc, b"")
    yield
    _core.cuda_configure(nvrtc, os.fsencode(directory or ""))


def compile_all(problems, arch, registers):
    """Cubins of the planned kernels; none may spill much."""
    found = cuda.compile_for(problems, arch, shared_memory=ARCHS[arch])
    for problem, (cubin, log, name, _) in zip(problems, found, strict=True):
        assert cubin[:4] == b"\x7fELF"
        spilled = sum(map(int, re.findall(r"(\d+) bytes spill stores", log)))  # of all functions
        assert spilled <= (MAX_IN_PHASES if "_phases_" in name else MAX_SPILLED), (problem, spilled)
        used = re.findall(r"Used (\d+) registers", log)
        if used:  # not from NVRTC's own cache
            registers.setdefault(f"sm_{arch} {name}", []).append(max(map(int, used)))


@pytest.mark.parametrize("arch", ARCHS)
def test_tuned_kernels(arch, registers):
    """Products of an eighth of the tables' rows, a third of these on each architecture."""
    rows = [row for row in tuned.load().rows if row["op"] == "MATMUL"]
    rows = rows[list(ARCHS).index(arch) :: 8 * len(ARCHS)]
    compile_all([{key: row[key] for key in PROBLEM} for row in rows], arch, registers)


@pytest.mark.parametrize("arch", ARCHS)
def test_planned_kernels_with_one_matrix_for_all(arch, registers):
    """Bulk copies, which that kernel needs, came with sm_90."""
    chance = random.Random(arch)
    sizes = [(n, n, n) for n in chance.sample(range(8, 33), 6)]
    sizes += [tuple(chance.randint(4, 64) for _ in range(3)) for _ in range(6)]
    problems = [
        {
            **dict(zip("mkn", size, strict=True)),
            "dtype": chance.choice(("f32", "f64")),
            **{name: chance.randint(0, 1) for name in ("order_a", "order_b")},
            **chance.choice(({"source_a": 1}, {"source_b": 1})),
        }
        for size in sizes
    ]
    compile_all(problems, arch, registers)
    kernels = {_core.cuda_plan({**p, "arch": arch}, ARCHS[arch])["kernel"] for p in problems}
    assert ("matmul_one" in kernels) == (arch >= 90)


@pytest.mark.parametrize("arch", ARCHS)
def test_products_of_any_size(arch, registers):
    """One text for all sizes, and for the im2col matrix of a convolution. Each size on two of the
    architectures."""
    chance = random.Random(arch)
    sizes = [(1024, 1024, 1024), (4, 1_000_000, 4), (2560, 2560, 16), (65, 3, 1)]
    problems = [
        {
            **dict(zip("mkn", size, strict=True)),
            "dtype": chance.choice(("f32", "f64") if source == OF_IMAGES else ("f32", "f64", "c64", "c128")),
            **{name: chance.randint(0, 1) for name in ("order_a", "order_b", "scaled")},
            "source_b": source,
        }
        for size, source in zip(sizes, (OF_STRIDES, OF_STRIDES, OF_IMAGES, OF_IMAGES), strict=True)
    ]
    for problem in problems:
        assert _core.cuda_plan({**problem, "arch": arch}, ARCHS[arch])["kernel"] == "matmul_tiled"
    del problems[list(ARCHS).index(arch) :: 3]
    compile_all(problems, arch, registers)


@pytest.mark.parametrize("arch", ARCHS)
def test_products_by_tensor_cores(arch, registers):
    """Each size on one of the architectures."""
    chance = random.Random(arch)
    sizes = [(1024, 1024, 1024), (64, 1_000_000, 64), (2560, 2560, 100), (300, 20, 300), (128, 128, 128)]
    problems = [
        {
            **dict(zip("mkn", size, strict=True)),
            "dtype": chance.choice(("f16", "bf16")),
            "form": _core.forms["tensor"],
            "load": chance.choice((0, 12)),
            **{name: chance.randint(0, 1) for name in ("order_a", "order_b", "scaled")},
        }
        for size in sizes
    ]
    for problem in problems:
        for of, shared in ((arch, ARCHS[arch]), (86, 99 << 10)):
            assert _core.cuda_plan({**problem, "arch": of}, shared)["kernel"] == "matmul_tensor"
    compile_all(problems[list(ARCHS).index(arch) :: 3], arch, registers)


FACTORIZATIONS = ("LU", "INV", "DET", "SLOGDET", "CHOLESKY", "QR", "QR_R", "QR_RAW", "EIGH", "EIGVALSH")
FACTORIZATIONS += ("LDL", "LU_RCOND")
FACTORIZATIONS += ("EIG", "EIGVALS", "SCHUR", "SQRTM", "EXPM", "SVD", "SVD_FULL", "SVDVALS")
SOLVES = ("SOLVE", "LU_SOLVE", "CHO_SOLVE", "SOLVE_TRIANGULAR", "LSTSQ")
SOLVES += ("SOLVE_POS", "SOLVE_SYM", "LDL_SOLVE", "SOLVE_MIXED")
SOLVES += ("BACKWARD_ERROR", "REFINE")
SOLVES += ("SOLVE_TRIDIAGONAL", "SOLVE_BANDED", "SOLVEH_BANDED")


KERNELS, TAKEN = (_core.cuda_catalog()[x] for x in ("kernels", "ops"))


def planned(dtypes):
    """Of each kernel of factorizations and solves the first problem of these dtypes that is its."""
    sizes = [(n, n) for n in range(1, 33)] + [(200, 5), (5, 200), (31, 33)]
    first = {}
    for (m, n), op, dtype, small in itertools.product(sizes, FACTORIZATIONS + SOLVES, dtypes, (0, 1)):
        if m != n and op != "LU" and not op.startswith(("QR", "LSTSQ", "SVD")):
            continue
        if dtype not in TAKEN[op]:
            continue
        problem = {"op": op, "dtype": dtype, "m": m, "k": 1 if op in SOLVES else n, "n": n, "small": small}
        first.setdefault(_core.cuda_plan(problem, ARCHS[80])["kernel"], problem)
    in_parts = {
        "op": "SOLVE_TRIDIAGONAL",
        "form": 16,
        "dtype": dtypes[0],
        "m": 3,
        "k": 1,
        "n": 9000,
        "lower": 1,
    }
    first.setdefault(_core.cuda_plan(in_parts, ARCHS[80])["kernel"], in_parts)
    return first


OF_REAL, OF_COMPLEX = planned(("f32", "f64")), planned(("c128",))


def test_every_kernel_is_planned():
    assert {x for x in KERNELS if not x.startswith("matmul")} == {*OF_REAL, *OF_COMPLEX}


@pytest.mark.parametrize(
    "problem", [*OF_REAL.items(), *OF_COMPLEX.items()], ids=lambda x: f"{x[0]} {x[1]['dtype']}"
)
def test_every_kernel_of_factorizations(problem):
    kernel, problem = problem
    for arch in (90, random.Random(kernel).choice((80, 100))):
        ((cubin, _, name, _),) = cuda.compile_for([problem], arch, shared_memory=ARCHS[80])
        assert cubin[:4] == b"\x7fELF"
        assert kernel in name


@pytest.mark.parametrize(
    ("op", "kernel"),
    [
        *((op, "systems_shared") for op in ("LU", "INV", "CHOLESKY", "SOLVE", "LU_SOLVE")),
        *(("LDL", "ldl_lanes"), ("QR", "qr_shared"), ("LSTSQ", "lstsq_shared"), ("EIGH", "eigh_shared")),
        *(("EXPM", "expm_shared"), ("LU_RCOND", "refinement_lanes"), ("REFINE", "refinement_lanes")),
    ],
)
def test_planned_large(op, kernel, registers):
    """A block has a matrix; one that does not fit shared memory lies outside of it."""
    chance = random.Random(op)
    problem = {"op": op, "dtype": chance.choice(("f32", "f64", "c64", "c128"))}
    problem |= {"m": chance.randint(33, 128), "k": 1, "small": chance.randint(0, 1)}
    problem |= {"n": problem["m"]}
    compile_all([problem], chance.choice(list(ARCHS)), registers)
    plans = [
        _core.cuda_plan({**problem, "dtype": dtype, "m": n, "n": n, "arch": 90}, ARCHS[90])
        for dtype, n in (("f32", 33), ("c128", 128))
    ]
    assert {plan["kernel"] for plan in plans} == {kernel}
    assert [plan["outside"] for plan in plans] == [0, op != "LDL"]


PROGRAMS = {  # a chain, and how its inputs lie
    "kalman_step": (((4,), (4, 4), (2,), (4, 4), (2, 4), (4, 4), (2, 2)), "flat flat flat one one one one"),
    "kalman_step, larger": (
        ((16,), (16, 16), (8,), (16, 16), (8, 16), (16, 16), (8, 8)),
        "flat flat flat" + " one" * 4,
    ),
    "gaussian_logpdf": (((4,), (4,), (4, 4)), "strided one strided"),
}


def kernel_of_program(function, shapes, kinds, dtypes=()):
    both = itertools.zip_longest(shapes, dtypes, fillvalue="f8")
    operands = [np.ones(shape, dtype) for shape, dtype in both]
    plan = function._plan(operands, {})
    strides = [dense_strides(x.shape, x.dtype) for x in operands]
    described = compiled(plan.record, plan.results, strides, sum(plan.columns))
    layouts = tuple(
        Layout(kind, dense_strides(shape, np.dtype("i1")))
        for kind, shape in zip(kinds.split(), shapes, strict=True)
    )
    return kernel_of(described, layouts, 2)


@pytest.mark.parametrize(("name", "arch"), [*zip(PROGRAMS, ARCHS, strict=True)])
def test_programs(name, arch):
    """One kernel of all steps: with a thread of each matrix, and with several."""
    kernel = kernel_of_program(getattr(smallmm, name.partition(",")[0]), *PROGRAMS[name])
    cubin, log, _ = _core.cuda_build_program(kernel.text, arch)
    assert cubin[:4] == b"\x7fELF"
    assert not sum(map(int, re.findall(r"(\d+) bytes spill stores", log))), log
    assert (kernel.lanes > 1) == ("larger" in name)


def test_steps_that_are_left_out():
    """What is only for sums that are no normal numbers, where a warp has none; its arithmetic is not counted
    either when the threads of a matrix are chosen."""
    kernel = kernel_of_program(smallmm.fuse("(n)->()")(smallmm.vector_norm), ((256,),), "flat", ["f4"])
    assert kernel.text.count("if (some_is_zero<1>(") == 1
    assert (
        kernel.text.index("map_sqrt") < kernel.text.index("some_is_zero") < kernel.text.index("map_exponent")
    )
    assert "sum_row<64>" in kernel.text
    assert kernel.text.count("Ones<float>{}") == 2, "of sums of sums"
    assert kernel.lanes == 4
    assert kernel.shared <= 32 * (2 * 256 * 4 + 600), "two vectors of each matrix, and numbers"
    cubin, *_ = _core.cuda_build_program(kernel.text, 90)
    assert cubin[:4] == b"\x7fELF"


@pytest.mark.parametrize(("n", "dtype", "most"), [(4, "f4", 0), (32, "f8", 0), (17, "c16", 16)])
def test_condition_numbers_in_programs(n, dtype, most):
    kernel = kernel_of_program(smallmm.fuse("(n,n)->()")(smallmm.rcond), ((n, n),), "flat", [dtype])
    cubin, log, _ = _core.cuda_build_program(kernel.text, 90)
    assert cubin[:4] == b"\x7fELF"
    assert sum(map(int, re.findall(r"(\d+) bytes spill stores", log))) <= most, log


@pytest.mark.parametrize(
    "function",
    [
        lambda a: (*smallmm.qr(a), *smallmm.eigh(a)),
        lambda a: (*smallmm.qr(a), smallmm.svdvals(a)),
        lambda a: (*smallmm.eigh(a), smallmm.svdvals(a)),
        lambda a: (*smallmm.qr(a), *smallmm.eigh(a), smallmm.svdvals(a)),
    ],
)
def test_factorizations_in_programs(function):
    """Of few rows, which a thread has in registers, all of them."""
    kernel = kernel_of_program(smallmm.fuse(function, "(n,n)"), ((3, 3),), "flat")
    _, log, _ = _core.cuda_build_program(kernel.text, 90)
    assert kernel.lanes == 1
    assert sum(map(int, re.findall(r"(\d+) bytes stack frame", log))) == 0, log


@pytest.mark.parametrize(
    ("arch", "shape", "kind"), [(80, (), "flat"), (90, (3,), "strided"), (100, (64,), "one")]
)
def test_types_of_programs(arch, shape, kind):
    """Truth, integers of every width, float16 and bfloat16, as arguments and as results."""
    signature = ",".join(["(n)" if shape else "()"] * 10)
    function = smallmm.fuse(
        lambda *x: tuple(z for y in x for z in (y, y * np.float32(0.5), y > 0)), signature
    )
    for half in ("e", pytest.importorskip("ml_dtypes").bfloat16):
        kernel = kernel_of_program(function, (shape,) * 10, " ".join([kind] * 10), [*"?bhiqBHIQ", half])
        assert _core.cuda_build_program(kernel.text, arch)[0][:4] == b"\x7fELF"


def test_infinite_constants_of_programs():
    """NVRTC initializes no variable with an infinity or a NaN."""
    ends = np.array([np.inf, np.nan, -np.inf])
    function = smallmm.fuse(lambda a: (np.where(a > 0, ends, a), np.minimum(a, np.float32("inf"))), "(n)")
    kernel = kernel_of_program(function, ((3,),), "flat")
    assert _core.cuda_build_program(kernel.text, 90)[0][:4] == b"\x7fELF"


def test_images_without_gaps_of_what_is_not_aligned():
    """They move as one row, element by element: of more elements than a warp has threads."""
    problem = {"op": "LU", "dtype": "f32", "m": 20, "k": 1, "n": 20, "aligned": 0}
    ((cubin, _, name, _),) = cuda.compile_for([problem], 90, shared_memory=ARCHS[90])
    assert cubin[:4] == b"\x7fELF"
    assert "lu_blocked" in name


def test_operations_of_complex_matrices_are_tried_on_devices():
    operations, tensor = _core.cuda_complex_operations, _core.forms["tensor"]
    assert {
        x for x, (op, form) in _core.gufunc_rows.items() if op in operations and not form & tensor
    } == TRIED


@pytest.mark.parametrize("op", _core.cuda_complex_operations)
def test_planned_complex(op, registers):
    """What a call of some order, form and layout runs, on one of the architectures."""
    chance = random.Random(op)
    n = chance.randint(1, 32)
    problem = {
        "op": op,
        "dtype": chance.choice(("c64", "c128")),
        **{"m": n, "k": chance.choice((1, 3, 16)), "n": n},
        "form": chance.randint(0, 3) if op in ("CHO_SOLVE", "SOLVE_TRIANGULAR") else 0,
        "scaled": int(op == "MATMUL"),
        **{name: chance.randint(0, 1) for name in ("order_a", "order_b", "order_c")},
        **{name: chance.choice((0, 0, 2)) for name in ("source_a", "source_b", "source_c", "source_rest")},
    }
    compile_all([problem], chance.choice(list(ARCHS)), registers)


def test_planned_diagonals(registers):
    """Nothing spills of what a step of elimination has, up to the most that is kept in registers."""
    chance = random.Random(0)
    cases = [
        ("SOLVE_TRIDIAGONAL", 3, 1),
        ("SOLVE_BANDED", 5, 2),
        ("SOLVE_BANDED", 9, 4),
        ("SOLVE_BANDED", 17, 1),
    ]
    cases += [("SOLVEH_BANDED", 3, 0), ("SOLVEH_BANDED", 6, 0), ("SOLVE_BANDED", 40, 7)]
    for op, m, lower in cases:
        problem = {"op": op, "m": m, "lower": lower, "n": chance.choice((7, 32, 1000))}
        problem |= {"k": chance.choice((1, 4)), "dtype": chance.choice(("f32", "f64"))}
        problem |= {"form": chance.choice((0, 16)) if op == "SOLVE_TRIDIAGONAL" else 0}
        compile_all([problem], chance.choice(list(ARCHS)), registers)


@pytest.mark.parametrize("op", FACTORIZATIONS + SOLVES)
def test_planned_factorizations(op):
    """What a call of some order and layout runs, on one of the architectures."""
    chance = random.Random(op)
    arch, n = chance.choice(list(ARCHS)), chance.randint(1, 32)
    problem = {
        "op": op,
        "dtype": chance.choice([x for x in DTYPES if x in TAKEN[op]]),
        "m": n,
        "k": chance.choice((1, 3, 16)) if op in SOLVES else n,
        "n": n,
        "form": chance.choice((0, 1, 2, 3)) if op == "SOLVE_TRIANGULAR" else 0,
        "small": chance.randint(0, 1),
        **{name: chance.randint(0, 1) for name in ("order_a", "order_b", "order_c")},
        **{name: chance.choice((0, 0, 2)) for name in ("source_a", "source_b", "source_c", "source_rest")},
    }
    ((cubin, _, name, _),) = cuda.compile_for([problem], arch, shared_memory=ARCHS[arch])
    assert cubin[:4] == b"\x7fELF"
    assert name.startswith("smm_")


@pytest.mark.parametrize("op", FACTORIZATIONS + SOLVES)
def test_every_factorization_has_a_kernel(op):
    """Whatever the sizes, layout and shared memory."""
    chance = random.Random(op)
    for _ in range(300):
        m, n = chance.choice(((1, 1), (3, 3), (8, 8), (17, 17), (32, 32), (5, 200), (200, 5), (31, 33)))
        if op not in ("QR", "QR_R", "QR_RAW", "LSTSQ"):
            m = n = min(m, n)
        problem = {
            "op": op,
            "dtype": "f64" if op == "SOLVE_MIXED" else chance.choice(DTYPES),
            "m": m,
            "k": chance.randint(1, 16) if op in SOLVES else min(m, n),
            "n": n,
            "small": chance.randint(0, 1),
            **{name: chance.randint(0, 1) for name in ("order_a", "order_b", "order_c", "aligned")},
            **{name: chance.choice((0, 1, 2)) for name in ("source_a", "source_b")},
            **{name: chance.choice((0, 2)) for name in ("source_c", "source_rest")},
        }
        plan = _core.cuda_plan(problem, 99 << 10)
        assert plan["shared"] <= 99 << 10
        assert plan["matrices"] >= 1


@pytest.mark.parametrize("arch", ARCHS)
def test_sample_of_layouts(arch, registers):
    chance = random.Random(arch)
    problems = [
        {
            "dtype": chance.choice(DTYPES),
            **{name: chance.randint(1, 34) for name in "mkn"},
            **{name: chance.randint(0, 1) for name in FLAGS},
            **{name: chance.choice(SOURCES) for name in ("source_a", "source_b")},
            "source_c": chance.choice((0, 2)),
        }
        for _ in range(12)
    ]
    compile_all(problems, arch, registers)


@pytest.mark.parametrize("arch", ARCHS)
def test_sample_of_parameters(arch):
    """Other tiles and blocks than those chosen: all that fits compiles."""
    chance = random.Random(arch)
    problems, parameters = [], []
    while len(problems) < 12:
        problem = {"dtype": chance.choice(("f32", "f64")), **{name: chance.randint(2, 32) for name in "mkn"}}
        row = {
            "kernel": chance.choice(("matmul_staged", "matmul_direct")),
            "rows": chance.randint(1, 4),
            "cols": chance.choice((1, 2, 4)),
            "blocked": chance.randint(0, 1),
            "threads": chance.choice((32, 64, 128, 256)),
            "unroll": chance.randint(0, 1),
            "pad": chance.randint(0, 1),
            "async": chance.randint(0, 1),
            "through_shared": chance.randint(0, 1),
        }
        if _core.cuda_plan(problem, ARCHS[arch], row):
            problems.append(problem)
            parameters.append(row)
    for cubin, *_ in cuda.compile_for(problems, arch, parameters, shared_memory=ARCHS[arch]):
        assert cubin[:4] == b"\x7fELF"


def test_every_kernel_of_the_list():
    for parameters in (
        {"kernel": "matmul_staged", "rows": 2, "cols": 2, "threads": 64, "async": 1, "through_shared": 1},
        {"kernel": "matmul_staged", "rows": 2, "cols": 2, "threads": 64, "async": 0, "through_shared": 0},
        {"kernel": "matmul_staged", "rows": 2, "cols": 2, "blocked": 1, "threads": 64, "through_shared": 1},
        {"kernel": "matmul_direct", "rows": 2, "cols": 2, "threads": 64},
        {"kernel": "matmul_whole", "groups": 1, "threads": 64},
        {
            "kernel": "matmul_one", "rows": 2, "cols": 2, "lanes": 2, "threads": 64, "blocks": 4, "stages": 3
        },
    ):  # fmt: skip
        n = 2 if parameters["kernel"] == "matmul_whole" else 4
        problem = {"dtype": "f64", "m": n, "k": n, "n": n, "source_b": parameters["kernel"] == "matmul_one"}
        (found,) = cuda.compile_for([problem], 90, [parameters])
        assert parameters["kernel"] in found[2]


class TestPlan:
    def test_tuned_rows_are_used(self):
        rows = tuned.load().rows
        assert {row["dtype"] for row in rows} >= {"f32", "f64"}
        for row in rows:
            problem = {key: row[key] for key in (*PROBLEM, "arch", "device")}
            problem["order_c"] = row.get("order_c", 0)
            plan = _core.cuda_plan(problem, ARCHS[90])
            names = ("kernel", *KERNELS[row["kernel"]])
            assert {name: plan[name] for name in names} == {name: row[name] for name in names}
            assert plan["tuned_on"] == row["device"]
            assert re.fullmatch(r"\d{4}-\d\d-\d\d", row["date"])
            assert row["ns"] > 0

    @pytest.mark.parametrize("shared", [99 << 10, 163 << 10, 227 << 10])
    def test_every_problem_has_a_kernel(self, shared):
        chance = random.Random(shared)
        for _ in range(2000):
            problem = {
                "dtype": chance.choice(DTYPES),
                **{name: chance.choice((1, 2, 3, 4, 7, 8, 16, 17, 31, 32, 33, 63, 64)) for name in "mn"},
                "k": chance.choice((0, 1, 2, 3, 8, 16, 31, 64)),
                **{name: chance.randint(0, 1) for name in FLAGS},
                **{name: chance.choice(SOURCES) for name in ("source_a", "source_b")},
                "source_c": chance.choice((0, 2)),
            }
            plan = _core.cuda_plan(problem, shared)
            assert plan["shared"] <= shared
            assert plan["block"] <= 1024
            assert plan["matrices"] >= 1

    @pytest.mark.parametrize("dtype", ["f32", "f64"])
    @pytest.mark.parametrize("most", [32, 64])
    @pytest.mark.parametrize("aligned", [0, 1])
    def test_no_cliff_between_neighbours(self, dtype, most, aligned):
        """Shapes without a row of their own keep most of their lanes busy with elements of the result."""
        shares = []
        sizes = range(4, most + 1, most // 10)
        for m, k, n in itertools.product(sizes, (4, 9, 16, 31), sizes):
            problem = {"dtype": dtype, "m": m, "k": k, "n": n, "aligned": aligned}
            plan = _core.cuda_plan(problem, ARCHS[90])
            shares.append(plan["matrices"] * m * n / (plan["block"] * plan["rows"] * plan["cols"]))
        assert min(shares) > 0.3
        assert sum(shares) / len(shares) > 0.7
