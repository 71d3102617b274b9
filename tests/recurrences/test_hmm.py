"""Hidden Markov models against the sum over, and the best of, all sequences of states."""

from itertools import pairwise, product

import numpy as np
import pytest

import smallmm


def drawn(rng, times, batch, k, some_impossible=False):
    def logs(*shape):
        x = rng.random(shape) + 0.01
        if some_impossible:
            x[..., 1:][rng.random((*shape[:-1], shape[-1] - 1)) < 0.3] = 0
        with np.errstate(divide="ignore"):
            return np.log(x / x.sum(-1, keepdims=True))

    return logs(*batch, k), logs(k, k), logs(times, *batch, k)


def all_paths(initial, transition, emission):
    """The logarithm of the probability of each sequence of states, and of what was observed."""
    found = {}
    for path in product(range(len(initial)), repeat=len(emission)):
        steps = sum(transition[i, j] for i, j in pairwise(path))
        found[path] = initial[path[0]] + steps + sum(emission[t, i] for t, i in enumerate(path))
    return found


@pytest.mark.parametrize("some_impossible", [False, True])
@pytest.mark.parametrize("batch", [(), (4, 3)])
def test_all_paths(rng, batch, some_impossible):
    arrays = drawn(rng, 5, batch, 3, some_impossible)
    forward, viterbi = smallmm.hmm_forward(*arrays), smallmm.hmm_viterbi(*arrays)
    assert (viterbi.path.dtype, viterbi.path.shape) == (np.int64, (5, *batch))
    initial, transition, emission = arrays
    for at in np.ndindex(batch):
        own = (slice(None), *at)
        paths = all_paths(initial[at], transition, emission[own])
        values = np.array(list(paths.values()))
        np.testing.assert_allclose(forward.loglik[at], np.logaddexp.reduce(values), rtol=1e-12)
        np.testing.assert_allclose(viterbi.log_probability[at], values.max(), rtol=1e-12)
        np.testing.assert_allclose(paths[tuple(viterbi.path[own])], values.max(), rtol=1e-12)
        for t in range(5):
            joint = all_paths(initial[at], transition, emission[own][: t + 1])
            by_state = [
                np.logaddexp.reduce([x for path, x in joint.items() if path[-1] == i]) for i in range(3)
            ]
            found = by_state - np.logaddexp.reduce(list(joint.values()))
            np.testing.assert_allclose(forward.log_filtered[own][t], found, rtol=1e-11, atol=1e-12)


def test_long_series_do_not_underflow(rng):
    initial, transition, emission = drawn(rng, 5000, (7,), 4)
    arrays = initial, transition, emission - 2000
    forward, viterbi = smallmm.hmm_forward(*arrays), smallmm.hmm_viterbi(*arrays)
    alpha = initial + arrays[2][0]
    for e in arrays[2][1:]:
        alpha = np.logaddexp.reduce(alpha[:, :, None] + transition, axis=1) + e
    np.testing.assert_allclose(forward.loglik, np.logaddexp.reduce(alpha, axis=-1), rtol=1e-12)
    series = np.arange(7)
    score = initial[series, viterbi.path[0]] + arrays[2][0, series, viterbi.path[0]]
    for t in range(1, 5000):
        before, after = viterbi.path[t - 1], viterbi.path[t]
        score += transition[before, after] + arrays[2][t, series, after]
    np.testing.assert_allclose(viterbi.log_probability, score, rtol=1e-12)


def test_what_cannot_be_observed():
    arrays = np.log([0.5, 0.5]), np.log([[0.5, 0.5], [0.5, 0.5]]), np.full((3, 2), -np.inf)
    result = smallmm.hmm_forward(*arrays)
    assert result.loglik == -np.inf
    assert (result.log_filtered == -np.inf).all()
    result = smallmm.hmm_viterbi(*arrays)
    assert result.log_probability == -np.inf
    assert (result.path == 0).all()


def test_equal_paths_are_the_first():
    result = smallmm.hmm_viterbi(np.zeros(3), np.zeros((3, 3)), np.zeros((4, 3)))
    assert not result.path.any()


def test_tensors_and_float32(torch, rng):
    arrays = [x.astype("f4") for x in drawn(rng, 9, (5,), 4, some_impossible=True)]
    for function in (smallmm.hmm_forward, smallmm.hmm_viterbi):
        expected = function(*arrays)
        for x, y in zip(function(*map(torch.from_numpy, arrays)), expected, strict=True):
            np.testing.assert_array_equal(x, y)
    assert smallmm.hmm_forward(*arrays).log_filtered.dtype == np.float32
    np.testing.assert_allclose(
        smallmm.hmm_forward(*arrays).loglik,
        smallmm.hmm_forward(*(x.astype("f8") for x in arrays)).loglik,
        rtol=1e-5,
    )


def test_bad_arguments():
    with pytest.raises(ValueError, match=r"hmm_forward: log_transition has shape \(2, 3\); expected"):
        smallmm.hmm_forward(np.zeros(2), np.zeros((2, 3)), np.zeros((5, 2)))
    with pytest.raises(
        ValueError, match=r"hmm_viterbi: log_emission has shape \(5, 3\).*; expected|hmm_viterbi: log_"
    ):
        smallmm.hmm_viterbi(np.zeros(2), np.zeros((2, 2)), np.zeros((5, 3)))
    with pytest.raises(ValueError, match=r"hmm_viterbi: log_emission has shape \(\); expected \(T, ..., k\)"):
        smallmm.hmm_viterbi(np.zeros(2), np.zeros((2, 2)), 1.0)
