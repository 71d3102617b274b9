"""A kernel on the emulated GPU: `races.py TEXT`, what each of 64 threads does with `x` and `own` in shared
memory. Says "done"; a race ends it before."""

import ctypes
import os
import sys

KERNEL = """
struct Arguments { int *to; };
extern "C" __global__ void kernel(const __grid_constant__ Arguments args) {
    extern __shared__ __align__(16) int x[];
    __shared__ int own[64];
    const int i = threadIdx.x, of_warp = i %% 32;
    own[i] = x[i] = i;
    %s
    args.to[i] = x[i] + own[i];
}
"""


def main():
    gpu = ctypes.CDLL(os.environ["EMULATED_LIBRARY"])
    program, module, function = (ctypes.c_void_p() for _ in range(3))
    text = (KERNEL % sys.argv[1]).encode()
    assert not gpu.nvrtcCreateProgram(ctypes.byref(program), text, b"races", 0, None, None)
    if gpu.nvrtcCompileProgram(program, 0, None):
        log = ctypes.create_string_buffer(1 << 16)
        gpu.nvrtcGetProgramLog(program, log)
        raise SystemExit(log.value.decode())
    path = ctypes.create_string_buffer(4096)
    gpu.nvrtcGetCUBIN(program, path)
    assert not gpu.cuModuleLoadData(ctypes.byref(module), path)
    assert not gpu.cuModuleGetFunction(ctypes.byref(function), module, b"kernel")
    to = (ctypes.c_int * 64)()
    pointer = ctypes.c_void_p(ctypes.addressof(to))
    given = (ctypes.c_void_p * 1)(ctypes.addressof(pointer))
    assert not gpu.cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 256, None, given, None)
    print("done")


if __name__ == "__main__":
    main()
