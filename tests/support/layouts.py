"""The ways a stack of matrices may lie in memory: name -> function from a stack to an array of the same
shape and dtype that lies so. Memory between the elements is NaN, or the largest integer, so that a read of it
shows."""

import numpy as np


def _framed(x, shape, index):
    frame = np.full(shape, np.iinfo(x.dtype).max if x.dtype.kind in "iu" else np.nan, x.dtype)
    frame[index] = x
    return frame[index]


def _offset(x, nbytes):
    memory = np.empty(x.nbytes + nbytes, np.uint8)
    y = np.ndarray(x.shape, x.dtype, memory, nbytes)
    y[...] = x
    return y


def _sliced(x):
    batch, rows, cols = x.shape
    return _framed(x, (2 * batch, rows + 3, 2 * cols + 1), np.s_[::2, 1 : rows + 1, 1::2])


def _padded(x):
    batch, rows, cols = x.shape
    return _framed(x, (batch, rows, cols + 3), np.s_[:, :, 1 : cols + 1])


def _padded_transposed(x):
    return _padded(x.mT).mT


def _negative(x):
    return np.ascontiguousarray(x[::-1, ::-1, ::-1])[::-1, ::-1, ::-1]


WRITABLE = {
    "c": np.ascontiguousarray,
    "f": np.asfortranarray,
    "transposed": lambda x: np.ascontiguousarray(x.mT).mT,
    "padded": _padded,
    "padded transposed": _padded_transposed,
    "sliced": _sliced,
    "negative": _negative,
    "off by one element": lambda x: _offset(x, x.itemsize),
    "misaligned": lambda x: _offset(x, 1),
}
LAYOUTS = {**WRITABLE, "broadcast": lambda x: np.broadcast_to(x[:1], x.shape)}


def at_random(rng, x):
    """In an order of dimensions, with gaps and directions that are drawn."""
    order = rng.permutation(x.ndim)
    steps = rng.choice([-2, -1, 1, 1, 1, 3], x.ndim)
    shape = [x.shape[d] * abs(steps[d]) + int(rng.integers(2)) for d in order]
    index = tuple(slice(None, x.shape[d] * abs(steps[d]), abs(steps[d])) for d in order)
    y = _framed(x.transpose(order), shape, index) if x.ndim else x.copy()
    y = y.transpose(np.argsort(order))[tuple(slice(None, None, np.sign(step)) for step in steps)]
    y[...] = x
    return y
