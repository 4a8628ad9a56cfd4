# What a newcomer and CI run. `make run` needs Python 3.11 or newer and PyPI, nothing else.

.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

VENV := .venv
BIN := $(VENV)/bin
DATA ?= $(CURDIR)/data
ADDRESS ?= 127.0.0.1:9092
WORKERS ?= 2
# Most tests wait for brokers, clients and JVMs: one worker more than there are cores has its turn.
TEST_WORKERS ?= 3
SEED ?= 0-99
# How long `make test-long` begins further seeds: half of it those of the quorum, half all others.
MINUTES ?= 20
QUORUM_SEEDS ?= 0-4999
BUCKET_SEEDS ?= 0-4999
# Those of whole clusters have a time of their own.
CLUSTER_SEEDS ?= 0-1999
CLUSTER_MINUTES ?= 15
# After these no further test of `make test-long` begins; the summary says how many were left out.
LONG_MINUTES ?= 120
SERVE_ARGS ?=
# The folders of `make quick`; those that have changed if nothing is said.
DIR ?=
# Those of `make test-pythons`; all if nothing is said.
PYTHONS ?=

# The first interpreter that is new enough, unless PYTHON says which.
PYTHON ?= $(shell for name in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo "$$name"; break; }; done)

CODE := cli testing pipeline broker coordinator security replication tiering storage clients tests bench docker __init__.py spark.py tables.py
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: help
help:
	@echo 'make run      the broker on $(ADDRESS), data and remote tier in ./data'
	@echo 'make setup    .venv with tierlog in it, and nothing that only tests need'
	@echo 'make quick    style and unit tests of the folders that have changed; DIR=storage/log names others'
	@echo 'make check    format, lint, types, import contracts and unit tests'
	@echo 'make test     check, simulations, Python clients, and Kafka'\''s recorded answers; needs no Java'
	@echo 'make test-kafka  the same stories asked of Apache Kafka itself; its tools, JVM and other clients'
	@echo 'make record   record Kafka'\''s answers again, as text beside the tests (needs Java and Maven)'
	@echo 'make test-long  more seeds of the simulations, and kills: MINUTES=20 of them, and CLUSTER_MINUTES=15'
	@echo 'make test-pythons  the unit tests on each supported Python; as root it makes a missing 3.14'
	@echo 'make simulate brokers, quorums, clusters and buckets in virtual time; SEED=7 runs one again, SEED=0-99 many'
	@echo 'make format   rewrite the code as the formatter wants it'
	@echo 'make diagrams write docs/state-machines.md from the tables in the code'
	@echo 'make scenarios write docs/tiering-scenarios.md from the marks of the tests'
	@echo 'make sample   write docs/server.properties from the tables of properties'
	@echo 'make log-messages write docs/log-messages.md from the logger calls in the code'
	@echo 'make limits   write docs/limits.md from tests/limits.toml'
	@echo 'make dashboards write docker/grafana/*.json from the panels in the code'
	@echo 'make table    write the table of clients and tools in docs/clients.md from the last make test-kafka'
	@echo 'make micro    micro-benchmarks of the hot calls: CPU time each, in microseconds'
	@echo 'make baseline what the hot calls execute and allocate, as the new baseline of make test'
	@echo 'make bench    measure against Apache Kafka, which it fetches (needs Java and Maven)'
	@echo 'make clean    remove .venv and the caches; ./data stays'

# Stamps, so that an environment that is up to date costs nothing. uv installs in half of pip's time.
$(BIN)/python:
	@test -n "$(PYTHON)" || { echo 'tierlog needs Python 3.11 or newer on the PATH' >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo 'could not make .venv; on Debian: apt-get install python3-venv' >&2; exit 1; }

$(VENV)/.ready: pyproject.toml | $(BIN)/python
	@echo 'installing tierlog into .venv ...'
	@if command -v uv >/dev/null; then uv pip install --quiet --python $(BIN)/python --editable .; \
		else $(PIP) install --editable .; fi
	@touch $@

$(VENV)/.ready-test: pyproject.toml tests/constraints.txt | $(BIN)/python
	@echo 'installing tierlog and what the tests need into .venv ...'
	@command -v uv >/dev/null || $(PIP) install --constraint tests/constraints.txt uv
	@PATH="$$PATH:$(BIN)" uv pip install --quiet --python $(BIN)/python \
		--constraint tests/constraints.txt --editable '.[bench,spark]' --group test
	@touch $(VENV)/.ready $@

.PHONY: setup setup-test
setup: $(VENV)/.ready
setup-test: $(VENV)/.ready-test

.PHONY: run
run: setup
	@exec $(BIN)/tierlog serve \
		--override listeners=PLAINTEXT://$(ADDRESS) --data '$(DATA)' $(SERVE_ARGS)

# The two type checkers take a minute each: side by side.
SIDE_BY_SIDE = $(MAKE) --no-print-directory --jobs=2 --output-sync=target
.PHONY: lint lint-style lint-imports lint-mypy lint-pyright
lint: setup-test
	+@$(SIDE_BY_SIDE) lint-mypy lint-pyright lint-style lint-imports

lint-style:
	$(BIN)/ruff format --check --quiet $(CODE)
	$(BIN)/ruff check --quiet $(CODE)

lint-imports:
	PYTHONPATH=.namespace $(BIN)/lint-imports --no-logo

lint-mypy:
	$(BIN)/mypy --no-error-summary

lint-pyright:
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright --warnings

.PHONY: quick
quick: setup-test
	@$(BIN)/python -m tierlog.tests.quick --workers $(WORKERS) $(DIR)

.PHONY: check
check: lint
	$(BIN)/pytest -q -n $(WORKERS) --dist loadfile -m 'not slow and not long'

# The Kafkas of tests begin with classes that were loaded once, and work with Java's first compiler.
QUICK_KAFKA = TIERLOG_TEST_KAFKA_FLAGS="$$($(BIN)/python -m tierlog.tests.kafka_archive)"

# Hundreds of brokers start, each of which would compile all it imports where no bytecode is kept.
unexport PYTHONDONTWRITEBYTECODE
# Many tests wait for a broker, a client or a JVM: hence a worker more than cores.
PYTEST = $(BIN)/pytest -q -n $(TEST_WORKERS) --benchmark-disable -rfE

# All that Python alone can tell: Kafka's answers are read from the recordings beside the tests.
# Of two type checkers that agree on nearly all, one will do here; `make check` and CI ask both.
.PHONY: test
test: setup-test
	+@$(SIDE_BY_SIDE) lint-pyright lint-style lint-imports
	$(PYTEST) --dist loadfile -m 'not long and not tools' tests bench/micro

# The same stories asked of Apache Kafka itself, and what needs Java, Go, Node, a browser or root.
.PHONY: test-kafka
test-kafka: setup-test
	$(QUICK_KAFKA) $(PYTEST) --dist loadfile --kafka live --compare-table docs/clients.md \
		-m 'not long and (tools or recorded or compatibility)' tests

.PHONY: record
record: setup-test
	$(QUICK_KAFKA) $(PYTEST) --dist loadfile --kafka record -m 'recorded and not long' tests

# More seeds, kills and matrices. A seed that failed is run again by `--seeds`.
.PHONY: test-long
test-long: setup-test
	$(BIN)/python -m tierlog.tests.simulation.quorum_figures $(QUORUM_SEEDS) --workers $(WORKERS) \
		--minutes $$(( ($(MINUTES) + 1) / 2 ))
	$(BIN)/python -m tierlog.tests.simulation.bucket_figures $(BUCKET_SEEDS) --workers $(WORKERS) \
		--minutes $$(( ($(MINUTES) + 3) / 4 ))
	PYTHONHASHSEED=0 $(BIN)/python -m tierlog.tests.simulation.cluster_figures $(CLUSTER_SEEDS) --workers $(WORKERS) \
		--minutes $(CLUSTER_MINUTES)
	$(QUICK_KAFKA) $(PYTEST) --dist worksteal --kafka live --minutes $$(( ($(MINUTES) + 1) / 2 )) \
		--begin-within $(LONG_MINUTES) -m long tests

# The stories of tests/pythons run on each Python that is there in `make test-kafka`; this is all unit tests.
.PHONY: test-pythons
test-pythons: setup-test
	$(BIN)/python -m tierlog.tests.pythons.unit_suite $(PYTHONS) --workers $(WORKERS)

.PHONY: simulate
simulate: setup-test
	$(BIN)/pytest -q -n $(WORKERS) tests/simulation -k broker --seeds $(SEED)
	$(BIN)/python -m tierlog.tests.simulation.quorum_figures $(SEED) --workers $(WORKERS)
	$(BIN)/python -m tierlog.tests.simulation.cluster_figures $(SEED) --workers $(WORKERS)
	$(BIN)/python -m tierlog.tests.simulation.bucket_figures $(SEED) --workers $(WORKERS)

.PHONY: format
format: setup-test
	$(BIN)/ruff check --quiet --fix-only $(CODE)
	$(BIN)/ruff format --quiet $(CODE)

.PHONY: diagrams
diagrams: setup-test
	$(BIN)/python -m tierlog.tests.state_diagrams

.PHONY: scenarios
scenarios: setup-test
	$(BIN)/python -m tierlog.tests.scenario_page

.PHONY: sample
sample: setup-test
	$(BIN)/python -m tierlog.tests.sample_properties

.PHONY: log-messages
log-messages: setup-test
	$(BIN)/python -m tierlog.tests.log_message_page

.PHONY: limits
limits: setup-test
	$(BIN)/python -m tierlog.tests.limits_page

.PHONY: dashboards
dashboards: setup-test
	$(BIN)/python -m tierlog.docker.grafana.dashboards

.PHONY: table
table: setup-test
	$(BIN)/python -m tierlog.tests.compatibility.table

.PHONY: micro
micro: setup-test
	$(BIN)/pytest -q bench/micro --benchmark-columns=min,median,rounds --benchmark-sort=name $(MICRO_ARGS)

.PHONY: baseline
baseline: setup-test
	$(BIN)/python -m tierlog.bench.micro.costs --write

.PHONY: bench
bench: setup-test
	$(BIN)/tierlog-bench run $(BENCH_ARGS)

.PHONY: clean
clean:
	rm -rf $(VENV) $(VENV)-* build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find $(wildcard $(CODE)) -name __pycache__ -type d -prune -exec rm -rf {} +
