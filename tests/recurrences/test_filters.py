"""Kalman filters and smoothers against loops of NumPy, one series at a time."""

import numpy as np
import pytest

import smallmm

FORMS = ("standard", "joseph", "square_root")
NAMES = ("z", "x0", "p0", "f", "h", "q", "r")


def drawn(rng, times, batch, n, m, varying="", some_missing=False):
    """Arguments of a stable model."""

    def covariances(lead, k):
        a = rng.standard_normal((*lead, k, k))
        return a @ a.mT / k + 0.1 * np.eye(k)

    def lead(name):
        return (times, *batch) if name in varying else ()

    z = rng.standard_normal((times, *batch, m))
    if some_missing:
        z[rng.random(z.shape) < 0.3] = np.nan
    return {
        "z": z,
        "x0": rng.standard_normal((*batch, n)),
        "p0": covariances(batch, n),
        "f": 0.9 * np.eye(n) + 0.1 * rng.standard_normal((*lead("f"), n, n)),
        "h": rng.standard_normal((*lead("h"), m, n)),
        "q": covariances(lead("q"), n),
        "r": covariances(lead("r"), m),
    }


def of_series(given, control, at, varying):
    """The arguments of one series, with time first in all models."""
    times = len(given["z"])
    own = {name: given[name][(slice(None), *at)] for name in ("z", *varying)}
    own |= {name: given[name][at] for name in ("x0", "p0")}
    for name in set("fhqr") - set(varying):
        own[name] = np.broadcast_to(given[name], (times, *given[name].shape))
    own["u"] = np.zeros((times, own["x0"].size)) if control is None else control[(slice(None), *at)]
    return own


def by_loop(z, x0, p0, f, h, q, r, u):
    """x, p, loglik, and x and p smoothed, in the words of the textbook."""
    x, p, loglik, found = x0, p0, 0.0, []
    for t in range(len(z)):
        x, p = f[t] @ x + u[t], f[t] @ p @ f[t].T + q[t]
        there = ~np.isnan(z[t])
        seen = h[t][there]
        s, v = seen @ p @ seen.T + r[t][np.ix_(there, there)], z[t][there] - seen @ x
        gain = p @ seen.T @ np.linalg.inv(s)
        x, p = x + gain @ v, p - gain @ s @ gain.T
        loglik -= 0.5 * (v @ np.linalg.solve(s, v) + np.linalg.slogdet(s)[1] + len(v) * np.log(2 * np.pi))
        found.append((x, p))
    smoothed = found[-1:]
    for t in range(len(z) - 2, -1, -1):
        (x, p), (later_x, later_p) = found[t], smoothed[0]
        predicted = f[t + 1] @ p @ f[t + 1].T + q[t + 1]
        gain = p @ f[t + 1].T @ np.linalg.inv(predicted)
        x = x + gain @ (later_x - f[t + 1] @ x - u[t + 1])
        smoothed.insert(0, (x, p + gain @ (later_p - predicted) @ gain.T))
    return (
        *(np.array(a) for a in zip(*found, strict=True)),
        loglik,
        *map(np.array, zip(*smoothed, strict=True)),
    )


def compare(given, control, varying, result, rtol=1e-9):
    for at in np.ndindex(given["z"].shape[1:-1]):
        x, p, loglik, smoothed_x, smoothed_p = by_loop(**of_series(given, control, at, varying))
        own = (slice(None), *at)
        close = {"rtol": rtol, "atol": rtol}
        np.testing.assert_allclose(result.x[own], x, **close)
        np.testing.assert_allclose(result.p[own], p, **close)
        np.testing.assert_allclose(result.loglik[at], loglik, **close)
        np.testing.assert_allclose(result.smoothed.x[own], smoothed_x, **close)
        np.testing.assert_allclose(result.smoothed.p[own], smoothed_p, **close)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("varying", "missing"), [("", False), ("fhqr", True), ("hr", False), ("fq", True)])
@pytest.mark.parametrize("batch", [(), (3, 2)])
def test_filters_are_those_of_a_loop(rng, form, varying, missing, batch):
    given = drawn(rng, 7, batch, 4, 2, varying, missing)
    control = rng.standard_normal((7, *batch, 4)) if varying else None
    options = {"form": form, "varying": varying, "control": control, "missing": missing}
    result = smallmm.kalman_filter(**given, **options, smooth=True)
    assert (result.x.dtype, result.loglik.dtype, result.loglik.shape) == (np.float64, np.float64, batch)
    compare(given, control, varying, result)
    last = smallmm.kalman_filter(**given, **options, outputs="last", loglik=False)
    np.testing.assert_array_equal(last.x, result.x[-1])
    np.testing.assert_allclose(last.p, result.p[-1], rtol=1e-13)
    assert last.loglik is None
    assert last.smoothed is None
    smoothed = smallmm.rts_smoother(
        result.x, result.p, given["f"], given["q"], control=control, varying=set(varying) & set("fq")
    )
    np.testing.assert_allclose(smoothed.p, result.smoothed.p, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_tensors(torch, rng, form):
    given = drawn(rng, 6, (5,), 3, 2, "f", some_missing=True)
    options = {"form": form, "varying": "f", "missing": True, "smooth": True}
    expected = smallmm.kalman_filter(**given, **options)
    found = smallmm.kalman_filter(**{k: torch.from_numpy(x) for k, x in given.items()}, **options)
    for x, y in zip((*found[:3], *found.smoothed), (*expected[:3], *expected.smoothed), strict=True):
        assert isinstance(x, torch.Tensor)
        np.testing.assert_array_equal(x, y)


def test_likelihood_has_a_gradient(torch, rng):
    given = {name: torch.from_numpy(x) for name, x in drawn(rng, 5, (3,), 2, 1).items()}

    def loglik(scale):
        return smallmm.kalman_filter(**{**given, "q": scale * given["q"]}).loglik.sum()

    scale = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    loglik(scale).backward()
    by_difference = (loglik(1 + 1e-6) - loglik(1 - 1e-6)) / 2e-6
    np.testing.assert_allclose(scale.grad, by_difference, rtol=1e-6)


def test_nothing_measured_changes_nothing(rng):
    given = drawn(rng, 4, (), 3, 2)
    given["z"][:] = np.nan
    for form in FORMS:
        result = smallmm.kalman_filter(**given, form=form, missing=True)
        assert result.loglik == 0
        x, p = given["x0"], given["p0"]
        for t in range(4):
            x, p = given["f"] @ x, given["f"] @ p @ given["f"].T + given["q"]
            np.testing.assert_allclose(result.x[t], x, rtol=1e-12)
            np.testing.assert_allclose(result.p[t], p, rtol=1e-12)


def accurate_positions(step, reverse, dtype):
    """Positions within 1e-4 of bodies of which nothing is known: p of 1e6, r of 1e-8."""
    order = slice(None, None, -1 if reverse else 1)
    f, h = np.array([[1.0, step], [0.0, 1.0]])[order, order], np.array([[1.0, 0.0]])[:, order]
    q = 1e-6 * np.array([[step**4 / 4, step**3 / 2], [step**3 / 2, step**2]])[order, order]
    z = (3 + 0.5 * step * np.arange(50.0))[:, None] + 1e-4 * np.random.default_rng(1).standard_normal((50, 1))
    arrays = (z, np.zeros(2), 1e6 * np.eye(2), f, h, q, np.array([[1e-8]]))
    return [a.astype(dtype) for a in arrays]


@pytest.mark.parametrize("step", [0.1, 0.2, 0.3, 0.5, 1, 2, 3])
@pytest.mark.parametrize("reverse", [False, True])
def test_roots_keep_accurate_measurements_in_float32(step, reverse):
    """Of orders of the state, and q of rank one. float64 is the reference."""
    found, exact = (
        smallmm.kalman_filter(*accurate_positions(step, reverse, dtype), form="square_root", smooth=True)
        for dtype in ("f4", "f8")
    )
    for p, reference in ((found.p, exact.p), (found.smoothed.p, exact.smoothed.p)):
        w = np.linalg.eigvalsh(p.astype("f8"))
        assert (w[:, 0] > 0).all()
        most = np.abs(reference).max((1, 2))
        assert (np.abs(p - reference).max((1, 2)) / most).max() < 1e-4
    assert np.abs(found.x - exact.x).max() < 1e-4


def test_the_standard_form_loses_them():
    """If this fails, the other forms are no longer needed."""
    with pytest.raises(smallmm.LinAlgError, match="kalman_filter: the innovation covariance"):
        smallmm.kalman_filter(*accurate_positions(2.0, False, "f4"))


@pytest.mark.parametrize("form", FORMS)
def test_steps_are_those_of_the_filter(rng, form):
    given = drawn(rng, 5, (4,), 3, 2, some_missing=True)
    result = smallmm.kalman_filter(**given, form=form, missing=True)
    x, p, *model = (given[name] for name in ("x0", "p0", "f", "h", "q", "r"))
    if form == "square_root":
        p, model[2:] = np.linalg.cholesky(p), map(np.linalg.cholesky, model[2:])
    for t, z in enumerate(given["z"]):
        x, p = smallmm.kalman_step(x, p, z, *model, form=form, missing=True)
        np.testing.assert_allclose(result.x[t], x, rtol=1e-12, atol=1e-12)
        covariance = p @ p.mT if form == "square_root" else p
        np.testing.assert_allclose(result.p[t], covariance, rtol=1e-12, atol=1e-12)


def test_no_times(rng):
    result = smallmm.kalman_filter(**drawn(rng, 0, (3,), 2, 1), smooth=True)
    assert result.x.shape == result.smoothed.x.shape == (0, 3, 2)
    assert not result.loglik.any()


def test_one_bad_series(rng):
    given = drawn(rng, 6, (4,), 2, 1, "r")
    given["r"][3, 2] = -1e3
    with pytest.raises(
        smallmm.LinAlgError, match=r"kalman_filter: .* in 1 of 4 .*time 3 was the first"
    ) as error:
        smallmm.kalman_filter(**given, varying="r")
    np.testing.assert_array_equal(error.value.time, [-1, -1, 3, -1])


@pytest.mark.parametrize("form", FORMS)
def test_the_same_measurement_twice_without_noise(form):
    """The others go on; what it says is in the exception."""
    h = np.zeros((3, 2, 2))
    h[:, :, 0] = 1
    h[1] = np.eye(2)
    z, eye = np.ones((4, 3, 2)), np.eye(2)
    with pytest.raises(smallmm.LinAlgError, match=r"kalman_filter: the innovation .* in 2 of 3 .* 1 is") as e:
        smallmm.kalman_filter(z, np.zeros(2), eye, eye, h, 3 * eye, 0 * eye, form=form)
    np.testing.assert_array_equal(e.value.info, [2, 0, 2])
    np.testing.assert_array_equal(e.value.time, [0, -1, 0])
    x, p, loglik, _ = e.value.result
    for found in (x.sum((0, 2)), p.sum((0, 2, 3)), loglik):
        np.testing.assert_array_equal(np.isnan(found), [True, False, True])


def test_one_filter_smoothed_by_several_models(rng):
    x, f = rng.standard_normal((6, 2)), 0.5 * rng.standard_normal((3, 2, 2))
    p = np.tile(np.eye(2), (6, 1, 1))
    found = smallmm.rts_smoother(x, p, f, np.eye(2))
    for i in range(3):
        expected = smallmm.rts_smoother(x, p, f[i], np.eye(2))
        np.testing.assert_array_equal(found.x[:, i], expected.x)
        np.testing.assert_array_equal(found.p[:, i], expected.p)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("missing", [False, True])
def test_roots_notice_what_rounding_hides(rng, dtype, missing):
    """Whatever the prediction; but not where r makes the measurements differ, as little as it may be."""
    z = np.ones((50, 3))
    z[:, 1] = np.nan if missing else 1
    f, h = rng.standard_normal((50, 4, 4)), rng.standard_normal((50, 3, 4))
    h[:, 2] = h[:, 0]
    p = np.eye(4) + np.tril(rng.standard_normal((50, 4, 4)))
    arrays = [x.astype(dtype) for x in (np.zeros(4), p, z, f, h, np.eye(4), np.zeros((3, 3)))]
    assert smallmm.kalman_step.ex(*arrays, form="square_root", missing=missing).info.all()
    arrays[-1] = (1e-5 * np.eye(3)).astype(dtype)
    assert not smallmm.kalman_step.ex(*arrays, form="square_root", missing=missing).info.any()
    h = np.array([[1.0, 0.0], [1.0, 0.0]])
    for noise in (1e-4, 1e-10):
        arrays = np.zeros(2), 1e3 * np.eye(2), np.ones(2), np.eye(2), h, 0 * np.eye(2), noise * np.eye(2)
        assert smallmm.kalman_step.ex(*(x.astype(dtype) for x in arrays), form="square_root").info == 0


def test_bad_arguments(rng):
    given = drawn(rng, 5, (3,), 4, 2)
    call = smallmm.kalman_filter
    with pytest.raises(ValueError, match=r"kalman_filter: varying is 'g'; expected names among 'f', 'h'"):
        call(**given, varying="g")
    with pytest.raises(ValueError, match=r"kalman_filter: z has 5, f has 4 times; expected as many"):
        call(**{**given, "f": np.zeros((4, 4, 4))}, varying="f")
    with pytest.raises(ValueError, match=r"kalman_filter: form is 'ukf'; expected 'standard'"):
        call(**given, form="ukf")
    with pytest.raises(ValueError, match=r"kalman_filter: h has shape \(2, 3\); expected \(..., 2, 4\)"):
        call(**{**given, "h": np.zeros((2, 3))})
    with pytest.raises(ValueError, match=r"smooth is True and outputs is 'last'"):
        call(**given, smooth=True, outputs="last")
    with pytest.raises(ValueError, match=r"kalman_filter: outputs is 'first'"):
        call(**given, outputs="first")
    with pytest.raises(ValueError, match=r"kalman_filter: z has shape \(5,\); expected \(T, ..., m\)"):
        call(**{**given, "z": np.zeros(5)})
    with pytest.raises(ValueError, match=r"kalman_filter: f has shape \(4, 4\); expected \(T, ..., n, n\)"):
        call(**given, varying="f")
    with pytest.raises(smallmm.LinAlgError, match="kalman_filter: q is not positive semidefinite"):
        call(**{**given, "q": -given["q"]}, form="square_root")
    with pytest.raises(TypeError, match="kalman_filter of complex numbers"):
        call(**{**given, "z": given["z"] + 0j})
    with pytest.raises(ValueError, match=r"rts_smoother: x has 5, p has 4 times"):
        smallmm.rts_smoother(np.zeros((5, 2)), np.zeros((4, 2, 2)), np.eye(2), np.eye(2))
    with pytest.raises(ValueError, match=r"kalman_step: form is 1; expected"):
        smallmm.kalman_step(
            *(
                given[name][0] if name == "z" else given[name]
                for name in ("x0", "p0", "z", "f", "h", "q", "r")
            ),
            form=1,
        )
