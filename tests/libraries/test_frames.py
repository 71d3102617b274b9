"""Data frames of pandas and polars, and tables of pyarrow: their values, and groups of their rows."""

import numpy as np
import pytest

import smallmm
from smallmm._libraries import library_of

LIBRARIES = ("pandas", "polars", "pyarrow")


@pytest.fixture(params=LIBRARIES)
def frame_of(request):
    """What makes a frame of a dictionary of columns."""
    library = pytest.importorskip(request.param)
    return {"pyarrow": lambda x: library.table(x)}.get(request.param, lambda x: library.DataFrame(x))


@pytest.fixture
def columns(rng):
    x, y = rng.standard_normal((2, 1000))
    return {"id": rng.integers(0, 40, 1000), "x": x, "y": y, "k": rng.integers(0, 3, 1000)}


class TestFromFrame:
    def test_matrices(self, frame_of, columns):
        group = smallmm.Group.from_frame(frame_of(columns), by="id", columns=["x", "y"])
        values = np.stack([columns["x"], columns["y"]], -1)
        ids = np.unique(columns["id"]).tolist()
        assert len(group) == len(ids)
        for key, x in zip(ids, group, strict=True):
            np.testing.assert_array_equal(x, values[columns["id"] == key])
        keys = group.keys if hasattr(group.keys, "tolist") else group.keys["id"]
        assert np.asarray(keys).tolist() == ids

    def test_vectors_and_several_keys(self, frame_of, columns):
        group = smallmm.Group.from_frame(frame_of(columns), by=["id", "k"], columns="y")
        pairs = sorted(set(zip(columns["id"].tolist(), columns["k"].tolist(), strict=True)))
        assert len(group) == len(pairs)
        for (i, k), x in zip(pairs, group, strict=True):
            np.testing.assert_array_equal(x, columns["y"][(columns["id"] == i) & (columns["k"] == k)])

    def test_all_columns(self, frame_of, columns):
        group = smallmm.Group.from_frame(frame_of(columns), by="id")
        assert group[0].shape[1] == 3

    def test_strings_and_no_rows(self, frame_of, columns):
        frame = frame_of({"id": ["b", "a", "b", "c"], "x": [1, 2, 3, 4]})
        group = smallmm.Group.from_frame(frame, by="id", columns=["x"])
        assert [x[:, 0].tolist() for x in group] == [[2], [1, 3], [4]]
        assert group[0].dtype == np.int64
        assert len(smallmm.cov(smallmm.Group.from_frame(frame[:0], by="id", columns=["x"]))) == 0

    def test_results_by_key(self, frame_of, columns):
        group = smallmm.Group.from_frame(frame_of(columns), by="id", columns=["x", "y"])
        right = smallmm.Group.from_frame(frame_of(columns), by="id", columns="k")
        lines = smallmm.ridge(group, right, 1.0)
        table = lines.to_frame(["p", "q"])
        assert len(table) == len(group)
        covariances = smallmm.cov(group)
        table = (2 * covariances).to_frame(["p", "q"])
        assert len(table) == 2 * len(group)
        np.testing.assert_array_equal(np.asarray(table["q"]), 2 * np.concatenate([*covariances])[:, 1])

    def test_missing_values(self, frame_of):
        pytest.importorskip("pandas")
        frame = frame_of({"id": [1.0, 1.0, 2.0], "x": [1.0, None, 3.0]})
        group = smallmm.Group.from_frame(frame, by="id", columns="x")
        np.testing.assert_array_equal(np.concatenate([*group]), [1.0, np.nan, 3.0])

    def test_is_not_a_loop_over_groups(self, frame_of, rng):
        """A million rows in two hundred thousand groups, within a second or two on any machine."""
        ids = rng.integers(0, 200_000, 1_000_000)
        group = smallmm.Group.from_frame(
            frame_of({"id": ids, "x": rng.random(len(ids))}), by="id", columns="x"
        )
        assert len(group._stacks) < 40
        assert sum(x.size for x in group._stacks) == len(ids)

    @pytest.mark.parametrize(
        ("call", "error", "message"),
        [
            (
                lambda f: smallmm.Group.from_frame([1], "id"),
                TypeError,
                "Group.from_frame: frame is a list",
            ),
            (
                lambda f: smallmm.Group.from_frame(f["x"], "id"),
                TypeError,
                "frame is a .*(Series|Array)",
            ),
            (
                lambda f: smallmm.Group.from_frame(f, "id", ["s"]),
                TypeError,
                "column 's' has dtype",
            ),
            (lambda f: smallmm.Group.from_frame(f, "id", ["none"]), Exception, "none"),
            (lambda f: smallmm.Group.from_frame(f, "none", ["x"]), Exception, "none"),
            (lambda f: smallmm.Group([np.eye(2)]).to_frame(), TypeError, "the group has no keys"),
        ],
    )
    def test_what_is_refused(self, frame_of, call, error, message):
        with pytest.raises(error, match=message):
            call(frame_of({"id": [1, 2], "x": [1.0, 2.0], "s": ["p", "q"]}))


def test_frames_are_matrices(frame_of):
    a = frame_of({"x": [2.0, 1.0], "y": [1.0, 3.0]})
    np.testing.assert_allclose(smallmm.solve(a, [3.0, 4.0]), [1, 1], rtol=1e-15)
    np.testing.assert_array_equal(smallmm.cov(a), smallmm.cov([[2.0, 1.0], [1.0, 3.0]]))
    column = a["x"]
    assert smallmm.vecdot(column, column) == 5


class TestMissing:
    @pytest.mark.parametrize(
        ("kind", "dtype"),
        [
            ("Int64", "f8"),
            ("Float64", "f8"),
            ("Float32", "f4"),
            ("boolean", "f8"),
            ("int8[pyarrow]", "f8"),
            ("double[pyarrow]", "f8"),
            ("float[pyarrow]", "f4"),
            ("bool[pyarrow]", "f8"),
        ],
    )
    def test_extension_types_of_pandas(self, kind, dtype):
        pd = pytest.importorskip("pandas")
        if "pyarrow" in kind:
            pytest.importorskip("pyarrow")
        whole, part = pd.Series([1, 0, 1], dtype=kind), pd.Series([1, None, 0], dtype=kind)
        values = library_of(whole).values(whole)
        assert values.dtype == whole.dtype.numpy_dtype
        assert values.tolist() == [1, 0, 1]
        values = library_of(part).values(part)
        assert values.dtype == dtype
        np.testing.assert_array_equal(values, [1, np.nan, 0])
        frame = pd.DataFrame({"a": whole, "b": part})
        values = library_of(frame).values(frame)
        assert values.dtype.kind == "f"
        np.testing.assert_array_equal(values, [[1, 1], [0, np.nan], [1, 0]])
        assert smallmm.vecdot(whole, np.ones(3)) == 2

    def test_polars(self):
        pl = pytest.importorskip("polars")
        frame = pl.DataFrame({"a": [1, None, 3], "b": [True, None, False]})
        np.testing.assert_array_equal(library_of(frame).values(frame), [[1, 1], [np.nan, np.nan], [3, 0]])
        with pytest.raises(TypeError, match=r"call its collect\(\)"):
            smallmm.cov(frame.lazy())

    def test_pyarrow(self):
        pa = pytest.importorskip("pyarrow")
        table = pa.table({"a": [1, None, 3], "b": [True, None, False]})
        np.testing.assert_array_equal(library_of(table).values(table), [[1, 1], [np.nan, np.nan], [3, 0]])
        assert library_of(table).values(pa.array([True, False])).dtype == bool

    def test_nan_spoils_its_own_group_only(self, frame_of):
        frame = frame_of(
            {"id": [1, 1, 1, 2, 2, 2], "x": [1.0, float("nan"), 2, 1, 2, 4], "y": [1.0, 2, 3, 0, 1, 0]}
        )
        c = smallmm.cov(smallmm.Group.from_frame(frame, by="id", columns=["x", "y"]))
        assert np.isnan(c[0][0, 0])
        assert np.isfinite(c[1]).all()
