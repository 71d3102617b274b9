"""Somebody in a notebook, with an image: principal directions of the gradients around every pixel."""

import numpy as np

import smallmm

rng = np.random.default_rng(0)
rows, columns = np.mgrid[:60, :80]
image = np.sin(0.4 * rows + 0.2 * columns) + 0.01 * rng.standard_normal(rows.shape)

# Structure tensors, 2 x 2, summed over windows of 5 x 5
gradients = np.stack(np.gradient(image), axis=-1)
windows = np.lib.stride_tricks.sliding_window_view(gradients, (5, 5), axis=(0, 1))
samples = windows.reshape(*windows.shape[:2], 2, 25)
tensors = samples @ samples.mT
assert np.allclose(smallmm.matmul(samples, samples.mT), tensors)

values, vectors = smallmm.eigh(tensors)
main = vectors[..., -1]
angle = np.degrees(np.arctan2(main[..., 1], main[..., 0])) % 180
print("median angle:", np.median(angle).round(1))
assert abs(np.median(angle) - np.degrees(np.arctan2(0.2, 0.4))) < 2

# How much longer than wide is each?
coherence = (values[..., 1] - values[..., 0]) / values.sum(axis=-1)
assert coherence.min() > 0.5
assert np.allclose(smallmm.det(tensors), values.prod(axis=-1))
assert np.allclose(smallmm.trace(tensors), values.sum(axis=-1))

# One matrix, a list of lists, integers, an empty batch
assert np.allclose(smallmm.inv([[2, 1], [1, 3]]), np.linalg.inv([[2, 1], [1, 3]]))
assert smallmm.inv(np.empty((0, 3, 3))).shape == (0, 3, 3)

# What if a neighbourhood is flat?
tensors[3, 4] = 0
try:
    smallmm.inv(tensors)
except np.linalg.LinAlgError as error:
    print(error)
    inverses = error.result
assert np.isnan(inverses[3, 4]).all()
assert np.isfinite(np.delete(inverses.reshape(-1, 2, 2), 3 * inverses.shape[1] + 4, axis=0)).all()


# And in one function?
@smallmm.fuse("(m,n)->(m)")
def largest(samples):
    return np.linalg.eigh(samples @ samples.T)[1][:, -1]


assert np.allclose(np.abs(largest(samples)), np.abs(vectors[..., -1]))
print(smallmm.explain("eigh", tensors))
