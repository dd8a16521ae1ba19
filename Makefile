# The front door: `make demo` answers a question, `make test` runs all tests. Both set up .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# PyTorch's default Linux wheel brings gigabytes of CUDA. To take a CPU build from the wheel index
# that pytorch.org names for it: make test TORCH_INDEX=<that index>
TORCH ?= torch==2.13.0
TORCH_INDEX ?=
PORT ?= 2024
# Tests run in this many processes, a file in one of them; WORKERS=0 runs all in one, for a debugger.
WORKERS ?= logical
QUESTION ?= What does BlendFilter blend?

.PHONY: help demo test test-all nightly lint format sync bench notebooks studio pictures docs clean

help:
	@echo "make demo       set up, index the bundled articles, answer a question (QUESTION=…)"
	@echo "make test       set up, run the tests (WORKERS=2: in two processes)"
	@echo "make test-all   set up, run the slow tests too: notebooks, a Ray cluster, sixty kills, the site"
	@echo "make lint       set up, check style, types, import layers and generated files"
	@echo "make sync       set up, write the generated files: tables in the docs, langgraph.json"
	@echo "make bench      set up what the benchmarks need; benchmarks/README.md lists them"
	@echo "make notebooks  set up, execute every notebook and write its outputs into it"
	@echo "make studio     set up, start LangGraph Studio's server (PORT=2024)"
	@echo "make pictures   set up, make the pictures of README and docs again (needs Chromium)"
	@echo "make docs       set up, build the documentation into site/"
	@echo "make clean      remove what the targets made"

$(VENV)/pip:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	@touch $@

$(VENV)/torch: $(VENV)/pip
	$(BIN)/pip install --quiet $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) "$(TORCH)"
	@touch $@

$(VENV)/offline: $(VENV)/pip pyproject.toml
	$(BIN)/pip install --quiet --editable ".[offline]"
	@touch $@

$(VENV)/dev: $(VENV)/torch pyproject.toml
	$(BIN)/pip install --quiet --editable ".[dev]"
	@touch $@

demo: $(VENV)/offline
	$(BIN)/ragweave index --bundled --kb .demo/kb
	$(BIN)/ragweave ask "$(QUESTION)" --kb .demo/kb --method concat_pf --trace

test: $(VENV)/dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

nightly: $(VENV)/dev
	$(BIN)/python -m pytest --nightly -m nightly -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test-all: test nightly

lint: $(VENV)/dev
	$(BIN)/ruff check src tests benchmarks docs examples
	$(BIN)/ruff format --check src tests benchmarks docs examples
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry src
	$(BIN)/python docs/sync.py --check

sync: $(VENV)/dev
	$(BIN)/python docs/sync.py

format: $(VENV)/dev
	$(BIN)/ruff check --fix src tests benchmarks docs examples
	$(BIN)/ruff format src tests benchmarks docs examples

$(VENV)/bench: $(VENV)/dev pyproject.toml
	$(BIN)/pip install --quiet --editable ".[bench]"
	@touch $@

bench: $(VENV)/bench

notebooks: $(VENV)/dev
	$(BIN)/python docs/run_notebooks.py

studio: $(VENV)/dev
	$(BIN)/langgraph dev --no-browser --port $(PORT)

pictures: $(VENV)/offline
	$(BIN)/python docs/pictures.py

docs: $(VENV)/dev
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) .demo site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
