"""Hidden Markov models of many series, in logarithms."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._programs.compose import cast, in_one_dtype, namespace_of
from .._programs.fuse import fuse
from .parts import arguments_of, in_parts, needs_parts
from .scans import in_time, scanned, zeros_like

_CORES = {"log_initial": "k", "log_transition": "k,k", "log_emission": "k"}


class HMMForwardResult(NamedTuple):
    """The logarithm of each series' likelihood, and those of the probabilities of states at each time, given
    what was observed until then."""

    loglik: Any
    log_filtered: Any


class HMMViterbiResult(NamedTuple):
    """The most likely states, and the logarithm of the probability of them and of what was observed."""

    path: Any
    log_probability: Any


def _log_sum(x: Any) -> Any:
    """``log(sum(exp(x)))`` of each column. Its largest element is subtracted first, if it is finite."""
    top = np.max(x, axis=0)
    top = np.where(np.isfinite(top), top, 0)
    return np.log(np.exp(x - top).sum(axis=0)) + top


@fuse("(k),(),(k),(k,k)->(k),(),(k)")
def _forward(predicted: Any, loglik: Any, log_emission: Any, log_transition: Any) -> Any:
    predicted, emission, transition = in_one_dtype("hmm_forward", (predicted, log_emission, log_transition))
    joint = predicted + emission
    total = _log_sum(joint)
    filtered = joint - np.where(np.isfinite(total), total, 0)
    return _log_sum(filtered[:, None] + transition), loglik + total, filtered


@fuse("(k),(),(k),(k,k)->(k),(),(k)")
def _scores(predicted: Any, best: Any, log_emission: Any, log_transition: Any) -> Any:
    predicted, emission, transition = in_one_dtype("hmm_viterbi", (predicted, log_emission, log_transition))
    scores = predicted + emission
    return np.max(scores[:, None] + transition, axis=0), np.max(scores), scores


@fuse("(k),(k),(k,k)->(k),()")
def _backward(to_next: Any, scores: Any, log_transition: Any) -> Any:
    """The first of the best states, and what each state adds on its way to it."""
    to_next, scores, transition = in_one_dtype("hmm_viterbi", (to_next, scores, log_transition))
    scores = scores + to_next
    places = np.arange(len(scores), dtype=scores.dtype)
    state = np.min(np.where(scores == np.max(scores), places, places[-1]))
    return np.max(np.where(places == state, transition, -np.inf), axis=1), state


for _step, _name in ((_forward, "hmm_forward"), (_scores, "hmm_viterbi"), (_backward, "hmm_viterbi")):
    _step.speak_as(_name)


def hmm_forward(
    log_initial: "ArrayLike", log_transition: "ArrayLike", log_emission: "ArrayLike"
) -> HMMForwardResult:
    """The forward algorithm of hidden Markov models: likelihoods, and states given what was observed so far.

    Parameters
    ----------
    log_initial : array_like, shape (..., k)
        The logarithms of the probabilities of the states at the first time.
    log_transition : array_like, shape (..., k, k)
        The logarithm of the probability that state i is followed by j, at ``[..., i, j]``.
    log_emission : array_like, shape (T, ..., k)
        The logarithm of the likelihood of what was observed at each time, in each state: time first.

    Returns
    -------
    HMMForwardResult
        ``loglik``, shape (...), float64: the logarithm of the likelihood of each series. ``log_filtered``,
        shape (T, ..., k): those of the probabilities of the states, given the observations until then. Batch
        dimensions broadcast.

    Raises
    ------
    ValueError, TypeError
        As `fuse`.

    See Also
    --------
    hmm_viterbi : the most likely states.
    scan : other recurrences.

    Notes
    -----
    All sums are of logarithms from which the largest was subtracted, so that nothing underflows. -inf is the
    logarithm of 0: it is allowed everywhere. A series that cannot be observed has loglik -inf.
    k^2 exponentials for each time and series, in one `scan`, which says how groups of series and Dask's
    arrays are taken.

    L. R. Rabiner, "A tutorial on hidden Markov models and selected applications in speech recognition"
    (1989).

    Examples
    --------
    Is it rainy or sunny, if someone walks, walks, and cleans?

    >>> initial, transition = np.log([0.6, 0.4]), np.log([[0.7, 0.3], [0.4, 0.6]])
    >>> emission = np.log([[0.1, 0.6], [0.1, 0.6], [0.5, 0.1]])  # of rain and of sun, at three times
    >>> found = smallmm.hmm_forward(initial, transition, emission)
    >>> np.exp(found.loglik).round(6), np.exp(found.log_filtered[-1]).round(3)
    (np.float64(0.030516), array([0.795, 0.205]))
    """
    name = "hmm_forward"
    moving = {"log_emission": log_emission}
    fixed = {"log_initial": log_initial, "log_transition": log_transition}
    if needs_parts((*moving.values(), *fixed.values())):
        arguments = arguments_of(moving, fixed, _CORES)
        parted: HMMForwardResult = in_parts(name, hmm_forward, arguments, (False, True))
        return parted
    xs = in_time(name, moving, _CORES)
    carry = (log_initial, np.zeros(()))
    last, filtered = scanned(name, _forward, carry, tuple(xs.values()), (log_transition,))
    return HMMForwardResult(last[1], filtered)


def hmm_viterbi(
    log_initial: "ArrayLike", log_transition: "ArrayLike", log_emission: "ArrayLike"
) -> HMMViterbiResult:
    """The most likely states of hidden Markov models, by the algorithm of Viterbi.

    Parameters
    ----------
    log_initial, log_transition, log_emission : array_like
        As of `hmm_forward`.

    Returns
    -------
    HMMViterbiResult
        ``path``, shape (T, ...), int64, of arrays of `smallmm.cuda` int32: the states of the most likely path
        of each series, of equal ones the lower state at the later time. ``log_probability``, shape (...): the
        logarithm of the probability of path and observations. Batch dimensions broadcast.

    Raises
    ------
    ValueError, TypeError
        As `fuse`.

    See Also
    --------
    hmm_forward : likelihoods, and the probabilities of states.

    Notes
    -----
    A scan forward keeps T k scores of each series, and one backward finds the states from them: no pointers
    are kept, so that the second one compares k^2 numbers at each time again. 3 k^2 operations for each time
    and series. Where scores are NaN, paths mean nothing. Groups of series, and Dask's arrays, are taken as by
    `scan`.

    A. J. Viterbi, "Error bounds for convolutional codes and an asymptotically optimum decoding algorithm"
    (1967).

    Examples
    --------
    >>> initial, transition = np.log([0.6, 0.4]), np.log([[0.7, 0.3], [0.4, 0.6]])
    >>> emission = np.log([[0.1, 0.6], [0.4, 0.3], [0.5, 0.1]])
    >>> path, log_probability = smallmm.hmm_viterbi(initial, transition, emission)
    >>> path, np.exp(log_probability).round(5)
    (array([1, 0, 0]), np.float64(0.01344))
    """
    name = "hmm_viterbi"
    moving = {"log_emission": log_emission}
    fixed = {"log_initial": log_initial, "log_transition": log_transition}
    if needs_parts((*moving.values(), *fixed.values())):
        arguments = arguments_of(moving, fixed, _CORES)
        parted: HMMViterbiResult = in_parts(name, hmm_viterbi, arguments, (True, False))
        return parted
    xs = in_time(name, moving, _CORES)
    last, scores = scanned(name, _scores, (log_initial, 0.0), tuple(xs.values()), (log_transition,))
    path = scanned(name, _backward, zeros_like(last[0]), (scores,), (log_transition,), reverse=True).ys
    path = cast(namespace_of(path), path, "int64")
    return HMMViterbiResult(path, last[1])
