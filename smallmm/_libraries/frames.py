"""Data frames of pandas and polars, tables of pyarrow, and their columns. Their values are taken, as
numpy.linalg does: pandas would align the operands' labels, and attach them to the result."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .base import type_name
from .numpy import NumPy

Grouped = tuple[Any, np.ndarray, np.ndarray]

_ROW = "smallmm: number of the row"  # a column that frames are given


class Frames(NumPy):
    """What `Group.from_frame` asks of a library. Names of columns are its own."""

    def column(self, x: Any) -> np.ndarray:
        """The values of one column, without objects where they are numbers. Missing ones are NaN."""
        raise NotImplementedError

    def names(self, frame: Any) -> list[Any]:
        return list(frame.columns)

    def is_frame(self, x: Any) -> bool:
        raise NotImplementedError

    def values(self, x: Any) -> np.ndarray:
        """A frame's columns side by side, in one dtype; of anything else its values."""
        if not self.is_frame(x):
            return self.column(x)
        columns = [self.column(self.of(x, i)) for i in range(len(self.names(x)))]
        return np.stack(columns, axis=-1) if columns else np.empty((len(x), 0))

    def of(self, frame: Any, i: int) -> Any:
        """The i-th column."""
        return frame[self.names(frame)[i]]

    def columns(self, frame: Any, by: Any, columns: Any) -> np.ndarray:
        names = self.names(frame)
        if columns is None:
            keys = by if isinstance(by, list) else [by]
            columns = [name for name in names if not any(name is key or name == key for key in keys)]
        one = not isinstance(columns, list)
        values = [self._numbers(frame, name) for name in ([columns] if one else columns)]
        if one:
            return values[0]
        return np.stack(values, axis=-1) if values else np.empty((len(frame), 0))

    def _numbers(self, frame: Any, name: Any) -> np.ndarray:
        values = self.column(frame[name])
        if values.dtype.kind not in "fciub":
            raise TypeError(
                f"Group.from_frame: column {name!r} has dtype {values.dtype}; expected numbers: name "
                "the columns that have some"
            )
        return values


class Pandas(Frames):
    def is_frame(self, x: Any) -> bool:
        return hasattr(x, "columns") and hasattr(x, "dtypes")

    def of(self, frame: Any, i: int) -> Any:
        return frame.iloc[:, i]  # names may be there twice

    def values(self, x: Any) -> np.ndarray:
        if self.is_frame(x) and any(hasattr(dtype, "numpy_dtype") for dtype in x.dtypes):
            return super().values(x)
        return np.asarray(x) if self.is_frame(x) else self.column(x)

    def column(self, x: Any) -> np.ndarray:
        """Extension types know NumPy's dtype of theirs: that, or one with NaN if values are missing."""
        dtype = getattr(getattr(x, "dtype", None), "numpy_dtype", None)
        if dtype is None or dtype.kind not in "fiub":
            return np.asarray(x)
        missing = x.isna().any()
        target = np.result_type(dtype, np.float16 if dtype.kind == "f" else np.float64) if missing else dtype
        return x.to_numpy(dtype=target, na_value=np.nan) if missing else x.to_numpy(dtype=target)

    def grouped(self, frame: Any, by: Any) -> Grouped:
        if not self.is_frame(frame):
            return super().grouped(frame, by)
        groups = frame.groupby(by, sort=True, observed=True)
        numbers = groups.ngroup().to_numpy()  # -1 where a key is missing
        rows = np.argsort(numbers, kind="stable")
        rows = rows[np.count_nonzero(numbers < 0) :]
        keys = groups.size().index
        return keys, rows, np.bincount(numbers[rows], minlength=len(keys))

    def framed(self, keys: Any, counts: np.ndarray, values: np.ndarray, columns: Any) -> Any:
        return sys.modules["pandas"].DataFrame(values, index=keys.repeat(counts), columns=columns)


class Polars(Frames):
    def is_frame(self, x: Any) -> bool:
        return hasattr(x, "group_by") and hasattr(x, "get_column")

    def column(self, x: Any) -> np.ndarray:
        if not hasattr(x, "to_numpy"):
            raise TypeError(f"{type_name(x)} has no values yet; call its collect()")
        if x.dtype == sys.modules["polars"].Boolean and x.null_count():
            x = x.cast(sys.modules["polars"].Float64)
        return np.asarray(x.to_numpy())

    def grouped(self, frame: Any, by: Any) -> Grouped:
        if not self.is_frame(frame):
            return super().grouped(frame, by)
        names = list(by) if isinstance(by, list) else [by]
        keyed = frame.select(names).with_row_index(_ROW).drop_nulls()
        groups = keyed.group_by(names).agg(_ROW).sort(names)
        rows = groups.get_column(_ROW)
        return groups.select(names), rows.explode().to_numpy(), rows.list.len().to_numpy().astype(np.intp)

    def framed(self, keys: Any, counts: np.ndarray, values: np.ndarray, columns: Any) -> Any:
        names = columns or [f"column_{i}" for i in range(values.shape[1])]
        repeated = keys[np.repeat(np.arange(len(counts)), counts)]
        return repeated.with_columns(sys.modules["polars"].DataFrame(values, schema=list(names)))


class PyArrow(Frames):
    def is_frame(self, x: Any) -> bool:
        return hasattr(x, "column_names") and hasattr(x, "append_column")

    def names(self, frame: Any) -> list[Any]:
        return list(frame.column_names)

    def of(self, frame: Any, i: int) -> Any:
        return frame.column(i)

    def column(self, x: Any) -> np.ndarray:
        pa = sys.modules["pyarrow"]
        if pa.types.is_boolean(x.type):  # bits
            x = x.cast(pa.uint8())
            return self.column(x) if x.null_count else self.column(x).astype(bool)
        if isinstance(x, pa.ChunkedArray):
            return np.asarray(x.to_numpy())
        return np.asarray(x.to_numpy(zero_copy_only=False))

    def grouped(self, frame: Any, by: Any) -> Grouped:
        pa = sys.modules["pyarrow"]
        if not isinstance(frame, pa.Table):
            return super().grouped(frame, by)
        names = list(by) if isinstance(by, list) else [by]
        keyed = frame.select(names).append_column(_ROW, pa.array(np.arange(len(frame)))).drop_null()
        groups = (
            keyed.group_by(names).aggregate([(_ROW, "list")]).sort_by([(name, "ascending") for name in names])
        )
        rows = groups.column(f"{_ROW}_list").combine_chunks()
        counts = rows.value_lengths().to_numpy(zero_copy_only=False).astype(np.intp)
        return groups.select(names), rows.flatten().to_numpy(), counts

    def framed(self, keys: Any, counts: np.ndarray, values: np.ndarray, columns: Any) -> Any:
        table = keys.take(np.repeat(np.arange(len(counts)), counts))
        names = columns or [f"column_{i}" for i in range(values.shape[1])]
        for name, x in zip(names, values.T, strict=True):
            table = table.append_column(name, sys.modules["pyarrow"].array(np.ascontiguousarray(x)))
        return table
