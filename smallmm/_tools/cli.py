"""The command line: python -m smallmm bench | tune | info | cache | demo | run | patch.

Exit codes: 0; 1 if something is missing or wrong on this machine, said in one line; 2 for arguments that make
no sense; 130 when interrupted.
"""

import argparse
import json
import os
import stat
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import smallmm

from .._gpu.tuned import open_without_waiting
from .._patching import run as _run
from . import bench, operations
from .contenders import DEVICE, bench_device

PROGRAM = "python -m smallmm"

BENCH = """\
Time smallmm beside the libraries that are installed here: NumPy, SciPy, PyTorch; on a GPU PyTorch, CuPy.
Everything is validated before it is timed. The tables give the median time for a matrix and its quartiles in
nanoseconds; the last line says where another is faster."""
EXAMPLES = f"""\
examples:
  {PROGRAM} bench --quick
  {PROGRAM} bench --op solve inv --n 3 4 8-16 --dtype f64 --plot solve.png
  {PROGRAM} bench --op matmul --device cuda --json > matmul.json"""
TUNE = """\
Find the fastest kernel for stacks of matrices on this GPU, and keep it for later processes of this user: see
smallmm.tune. Results do not change. Needs PyTorch or CuPy."""
CACHE = """\
The compiled CUDA kernels that are kept on disk, in SMALLMM_CACHE_DIR or else the user's cache folder. They
may be removed at any time, and are compiled again when needed."""
DEMO = """\
The colour covariance at every pixel of a photograph: checked against NumPy, timed beside it, and drawn. Needs
matplotlib, which brings the photograph."""


class Failure(Exception):
    """What is missing or wrong, in one line."""


def _needs(package: str, what: str) -> None:
    if find_spec(package) is None:
        raise Failure(f"{what} needs {package}, which is not installed: pip install {package}")


# --- bench ----------------------------------------------------------------------------------------


def _orders(text: str) -> list[int]:
    """The orders of "3" or "2-8"."""
    first, _, last = text.partition("-")
    if not (first.isdecimal() and (last or first).isdecimal()) or text.endswith("-"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither an order like 3 nor a range like 2-8")
    low, high = int(first), int(last or first)
    if not 1 <= low <= high <= 64:
        raise argparse.ArgumentTypeError(f"{text!r} is not within 1-64, or runs backwards")
    return list(range(low, high + 1))


def _positive(kind: type[int] | type[float]) -> Callable[[str], float]:
    """What parses a number greater than 0, and no larger than what means anything here."""

    def parse(text: str) -> float:
        value = kind(text)
        if not 0 < value <= 1e12:
            raise argparse.ArgumentTypeError(f"{text} is not greater than 0, or above 1e12")
        return value

    parse.__name__ = kind.__name__  # argparse names it where the text is no number
    return parse


def _device(text: str) -> str:
    if not DEVICE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not cpu, cuda or cuda:1")
    return text


def _plot(text: str) -> Path:
    path = Path(text)
    if path.suffix not in (".png", ".svg", ".pdf"):
        raise argparse.ArgumentTypeError(f"{text!r} does not end in .png, .svg or .pdf")
    return path


def _add_bench(parser: argparse.ArgumentParser) -> None:
    def add_choice(option: str, choices: Sequence[str], default: str) -> None:
        words = f"of {', '.join(choices)} (default: {default})"
        parser.add_argument(option, nargs="+", choices=choices, metavar=option.strip("-").upper(), help=words)

    add = parser.add_argument
    add_choice("--op", list(operations.OPERATIONS), "all")
    add("--n", nargs="+", type=_orders, help="orders of the matrices, 3 or 2-8 (default: some up to 32)")
    add_choice("--dtype", list(operations.NUMBERS), "f64 f32")
    add("--device", type=_device, default="cpu", help="cpu, cuda or cuda:1 (default: cpu)")
    add("--batch", type=_positive(int), help="matrices of a stack (default: 2 MB of them; on a GPU 256 MB)")
    add_choice("--peers", list(bench.PEERS), "all that are installed")
    add("--quick", action="store_true", help="fewer orders, and less time for each: within a minute")
    add("--seconds", type=_positive(float), help="time for all of it, about (default: 120; if quick 25)")
    add("--json", action="store_true", help="print JSON and nothing else")
    add("--plot", type=_plot, metavar="FILE", help="draw it, as .png, .svg or .pdf; needs matplotlib")
    parser.set_defaults(run=_run_bench)


def _check_writable(path: Path) -> None:
    """Refuse a path before minutes are spent on the measurements."""
    if not path.absolute().parent.is_dir():
        raise Failure(f"--plot: there is no folder {path.absolute().parent}")
    try:
        there = path.exists()
        path.open("ab").close()
        if not there:
            path.unlink()
    except OSError as error:
        raise Failure(f"--plot: {error}") from None


def _run_bench(options: argparse.Namespace) -> None:
    if options.plot:
        _needs("matplotlib", "--plot")
        _check_writable(options.plot)
    try:
        results = smallmm.bench(
            options.op,
            options.n and list(dict.fromkeys(n for orders in options.n for n in orders)),
            options.dtype or list(operations.DTYPES)[::-1],
            device=options.device,
            batch=options.batch,
            peers=options.peers,
            quick=options.quick,
            seconds=options.seconds,
            show=None if options.json else lambda text: print(text, flush=True),
        )
    except AssertionError as wrong:
        raise Failure(f"a result of smallmm is wrong; please report it: {wrong}") from None
    if options.json:  # first, for the plot may fail
        print(json.dumps(results.to_dict(), indent=1))
    if options.plot:
        results.plot(options.plot)


# --- tune -----------------------------------------------------------------------------------------


def _cuda(text: str) -> str:
    if _device(text) == "cpu":
        raise argparse.ArgumentTypeError("'cpu' has no kernels to choose from; expected cuda or cuda:1")
    return text


def _add_tune(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    words = f"of {', '.join(operations.OPERATIONS)}"
    add("function", choices=list(operations.OPERATIONS), metavar="FUNCTION", help=words)
    add("--n", nargs="+", type=_orders, required=True, help="orders of the matrices, 3 or 2-8")
    dtypes = list(operations.NUMBERS)
    words = f"of {', '.join(dtypes)} (default: f64)"
    add("--dtype", nargs="+", choices=dtypes, metavar="DTYPE", default=["f64"], help=words)
    add("--batch", type=_positive(int), help="matrices of a stack (default: 256 MB of them)")
    add("--device", type=_cuda, default="cuda", help="cuda or cuda:1 (default: cuda)")
    add("--top", type=_positive(int), default=100, help="kernels that are timed, at most (default: 100)")
    add("--seconds", type=_positive(float), default=30, help="for each order and dtype (default: 30)")
    add("--no-save", action="store_true", help="only say what was found")
    parser.set_defaults(run=_run_tune)


def _run_tune(options: argparse.Namespace) -> None:
    place = bench_device(options.device, "tune")
    op = operations.OPERATIONS[options.function]
    for dtype in dict.fromkeys(options.dtype):
        for n in dict.fromkeys(n for orders in options.n for n in orders):
            bytes_of_one = operations.bytes_of(op, dtype, n)
            batch = options.batch or max(1, bench.DEVICE_FOOTPRINT // bytes_of_one)
            operands = [place.put(x) for x in operations.stack(op, dtype, n, batch).operands]
            how: dict[str, Any] = {"top": options.top, "seconds": options.seconds}
            how |= {"save": not options.no_save, **op.options}
            found = smallmm.tune(op.function, *operands, **how)
            print(f"{op.name} {dtype} n = {n}, {batch} matrices on {place.name}: {found}", flush=True)


# --- info, cache, demo ----------------------------------------------------------------------------


def _run_info(options: argparse.Namespace) -> None:
    if options.json:
        print(json.dumps(smallmm.show_config("dicts"), indent=1))
    else:
        smallmm.show_config()


HEAD = struct.Struct("=8s3Q")  # that csrc/cuda/jit.c gives a file: magic; bytes of key and of cubin; checksum
LONGEST_KEY = 1 << 16


def _kernels(folder: Path) -> Iterator[tuple[Path, int, str]]:
    """The compiled kernels of the cache, their sizes, and what each is. Others may remove them meanwhile."""
    for name in os.listdir(folder) if folder.exists() else ():
        path = folder / name
        with suppress(FileNotFoundError):
            about = path.lstat()
            if path.suffix == ".cubin" and stat.S_ISREG(about.st_mode):
                yield path, about.st_size, _what_is_in(path)


def _what_is_in(path: Path) -> str:
    try:
        with open_without_waiting(path) as file:
            magic, key_bytes, *_ = HEAD.unpack(file.read(HEAD.size).ljust(HEAD.size, b"\0"))
            key = file.read(min(key_bytes, LONGEST_KEY)).decode(errors="replace")
    except PermissionError:
        return "unreadable"
    words = dict(word.lstrip("-").split("=", 1) for word in key.split() if "=" in word)
    try:
        m, k, n = (words[f"DSMM_{size}"] for size in "MKN")
        what = f"{words['DSMM_NAME']} m={m} k={k} n={n} {words['gpu-architecture']}"
    except KeyError:
        return "damaged"
    return what if magic == b"SMMCUBN1" and what.isprintable() else "damaged"


def _run_cache(options: argparse.Namespace) -> None:
    folder, why = smallmm.cuda.find_cache()
    if folder is None:
        print(f"{why}: compiled kernels are not kept")
        return
    found = sorted(_kernels(folder), key=lambda kernel: (kernel[2], kernel[0].name))
    for path, size, what in found:
        if options.action == "clear":
            path.unlink(missing_ok=True)
        else:
            print(f"{path.name} {size:9}  {what}")
    done = "removed from" if options.action == "clear" else "in"
    size = sum(size for _, size, _ in found)
    print(f"{len(found)} compiled kernels, {size / 1e6:.1f} MB, {done} {folder}")


def _run_demo(options: argparse.Namespace) -> None:
    _needs("matplotlib", "the demo")
    from .. import demo

    demo.main(options.picture)


# --- main -----------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=PROGRAM, description=smallmm.__doc__.partition("\n")[0])
    parser.add_argument("--version", action="version", version=f"smallmm {smallmm.__version__}")
    parser.set_defaults(run=lambda options: parser.print_help())  # of no command
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_bench(
        commands.add_parser(
            "bench",
            help="time smallmm beside the libraries that are installed",
            description=BENCH,
            epilog=EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )

    tune = commands.add_parser("tune", help="find the fastest kernels on this GPU", description=TUNE)
    _add_tune(tune)

    words = "versions, instruction set, threads, NUMA nodes, GPUs, NVRTC, cache folder"
    info = commands.add_parser("info", help=words, description=f"Print {words}.")
    info.add_argument("--json", action="store_true", help="print JSON")
    info.set_defaults(run=_run_info)

    cache = commands.add_parser("cache", help="list or clear the compiled CUDA kernels", description=CACHE)
    cache.add_argument("action", choices=["list", "clear"], nargs="?", default="list", help="default: list")
    cache.set_defaults(run=_run_cache)

    demo = commands.add_parser("demo", help="a job on a photograph, timed beside NumPy", description=DEMO)
    picture = Path("colour-covariance.png")
    demo.add_argument(
        "picture", type=_plot, nargs="?", default=picture, help=f"to write (default: {picture})"
    )
    demo.set_defaults(run=_run_demo)

    _run.add_commands(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, by default sys.argv's, and return the exit code; arguments that make no sense exit."""
    options = _parser().parse_args(arguments)
    if options.run is _run.run_program:
        _run.run_program(options)
        return 0
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files need be no text
    try:
        options.run(options)
        if sys.stdout:  # None where it is closed
            sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `| head`: the rest goes nowhere, at exit too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (Failure, MemoryError, RuntimeError, OSError) as failure:
        print(f"{PROGRAM}: {str(failure) or 'out of memory'}", file=sys.stderr)
        return 1
    return 0
