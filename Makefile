# Bare `make` creates the environment and lists the targets; everything else stands on the environment.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := default
MAKEFLAGS += --no-print-directory

# What is compiled is kept, whatever the shell says: the tests start some thousand processes.
export PYTHONDONTWRITEBYTECODE :=

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
ARCHIVED := $(VENV)/.archived
SOURCES := src tests testing house $(wildcard bench demo soak docs)

.PHONY: default help env fmt check house unit integration faults test demo demo-recovery demo-tree bench nightly soak soak-gateway fuzz-rest fuzz-gateway mutants docs spark-versions requirements browser-files package clean java

default: env help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

env: $(INSTALLED) ## create .venv with everything pinned; the command is .venv/bin/isthmus

# The stamp is written last, so that an interrupted installation is taken up again.
$(INSTALLED): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		|| { echo "Isthmus needs Python 3.11 or newer: call make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Installing into $(VENV) (once; the Spark package is large)" >&2
	@if command -v uv >/dev/null; then \
		uv venv --quiet --allow-existing --python "$$(command -v $(PYTHON))" $(VENV); \
		install=(uv pip install --quiet --python $(BIN)/python); \
	else \
		$(PYTHON) -m venv $(VENV); \
		install=($(BIN)/python -m pip install --quiet --disable-pip-version-check); \
	fi; \
	"$${install[@]}" --require-hashes -r requirements/dev.txt; \
	"$${install[@]}" --no-build-isolation --no-deps -e .
	@touch $@

# A Spark whose classes were archived starts in two thirds of the time; what cannot be archived works all the same.
$(ARCHIVED): $(INSTALLED) | java
	@echo "Preparing Spark for faster starts (once, half a minute)" >&2
	@$(BIN)/python -m isthmus.spark.training || true
	@touch $@

# Spark and the brokers need a Java runtime; say so once, before anything is started.
java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	major=$$("$$java" -version 2>&1 | sed -nE 's/.*version "([0-9]+).*/\1/p' || true); \
	[ "$${major:-0}" -ge 17 ] \
		|| { echo "Isthmus needs Java 17 or newer: install a JDK and put java on the PATH, or set JAVA_HOME." >&2; exit 1; }

fmt: env ## format the code and fix what ruff can fix
	@$(BIN)/ruff format $(SOURCES)
	@$(BIN)/ruff check --fix $(SOURCES)

check: env ## format, lint, types and layering
	@$(BIN)/ruff format --check $(SOURCES)
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/mypy
	@$(BIN)/lint-imports

house: env ## how the source is built, in figures, and which bounds it does not keep yet
	@$(BIN)/python -m house || true

unit: env ## the tests that need neither brokers nor Spark, in seconds
	@$(BIN)/pytest tests/unit

integration: env $(ARCHIVED) ## the tests against real brokers and a real Spark
	@$(BIN)/pytest tests/integration

faults: env $(ARCHIVED) ## the tests that kill, cut and pause
	@$(BIN)/pytest tests/faults

test: check $(ARCHIVED) ## check, then the suite
	@$(BIN)/pytest -n 2

demo: env $(ARCHIVED) ## two real clusters, real flights, mirrored and verified; CONSOLE=1 to look at them in a browser
	@PYTHONPATH=$(CURDIR) $(BIN)/python demo $(if $(CONSOLE),--console)

demo-recovery: env $(ARCHIVED) ## three real clusters, one of them lost, and what became of every acknowledged record
	@PYTHONPATH=$(CURDIR) $(BIN)/python demo recovery

demo-tree: env $(ARCHIVED) ## four real clusters, producers on each, and every flight once on every one
	@PYTHONPATH=$(CURDIR) $(BIN)/python demo tree

bench: env $(ARCHIVED) ## side by side with MirrorMaker 2 on the same brokers, then the gateway beside none
	@PYTHONPATH=$(CURDIR) $(BIN)/python bench
	@for case in gateway held waiting switching; do PYTHONPATH=$(CURDIR) $(BIN)/python -m bench.$$case; done

SEED ?= 1
MINUTES ?= 4

nightly: env $(ARCHIVED) ## what make test leaves out (tests/nightly.txt): more cases of each mechanism, and what takes long
	@$(BIN)/pytest -n 2 -m nightly

soak: env $(ARCHIVED) ## random faults on real clusters, and a judge: SEED=7 MINUTES=10
	@PYTHONPATH=$(CURDIR) $(BIN)/python -m soak --seed $(SEED) --minutes $(MINUTES) --shorten

soak-gateway: env $(ARCHIVED) ## gateways before a synchronous link, random faults, and a judge: SEED=7 MINUTES=2
	@PYTHONPATH=$(CURDIR) $(BIN)/python -m soak.gateway --seed $(SEED) --minutes $(MINUTES)

REQUESTS ?= 10000

fuzz-rest: env ## all that the REST API's own description allows, and more, over real clusters: SEED=7 REQUESTS=2000
	@PYTHONPATH=$(CURDIR) $(BIN)/python -m soak.rest --seed $(SEED) --requests $(REQUESTS)

fuzz-gateway: env ## frames that nobody should send, through the code of the gateway: SEED=7 MINUTES=60
	@PYTHONPATH=$(CURDIR) $(BIN)/python -m soak.frames --seed $(SEED) --minutes $(MINUTES)

SPARKS ?= 3.5 4.0 4.1 4.2 4.3

spark-versions: env ## a run and a verification on each Spark, in environments of their own (minutes): SPARKS="3.5 4.1"
	@SPARKS="$(SPARKS)" $(BIN)/pytest tests/integration/spark/versions.py

MUTANTS ?=

mutants: env ## change lines of twelve pure modules one by one: which does no unit test notice? MUTANTS='*tenure*' for some
	@$(BIN)/mutmut run $(MUTANTS)
	@$(BIN)/mutmut results

docs: env ## write the generated pages of docs/ anew
	@$(BIN)/python docs/generate.py

requirements: ## pin the dependencies anew (needs uv)
	@uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --all-extras \
		--custom-compile-command "make requirements" \
		pyproject.toml requirements/dev.in --output-file requirements/dev.txt
	@uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--extra keyring --extra schemas --extra spark --extra terminal --extra web --extra zookeeper --constraint requirements/dev.txt \
		--custom-compile-command "make requirements" pyproject.toml --output-file requirements/run.txt

browser-files: ## fetch the scripts for browsers anew, as requirements/browser.lock names them (needs npm)
	@folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	grep -v '^#' requirements/browser.lock | while read -r package version file path digest; do \
		archive="$$folder/$$package-$$version.tgz"; \
		[ -e "$$archive" ] || npm pack --silent --pack-destination "$$folder" "$$package@$$version" >/dev/null; \
		tar -xzOf "$$archive" "package/$$file" > "$$path"; \
		echo "$$digest  $$path" | sha256sum --check --quiet; \
	done

package: env ## build the wheel and the source archive into dist/, and install the wheel into a fresh environment
	@rm -rf dist && $(BIN)/python -m hatchling build >/dev/null
	@folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	$(PYTHON) -m venv "$$folder" && wheel=$$(ls "$$PWD"/dist/*.whl) && cd "$$folder" && \
	bin/python -m pip install --quiet --disable-pip-version-check "$$wheel[spark,web]" && bin/isthmus --version && \
	ls "$$wheel" "$${wheel%-py3-none-any.whl}.tar.gz"

clean: ## remove the environment and every cache in the checkout
	@rm -rf $(VENV) build dist mutants .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +
