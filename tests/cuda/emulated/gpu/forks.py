"""Forks a Python for each script of the folder above: it has imported what all need, and so starts at once.

A line of its input is, as JSON, a script and its arguments, more environment variables, and files for what
it prints. A line of its output is how the script ended."""

import gc
import json
import os
import runpy
import sys

import run  # noqa: F401


def main():
    gc.freeze()
    for line in sys.stdin:
        if child := os.fork():
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
            continue
        sys.argv, environment, printed = json.loads(line)
        os.environ.update(environment)
        for descriptor, path in enumerate(printed, 1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
        sys.path[0] = os.path.dirname(sys.argv[0])
        runpy.run_path(sys.argv[0], run_name="__main__")
        break


if __name__ == "__main__":
    main()
