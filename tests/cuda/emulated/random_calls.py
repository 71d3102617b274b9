"""Host and emulated GPU on calls that nobody chose: see ../differential.py, whose options this takes."""

import os
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

import differential  # noqa: E402

from smallmm import _core, cuda  # noqa: E402

if __name__ == "__main__":
    cuda.device_name()  # tables and NVRTC are looked for once, so before others are named
    _core.cuda_configure(os.fsencode(os.environ["EMULATED_LIBRARY"]), b"")
    sys.exit(differential.main())
