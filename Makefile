# Everything starts here: `make help` lists the targets.
# The environment is made on first use and again when pyproject.toml changes.

PYTHON ?= python3
VENV ?= .venv
# A pip constraints file; .ci/oldest.txt holds the lower bounds of pyproject.toml.
CONSTRAINTS ?=
# More arguments of pytest, for instance files.
TESTS ?=
# Tests run in so many processes side by side.
JOBS ?= 2

BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install -qq --disable-pip-version-check \
	$(if $(CONSTRAINTS),-c $(CONSTRAINTS))
DEMO = demo
SET = data/breast-cancer
# The sets of `make bench` and `make papers`, as NAME or NAME.xz.
BENCH_DATA ?= ../shared/data

.PHONY: help demo test soak fuzz load mutants lint bench memory determinism papers papers-figures papers-full man data clean
.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1:\2/p' Makefile | expand -t 14 | \
		awk -F: '{ printf "%-12s %s\n", $$1, $$2 }'

demo: $(VENV)/.installed ## scale, cross-validate, train and predict on a bundled set
	@mkdir -p $(DEMO)
	$(BIN)/odm-scale -l 0 -u 1 -s $(DEMO)/range $(SET).train > $(DEMO)/train
	$(BIN)/odm-scale -r $(DEMO)/range $(SET).test > $(DEMO)/test
	$(BIN)/odm-cv -t rbf -g 2^-2,2^0 -l 2^4,2^14 $(DEMO)/train
	$(BIN)/odm-train -t rbf -g 2^-2 $(DEMO)/train $(DEMO)/rbf.model
	$(BIN)/odm-predict $(DEMO)/test $(DEMO)/rbf.model $(DEMO)/rbf.out
	$(BIN)/odm-train -t linear -B 1 $(DEMO)/train $(DEMO)/linear.model
	$(BIN)/odm-predict $(DEMO)/test $(DEMO)/linear.model $(DEMO)/linear.out

test: $(VENV)/.tested ## run the tests
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder $(TESTS)

soak: $(VENV)/.tested ## attack readers, models, options, calls to the system for half an hour; kill -9
	$(BIN)/python tests/fuzz/soak.py --minutes 30 --processes $(JOBS)
	$(BIN)/python tests/fuzz/kills.py --kills 100

fuzz: $(VENV)/.tested ## attack the readers for five minutes, guided by coverage (atheris)
	@$(BIN)/python -c 'import atheris' 2> /dev/null || \
		{ echo "atheris is missing, or not made for this Python: $(BIN)/python -m pip install atheris" >&2; exit 1; }
	$(BIN)/python tests/fuzz/guided.py -max_total_time=300

load: $(VENV)/.installed ## many rows through a pipe, many commands at once, a long journal
	$(BIN)/python benchmarks/load.py

mutants: $(VENV)/.tested ## change the code at random and count what the tests notice (an hour)
	$(BIN)/python tests/mutants.py --jobs $(JOBS)

lint: $(VENV)/.tested ## check the code with ruff
	$(BIN)/ruff check .

bench: $(VENV)/.benched ## measure beside LIBLINEAR, LIBSVM and scikit-learn and write docs/speed.md (20 minutes)
	PYTHONDONTWRITEBYTECODE= PATH="$(abspath $(BIN)):$$PATH" \
		$(BIN)/python benchmarks/rivals.py --write docs/speed.md $(BENCH_DATA)

memory: $(VENV)/.installed ## measure memory beside what was planned and write docs/memory.md
	$(BIN)/python benchmarks/memory.py --write docs/memory.md

determinism: $(VENV)/.installed ## compare models trained in several ways and write docs/determinism.md
	$(BIN)/python benchmarks/determinism.py --write docs/determinism.md

papers: $(VENV)/.installed ## the papers' tables again, for an hour; goes on where it stopped; writes docs/papers.md
	$(BIN)/python benchmarks/papers/run.py --minutes 60 --jobs $(JOBS) papers.results $(BENCH_DATA)
	$(BIN)/python benchmarks/papers/report.py papers.results $(BENCH_DATA) > docs/papers.md

papers-figures: $(VENV)/.installed ## the pictures of docs/papers.md again
	$(BIN)/python benchmarks/papers/figures.py $(BENCH_DATA)

papers-full: $(VENV)/.installed ## the same to the end (days)
	$(BIN)/python benchmarks/papers/run.py --minutes 0 --jobs $(JOBS) papers.results $(BENCH_DATA)
	$(BIN)/python benchmarks/papers/report.py papers.results $(BENCH_DATA) > docs/papers.md

man: $(VENV)/.installed ## write the man pages, and the tables of docs/, again
	$(BIN)/python man/make_man.py
	$(BIN)/python docs/make_tables.py

data: $(VENV)/.tested ## write the sets of data/ again
	$(BIN)/python data/make_data.py

clean: ## delete the environment, caches and what the demo wrote
	rm -rf $(VENV) $(DEMO) .mutants findings build dist .pytest_cache .hypothesis .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "odmtool needs Python 3.11 or newer: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "making the environment $(VENV) (once, takes a minute)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) -e .
	@touch $@

$(VENV)/.benched: $(VENV)/.installed
	@$(PIP) -e '.[bench]'
	@touch $@

$(VENV)/.tested: $(VENV)/.installed
	@echo "installing the test tools into $(VENV) (once)"
	@$(PIP) -e '.[test$(EXTRAS)]'
	@touch $@
