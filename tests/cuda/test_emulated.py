"""The GPU's kernels run on the CPU (emulated/gpu): each gives the CPU's bits, whatever its parameters,
however operands lie, and no access to shared memory depends on which thread of a block runs first."""

import os

import pytest
from test_compile import KERNELS, OF_COMPLEX

OF_ANY_SIZE = ("matmul_tiled", "matmul_tensor", "banded_parts")  # test_any_size, test_diagonals
CASES = int(os.environ.get("SMALLMM_EMULATED_CASES", "4"))  # of a kernel


@pytest.mark.parametrize(
    ("kernel", "capability"),
    [
        *[(kernel, 90) for kernel in KERNELS if kernel not in OF_ANY_SIZE],
        ("inv_tensor", 80),
    ],
)
def test_kernel(emulated, tmp_path, kernel, capability):
    """One also without the tensor cores that came with sm_90. Those of
    complex numbers have few parameters, but one of them has many operations."""
    cases = CASES if capability == 90 and not kernel.endswith("_numbers") else CASES // 2
    cases *= 3 if kernel == "systems_shared" else 1
    emulated("run.py", kernel, "--cases", cases, EMULATED_CC=capability)
    ran = [path for path in tmp_path.iterdir() if f"smm_{kernel}_" in path.name]
    assert len(ran) >= CASES // 4, "others were planned"


@pytest.mark.parametrize(
    "kernel",
    [
        kernel
        for kernel in OF_COMPLEX
        if not kernel.endswith("_numbers") and kernel not in (*OF_ANY_SIZE, "systems_shared")
    ],
)
def test_complex_elements(emulated, kernel):
    """Kernels of both real and complex matrices."""
    emulated("run.py", kernel, "--cases", CASES, "--dtypes", "c64", "c128")


def test_rectangular_lu(emulated):
    """By lanes of a warp, which have no other real matrices."""
    emulated("run.py", "systems_shared", "--cases", 3 * CASES, "--dtypes", "f32", "f64")


@pytest.mark.parametrize("dtypes", [("f32", "f64"), ("c64", "c128")], ids=["real", "complex"])
@pytest.mark.parametrize("kernel", ["eig_shared", "eigh_shared", "svd_shared", "lstsq_shared"])
def test_few_rows(emulated, kernel, dtypes):
    """Of matrices that a thread has to itself."""
    emulated("run.py", kernel, "--rows", "few", "--cases", 2 * CASES, "--dtypes", *dtypes)


@pytest.mark.parametrize("dtypes", [("f32", "f64"), ("c64", "c128")], ids=["real", "complex"])
@pytest.mark.parametrize("kernel", ["eigh_phases", "svd_phases"])
def test_rounds(emulated, kernel, dtypes):
    """Of some of the matrices of a block there is no room for all rotations: they come in two rounds."""
    emulated("run.py", kernel, "--order", 5, "--cases", 2 * CASES, "--dtypes", *dtypes)


@pytest.mark.parametrize(
    ("kernel", "dtypes", "seed"),
    [
        ("systems_shared", ("f32", "f64"), 1321),  # draws INV, LU and SOLVE first
        ("systems_shared", ("f32", "f64"), 1485),  # LU of rectangles
        ("systems_shared", ("c64", "c128"), 434),  # SOLVE, CHOLESKY and LU
        ("ldl_lanes", ("f32", "f64", "c64", "c128"), 0),
        ("refinement_lanes", ("f32", "f64", "c64", "c128"), 0),
        ("expm_shared", ("f32", "f64", "c64", "c128"), 0),
    ],
)
def test_large(emulated, kernel, dtypes, seed):
    """Of matrices that a block shares, in shared memory or outside of it."""
    emulated("run.py", kernel, "--rows", "large", "--cases", CASES, "--seed", seed, "--dtypes", *dtypes)


@pytest.mark.parametrize(
    ("name", "cases"),
    [
        ("qr", "33 f64 20x60 c64 2x8000 c128"),
        ("qr complete", "50x30 f32 40 c128"),
        ("lstsq", "33 c64 20x60 f64 60x20 f32"),
        ("eigh", "48 f32 33 c128"),
        ("eigh upper", "65 f64"),
        ("svd", "33 f64 20x60 c64"),
        ("svd full", "60x20 f32 40x30 c128"),
        ("eig", "34 f32 33 c64"),
        ("schur", "33 f64 34 c64"),
        ("sqrtm", "33 c64"),
    ],
)
def test_large_matrices(emulated, name, cases):
    """Of the orders that a block takes together, and of one that shared memory has no room for."""
    emulated("large.py", name, *cases.split())


@pytest.mark.parametrize(
    ("kernel", "cases"),
    [
        ("lu_lanes", "f64 1 3 8"),
        ("lu_lanes", "c64 2 4"),
        ("lu_blocked", "f32 9 20"),
        ("lu_blocked", "f64 12 32"),
        ("lu_rows_numbers", "c128 7"),
        ("systems_shared", "c64 5"),
        ("systems_shared", "f64 36"),
    ],
)
def test_lu_as_lapack(emulated, kernel, cases):
    """Singular matrices, too, have factors in the form that a patched PyTorch is given."""
    emulated("as_lapack.py", kernel, *cases.split())


def test_diagonals(emulated):
    """What is called: results, errors, plans, systems of several tiles."""
    emulated("banded.py")


@pytest.mark.parametrize("script", ["complex_systems.py", "mixed.py"])
def test_systems(emulated, script):
    emulated(script)


def test_halves(emulated):
    """Every float16 and bfloat16 is read, and what rounds to it or is half-way is written, as on the CPU;
    numbers among the operands are rounded once; and explain says so."""
    emulated("halves.py")


def test_batch_dimensions(emulated):
    """Merged or not, in place, with a vector or a number for each matrix; and an overlap is refused."""
    emulated("dimensions.py")


def test_conversions(emulated):
    """Of arrays of smallmm.cuda: dtypes that differ, conjugates, norms where there is no matrix."""
    emulated("conversions.py")


@pytest.mark.parametrize("part", ["namespace", "functions", "numba"])
def test_own_arrays(emulated, part):
    """Arrays of smallmm.cuda have operators, and functions that no one kernel computes take them."""
    emulated("own.py", part)


def test_compositions(emulated):
    """One kernel runs all steps, with the bits of the host."""
    emulated("compositions.py")


@pytest.mark.parametrize("part", ["convolutions", "contractions", "conditions", "norms"])
def test_calls_that_were_met(emulated, part):
    """Of arrays with DLPack's C exchange API, as PyTorch's."""
    emulated("direct.py", part)


def test_captures(emulated):
    """What a CUDA graph cannot have."""
    emulated("capture.py")


def test_groups(emulated):
    """Members of several shapes: a launch for each."""
    emulated("group.py")


@pytest.mark.parametrize("script", ["tiled.py", "tensor.py", "convolution.py"])
def test_any_size(emulated, script):
    """Products beyond the orders of the other kernels, those by tensor cores, and convolutions."""
    emulated(script, 0)


@pytest.mark.parametrize("part", ["results", "large", "derivatives", "failures"])
def test_programs(emulated, part):
    """One kernel for all steps of a fused function, or for each."""
    emulated("programs.py", part)


@pytest.mark.parametrize(
    "names",
    [
        "filtered,solved,number",
        "product,product_complex",
        "filtered9,spectrum",
        "solved8,product12",
        "prefixes",
    ],
)
def test_scans(emulated, names):
    """One kernel for all times of a scan, or for a level of an associative one."""
    emulated("scans.py", names)


@pytest.mark.parametrize("which", ["filters", "others"])
def test_recurrences(emulated, which):
    """Filters, products and hidden Markov models, with numbers that are carried."""
    emulated("recurrences.py", which)


@pytest.mark.parametrize("seed", range(2))
def test_calls_that_nobody_chose(emulated, seed):
    """Host and device on random functions, layouts and values; the seeds are new where there is a GPU."""
    emulated("random_calls.py", "--library", "own", "--shapes", 6, "--calls", 4, "--seed", seed, "--large", 0)


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("__syncthreads(); x[i] = x[63 - i];", "writes", "reads"),
        ("x[i] += x[63 - i];", "reads", "writes"),
        ("__syncwarp(); x[i] += x[i ^ 32];", "reads", "writes"),
        ("__shfl_xor_sync(~0u, i, 1); x[i] = x[i ^ 1];", "writes", "reads"),
        ("__syncwarp(1u << of_warp); own[i] = own[i ^ 1];", "reads", "writes"),
        ("__syncthreads(); own[0] = i / 8; __syncthreads();", "writes", "writes"),
    ],
)
def test_races(emulated, text, before, after):
    """They are found, of arrays of either kind, with the lines of the text."""
    words = rf"(?s)a race: thread \d+ {before}, then thread \d+ {after}, .*kernel.cpp:\d+"
    with pytest.raises(RuntimeError, match=words):
        emulated("gpu/races.py", text)


@pytest.mark.parametrize(
    "text",
    [
        "__syncwarp(); int y = x[i ^ 1]; __syncwarp(); x[i] = y;",
        "__syncwarp(); x[i] = __shfl_xor_sync(~0u, x[i ^ 1], 2);",
        "__syncthreads(); own[0] = 7; __syncthreads();",
        "__syncthreads(); reinterpret_cast<char *>(own)[i] = 1; __syncthreads();",
    ],
)
def test_no_races(emulated, text):
    """What waits, votes after it read, or writes what others write."""
    assert emulated("gpu/races.py", text) == "done\n"
