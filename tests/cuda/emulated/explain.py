"""How the emulated GPU would run the inverse of orders 2 and 3, with the tuned rows of a folder."""

import json
import os
import sys
from pathlib import Path

import numpy as np
from run import OnDevice

from smallmm import _core, cuda
from smallmm._gpu import tuned

cuda.device_name()  # tables and NVRTC are looked for once, so before others are named
_core.cuda_configure(os.fsencode(os.environ["EMULATED_LIBRARY"]), b"")
_core.cuda_tune(tuned.load(Path(sys.argv[1])).rows)
for n in (2, 3):
    x = np.zeros((5000, n, n))
    operands = (x, np.zeros_like(x), np.zeros(len(x), np.int32))
    print(json.dumps(_core.explain(_core.device_run, _core.inv, 0, *map(OnDevice, operands))))
