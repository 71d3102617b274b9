"""Calls that nobody chose, on the host: operands of any strides give the bits of dense ones. See
cuda/differential.py, which compares with a device, too, and takes new seeds."""

import pytest
from differential import Run


@pytest.mark.parametrize("seed", range(8))
def test_layouts(seed, capsys):
    run = Run("host", 1 / 3, 1 / 4, verbose=False)
    for shape in range(10):
        run.shape(1000 * seed + shape, 8)
    assert run.compared.total() > 20
    assert not run.wrong, capsys.readouterr().out
