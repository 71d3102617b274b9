"""Tuned rows: which device's row a problem gets, and tables that this build does not understand."""

import itertools
import json

import pytest

import smallmm
from smallmm import _core
from smallmm._gpu import tuned as _tuned

SHARED = 227 << 10
PROBLEM = {"op": "INV", "dtype": "f64", "m": 2, "k": 1, "n": 2, "small": 0}
LAYOUT = dict.fromkeys(("order_a", "order_b", "source_a", "source_b"), 0)
RUN = {"date": "2026-11-24", "commit": None, "driver": None, "nvrtc": None}


@pytest.fixture
def tune():
    """Put rows in the place of the package's, for one test."""
    _core.cuda_plan(PROBLEM, SHARED)  # which loads those first
    yield _core.cuda_tune
    _core.cuda_tune(_tuned.load().rows)


def row_of(threads, problem=PROBLEM, **more):
    chosen = {"kernel": "inv_lanes", "lanes": 1, "threads": threads, "blocks": 0, "async": 1}
    return {**problem, **LAYOUT, **chosen, "ns": 1.0, "run": 0, "runner_up": None, **more}


def write(folder, device, capability, rows, runs=(RUN,)):
    slug = device.lower().replace(" ", "-")
    file = folder / f"{slug}-sm{capability}" / "inv.json"
    file.parent.mkdir(exist_ok=True)
    table = {"device": device, "compute_capability": capability, "runs": list(runs), "rows": rows}
    file.write_text(json.dumps(table), encoding="utf-8")
    return file


def planned(device, capability, problem=PROBLEM):
    plan = _core.cuda_plan({**problem, "device": device, "arch": capability}, SHARED)
    return plan["tuned_on"], plan["threads"]


class TestPackage:
    def test_all_is_understood(self):
        tuned = _tuned.load()
        assert tuned.rows
        assert tuned.skipped == {}
        for row in tuned.rows:
            assert {*_tuned.RUN, "runner_up", "device", "arch"} <= row.keys()

    def test_a_row_has_its_kernels_parameters(self):
        catalog = _core.cuda_catalog()
        for row in _tuned.load().rows:
            assert row.keys() & catalog["parameters"].keys() == catalog["kernels"][row["kernel"]].keys()

    def test_catalog(self):
        catalog = _core.cuda_catalog()
        assert "MATMUL" in catalog["ops"]
        assert {"f32", "f64"} <= set(catalog["ops"]["MATMUL"])
        assert catalog["problem"]["aligned"] == 1
        for parameters in catalog["kernels"].values():
            assert parameters.keys() <= catalog["parameters"].keys()
            assert all(parameters.values())  # some value to try
        owned = set().union(*catalog["kernels"].values())
        assert owned == catalog["parameters"].keys()


class TestNearest:
    DEVICES = (("NVIDIA H200", 90), ("NVIDIA H100 PCIe", 90), ("NVIDIA A100", 80), ("NVIDIA B200", 100))

    @pytest.fixture(autouse=True)
    def tables(self, tune, tmp_path):
        for number, device in enumerate(self.DEVICES):
            write(tmp_path, *device, [row_of(32 * (number + 1))])
        tune(_tuned.load(tmp_path).rows)

    @pytest.mark.parametrize(
        ("device", "nearest"),
        [
            *zip(DEVICES, DEVICES, strict=True),
            (("NVIDIA H100 80GB HBM3", 90), DEVICES[1]),  # the name that begins most alike
            (("NVIDIA H200 NVL", 90), DEVICES[0]),
            (("NVIDIA A10", 86), DEVICES[2]),  # the next lower compute capability
            (("NVIDIA L40", 89), DEVICES[2]),
            (("NVIDIA RTX PRO 6000", 120), DEVICES[3]),
            (("another", 75), DEVICES[2]),  # none is lower: the next higher one
        ],
        ids=str,
    )
    def test_device(self, device, nearest):
        assert planned(*device) == (nearest[0], 32 * (self.DEVICES.index(nearest) + 1))

    def test_baseline(self):
        """No device has a row of these sizes."""
        assert planned("NVIDIA H200", 90, {**PROBLEM, "m": 3, "n": 3})[0] is None


def test_a_second_device_changes_no_choice_of_the_first(tune):
    """Whatever its rows: here they are the first device's with other blocks, before and after them."""
    rows = _tuned.load().rows
    problem_of = [{x: row[x] for x in (*PROBLEM, *LAYOUT, "device", "arch")} for row in rows]
    first = [_core.cuda_plan(problem, SHARED) for problem in problem_of]
    for device, arch in (("NVIDIA H100", 90), ("NVIDIA A100", 80), ("NVIDIA B200", 100)):
        others = [{**row, "threads": 256, "device": device, "arch": arch} for row in rows]
        for order in (rows + others, others + rows):
            tune(order)
            assert [_core.cuda_plan(problem, SHARED) for problem in problem_of] == first


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_halves_have_the_rows_of_float32_after_their_own(tune, tmp_path, dtype):
    half, single = {**PROBLEM, "dtype": dtype}, {**PROBLEM, "dtype": "f32"}
    write(tmp_path, "NVIDIA H200", 90, [row_of(32, single), row_of(256)])
    tune(_tuned.load(tmp_path).rows)
    assert planned("NVIDIA H200", 90, half) == ("NVIDIA H200", 32)
    write(tmp_path, "NVIDIA H100", 90, [row_of(64, half)])
    tune(_tuned.load(tmp_path).rows)
    assert planned("NVIDIA H200", 90, half) == ("NVIDIA H100", 64)
    assert planned("NVIDIA H200", 90, single) == ("NVIDIA H200", 32)
    write(tmp_path, "NVIDIA A100", 80, [row_of(128, half)])
    tune(_tuned.load(tmp_path).rows)
    assert planned("NVIDIA H200", 90, half) == ("NVIDIA H100", 64)


@pytest.mark.parametrize("layout", [{"small": 1}, {"order_b": 1}, {"source_a": 1}], ids=str)
def test_halves_have_the_rows_of_float32_with_their_layout_before_their_own_with_another(
    tune, tmp_path, layout
):
    half, single = {**PROBLEM, "dtype": "f16"}, {**PROBLEM, "dtype": "f32"}
    write(tmp_path, "NVIDIA H200", 90, [row_of(32, single), row_of(64, half), row_of(128, single, **layout)])
    tune(_tuned.load(tmp_path).rows)
    assert planned("NVIDIA H200", 90, half) == ("NVIDIA H200", 64)
    assert planned("NVIDIA H200", 90, half | layout) == ("NVIDIA H200", 128)
    assert planned("NVIDIA H200", 90, half | {"order_a": 1}) == ("NVIDIA H200", 64)


def test_results_by_columns_have_their_rows_first(tune, tmp_path):
    by_columns = {**PROBLEM, "order_c": 1}
    write(tmp_path, "NVIDIA H200", 90, [row_of(32)])
    tune(_tuned.load(tmp_path).rows)
    assert planned("NVIDIA H200", 90, by_columns) == ("NVIDIA H200", 32)
    write(tmp_path, "NVIDIA H200", 90, [row_of(32), row_of(64, by_columns)])
    tune(_tuned.load(tmp_path).rows)
    assert planned("NVIDIA H200", 90, by_columns) == ("NVIDIA H200", 64)
    assert planned("NVIDIA H200", 90) == ("NVIDIA H200", 32)
    write(tmp_path, "NVIDIA H200", 90, [row_of(64, by_columns)])
    tune(_tuned.load(tmp_path).rows)
    assert planned("NVIDIA H200", 90)[0] is None


def test_a_partly_tuned_device_takes_the_rest_from_the_nearest(tune, tmp_path):
    three = {**PROBLEM, "m": 3, "n": 3}
    write(tmp_path, "NVIDIA H200", 90, [row_of(32), row_of(64, three)])
    write(tmp_path, "NVIDIA H100", 90, [row_of(128)])
    tune(_tuned.load(tmp_path).rows)
    assert planned("NVIDIA H100", 90) == ("NVIDIA H100", 128)
    assert planned("NVIDIA H100", 90, three) == ("NVIDIA H200", 64)


def test_a_row_that_does_not_fit_leaves_the_next_device(tune, tmp_path):
    write(tmp_path, "NVIDIA H200", 90, [row_of(32)])
    write(tmp_path, "NVIDIA H100", 90, [row_of(33)])
    tune(_tuned.load(tmp_path).rows)
    assert planned("NVIDIA H100", 90) == ("NVIDIA H200", 32)


@pytest.mark.parametrize(
    "change",
    [
        {"kernel": "inv_magic"},
        {"kernel": None},
        {"kernel": ["inv_lanes"]},
        {"op": "MAGIC"},
        {"dtype": "f8"},
        {"magic": 1},
        {"panel": 4},  # of other kernels
        {"threads": "64"},
        {"threads": -32},
        {"threads": 64.0},
        {"m": 1 << 40},
        {"m": True},
        {"op": ["INV"]},
        {"op": "SOLVE_MIXED", "dtype": "c64"},  # which has no kernel
        {"ns": "fast"},
        {"percent": True},
        {"runner_up": 7},
    ],
    ids=str,
)
def test_unknown_rows_are_skipped_and_counted(tune, tmp_path, change):
    write(tmp_path, "NVIDIA H200", 90, [row_of(32), {**row_of(64), **change}])
    tuned = _tuned.load(tmp_path)
    assert [row["threads"] for row in tuned.rows] == [32]
    assert tuned.skipped == {"nvidia-h200-sm90/inv.json": "1 of 2 rows"}
    tune(tuned.rows)
    assert planned("NVIDIA H200", 90) == ("NVIDIA H200", 32)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-1],
        lambda text: "",
        lambda text: "[]",
        lambda text: text.replace('"rows"', '"columns"'),
        lambda text: text.replace('"device"', '"machine"'),
        lambda text: text.replace('"compute_capability": 90', '"compute_capability": "new"'),
        lambda text: text.replace('"compute_capability": 90', '"compute_capability": "90"'),
        lambda text: text.replace('"compute_capability": 90', '"compute_capability": 90.5'),
        lambda text: text.replace('"compute_capability": 90', '"compute_capability": 1e999'),
        lambda text: text.replace('"compute_capability": 90', '"compute_capability": -90'),
        lambda text: text.replace('"compute_capability": 90', '"compute_capability": 1' + "0" * 5000),
        lambda text: text.replace('"compute_capability": 90', '"compute_capability": NaN'),
        lambda text: text.replace('"ns": 1.0', '"ns": 1e999'),
        lambda text: text.replace('"ns": 1.0', '"ns": -Infinity'),
        lambda text: text.replace('"NVIDIA H200"', "7"),
        lambda text: text.replace('"NVIDIA H200"', r'"\ud800"'),
        lambda text: text.replace('"NVIDIA H200"', r'"NVIDIA\u0000"'),
        lambda text: text.replace('"run": 0', '"run": 7'),
        lambda text: text.replace('"run": 0', '"run": -1'),
        lambda text: text.replace('"runs": [{', '"runs": [7, {'),
        lambda text: text.replace('"rows": [{', '"rows": [7, {'),
        lambda text: text.replace("NVIDIA", "\udcff"),
    ],
    ids=itertools.count(),
)
def test_corrupt_files_are_skipped_and_counted(tune, tmp_path, damage):
    good = write(tmp_path, "NVIDIA A100", 80, [row_of(64)])
    bad = write(tmp_path, "NVIDIA H200", 90, [row_of(32)])
    bad.write_text(damage(bad.read_text(encoding="utf-8")), encoding="utf-8", errors="surrogateescape")
    tuned = _tuned.load(tmp_path)
    assert [row["device"] for row in tuned.rows] == ["NVIDIA A100"]
    assert list(tuned.skipped) == [f"{bad.parent.name}/inv.json"]
    assert tuned.skipped.popitem()[1].startswith("no table: ")
    tune(tuned.rows)
    good.unlink()
    assert _tuned.load(tmp_path).rows == []


def test_a_run_says_nothing_of_a_kernel(tune, tmp_path):
    row = row_of(64)
    del row["threads"]
    write(tmp_path, "NVIDIA H200", 90, [row], [{**RUN, "threads": 1e9, "by_user": "me"}])
    (found,) = _tuned.load(tmp_path).rows
    assert not {"threads", "by_user"} & found.keys()
    tune([found])


def test_show_config_counts_rows(monkeypatch, tmp_path):
    load = _tuned.load
    assert any("NVIDIA H200 (sm_90)" in x for x in smallmm.show_config("dicts")["tuned rows"])
    write(tmp_path, "NVIDIA A100", 80, [row_of(64), row_of(64, kernel="magic")])
    monkeypatch.setattr(_tuned, "load", lambda: load(tmp_path))
    assert smallmm.show_config("dicts")["tuned rows"] == [
        "1 of NVIDIA A100 (sm_80)",
        "skipped 1 of 2 rows in nvidia-a100-sm80/inv.json",
    ]


@pytest.mark.parametrize(
    ("name", "capability", "source", "tuned_on"),
    [
        ("NVIDIA H200", 90, "tuned", "NVIDIA H200"),
        ("NVIDIA A100", 80, "tuned", "NVIDIA A100"),
        ("NVIDIA H100", 90, "tuned", "NVIDIA H200"),
        ("NVIDIA L4", 89, "tuned", "NVIDIA A100"),
    ],
)
def test_explain_says_whose_rows(emulated, tmp_path, name, capability, source, tuned_on):
    """Two tables side by side, on an emulated GPU of that name. Order 3 has no row in either."""
    tables = tmp_path / "tables"
    tables.mkdir()
    write(tables, "NVIDIA H200", 90, [row_of(32)])
    write(tables, "NVIDIA A100", 80, [row_of(64)])
    printed = emulated("explain.py", tables, EMULATED_NAME=name, EMULATED_CC=capability)
    two, three = map(json.loads, printed.splitlines())
    assert (two["source"], two["tuned_on"]) == (source, tuned_on)
    assert two["threads"] == {"NVIDIA H200": 32, "NVIDIA A100": 64}[tuned_on]
    assert (three["source"], three["tuned_on"]) == ("baseline", None)


def test_explain_of_the_host():
    how = smallmm.explain("inv", [[1.0]])
    assert (how.source, how.tuned_on) == (None, None)
    assert "tuned" not in str(how)
    assert "tuned on NVIDIA H200" in str(how._replace(source="tuned", tuned_on="NVIDIA H200"))
    assert "baseline" in str(how._replace(source="baseline"))
    assert "by a model" in str(how._replace(source="model"))


@pytest.mark.parametrize("dtype", ["f32", "f64", "c64", "c128"])
@pytest.mark.parametrize(
    "op", ["SOLVE", "LU_SOLVE", "CHO_SOLVE", "SOLVE_TRIANGULAR", "SOLVE_POS", "SOLVE_SYM"]
)
def test_some_kernel_takes_every_number_of_right_hand_sides(op, dtype):
    """On the device with the least shared memory that the kernels are for."""
    least = 99 << 10
    sides = range(1, _core.limits["cuda_columns"] + 1)
    layouts = [{}, {"order_b": 1}, {"aligned": 0}, {"source_b": 2, "source_c": 2}, {"small": 1}]
    for n, k, layout in itertools.product(range(1, 33), sides, layouts):
        problem = {"op": op, "dtype": dtype, "m": n, "k": k, "n": n, "aligned": 1, **layout}
        assert _core.cuda_plan(problem, least)["shared"] <= least


@pytest.mark.parametrize("dtype", ["f32", "f64", "c64", "c128"])
def test_some_kernel_takes_every_product(dtype):
    """Every kernel's parameters are asked for, also those of kernels that take no products."""
    least = 99 << 10
    for m, k, n in itertools.product((1, 2, 4, 5, 16, 17, 32, 33, 49, 53, 63, 64, 65, 2000), repeat=3):
        problem = {"op": "MATMUL", "dtype": dtype, "m": m, "k": k, "n": n}
        assert _core.cuda_plan(problem, least)["shared"] <= least
