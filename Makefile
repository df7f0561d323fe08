# Everything a person or a CI job does with Coax. `make` alone lists it.

# The product is built without cgo, and judged by vet and staticcheck as it is
# built. Only the race detector needs cgo: `test` and `race` ask for it themselves.
export CGO_ENABLED = 0

DEMO_DIR     ?= .demo
ARGS         ?=
PKG          ?= ./...
COUNT        ?= 1
FUZZTIME     ?= 20s
TEST_TIMEOUT ?= 40m
STORE        ?= sqlite
# Where tests keep pictures of the pages they looked at.
export COAX_TEST_SHOTS ?= $(CURDIR)/.shots
MUTATE       ?=
PAGES        ?= 20x

# Packages whose tests run on either store, as COAX_TEST_STORE says: SQLite, or a
# PostgreSQL that they start themselves. The second time they are not raced, and
# pages are used without being looked at: what is new then is the store, whose own
# tests are raced.
BOTH_STORES = ./cmd/coax ./internal/audit

# What tortures processes and disks is not raced: the detector sees nothing of
# either. Nor is what only reads answers or pages of the manual, nor what fills stores.
# The simulation and the histories of two nodes do as much under it as races need, and
# the rest without it.
UNRACED_ONLY = ./internal/torture ./internal/durability ./internal/planted ./internal/growth ./contract/contracttest
UNRACED      = . ./internal/sim ./internal/linearizability $(UNRACED_ONLY)
# Among the raced packages, tests that are run apart and without it: stories that
# Chromium tells, plans of statements over filled tables, every pair of faults in turn,
# demos that make up three months, what is timed, what loads processes from others, and
# commands, most of whose time is a service's beginning and end, six times longer raced.
# What they go through is raced where less of it is enough.
APART        = InABrowser|UsesAnIndex|EveryPairAnswers|WithAHistory|InItsHistory|IsThereInTime|TestBench|^TestCLI
APART_IN     = ./cmd/coax ./internal/store/sqlite ./internal/store/postgres
RACED        = $(shell go list ./... | grep -v -x "$$(go list -m)" | grep -v -E '$(subst $(eval ) ,|,$(UNRACED_ONLY:./%=/%$$))' | awk '$(LONG_FIRST)')
# Packages begin in the order they are named in. Those that take long come first: at the
# end one of them would have the machine to itself, and most of it would stand idle.
LONG_FIRST   = /\/(cmd\/coax|internal\/sim|store\/sqlite)$$/ { print; next } { rest = rest " " $$0 } END { print rest }

# SQLite is C that was translated to Go. It has locks of its own, and watching each
# of its steps for races takes two thirds of the whole suite's time. What hashes
# passwords shares nothing, and takes as long as it can as it is.
RACE = -race -gcflags='modernc.org/...=-race=false' -gcflags='golang.org/x/crypto/...=-race=false'

# Most tests wait for a process, a disk or a database now and then: more of them than
# there are processors are on their way at a time.
MANY = -parallel 4

OPERATIONS   ?= 1000000
ROUNDS       ?= 20
# A round takes about half a minute where two processors share everything.
FAILOVER_TIMEOUT ?= $(shell expr 10 + $(ROUNDS) '*' 3)m

CYCLES       ?= 100
SEED         ?= 1
# A cycle takes about two seconds, and two worlds live at once.
TORTURE_TIMEOUT ?= $(shell expr 10 + $(CYCLES) / 6)m

CUTS         ?= 2000
# A hundred cuts take some ten seconds, more where others work beside.
WALCUT_TIMEOUT ?= $(shell expr 10 + $(CUTS) / 50)m

FILLS        ?= 50
DISKFULL_TIMEOUT ?= $(shell expr 10 + $(FILLS) / 2)m

# A program is built and searched for each; most are found out within seconds.
PLANT           ?= all
PLANTED_TIMEOUT ?= 60m

# Pinned in a module of its own, so that a linter's needs never become the product's.
STATICCHECK = go tool -modfile=tools/go.mod staticcheck

.DEFAULT_GOAL := help

# Steps build on each other, so `make -j` must not shuffle them.
.NOTPARALLEL:

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the one binary, bin/coax
	go build -trimpath -o bin/coax ./cmd/coax

.PHONY: demo
demo: build ## Run a whole Coax with nothing to configure, and three months of made-up history (DEMO_DIR=.demo ARGS="--addr 127.0.0.1:0")
	bin/coax demo --history --dir $(DEMO_DIR) $(ARGS)

.PHONY: test
test: tools-present lint ## Everything: lint, the tests under the race detector, what differs by store once more on PostgreSQL, what is not raced, and some fuzzing
	CGO_ENABLED=1 go test $(RACE) $(MANY) -skip '$(APART)' -count=1 -timeout $(TEST_TIMEOUT) $(RACED)
	COAX_TEST_STORE=postgres COAX_TEST_LOOKS=no go test $(MANY) -count=1 -timeout $(TEST_TIMEOUT) $(BOTH_STORES)
	go test $(MANY) -count=1 -timeout $(TEST_TIMEOUT) $(UNRACED)
	go test $(MANY) -count=1 -timeout $(TEST_TIMEOUT) -run '$(APART)' $(APART_IN)
	FUZZTIME=10s FUZZFRESH=1 scripts/fuzz

.PHONY: race
race: ## Only the tests, raced (PKG=./internal/store/... COUNT=20 ARGS="-run Reserve" STORE=postgres)
	COAX_TEST_STORE=$(STORE) CGO_ENABLED=1 go test $(RACE) -count=$(COUNT) -timeout $(TEST_TIMEOUT) $(ARGS) $(PKG)

.PHONY: failover
failover: tools-present ## Kill the primary under load, again and again, and switch over as often (ROUNDS=20)
	CGO_ENABLED=1 COAX_TEST_FAILOVER_ROUNDS=$(ROUNDS) go test $(RACE) -count=1 -v -timeout $(FAILOVER_TIMEOUT) \
		-run '^(TestThePrimaryDies|TestASwitchover|TestWithoutItsStandby)' ./cmd/coax

.PHONY: sim
sim: tools-present ## Simulate whole histories with every kind of fault, and put each fault everywhere (HISTORIES=10000 PAIRS=all, or STORE=postgres HISTORIES=200)
ifeq ($(STORE),postgres)
	COAX_TEST_SIM_POSTGRES=$(or $(HISTORIES),200) go test -count=1 -v -timeout 2h -run '^TestHistoriesOnPostgres$$' ./internal/sim
else
	HISTORIES=$(or $(HISTORIES),10000) PAIRS=$(PAIRS) go test -count=1 -v -timeout 4h -run '^(TestHistories|TestEveryFaultAtEveryPlace|TestOneSeedIsOneTrace)$$' ./internal/sim
endif

.PHONY: torture
torture: tools-present ## Kill nodes at random and at every crash point, over HTTPS (STORE=postgres CYCLES=200 SEED=1)
	COAX_TEST_STORE=$(STORE) COAX_TEST_TORTURE_CYCLES=$(CYCLES) COAX_TEST_TORTURE_SEED=$(SEED) \
		go test -count=1 -v -timeout $(TORTURE_TIMEOUT) -run '^TestNothingIsLostHoweverOftenNodesDie$$/^$(STORE)$$' ./internal/torture

.PHONY: linear
linear: tools-present ## Run two nodes with many clients at once, and look for an order that explains the answers (HISTORIES=200)
	COAX_TEST_LINEAR_HISTORIES=$(or $(HISTORIES),200) go test -count=1 -v -timeout 2h \
		-run '^TestTwoNodesAreOneService' ./internal/linearizability

.PHONY: audit-scale
audit-scale: ## Fill a store with very many operations, audit it, and measure what that takes (OPERATIONS=2000000 STORE=postgres)
	COAX_TEST_STORE=$(STORE) COAX_TEST_AUDIT_OPERATIONS=$(OPERATIONS) go test -count=1 -v -timeout 6h \
		-run '^TestWhatAnAuditKeepsDoesNotGrowWithTheRows$$' ./internal/audit

.PHONY: walcut
walcut: tools-present ## Cut the power at random bytes of SQLite's log, under load (CUTS=2000)
	COAX_TEST_CUTS=$(CUTS) COAX_TEST_ANSWERS=1000 go test -count=1 -v -timeout $(WALCUT_TIMEOUT) -run '^(TestAPowerCut|TestACut|TestNothingIsTold)' ./internal/durability

.PHONY: diskfull
diskfull: ## Fill the disk under a demo at work, again and again (FILLS=50); needs a namespace
	COAX_TEST_FILLS=$(FILLS) go test -count=1 -v -timeout $(DISKFULL_TIMEOUT) -run '^TestADemoOnADiskThatFillsUp' ./cmd/coax

.PHONY: planted
planted: tools-present ## Have every planted bug found, by the simulation or whoever is to find it (PLANT=08)
	COAX_TEST_PLANTED=$(PLANT) go test -count=1 -v -timeout $(PLANTED_TIMEOUT) -run '^TestEveryPlantIsFound$$' ./internal/planted

.PHONY: ha-demo
ha-demo: build ## Run Coax on three PostgreSQL under Patroni, to look at and to break (ARGS=--drill)
	scripts/ha-demo $(ARGS)

.PHONY: bench
bench: tools-present build ## Measure the service beside what its parts can do, and print the ratios; some 25 minutes on an idle machine (ARGS="--only sqlite" PROFILE=1)
	bin/coax bench compare $(if $(PROFILE),--profile) $(ARGS)

.PHONY: bench-full
bench-full: tools-present build ## The same, with stores of ten million operations, which are filled first and kept in .bench: some 50 GB, and three quarters of an hour the first time
	bin/coax bench fill --store sqlite
	bin/coax bench fill --store postgres
	bin/coax bench compare $(if $(PROFILE),--profile) $(ARGS)

.PHONY: bench-pages
bench-pages: ## Time every page on the demo's history and for an operator with 100,000 subscribers, and list the slowest; a few minutes (STORE=postgres PAGES=20x)
	COAX_TEST_STORE=$(STORE) go test -run '^$$' -bench '^BenchmarkPages$$' -benchtime $(PAGES) -timeout 20m ./cmd/coax

.PHONY: lint
lint: ## gofmt, go vet and staticcheck; needs only Go
	@echo 'gofmt -l .'
	@unformatted=$$(gofmt -l .) || exit 1; \
	if [ -n "$$unformatted" ]; then \
		echo "$$unformatted"; echo 'not formatted; mend with: gofmt -w .' >&2; exit 1; \
	fi
	go vet ./...
	$(STATICCHECK) ./...

.PHONY: vectors
vectors: ## Check the signing vectors with a second implementation, in Python
	python3 contract/vectors/check.py

.PHONY: fuzz
fuzz: ## Run every fuzz target for a while, two side by side (FUZZTIME=20s each, PKG=./signing/...)
	FUZZTIME=$(FUZZTIME) scripts/fuzz $(PKG)

.PHONY: mutation
mutation: ## Change the rules a little, place by place, and count what the tests notice (MUTATE="internal/money signing"); half an hour
	scripts/mutation $(MUTATE)

.PHONY: tools-present
tools-present: ## Install what the whole suite needs beside Go, where it is missing
	@scripts/tools-present

.PHONY: clean
clean: ## Remove what was built, the demo's data in .demo and the pictures of pages in .shots
	rm -rf bin .demo .shots coverage.out coverage.html
