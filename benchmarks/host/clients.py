"""What patching NumPy gives programs that call other libraries, unchanged: the table of docs/patch.md.

    pip install simdkalman pymanopt pyriemann filterpy geomstats statsmodels scikit-learn scikit-image dipy
    export SMALLMM_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
    python -m benchmarks.host.clients [job ...]

Each job is timed without and with the patch in turn, in one process; of both the fastest time counts, so that
it may run beside other work. `share` is the part of its time that NumPy spends in the loops that are
exchanged. A library that is not installed, or does not work with this NumPy, is left out. Rows are written to
results/host/ unless jobs are named.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version

import numpy as np

import smallmm
from smallmm import _core
from smallmm._tools import bench, timing

from .. import records
from .machine import machine

Job = Callable[[], object]
NEVER = 2**40
TURNS, SECONDS = 15, 12.0  # at most so many bursts of each, and so long
BURST = 0.03  # seconds: patching itself leaves caches cold


def covariances(rng: np.random.Generator, count: int, n: int) -> np.ndarray:
    x = rng.standard_normal((count, n, 4 * n))
    return x @ x.mT / (4 * n)


def kalman_of_many_series(rng: np.random.Generator) -> Job:
    simdkalman = import_module("simdkalman")
    filters = simdkalman.KalmanFilter(
        state_transition=np.array([[1, 1], [0, 1]]),
        process_noise=np.diag([0.1, 0.01]),
        observation_model=np.array([[1, 0]]),
        observation_noise=1.0,
    )
    data = rng.standard_normal((2000, 100)).cumsum(1)
    return lambda: filters.smooth(data)


def kalman_of_one_series(rng: np.random.Generator) -> Job:
    kalman = import_module("filterpy.kalman")
    data = rng.standard_normal((1000, 2, 1)).cumsum(0)

    def job() -> object:
        f = kalman.KalmanFilter(dim_x=4, dim_z=2)
        f.F = np.eye(4) + np.eye(4, k=2)
        f.H, f.Q = np.eye(2, 4), 0.01 * np.eye(4)
        return f.batch_filter(data)

    return job


def centroid_on_manifold(rng: np.random.Generator) -> Job:
    manifolds = import_module("pymanopt.manifolds")
    manifold = manifolds.SymmetricPositiveDefinite(4, k=3000)
    x, y = covariances(rng, 3000, 4), covariances(rng, 3000, 4)

    def job() -> object:
        v = manifold.log(x, y)
        return manifold.exp(x, v), manifold.dist(x, y), manifold.norm(x, v)

    return job


def retractions_on_stiefel(rng: np.random.Generator) -> Job:
    manifolds = import_module("pymanopt.manifolds")
    manifold = manifolds.Stiefel(6, 3, k=3000)
    x = np.linalg.qr(rng.standard_normal((3000, 6, 3)))[0]
    z = rng.standard_normal((3000, 6, 3))
    return lambda: manifold.retraction(x, manifold.projection(x, z))


def riemannian_mean(rng: np.random.Generator) -> Job:
    mean = import_module("pyriemann.utils.mean")
    a = covariances(rng, 2000, 8)
    return lambda: mean.mean_riemann(a)


def tangent_space(rng: np.random.Generator) -> Job:
    space = import_module("pyriemann.tangentspace")
    a = covariances(rng, 2000, 8)
    return lambda: space.TangentSpace().fit_transform(a)


def geodesics_of_rotations(rng: np.random.Generator) -> Job:
    spd = import_module("geomstats.geometry.spd_matrices").SPDMatrices(3)
    a, b = covariances(rng, 3000, 3), covariances(rng, 3000, 3)
    return lambda: (spd.metric.dist(a, b), spd.metric.exp(spd.metric.log(a, b), b))


def vector_autoregression(rng: np.random.Generator) -> Job:
    var = import_module("statsmodels.tsa.api").VAR
    x = rng.standard_normal((400, 5)).cumsum(0)
    return lambda: var(x).fit(4).irf(20).stderr()


def dynamic_factor(rng: np.random.Generator) -> Job:
    tsa = import_module("statsmodels.tsa.api")
    x = rng.standard_normal((200, 4)).cumsum(0)
    model = tsa.DynamicFactor(x, k_factors=1, factor_order=1)
    return lambda: model.loglike(model.start_params)


def gaussian_mixture(rng: np.random.Generator) -> Job:
    mixture = import_module("sklearn.mixture")
    x = rng.standard_normal((4000, 4)) + rng.integers(0, 8, (4000, 1))
    return lambda: mixture.GaussianMixture(8, random_state=0, max_iter=20, tol=0).fit(x)


def discriminants(rng: np.random.Generator) -> Job:
    analysis = import_module("sklearn.discriminant_analysis")
    x, y = rng.standard_normal((2000, 8)), rng.integers(0, 50, 2000)
    return lambda: analysis.LinearDiscriminantAnalysis().fit(x, y).predict(x)


def structure_tensor(rng: np.random.Generator) -> Job:
    feature = import_module("skimage.feature")
    volume = rng.standard_normal((40, 40, 40))
    return lambda: feature.structure_tensor_eigenvalues(feature.structure_tensor(volume))


def diffusion_tensors(rng: np.random.Generator) -> Job:
    gradients, dti = import_module("dipy.core.gradients"), import_module("dipy.reconst.dti")
    directions = rng.standard_normal((33, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    values = np.r_[0, np.full(32, 1000.0)]
    directions[0] = 0
    table = gradients.gradient_table(values, bvecs=directions)
    signal = 100 * np.exp(-rng.random((20, 20, 20, 33)))
    return lambda: dti.TensorModel(table).fit(signal).fa


JOBS: dict[str, tuple[str, str, Callable[[np.random.Generator], Job]]] = {
    "smooth": ("simdkalman", "smooth 2,000 series of 100 steps", kalman_of_many_series),
    "filter": ("filterpy", "filter one series of 1,000 steps", kalman_of_one_series),
    "spd": ("pymanopt", "3,000 of 4 x 4: log, exp, dist, norm", centroid_on_manifold),
    "stiefel": ("pymanopt", "3,000 of 6 x 3: projection, retraction by QR", retractions_on_stiefel),
    "mean": ("pyriemann", "Riemannian mean of 2,000 of 8 x 8", riemannian_mean),
    "tangent": ("pyriemann", "tangent space of 2,000 of 8 x 8", tangent_space),
    "geodesics": ("geomstats", "3,000 of 3 x 3: distances, log, exp", geodesics_of_rotations),
    "var": ("statsmodels", "VAR(4) of 5 series, errors of its responses", vector_autoregression),
    "factor": ("statsmodels", "likelihood of a dynamic factor model", dynamic_factor),
    "mixture": ("scikit-learn", "GaussianMixture, 8 of 4 dimensions", gaussian_mixture),
    "lda": ("scikit-learn", "LDA, 50 classes of 8 dimensions", discriminants),
    "structure": ("scikit-image", "structure tensor of 40 x 40 x 40, eigenvalues", structure_tensor),
    "dti": ("dipy", "diffusion tensors of 20 x 20 x 20, anisotropy", diffusion_tensors),
}


def seconds(job: Job, repetitions: int = 1) -> float:
    """Of one of several runs."""
    return bench.clock()(job, repetitions) / 1e9


def share_of_loops(job: Job) -> float:
    """Of NumPy's exchanged loops, while they serve nothing."""
    _core.set_fewest(NEVER)
    try:
        with smallmm.patched("numpy"):
            _core.time_loops(True)
            whole = seconds(job)
            return _core.time_loops(False) / whole
    finally:
        _core.set_fewest(0)


def measured(job: Job) -> dict[str, float]:
    seconds(job)
    repetitions = max(1, int(BURST / seconds(job)))
    with smallmm.patched("numpy"):
        seconds(job)
        report = smallmm.patch_report()
    plain, ours, left = [], [], timing.seconds_left(SECONDS)
    while len(plain) < TURNS and (len(plain) < 3 or left()):
        plain.append(seconds(job, repetitions))
        with smallmm.patched("numpy"):
            ours.append(seconds(job, repetitions))
    return {
        "share": round(float(np.median([share_of_loops(job) for _ in range(3)])), 3),
        "served": report.served,
        "handed_on": report.handed_on,
        "numpy_ms": round(1e3 * min(plain), 3),
        "patched_ms": round(1e3 * min(ours), 3),
    }


def main(names: list[str]) -> None:
    about = machine()
    run = records.Run(
        records.RESULTS / "host" / f"clients-{about['slug']}-patched.json", about, records.commit()
    )
    for name, (library, what, make) in JOBS.items():
        if names and name not in names:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                job = make(np.random.default_rng(0))
            except ImportError as missing:
                print(f"{name}: {missing}")
                continue
            row = run.add(
                {"job": name, "library": library, "what": what, "version": version(library)} | measured(job)
            )
        print(row, flush=True)
    if not names:
        run.rows = [row | {"numpy": np.__version__, "isa": _core.isa(), "threads": 1} for row in run.rows]
        run.write()


if __name__ == "__main__":
    main(sys.argv[1:])
