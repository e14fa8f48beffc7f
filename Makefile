# Everything runs in .venv, which the first target that needs it creates. Needed: python3 (3.11 or newer) and make.

PYTHON ?= python3
ARGS ?=
ROOM ?=
RUN := .venv/bin/python
# A file runs in one test process, which makes what its tests share once; tests/conftest.py says in which order.
PYTEST := $(RUN) -m pytest --maxprocesses=4 --dist=loadfile --no-loadscope-reorder

# Tests start hundreds of processes: compiled modules save each of them half a second.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-slow check lint format bench papers chaos fuzz docs clean spark environment

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1|/p' Makefile | while IFS='|' read -r target words; do \
		printf '  make %-10s  %s\n' "$$target" "$$words"; done

demo: spark ## thousands of rules over a live stream, on Spark on this machine; ARGS="--rules 10000 --seed 3", --quick
	@$(RUN) -m eddyline.demo $(ARGS)

test: environment ## the whole suite, with Spark, without the slow tests; ARGS="-k java" to choose
	@$(PYTEST) --numprocesses=auto -m "not slow" --durations=50 $(ARGS)

test-fast: environment ## the tests that need no Spark and little time, properties with few examples; under two minutes on two cores
	@EDDYLINE_PROFILE=$${EDDYLINE_PROFILE:-fast} $(PYTEST) --numprocesses=logical -m "not slow and not spark and not thorough" $(ARGS)

test-slow: environment ## the long ones: kills, big random runs
	@$(PYTEST) --numprocesses=auto -m slow $(ARGS)

check: lint test-fast ## what must be clean before a commit: lint and test-fast

lint: environment ## format, lint, types and import direction
	@$(RUN) -m ruff format --check --quiet --diff .
	@$(RUN) -m ruff check --quiet .
	@$(RUN) -m mypy
	@.venv/bin/lint-imports --no-logo

format: environment ## rewrite the code in the house format
	@$(RUN) -m ruff check --quiet --fix-only .
	@$(RUN) -m ruff format .

bench: environment ## run the benchmarks and report which claims hold; ROOM=catalog for one room, ARGS=--quick for small sizes
	@$(RUN) -m benchmarks $(if $(ROOM),--room $(ROOM)) $(ARGS)

papers: environment ## run the papers' figures and tables, and write what came of them into docs/papers.md, with plots; ARGS=--quick for a small one in build/papers
	@$(RUN) -m benchmarks --room papers $(ARGS); found=$$?; $(RUN) -m benchmarks.papers_report $(ARGS) && exit $$found

chaos: environment ## kill a pipeline on Spark while it runs, prove that nothing is lost or twice; ARGS="--kills 100" for more
	@$(RUN) -m tools.chaos $(ARGS)

fuzz: environment ## inputs made to break every reader, ten seconds each; ARGS="--target json_rows --seconds 600"
	@$(RUN) -m tools.fuzz $(ARGS)

docs: environment ## the pages of docs/ as a site in build/site; a broken link fails
	@$(RUN) -m properdocs build --clean

clean: ## remove caches and build results (not .venv: remove that by hand)
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis spark-warehouse metastore_db
	@find src tests tools docs benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

spark:
	@$(PYTHON) tools/environment.py spark

environment:
	@$(PYTHON) tools/environment.py full
