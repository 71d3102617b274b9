"""How JAX promotes while smallmm's own code runs on its arrays."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def own_promotion() -> Iterator[None]:
    """Compositions and rules of derivatives may mix ranks and dtypes as in NumPy, also where the code of the
    caller may not (jax_numpy_rank_promotion, jax_numpy_dtype_promotion)."""
    import jax

    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield
