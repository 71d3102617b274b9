"""How the contenders on a GPU are timed: validated first, then each by itself after a rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smallmm._tools import bench
from smallmm._tools.contenders import PEERS, finish, our_own

from .contenders import Timed, contenders, ours, validate
from .suite import Problem, Run, Stack, bytes_of, traffic

REST = 0.3  # s before each contender: a device that has just drawn its full power runs at a lower clock
SLOW_NS = 2e6  # of a call: few samples are enough


def together(*calls: Callable[[], Any] | None) -> Callable[[], Any]:
    def all_of_them() -> Any:
        for call in calls:
            if call:
                last = call()
        return last

    return all_of_them


def of_device(run: Run, timed: Timed) -> bench.Timing:
    """By events; without what is called before each call."""
    call = together(timed.before, timed.call) if timed.before else timed.call
    once = run.timer.timing(call, samples=2, each=1, warm=0).median
    how = {"samples": 3, "each": 1, "warm": 0} if once > SLOW_NS else {"rest": REST}
    both = run.timer.timing(call, **how)
    if not timed.before:
        return both
    less = run.timer.timing(timed.before, **how).median
    return bench.Timing(both.median - less, both.low - less, both.high - less, both.samples)


def of_jax(timed: Timed) -> bench.Timing:
    """By the host's clock, as JAX has streams of its own."""
    return bench.measure({"": timed.call}, budget_s=0, least=3, sample_s=1e-2, sample=bench.clock(finish))[""]


def time_one(
    run: Run, problem: Problem, timed: Timed, moved: float, inputs: list[Any], *, graph: bool = False
) -> None:
    """Validate a contender, and add its row; a line says why, where it cannot do this here."""
    calls = 20
    try:
        validate(problem, inputs, timed, together(timed.before, timed.call)())
        if graph:
            found = run.timer.replay(timed.call, calls)
            found = bench.Timing(found.median / calls, found.low / calls, found.high / calls, found.samples)
        else:
            found = of_jax(timed) if timed.who.name == "JAX" else of_device(run, timed)
    except Exception as error:
        if timed.who.name == bench.OURS:
            raise
        print(f"{timed.who.name} {problem}: {type(error).__name__}: {str(error)[:100]}", flush=True)
        return
    run.time(timed.who, problem, found, timed.batch, moved, timed.words)


def time_all(run: Run, problem: Problem, stack: Stack, only: tuple[str, ...] | None = None) -> None:
    """Ours, and all others or some."""
    stack.assert_cpu_bits()
    everybody = [ours(problem, stack)]
    if only != ():
        everybody += (x for x in contenders(problem, stack) if only is None or x.who.name in only)
    for timed in everybody:
        if problem["op"] == "MATMUL":
            stack.outputs[0].fill_(float("nan"))
        few = timed.batch < stack.batch
        moved = bytes_of(problem) * timed.batch if few else traffic(problem, stack.batch)
        time_one(run, problem, timed, moved, [x[: timed.batch] for x in stack.inputs if hasattr(x, "ndim")])


def host_side(run: Run, problem: Problem, contender: str, words: str, call: Callable[[], Any]) -> None:
    """The host's part of a call: the device is idle before, and not waited for."""
    torch, sample = run.timer.torch, bench.clock()

    def from_idle(call: Callable[[], Any], repetitions: int) -> float:
        torch.cuda.synchronize()
        return sample(call, repetitions)

    sample(call, 200)
    found = bench.measure({"": call}, budget_s=0, least=30, repetitions=50, sample=from_idle)[""]
    who = our_own() if contender == bench.OURS else PEERS[contender]()
    run.time(who, problem, found, 1000, 0, words, host_us=round(found.median / 1e3, 3))
