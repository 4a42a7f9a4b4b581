# make help lists the targets. Names are kept: others call them.
SHELL := /bin/bash
GO    ?= go
TOOL  := $(GO) tool -modfile=tools.mod
# The race detector needs a C compiler; make test says so where there is none.
RACE  := $(if $(shell command -v gcc || command -v clang),-race,)
# Packages at a time, and the time for one package.
PARALLEL     ?= 2
# Tests of a package at a time: those of loadtest mostly wait.
TESTS        ?= 4
TEST_TIMEOUT ?= 20m
# Folder of the stack of up and down.
DATA     ?= .stack
FUZZTIME ?= 20s
EVENTS   ?= 5000000
# Histories of make sim.
N        ?= 100000
# The schema of version 1, which later ones must not break. It never changes.
SCHEMA_V1 := pkg/events/testdata/v1/schema.binpb

.DEFAULT_GOAL := help
.PHONY: help build test lint bench benchmarks rebuilds fuzz sim chaos oracles up down demo

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/worker, bin/projector and bin/jobtrail
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/ ./cmd/...

test: build ## run every test, on a real Kafka and a real ClickHouse that it starts and stops
	$(GO) vet ./...
	@[ -n "$(RACE)" ] || echo "NOTE: no C compiler found: tests run without the race detector."
	@mkdir -p .cache && $(GO) build -o .cache/withstack ./internal/localstack/withstack
	.cache/withstack $(TOOL) gotestsum --format pkgname-and-test-fails --format-hide-empty-pkg -- \
		$(RACE) -p $(PARALLEL) -parallel $(TESTS) -timeout $(TEST_TIMEOUT) -count=1 ./...

lint: ## check style, the module files and the event schema
	$(TOOL) golangci-lint run ./...
	$(TOOL) buf lint
	$(TOOL) buf breaking --against $(SCHEMA_V1)
	$(GO) mod tidy -diff

bench: build ## measure jobtrail beside others, as ratios; fails below the gates (BENCHFLAGS="-rounds 5 -only worker")
	@mkdir -p .cache && $(GO) build -o .cache/withstack ./internal/localstack/withstack && CGO_ENABLED=0 $(GO) build -trimpath -o .cache/bench ./loadtest/bench
	.cache/withstack .cache/bench -json .cache/bench.json $(BENCHFLAGS)

benchmarks: ## run the benchmarks of single functions
	$(GO) test -run '^$$' -bench . -benchmem ./...

rebuilds: build ## rebuild a store of EVENTS events (5000000) while 200 jobs/s go on; reports time and memory
	@mkdir -p .cache && $(GO) build -o .cache/withstack ./internal/localstack/withstack
	.cache/withstack $(GO) test -tags scale -run '^TestRebuildAtScale$$' -count=1 -v -timeout 120m ./loadtest -events $(EVENTS)

fuzz: ## run every fuzz target for FUZZTIME (20s), one after the other
	@mkdir -p .cache; set -eo pipefail; for dir in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n 1 dirname | sort -u); do \
		for target in $$(grep -ho '^func Fuzz[A-Za-z0-9]*' $$dir/*_test.go | cut -c 6-); do \
			echo "== $$dir $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$dir 2>&1 | tee .cache/fuzz.log || { \
				grep -q '^    context deadline exceeded$$' .cache/fuzz.log && ! grep -Eq 'Failing input|panic:' .cache/fuzz.log || exit 1; \
				echo "-- its time was over and nothing was found; that this counts as a failure is go.dev/issue/75804, mended in Go 1.27"; \
			}; \
		done; \
	done

chaos: build ## fail everything by chance for 3 minutes under load, then the hard cases at length (CHAOSFLAGS="-seed 7 -faults 10m")
	@mkdir -p .cache && $(GO) build -o .cache/withstack ./internal/localstack/withstack
	.cache/withstack $(GO) test -tags chaos -run '^TestChaos' -count=1 -v -timeout 60m ./loadtest $(CHAOSFLAGS)

sim: ## simulate N histories of the ledger under faults (100000; about 2000 a second)
	GOGC=800 $(GO) test ./pkg/worker -run '^TestSimulation$$' -sim.n $(N) -count=1 -v -timeout 0

oracles: build ## judge the sanitiser by gitleaks, gofakeit, presidio, detect-secrets and CredSweeper
	cd pkg/sanitize/oracles && $(GO) test -count=1 -v .
	@mkdir -p .cache && [ -x .cache/oracles/bin/credsweeper ] || \
		{ python3 -m venv .cache/oracles && .cache/oracles/bin/pip install -q -r pkg/sanitize/oracles/requirements.txt && \
			.cache/oracles/bin/pip install -q --no-deps presidio-evaluator==0.3.2; }
	.cache/oracles/bin/python pkg/sanitize/oracles/oracles.py bin/jobtrail \
		.cache/oracles/lib/python3*/site-packages/presidio_evaluator/data_generator/raw_data/templates.txt

up: build ## start Kafka and ClickHouse on their usual ports, data in DATA (.stack)
	bin/jobtrail up --data $(DATA)

down: build ## stop what up started; data stays
	bin/jobtrail down --data $(DATA)

demo: build ## from nothing to one operation's story
	$(GO) run ./loadtest/demo
