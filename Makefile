# Everything a contributor runs, here and in .ci/run. CONTRIBUTING.md explains it.
#
#   make demo        the default model, plain and guessed ahead
#   make demo-pair   Qwen2.5-Coder 1.5B guessed by its 0.5B (1.6 GB to fetch)
#   make test        all tests (make test T="tests/cli -k json" for some)
#   make test-quick  those that take little time and need neither a real model nor torch
#   make proof       the whole equivalence grid, many times over; goes on where it was interrupted
#   make lint        ruff and mypy; make format rewrites
#   make sanitize    tests of the native side and mutated files, under sanitizers (needs GCC)
#   make stub        what the compiled module offers, for the type checker (after a change of native/bindings)
#   make docs        the site, in build/site; make docs/cli.md brings that page up to date
#   make clean       removes what was built (fetched models stay in the user cache)

PYTHON ?= python3
TORCH ?= torch==2.13.0
T ?=

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet
SOURCES := pyproject.toml CMakeLists.txt README.md LICENSE \
	$(shell find src native -type f -not -name '*.pyc' -not -name '*.so')
# What builds the package. CMake and Ninja come from the index only where the machine has none.
BUILDERS := 'scikit-build-core>=0.10' 'nanobind>=2.2' \
	$(shell command -v cmake >/dev/null || echo cmake) $(shell command -v ninja >/dev/null || echo ninja)
# Prints the requirements of pyproject.toml: "dependencies", or the named extras.
LIST := import sys, tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	lists = {"dependencies": project["dependencies"], **project["optional-dependencies"]}; \
	print(*(each for name in sys.argv[1:] for each in lists[name]), sep="\n")
HAS_HEADERS := import os, sys, sysconfig; \
	sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))
MODELS := smollm2-135m qwen2.5-coder-0.5b qwen2.5-coder-1.5b

# Runs Python on the package in build/sanitize. A module that is loaded later needs the sanitizer, and the
# library whose exceptions it watches, from the start.
SANITIZED := PYTHONPATH=$(CURDIR)/build/sanitize GUESSAHEAD_CACHE=$(CURDIR)/build/sanitize/cache \
	LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libstdc++.so.6)" \
	ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:quarantine_size_mb=8 UBSAN_OPTIONS=print_stacktrace=1

NATIVE = $(shell git ls-files native tests/native | grep -E "[.](cpp|hpp)$$")

.PHONY: stub demo demo-pair test test-quick proof lint format sanitize docs docs/cli.md clean
.DELETE_ON_ERROR:

demo: $(VENV)/.package
	$(BIN)/guessahead demo

demo-pair: $(VENV)/.package
	$(BIN)/guessahead demo --pair

test: $(VENV)/.package $(VENV)/.tools
	@$(BIN)/python -m tests.support.equip
	$(BIN)/guessahead pull $(MODELS)
	$(BIN)/python -m pytest $(T)

test-quick: $(VENV)/.package $(VENV)/.tools
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not model and not reference and not slow' $(T)

proof: $(VENV)/.package $(VENV)/.tools
	$(BIN)/guessahead pull $(MODELS)
	$(BIN)/python -m pytest -m proof $(T)

lint: $(VENV)/.tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(NATIVE)

format: $(VENV)/.tools
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(NATIVE)

# What the compiled module offers, for the type checker; a test compares it with the module.
stub: $(VENV)/.package
	$(BIN)/python -m nanobind.stubgen -q -m guessahead._native -p native/bindings/stub_patterns.txt \
		-o src/guessahead/_native.pyi

sanitize: $(VENV)/.package $(VENV)/.tools
	CXX=g++ cmake -S . -B build/sanitize -DGUESSAHEAD_SANITIZE=ON -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python
	cmake --build build/sanitize
	rm -rf build/sanitize/guessahead
	cp -r src/guessahead build/sanitize/guessahead
	cp build/sanitize/_native*.so build/sanitize/guessahead/
	$(SANITIZED) $(BIN)/python -m pytest tests/native tests/checkpoints/gguf tests/fuzz \
		--ignore tests/native/test_kernels_program.py
	$(SANITIZED) $(BIN)/python tests/fuzz/run.py --count 5000 --seconds 1200

docs: docs/cli.md
	$(BIN)/mkdocs build --quiet
	@echo build/site/index.html

docs/cli.md: $(VENV)/.package $(VENV)/.tools
	$(BIN)/python docs/tools/cli_reference.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src -name '*.so' -delete

# The package, built again whenever a source changes (CMake compiles what is affected).
$(VENV)/.package: $(VENV)/.requirements $(SOURCES)
	@echo 'building the package (the first time: under a minute)'
	@$(PIP) install --no-build-isolation --no-deps --force-reinstall .
	@touch $@

# An environment with what the package needs to be built and to run.
$(VENV)/.requirements: Makefile pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "make: Python 3.11 or newer is needed, and $(PYTHON) is not (make PYTHON=...)"; exit 1; }
	@$(PYTHON) -c '$(HAS_HEADERS)' || \
		{ echo "make: $(PYTHON) lacks its headers (Python.h): install python3-dev or python3-devel"; exit 1; }
	@command -v $${CXX:-c++} >/dev/null || command -v g++ >/dev/null || command -v clang++ >/dev/null || \
		{ echo "make: there is no C++ compiler: install g++ or clang++ (or set CXX)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PYTHON) -c '$(LIST)' dependencies > $(VENV)/requirements.txt
	@echo 'installing what the package needs into $(VENV)'
	@$(PIP) install $(BUILDERS) -r $(VENV)/requirements.txt
	@touch $@

# What tests and lint need. torch by a line of its own: which build is right depends on the machine.
$(VENV)/.tools: $(VENV)/.requirements
	@echo 'installing what tests and lint need into $(VENV)'
	@$(PIP) install $(TORCH)
	@$(PYTHON) -c '$(LIST)' test reference dev docs plot structured > $(VENV)/tools.txt
	@$(PIP) install -r $(VENV)/tools.txt
	@touch $@
