# make demo          the phone actions app at work, killed and started again on screen (SECONDS=30: ends by itself)
# make test          lint, types and tests                  make test-all   the long campaigns, too
# make bench         all benchmarks (ONLY=name: one)         make lint       lint and types only
PYTHON := .venv/bin/python

.PHONY: demo test test-all bench lint format docs setup

demo: .venv/.ready
	@$(PYTHON) examples/phone_actions/demo.py $(if $(SECONDS),--seconds $(SECONDS))

test: lint
	$(PYTHON) -m pytest -q -m "not slow" -n 2 --dist loadfile

test-all: lint
	$(PYTHON) -m pytest -q

bench: .venv/.ready
	$(PYTHON) -m bench $(ONLY)

lint: .venv/.ready
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy

format: .venv/.ready
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

docs: .venv/.ready
	$(PYTHON) scripts/reference.py

setup: .venv/.ready

# Set up again only when what is asked for has changed.
.venv/.ready: pyproject.toml scripts/setup
	@scripts/setup
