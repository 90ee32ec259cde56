# What there is to do here. `make` alone says so.
GO ?= go
BIN ?= bin/pawl

# With PostgreSQL: installed where it is missing, a throw-away cluster, nothing left behind.
WITH_POSTGRES = $(GO) run ./internal/lab/pgtest/run --

# The same, writing every commit to the disk, as in production.
WITH_POSTGRES_DURABLE = $(GO) run ./internal/lab/pgtest/run -durable --

# The race detector needs cgo, and cgo a C compiler. SQLite is C translated to Go,
# nine times slower under the detector, and not what the tests are of: `make test`
# leaves it out, and `make race` does not.
RACE = $(if $(shell command -v $(CC) 2>/dev/null),-race -gcflags=modernc.org/...=-race=false)

# A race is found where it happens, not a second after the last test.
export GORACE ?= atexit_sleep_ms=100

# The packages that start no goroutine (arch_test.go): `make test` runs them without
# the detector, but for what uses them from many.
PURE = audit internal/decide internal/document internal/expressions internal/programs/spec internal/rehearsal internal/schedule internal/simulate internal/verify lifecycle machine machine/machinetest workflow

# The packages whose tests are mostly bubbles of testing/synctest: with thousands of
# them the detector itself fails now and then (golang/go#78156). Those tests run
# without it in `make test`, and the others of the package with it.
BUBBLES = supervisor

OTHERS = $(filter-out $(addprefix $(shell $(GO) list -m)/,$(PURE) $(BUBBLES)),$(shell $(GO) list ./...))

# What `make check` leaves out, because it is slow or needs PostgreSQL; `make test`
# runs all of it. With PAWL_TEST_POSTGRES=none a test that needs PostgreSQL and is
# not named here fails, so nothing is skipped unnoticed.
#
# Packages: PostgreSQL's own; pgtest, which starts clusters; and the programs that
# load, kill and compare whole databases; buf, grpcjs, promtool, redocly and sdk, which download tools.
UNCHECKED = internal/store/postgres internal/lab/bench internal/lab/bench/drainprofile internal/lab/bench/guard internal/lab/buf internal/lab/grpcjs internal/lab/chaos internal/lab/contest internal/lab/pgtest internal/lab/pgtest/run internal/lab/promtool internal/lab/redocly internal/lab/sdk internal/lab/soak

# Tests that need PostgreSQL, by name, and then any subtest "postgres". In a -skip the
# shorter paths come first: a path that goes deeper than a name ends the search.
POSTGRES_TESTS = Postgre|^Test(AHalfOpenConnectionReleasesNothing|ALostSessionReleasesNothing|AWorkerLooksAgainForWhatWasLocked|AnOutageOfTheDatabaseLosesNoStep|BatchAndItsResponseAreOne|ConnectionsExhaustedAfterARestart|EveryConnectionInUse|IdenticalBatchesAtOnce|IsolatedCommandsAreKilled|IsolatedStepsNeverOverlap|LanesNeedConnections|NobodyRestsBesideABacklog|RunningCopiesAtOnce|UnsettledBatch)$$
subtests = /^($(1))$$|//^($(1))$$|///^($(1))$$

# internal/store/sqlite runs the suite of the contract once, on a file with
# synchronous=normal, and without its long lists and its mutants.
SQLITE_LARGE = ^TestSuite(Full|Memory)$$|^TestForgottenColumns$$|//Pages$$

# internal/engine runs on SQLite in memory and not on files, which is the same code
# but for the disk, and without the tests of megabytes and thousands of steps.
ENGINE_LARGE = HeavySubmissions|WideFanOut

# internal/decide compares fewer random jobs with its twin, and does not try read sets with
# each part left out. cmd/pawl runs the scripts of the commands that people use first.
# The others, and the tests that kill processes, take minutes.
SCRIPTS = ^TestScripts$$/^(hello|json|exitcodes|resume|steps|verify)$$

CHECKED = $(filter-out $(addprefix $(shell $(GO) list -m)/,$(UNCHECKED) $(ON_DISK) internal/decide internal/store/sqlite internal/engine cmd/pawl),$(shell $(GO) list ./...))

# After a change half of the time of `make check` is the compiler's. It leaves out what only debuggers read, and
# does not inline in internal/api, whose operations are instances of one large generic function: so that package
# takes a half (7 s of CPU time instead of 14, and it is compiled three times), and others an eighth less. vet,
# which reads what is compiled, has the same flags. What is compiled with them is of no use to a go build or go test
# without them, which compiles the packages of Pawl anew.
COMPILED = -gcflags=github.com/pawl-dev/pawl/...=-dwarf=false -gcflags=github.com/pawl-dev/pawl/internal/api='-dwarf=false -l'
QUICKLY = -vet=off $(COMPILED)

# The longest come first. Those of the engine and of the disk mostly wait, so three parts run at once on
# two cores.
CHECKS = check-most check-engine check-disk check-vet check-sqlite check-scripts check-decide
check $(CHECKS): export PAWL_TEST_POSTGRES = none

# The inner loop keeps temporary files in memory if 4 GiB are free there and TMPDIR is not set: it
# makes and deletes thousands. The load engine needs direct I/O, which memory has not.
IN_MEMORY = $(GO) run ./internal/lab/ramdisk/run --
ON_DISK = internal/load/workload

# Of the tests with PostgreSQL only its clusters are in memory, if 6 GiB are free there: TMPDIR=/tmp
# keeps those on the disk, too. So do these targets, whose databases are large.
verify soak race: export TMPDIR := $(or $(TMPDIR),/tmp)

# Where make can, it prints the output of a target in one piece.
SYNC = $(if $(filter output-sync,$(.FEATURES)),-Otarget)

# failures runs a command and names in its last lines what failed: in the output of a hundred packages
# that is far above.
failures = mkdir -p bin && rm -f bin/$@.passed && { $(1) 2>&1 && touch bin/$@.passed; } | tee -i bin/$@.log; \
	rm bin/$@.passed 2>/dev/null || { echo "What failed (the whole output is in bin/$@.log):"; grep -E '^ *--- FAIL|^FAIL.|^panic:|\*\*\* \[' bin/$@.log; exit 1; }

.PHONY: help build demo check $(CHECKS) test test-most test-rest test-pure test-modules race lint vulnerabilities generate verify bench bench-guard bench-commands profile-drain bench-supervise bench-load peers peers-deployed peers-http supervisors chaos soak clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

build: ## build bin/pawl
	CGO_ENABLED=0 $(GO) build -o $(BIN) ./cmd/pawl

demo: build ## run the main example: statistics of the Go standard library
	$(BIN) run examples/gostats/gostats.yaml

check: ## the inner loop: gofmt, vet, and the fast tests, on SQLite; without PostgreSQL and the race detector
	@$(call failures,$(MAKE) -j3 $(SYNC) $(CHECKS))

check-vet:
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	$(GO) vet $(COMPILED) ./...

check-most:
	$(IN_MEMORY) $(GO) test $(QUICKLY) -skip '$(POSTGRES_TESTS)|$(call subtests,postgres)' $(CHECKED)

check-disk:
	$(GO) test $(QUICKLY) $(addprefix ./,$(ON_DISK))

check-sqlite:
	$(IN_MEMORY) $(GO) test $(QUICKLY) -skip '$(SQLITE_LARGE)' ./internal/store/sqlite

check-engine:
	$(IN_MEMORY) $(GO) test $(QUICKLY) -skip '$(POSTGRES_TESTS)|$(ENGINE_LARGE)|$(call subtests,postgres|sqlite)' ./internal/engine

check-decide:
	$(GO) test $(QUICKLY) -skip ReadSetsAreNotTooLarge ./internal/decide -twin.cases 2000

check-scripts:
	$(GO) test $(QUICKLY) -run '$(SCRIPTS)' ./cmd/pawl

test: ## run every test, on SQLite and on a throw-away PostgreSQL; with the race detector where there is a C compiler
	@$(call failures,$(MAKE) -j2 test-most test-rest)

# Many tests wait for timeouts and for other processes, so three packages run at once on two cores and
# on one; on more, one a core, as Go does.
PACKAGES_AT_ONCE = $(if $(filter 1 2,$(shell getconf _NPROCESSORS_ONLN)),-p 3)

test-most: # by far the longest, so it prints as it goes
	$(WITH_POSTGRES) $(GO) test $(RACE) -vet=off $(PACKAGES_AT_ONCE) -timeout 40m $(OTHERS)

test-rest:
	@$(MAKE) $(SYNC) test-pure test-modules

test-pure:
	$(GO) test -vet=off $(addprefix ./,$(PURE) $(BUBBLES))
	$(GO) test -vet=off -run RandomRequests ./internal/api -random.requests 20000
	$(GO) test $(RACE) -vet=off -run Concurrent ./workflow
	$(GO) test $(RACE) -vet=off -run 'Example|(Memory|File)Journal' ./supervisor

# The modules of the benchmarks, which need what Pawl is held against. TestFronts builds Temporal's server
# and River UI; `make verify` runs it.
test-modules:
	$(WITH_POSTGRES) $(GO) test -C internal/lab/peers -vet=off -skip '^TestFronts$$' .
	$(GO) test -C internal/lab/peers/sqlite -vet=off .
	$(GO) test -C internal/lab/supervisors -vet=off .

race: ## the same at full length, the race detector on everything; an hour, and fail without a C compiler
	$(WITH_POSTGRES) $(GO) test -race -tags full -timeout 120m ./...

lint: ## gofmt, vet, staticcheck, and whether the modules of the benchmarks still load
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) tool -modfile=tools/go.mod staticcheck ./...
	@for m in internal/lab/peers internal/lab/peers/sqlite internal/lab/supervisors internal/lab/s3server; do (cd $$m && $(GO) list -deps ./... >/dev/null) || { echo "go mod tidy in $$m is needed"; exit 1; }; done

vulnerabilities: ## known vulnerabilities in what Pawl is built from; reads the database at vuln.go.dev
	$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...

generate: ## write the generated documents anew
	$(GO) run ./internal/lab/machinedoc
	$(GO) run ./internal/lab/workflowschema
	$(GO) run ./internal/lab/apidoc
	cd proto && npx --yes @bufbuild/buf@1.73.0 generate

verify: ## the long property tests: a million decisions, fuzzing, all the random jobs and kills that `make test` has fewer of; builds Temporal and River UI for a test
	$(WITH_POSTGRES) $(GO) test ./internal/engine ./cmd/pawl -run 'Random|TenThousand|WideFanOut|Killed' -timeout 60m
	$(WITH_POSTGRES) $(GO) test ./internal/engine -run InstancesVerify -instances 100000 -timeout 60m
	$(WITH_POSTGRES) $(GO) test ./internal/engine -run ManyThatWait -waiting 1000000 -timeout 60m
	$(GO) test ./internal/decide -run Twin -twin.cases 1000000 -timeout 60m
	$(GO) test ./supervisor -run RandomSchedules -schedule.cases 1000000 -timeout 180m
	$(GO) test ./internal/api -run RandomRequests -random.requests 200000 -timeout 60m
	$(GO) test ./internal/api -run MemoryStaysFlat -load.requests 100000 -timeout 60m
	$(GO) test ./internal/load/controller -run FlatProcesses -flat.count 5000000000 -timeout 60m
	$(GO) test ./internal/crew -run Hammer -hammer.time 60s -hammer.processes 16
	$(GO) test -tags generated ./internal/lab/generated
	$(WITH_POSTGRES) $(GO) test -C internal/lab/peers -run '^TestFronts$$' -timeout 60m .
	$(GO) test ./workflow -run xxx -fuzz FuzzParse -fuzztime 2m -fuzzminimizetime 1x
	$(GO) test ./internal/programs/spec -run xxx -fuzz FuzzParse -fuzztime 2m -fuzzminimizetime 1x
	$(GO) test ./workflow -run xxx -fuzz FuzzLoad -fuzztime 2m -fuzzminimizetime 1x
	$(GO) test ./workflow -run xxx -fuzz FuzzExpression -fuzztime 2m -fuzzminimizetime 1x

bench: build ## measure this machine: SQLite FULL, SQLite NORMAL, PostgreSQL; and 1, 2 and 4 workers, in a process and in processes
	$(WITH_POSTGRES_DURABLE) $(BIN) bench
	$(WITH_POSTGRES_DURABLE) $(BIN) bench --stores postgres --only drain --workers 1,2,4
	$(WITH_POSTGRES_DURABLE) $(BIN) bench --stores postgres --only drain --workers 1,2,4 --processes --jobs 4000 --rounds 3

bench-guard: ## which workloads became slower than at BASE (default: where this branch left main)? ten minutes; QUICK=1: four
	$(GO) build -o bin/guard ./internal/lab/bench/guard
	$(WITH_POSTGRES_DURABLE) bin/guard $(if $(BASE),-base $(BASE)) $(if $(QUICK),-quick) $(GUARD)

# Flags: -n, -parallel, -rounds, -json.
COMMANDS ?=

bench-commands: build ## hold pawl run against xargs -P and make -j: programs that do nothing, as many at once
	$(GO) run ./internal/lab/bench/commands -pawl $(BIN) $(COMMANDS)

profile-drain: ## where the CPU time of a drain goes: of the client by package, of PostgreSQL by statement
	$(GO) run ./internal/lab/bench/drainprofile $(DRAIN)

bench-supervise: build ## measure how long pawl supervise takes to start and to stop 1,000 programs, and 10,000
	$(GO) run ./internal/lab/programs -pawl $(BIN) -n 1000,10000

# Flags of one run, instead of all of them: -seed, -rounds, -outages, -database, -roles.
CHAOS ?=

chaos: ## kill, stop and cut off processes and databases for 1000 rounds, an hour or so, 200 on SQLite, and 100 with workers in Python and Node; 100 outages of PostgreSQL alone, three quarters of an hour
ifeq ($(CHAOS),)
	$(GO) run ./internal/lab/chaos -rounds 1000
	$(GO) run ./internal/lab/chaos -rounds 100 -roles far,python,node
	$(GO) run ./internal/lab/chaos -outages 100
	$(GO) run ./internal/lab/chaos -rounds 200 -database sqlite
else
	$(GO) run ./internal/lab/chaos $(CHAOS)
endif

soak: ## ten minutes of load beside a transaction that stays open: does it stay as fast?
	$(WITH_POSTGRES) $(GO) run ./internal/lab/soak

# Flags of the peers: -rounds, -scale, -only, -json.
PEERS ?=

peers: ## hold Pawl against River in the same run, on PostgreSQL and on SQLite (downloads River)
	cd internal/lab/peers && $(GO) build -o ../../../bin/peers .
	cd internal/lab/peers/sqlite && $(GO) build -o ../../../../bin/peers-sqlite .
	$(WITH_POSTGRES_DURABLE) bin/peers $(PEERS)
	bin/peers-sqlite $(PEERS)

peers-deployed: ## the same on PostgreSQL with servers, workers and submitters in processes of their own
	cd internal/lab/peers && $(GO) build -o ../../../bin/peers .
	$(WITH_POSTGRES_DURABLE) bin/peers -deployed $(PEERS)

peers-http: ## hold the HTTP API against the engine below it, Temporal and River UI, at fixed rates (downloads and builds both)
	cd internal/lab/peers && $(GO) build -o ../../../bin/peers .
	$(WITH_POSTGRES_DURABLE) bin/peers -http -bin bin $(PEERS)

supervisors: ## hold package supervisor against client-go's workqueue and suture (downloads both)
	cd internal/lab/supervisors && $(GO) run . -n 1000 && $(GO) run . && $(GO) run . -n 100000

bench-load: ## hold the load engine against fio, and against net/http on an object store, in the same run (needs fio)
	@command -v fio >/dev/null || { echo "this needs fio: apt-get install fio"; exit 1; }
	$(GO) test ./internal/load/workload -run '^$$' -bench . -benchtime 1x -timeout 60m

clean: ## remove what was built
	rm -rf bin examples/gostats/out
