# What there is to do here. `make` alone says so.
GO ?= go
BIN ?= bin/pawl

# With PostgreSQL: installed where it is missing, a throw-away cluster, nothing left behind.
WITH_POSTGRES = $(GO) run ./internal/pgtest/run --

# The race detector needs cgo, and cgo a C compiler.
RACE = $(if $(shell command -v $(CC) 2>/dev/null),-race)

.PHONY: help build demo test race lint generate verify bench clean

help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

build: ## build bin/pawl
	CGO_ENABLED=0 $(GO) build -o $(BIN) ./cmd/pawl

demo: build ## run the main example: statistics of the Go standard library
	$(BIN) run examples/gostats/gostats.yaml

test: ## run every test, on SQLite and on a throw-away PostgreSQL; with the race detector where there is a C compiler
	$(WITH_POSTGRES) $(GO) test $(RACE) -timeout 20m ./...

race: ## the same, and fail without a C compiler
	$(WITH_POSTGRES) $(GO) test -race -timeout 20m ./...

lint: ## vet, and what gofmt would change
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	$(GO) vet ./...

generate: ## write the generated documents anew
	$(GO) run ./internal/machinedoc
	$(GO) run ./internal/workflowschema

verify: ## the long property tests: a million decisions, fuzzing
	$(GO) test ./workflow -run Twin -twin.cases 1000000 -timeout 60m
	$(GO) test ./workflow -run xxx -fuzz FuzzParse -fuzztime 2m -fuzzminimizetime 1x
	$(GO) test ./workflow -run xxx -fuzz FuzzLoad -fuzztime 2m -fuzzminimizetime 1x
	$(GO) test ./workflow -run xxx -fuzz FuzzExpression -fuzztime 2m -fuzzminimizetime 1x

bench: build ## measure this machine: SQLite FULL, SQLite NORMAL, PostgreSQL
	$(GO) run ./internal/pgtest/run -durable -- $(BIN) bench

clean: ## remove what was built
	rm -rf bin examples/gostats/out
