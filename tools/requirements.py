"""requirements.py EXTRA: what pyproject.toml asks for, a line each: to build ("build"), or for an extra."""

import sys
import tomllib

with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)
extras = {"build": project["build-system"]["requires"], **project["project"]["optional-dependencies"]}
print(*extras[sys.argv[1]], sep="\n")
