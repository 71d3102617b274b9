# What a clone can do. Everything is installed into .venv, which `make clean` removes with all else that was built.
#
#   PYTHON=python3.12 make test     another Python (3.11 or newer); run `make clean` before changing it

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
C_FILES := $(filter-out %/dlpack.h, $(wildcard csrc/*.[ch] csrc/*/*.[ch] csrc/*/*/*.[ch] csrc/cuda/*/*.cuh tests/*.c tests/core/*.[ch] tests/users/*.c \
	tests/cuda/*.c $(addprefix tests/cuda/emulated/gpu/, *.h *.cuh *.cpp) benchmarks/*/*.c))
# The demo makes do with the kernels of the best instruction set, unless all that this processor has are built.
BUILT_FOR_DEMO := $(VENV)/smallmm$(if $(wildcard $(VENV)/smallmm),,-best)
BUILT_FROM := pyproject.toml setup.py $(wildcard csrc/*.* csrc/*/*.* csrc/*/*/*.*)
# Some images set it; the tests start hundreds of Pythons, and each would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

demo: $(BUILT_FOR_DEMO) $(VENV)/extra-demo  ## build, and the colour covariance at every pixel of a photograph
	$(BIN)/python -m smallmm demo

test: $(VENV)/smallmm $(VENV)/extra-test  ## build, and run the Python tests
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal

ctest:  ## the tests of the C core, without Python
	$(MAKE) -C tests/core run

lint: $(VENV)/extra-dev  ## ruff, mypy, pyright, clang-format, in the versions that pyproject.toml pins, and the order of packages
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/python tools/layout.py
	$(BIN)/clang-format --dry-run -Werror $(C_FILES)

# It also makes code of them, to see that every instruction set has the instructions that it names. Nothing is inlined:
# with thousands of copies of the lane verbs, the kernels would take minutes.
clang: $(VENV)/header $(VENV)/extra-build  ## whether clang compiles the C files, too, without warnings
	printf '%s\n' csrc/*/*.c csrc/*/*/*.c | xargs -P $$(nproc) -n 1 $(CLANG) -S -Xclang -disable-llvm-passes -o /dev/null

bench: $(VENV)/smallmm $(VENV)/extra-bench  ## measure everything on this machine (three quarters of an hour), write rows, tables and plots
	$(BIN)/python -m benchmarks.host.matmul
	$(BIN)/python -m benchmarks.host.linalg
	$(BIN)/python -m benchmarks.host.accuracy
	$(BIN)/python -m benchmarks.report.tables

notebook: $(VENV)/smallmm $(VENV)/extra-notebook  ## execute the notebooks
	$(BIN)/jupyter execute $(filter-out %_torch.ipynb, $(wildcard notebooks/*.ipynb))

notebook-torch: $(VENV)/smallmm $(VENV)/extra-notebook  ## execute that on PyTorch, which it needs in .venv
	$(BIN)/jupyter execute notebooks/*_torch.ipynb

docs: $(VENV)/smallmm $(VENV)/extra-docs  ## the pages of docs/ as HTML, in build/docs; fails on any warning
	$(BIN)/python -m sphinx -W --keep-going -q -d build/doctrees docs build/docs

# Unlike what `make test` builds it runs on any processor: the kernels of all instruction sets are in it.
wheel: $(VENV)/header $(VENV)/extra-build $(VENV)/extra-wheel  ## a wheel for this Python and any processor, in dist; says its size
	rm -rf build/wheel
	CPATH="$(HEADER_FILES)/python$(PYTHON_VERSION):$(HEADER_FILES)" SMALLMM_ISAS=all \
	$(BIN)/pip wheel --quiet --no-build-isolation --no-deps --wheel-dir build/wheel .
	PATH="$(CURDIR)/$(BIN):$$PATH" auditwheel repair --strip -z 9 --wheel-dir build/wheel/repaired build/wheel/*.whl 2> build/wheel/repair.log
	$(BIN)/python tools/check_wheel.py build/wheel/repaired/*.whl
	mkdir -p dist
	mv build/wheel/repaired/*.whl dist

lib:  ## the C core as build/libsmallmm.a and .so, for programs that include csrc/smallmm.h
	$(MAKE) -C tests/core build/native/libsmallmm.a build/native/libsmallmm.so
	mkdir -p build && cp tests/core/build/native/libsmallmm.a tests/core/build/native/libsmallmm.so build

install:  ## the C core's header and libraries, for pkg-config and CMake; PREFIX=/usr/local, DESTDIR
	$(MAKE) -C tests/core install

test-cuda: $(VENV)/smallmm $(VENV)/extra-test  ## the tests of the CUDA side; needs a GPU and PyTorch in .venv
	SMALLMM_TEST_CUDA=1 $(BIN)/python -m pytest tests/cuda

sanitize-cuda: $(VENV)/smallmm  ## a small run under compute-sanitizer; needs a GPU and PyTorch in .venv
	compute-sanitizer --tool memcheck --error-exitcode 1 $(BIN)/python tests/cuda/small_run.py
	compute-sanitizer --tool racecheck --error-exitcode 1 $(BIN)/python tests/cuda/small_run.py

sanitize:  ## the C tests under ASan, UBSan, TSan and valgrind
	$(MAKE) -C tests/core sanitize valgrind

clean:  ## remove everything that was built
	rm -rf $(VENV) build dist *.egg-info smallmm/*.so .pytest_cache .ruff_cache .hypothesis
	$(MAKE) -C tests/core clean

# --- what the targets above need: files in .venv say when it was last done -----------------------------

$(VENV)/created:
	@sh tools/create_venv.sh $(PYTHON) $(VENV)
	touch $@

$(VENV)/header: $(VENV)/created
	@sh tools/fetch_header.sh $(VENV)
	touch $@

PYTHON_VERSION = $(shell $(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
INCLUDES = $(shell $(BIN)/python -c 'import numpy, sysconfig; print(sysconfig.get_path("include"), numpy.get_include())')
CLANG = env CPATH="$(HEADER_FILES)/python$(PYTHON_VERSION):$(HEADER_FILES)" clang -std=gnu11 -ffp-contract=off -Wall -Wextra -Werror $(addprefix -I, $(INCLUDES))
HEADER_FILES = $(CURDIR)/$(VENV)/header_files/usr/include# may have blanks

# What builds it is in .venv, too: pip would install all of that once more, into a folder of its own for each build.
# With the kernels of all instruction sets that this processor has, or of the best. pip is silent or says everything:
# only the progress is shown, and all of it where that fails.
$(VENV)/smallmm $(VENV)/smallmm-best: $(VENV)/header $(VENV)/extra-build $(BUILT_FROM)
	rm -f smallmm/*.so $(VENV)/smallmm $(VENV)/smallmm-best
	@echo "compiling: two to three minutes of a core"
	@{ CPATH="$(HEADER_FILES)/python$(PYTHON_VERSION):$(HEADER_FILES)" SMALLMM_ISAS=$(if $(filter %-best,$@),best,native) \
	$(BIN)/pip install --verbose --no-build-isolation --editable . 2>&1 && touch $@; } | tee $@.log | \
	sed -nu 's/^ *\(\[[0-9]* of [0-9]*\] .*\)/\1/p'
	@test -e $@ || { cat $@.log; exit 1; }

$(VENV)/extra-%: $(VENV)/created pyproject.toml
	$(BIN)/python tools/requirements.py $* > $@.txt
	$(BIN)/pip install --quiet --no-compile --requirement $@.txt
	touch $@

.PHONY: help demo test test-cuda ctest lint clang bench notebook notebook-torch docs wheel lib install sanitize sanitize-cuda clean
.DELETE_ON_ERROR:
