# Everything a newcomer needs: `make demo` and `make test` set up all they use themselves.
#
#     make test PYTHON=python3.13 ARGS="-k replay"

PYTHON ?= python3
ARGS ?=
# Tests run side by side, a file each; `JOBS=0` for one after the other.
JOBS ?= 2

# The default interpreter has .venv; any other one that is named has a folder of its own.
ifeq ($(PYTHON),python3)
VENV ?= .venv
else
VENV ?= .venv-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
endif
VLLM_VENV ?= .cache/vllm
BINARIES := $(CURDIR)/.cache/debian
BIN := $(VENV)/bin

export PYTHON
export PATH := $(PATH):$(BINARIES)/usr/bin
export SERVING_WATCHDOG_BINARIES := $(BINARIES)/usr/bin
export PYTEST_HTTPSERVER_HOST := 127.0.0.1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test check format bench detection picture test-vllm install uninstall run-setup dev-setup binaries clean

help:
	@echo 'make demo       the incident on a simulated server, watched by the real daemon (a minute)'
	@echo 'make test       the tests; ARGS="-k words" picks some'
	@echo 'make check      what CI runs: format, lint, types, import rules, tests'
	@echo 'make format     format the code, mend what ruff can mend, refresh the table of files'
	@echo 'make bench      what a round costs, beside the library parse of the same pages'
	@echo 'make detection  the checks on trial over simulated lives and faults: a slice of 10 minutes;'
	@echo '                ARGS=--whole for the tables of docs/detection.md (hours; goes on where it ended)'
	@echo 'make picture    the picture of the status page in docs/images, by the real daemon and Chromium'
	@echo 'make crash      200 kills while faults come and go: what arrives is what is due (10 minutes)'
	@echo 'make soak       days of a fast clock: memory, threads and descriptors (10 minutes)'
	@echo 'make test-vllm  the tests against a real vLLM on the CPU (installs 3.5 GB)'
	@echo 'make install    as a service, for root; a second time: upgrade it (docs/install.md)'
	@echo 'make uninstall  take the service away, and keep configuration and state'
	@echo 'make clean      remove what make made'
	@echo 'Each takes PYTHON=python3.13 to use another interpreter than python3.'

demo: run-setup
	@$(BIN)/watchdog demo $(ARGS)

test: dev-setup binaries
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

check: dev-setup binaries
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

format: dev-setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/python tools/file_table.py

bench: dev-setup binaries
	@$(BIN)/python bench/bench.py $(ARGS)

detection: dev-setup
	@$(BIN)/python -m bench.detection.run $(ARGS)

picture: dev-setup
	@$(BIN)/python -m tests.picture docs/images/status-page.png $(ARGS)

crash: dev-setup binaries
	@$(BIN)/python bench/crash.py $(ARGS)

soak: dev-setup
	@$(BIN)/python bench/soak.py $(ARGS)

test-vllm: dev-setup binaries
	@tools/setup.sh $(VLLM_VENV) bare
	@tools/vllm/install.sh $(VLLM_VENV)
	@VLLM_VENV=$(VLLM_VENV) $(BIN)/python -m pytest tests/vllm -s $(ARGS)

install:
	@tools/install.sh

uninstall:
	@tools/uninstall.sh

run-setup:
	@tools/setup.sh $(VENV) run

dev-setup:
	@tools/setup.sh $(VENV) dev

binaries:
	@tools/binaries.sh $(BINARIES) trixie sid

clean:
	rm -rf .venv .venv-* .cache build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
