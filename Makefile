# Everything a person or a CI job does with Coax. `make` alone lists it.

# The product is built without cgo, and linted as it is built. Only the race detector
# needs cgo: the targets that use it ask for it themselves.
export CGO_ENABLED = 0

# -trimpath keeps the folder's name out of builds, so that clones, binaries, tests and
# linters share the build cache.
export GOFLAGS := -trimpath $(GOFLAGS)

DEMO_DIR ?= .demo
ARGS     ?=
PKG      ?= ./...
COUNT    ?= 1
STORE    ?= sqlite
PAGES    ?= 20x
COMMIT   ?= HEAD
# Where tests save pictures of pages.
export COAX_TEST_SHOTS ?= $(CURDIR)/.shots

# The first seed of the simulation. A fresh one for each run, printed by make test.
SEED ?=

# SQLite is C translated to Go, with its own locks: the race detector would spend most of
# the suite's time in it. Password hashing shares no memory.
RACE = -race -gcflags='modernc.org/...=-race=false' -gcflags='golang.org/x/crypto/...=-race=false'

# Packages whose goroutines share memory. Their tests run under the race detector, in two
# steps, but for the suite of the stores: most of its tests make one call after the other.
# race-long runs it so, and all other packages.
RACED_STORES = ./internal/store/sqlite ./internal/store/postgres
RACED_OTHERS = ./internal/operation ./internal/access ./internal/acmecert ./internal/bulk ./internal/catalogue ./internal/httpapi ./internal/login \
	./internal/provider/... ./internal/requestlog ./internal/server ./internal/telemetry ./client
# Everything else, slow packages first: started last, one of them would run alone on half
# of the machine.
SLOW   = ./internal/e2e/pages ./internal/e2e/cli ./internal/e2e/nodes ./internal/sim ./internal/e2e/races ./internal/e2e/api ./internal/docstest
UNRACED = $(SLOW) $$(go list ./... | grep -vxF "$$(go list $(RACED_STORES) $(RACED_OTHERS) $(SLOW))")

# Most tests wait for a process, a disk or a database at times, so more of them than there
# are processors run at once. lint has vetted them. The steps run in parallel, so one or two
# packages of each are enough.
PACKAGES = 1
# Without debugging data the tests are linked in three quarters of the time.
GOTEST = go test -count=1 -vet=off -ldflags=-w -p $(PACKAGES) -parallel 4 -timeout 30m

# How the tests of a long target are run; each target has a timeout.
LONG = go test -count=1 -parallel 4 -tags long -v

# Pinned in a module of its own, so that the linter's dependencies are not the product's.
STATICCHECK = go tool -modfile=tools/go.mod staticcheck

# Runs a command beside a PostgreSQL server that all its tests share.
PGSERVER = go run ./internal/store/pgtest/pgserver

# Tests find the binaries that test-bin builds here.
TEST_BIN = COAX_TEST_BIN=$(CURDIR)/bin

.DEFAULT_GOAL := help

# Steps build on each other, so `make -j` must not shuffle them.
.NOTPARALLEL:

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the one binary, bin/coax
	go build -trimpath -o bin/coax ./cmd/coax

# The benchmarks' program, which is no part of the product.
.PHONY: build-bench
build-bench: build
	go build -trimpath -o bin/coaxbench ./cmd/coaxbench

# The program that makes releases has dependencies of its own, so it is a module of its own.
.PHONY: release
release: ## Build packages, archives, SBOMs and licences of a commit into dist/, for amd64 and arm64 (COMMIT=HEAD); some minutes
	cd tools/release && go run . -root $(CURDIR) -out $(CURDIR)/dist -commit $(COMMIT)

.PHONY: demo
demo: build ## Run Coax without configuration, with a simulated provider and three months of made-up history (DEMO_DIR=.demo ARGS="--addr 127.0.0.1:0")
	bin/coax demo --history --dir $(DEMO_DIR) $(ARGS)

.PHONY: test
test: tools-present lint test-bin ## Lint and the tests that every change has to pass: some 16 minutes on two idle cores (SEED=1 for the simulation)
	$(TEST_BIN) COAX_TEST_SEED=$(SEED) scripts/in-memory $(PGSERVER) $(MAKE) --no-print-directory test-run

.PHONY: test-bin
test-bin: build
	go build -tags failpoints -o bin/coax-failpoints ./cmd/coax

# The steps of make test, run with the binaries and a database server. They run in parallel:
# in sequence, each would end with one package and an idle processor.
.PHONY: test-run test-seed test-unraced test-stores test-others test-suite test-postgres test-raced
test-run: export COAX_TEST_SEED := $(or $(COAX_TEST_SEED),$(shell od -An -N4 -tu4 /dev/urandom | tr -d ' '))
test-run: test-seed
	@steps=; failed=0; \
	for step in test-stores test-unraced test-others; do $(MAKE) --no-print-directory --keep-going $$step & steps="$$steps $$!"; done; \
	for step in $$steps; do wait $$step || failed=1; done; \
	exit $$failed

test-seed:
	@echo 'the simulation begins with seed $(COAX_TEST_SEED); make test SEED=$(COAX_TEST_SEED) begins with it again'

test-stores:
	CGO_ENABLED=1 $(GOTEST) $(RACE) -skip '^TestStore$$' $(RACED_STORES)

test-others: test-postgres test-suite test-raced

test-suite:
	$(GOTEST) -run '^TestStore$$' ./internal/store/sqlite ./internal/store/postgres

test-raced:
	CGO_ENABLED=1 $(GOTEST) $(RACE) $(RACED_OTHERS)

test-unraced: PACKAGES = 2
test-unraced:
	$(GOTEST) $(UNRACED)

test-postgres:
	COAX_TEST_STORE=postgres $(GOTEST) ./internal/e2e/api ./internal/e2e/races

# Processes leave their counters in a folder, test binaries in a profile of each step;
# a statement is covered if either ran it.
.PHONY: coverage
coverage: PACKAGES = 4
coverage: COVER = -coverpkg=./... -covermode=atomic
coverage: tools-present ## Statement coverage of what make test runs, in coverage.out; some 12 minutes
	rm -rf .cover && mkdir -p .cover/bin .cover/processes
	go build $(COVER) -o .cover/bin/coax ./cmd/coax
	go build $(COVER) -tags failpoints -o .cover/bin/coax-failpoints ./cmd/coax
	COAX_TEST_BIN=$(CURDIR)/.cover/bin COAX_TEST_COVERDIR=$(CURDIR)/.cover/processes $(PGSERVER) sh -ec ' \
		$(GOTEST) $(COVER) -coverprofile=.cover/sqlite.out ./...; \
		COAX_TEST_STORE=postgres $(GOTEST) $(COVER) -coverprofile=.cover/postgres.out ./internal/e2e/api ./internal/e2e/races'
	go tool covdata textfmt -i=.cover/processes -o .cover/processes.out
	cat .cover/*.out | awk '/^mode:/ { next } { n[$$1 " " $$2] += $$3 } END { print "mode: atomic"; for (b in n) print b, n[b] }' > coverage.out
	go tool cover -func=coverage.out | tail -n 1

.PHONY: lint
lint: ## gofmt, go vet and staticcheck; needs only Go
	@echo 'gofmt -l .'
	@unformatted=$$(gofmt -l .) || exit 1; \
	if [ -n "$$unformatted" ]; then \
		echo "$$unformatted"; echo 'not formatted; mend with: gofmt -w .' >&2; exit 1; \
	fi
	go vet -tags long ./...
	$(STATICCHECK) -tags long ./...

.PHONY: race
race: ## Repeat the tests of some packages under the race detector (PKG=./internal/store/... COUNT=20 ARGS="-run Reserve" STORE=postgres)
	COAX_TEST_STORE=$(STORE) CGO_ENABLED=1 go test $(RACE) -count=$(COUNT) -timeout 40m $(ARGS) $(PKG)

# The long tests. Each target has a time limit; CONTRIBUTING.md says when to run which. Their
# sizes can be raised.

HISTORIES ?= 2000
PAIRS     ?=
CYCLES    ?= 100
CUTS      ?= 500
FILLS     ?= 10
ROUNDS    ?= 3
PLANT     ?= all
FUZZTIME  ?= 20s
MUTATE    ?=
OPERATIONS ?= 1000000
SUMS      ?= 3000

.PHONY: test-long
test-long: sim sim-postgres torture torture-postgres recovery recovery-postgres linear walcut diskfull planted failover watch watch-postgres e2e-long e2e-postgres sums race-long plans audit-scale fuzz mutation openapi-lint certify packages-test ## Every long test, one after the other; some hours

.PHONY: sim
sim: ## Simulate whole histories with every kind of fault, each injected at every point (HISTORIES=10000 PAIRS=all SEED=1); some 12 minutes
	HISTORIES=$(HISTORIES) PAIRS=$(PAIRS) COAX_TEST_SEED=$(SEED) $(LONG) -timeout 4h ./internal/sim

.PHONY: sim-postgres
sim-postgres: tools-present ## The same histories on PostgreSQL, in real time (HISTORIES=200); some 5 minutes
	COAX_TEST_SIM_POSTGRES=$(if $(filter file,$(origin HISTORIES)),100,$(HISTORIES)) $(LONG) -timeout 2h ./internal/sim

.PHONY: torture
torture: tools-present test-bin ## Kill nodes at random and at every crash point, over HTTPS (CYCLES=500 SEED=1); some 5 minutes
	$(TEST_BIN) COAX_TEST_STORE=sqlite COAX_TEST_TORTURE_CYCLES=$(CYCLES) COAX_TEST_TORTURE_SEED=$(or $(SEED),1) $(LONG) -timeout 2h ./internal/torture

.PHONY: torture-postgres
torture-postgres: tools-present test-bin ## The same on PostgreSQL, which is killed as well (CYCLES=200); some 10 minutes
	$(TEST_BIN) COAX_TEST_STORE=postgres COAX_TEST_TORTURE_CYCLES=$(CYCLES) COAX_TEST_TORTURE_SEED=$(or $(SEED),1) $(LONG) -timeout 2h ./internal/torture

# What recovery runs, with 200 rounds of the replica and 100 of old backups unless ROUNDS is given.
RECOVERY = COAX_TEST_RECOVERY_SEED=$(SEED) COAX_TEST_RECOVERY_SYNC_ROUNDS=$(if $(filter file,$(origin ROUNDS)),200,$(ROUNDS)) \
	COAX_TEST_RECOVERY_BACKUP_ROUNDS=$(if $(filter file,$(origin ROUNDS)),100,$(ROUNDS)) \
	$(LONG) -timeout 3h -run '^Test(SyncReplica|OldBackup|RestoredStore|StoreCopy|Restore)_' $(ARGS) ./internal/torture

.PHONY: recovery
recovery: tools-present test-bin ## Lose a store under load and restore it, from its replica and from old backups (ROUNDS=20 SEED=1 ARGS=-run=OldBackup); some 30 minutes
	$(TEST_BIN) $(PGSERVER) env COAX_TEST_STORE=sqlite $(RECOVERY)

.PHONY: recovery-postgres
recovery-postgres: tools-present test-bin ## The same on PostgreSQL, without a replica (ROUNDS=20 SEED=1); some 15 minutes
	$(TEST_BIN) $(PGSERVER) env COAX_TEST_STORE=postgres $(RECOVERY)

.PHONY: linear
linear: tools-present ## Run two nodes with many clients, and check that the answers are linearizable (HISTORIES=200); some 5 minutes
	COAX_TEST_LINEAR_HISTORIES=$(if $(filter file,$(origin HISTORIES)),50,$(HISTORIES)) $(LONG) -timeout 2h ./internal/linearizability

.PHONY: walcut
walcut: tools-present ## Cut the power at random bytes of SQLite's log, under load, and fill its disk (CUTS=2000); some 5 minutes
	COAX_TEST_CUTS=$(CUTS) COAX_TEST_ANSWERS=1000 $(LONG) -timeout 2h ./internal/durability

.PHONY: diskfull
diskfull: test-bin ## Fill the disk of a running demo, repeatedly (FILLS=50); needs a namespace; some 2 minutes
	$(TEST_BIN) COAX_TEST_FILLS=$(FILLS) $(LONG) -timeout 1h ./internal/e2e/diskfull

.PHONY: planted
planted: tools-present ## Apply each known bug of internal/planted and check that a test finds it (PLANT=08); some 20 minutes
	COAX_TEST_PLANTED=$(PLANT) $(LONG) -timeout 2h ./internal/planted

.PHONY: failover
failover: tools-present test-bin ## Kill the primary under load, repeatedly, and switch over as often (ROUNDS=20); a minute a round
	$(TEST_BIN) COAX_TEST_FAILOVER_ROUNDS=$(ROUNDS) $(LONG) -timeout 2h ./internal/e2e/failover

.PHONY: watch
watch: tools-present test-bin ## Break four things under a Prometheus with the shipped alerts, and run the queries of the dashboard; some 5 minutes
	$(TEST_BIN) $(LONG) -timeout 20m ./internal/e2e/watch

.PHONY: watch-postgres
watch-postgres: tools-present test-bin ## The same on PostgreSQL, without its disk; some 5 minutes
	$(TEST_BIN) COAX_TEST_STORE=postgres $(PGSERVER) $(LONG) -timeout 20m -run '_HaveData$$|_FindWhatIsBroken$$' ./internal/e2e/watch

.PHONY: e2e-long
e2e-long: tools-present test-bin ## Upgrades of nodes, large operators, benchmarks that are stopped or killed, and every page at both sizes, in both themes and languages; some 20 minutes
	$(TEST_BIN) COAX_TEST_LOOKS=all $(PGSERVER) $(LONG) -timeout 60m ./cmd/... ./internal/e2e/cli ./internal/e2e/nodes ./internal/e2e/pages ./internal/e2e/sdk

.PHONY: acme
acme: tools-present test-bin ## Order and renew certificates at pebble, an ACME authority; part of e2e-long; some 2 minutes
	$(TEST_BIN) $(PGSERVER) $(LONG) -timeout 20m -run '^TestACME' ./internal/e2e/nodes

.PHONY: e2e-postgres
e2e-postgres: tools-present test-bin ## Command-line and browser stories on PostgreSQL; some 5 minutes
	$(TEST_BIN) COAX_TEST_STORE=postgres COAX_TEST_LOOKS=no $(PGSERVER) $(LONG) -timeout 40m ./internal/e2e/cli ./internal/e2e/pages ./internal/audit

.PHONY: sums
sums: tools-present ## Compare every sum and count on pages and in files with the books, on random operations, on both stores (SUMS=10000 SEED=1); some 5 minutes
	COAX_TEST_SUMS=$(SUMS) COAX_TEST_SEED=$(SEED) $(LONG) -timeout 1h -run '^TestSums' ./internal/e2e/pages
	COAX_TEST_STORE=postgres COAX_TEST_SUMS=$(SUMS) COAX_TEST_SEED=$(SEED) $(PGSERVER) $(LONG) -timeout 1h -run '^TestSums' ./internal/e2e/pages

.PHONY: race-long
race-long: tools-present test-bin ## All tests under the race detector; some 20 minutes
	$(TEST_BIN) HISTORIES=30 CGO_ENABLED=1 $(PGSERVER) go test $(RACE) -count=1 -parallel 4 -timeout 40m ./...

.PHONY: plans
plans: tools-present ## Fill tables and check the query plan of every statement of a request, on both stores; some 3 minutes
	$(PGSERVER) $(LONG) -timeout 30m ./internal/store/sqlite ./internal/store/postgres

.PHONY: audit-scale
audit-scale: ## Fill a store with very many operations, audit it, and measure time and memory (OPERATIONS=2000000 STORE=postgres); some 10 minutes
	COAX_TEST_STORE=$(STORE) COAX_TEST_AUDIT_OPERATIONS=$(OPERATIONS) $(LONG) -timeout 2h ./internal/audit

# Needs Node 20 and npm. The tools' versions are those of tools/openapi/package-lock.json. They
# are installed into .openapi: Go's tools and the tests of pages skip a hidden folder.
OPENAPI = cd .openapi && REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true timeout 600 node_modules/.bin/

.PHONY: certify
certify: tools-present ## Certify the SDKs, clients written by hand, and 20 broken ones whose fault has to be found; some 12 minutes
	$(LONG) -timeout 40m -parallel 4 ./internal/e2e/certify

# The Debian is made once, in .packages, which Go's tools skip.
.PHONY: packages-test
packages-test: ## Build the package, install it on a Debian of its own by the guide, upgrade it from 0.1.0, purge it, build twice and compare; build by the Dockerfile; break things under the installed service and follow its alerts; needs root; some 20 minutes
	@scripts/tools-present debootstrap
	cd tools/release && go vet ./... && go tool -modfile=../go.mod staticcheck ./... && go test -count=1 -timeout 10m ./...
	CI=true $(LONG) -timeout 60m ./internal/e2e/packages

.PHONY: openapi-lint
openapi-lint: ## Lint openapi.yaml with Redocly and Spectral, compile its TypeScript types, compare answers with it through Prism, run the Postman collection; check types and composer.json of the SDKs, and PHP 8.1; needs npm; some 5 minutes
	@scripts/tools-present mypy composer
	mkdir -p .openapi && cp tools/openapi/package.json tools/openapi/package-lock.json tools/openapi/php81.mjs .openapi
	cd .openapi && timeout 900 npm ci --ignore-scripts --no-audit --no-fund
	$(OPENAPI)js-yaml ../contract/openapi.yaml > openapi.json
	$(OPENAPI)redocly lint --config ../tools/openapi/redocly.yaml ../contract/openapi.yaml
	$(OPENAPI)spectral lint --ruleset ../tools/openapi/spectral.yaml --fail-severity hint ../contract/openapi.yaml
	$(OPENAPI)openapi-typescript ../contract/openapi.yaml --output openapi.d.ts
	$(OPENAPI)tsc --noEmit --strict openapi.d.ts
	$(OPENAPI)tsc --noEmit --strict --target es2022 --module nodenext ../sdk/node/index.test-d.ts
	cd sdk/python && mypy --strict --python-version 3.9 --cache-dir ../../.openapi/mypy -p coax
	cd sdk/php && COMPOSER_ALLOW_SUPERUSER=1 COMPOSER_HOME=$(CURDIR)/.openapi/composer composer validate --strict --no-check-version
	cd .openapi && timeout 300 node php81.mjs ../sdk
	COAX_TEST_PRISM=$(CURDIR)/.openapi/node_modules/.bin/prism COAX_TEST_NEWMAN=$(CURDIR)/.openapi/node_modules/.bin/newman \
		$(LONG) -timeout 10m -run '^TestPrism|^TestPostman|_PrismSees' ./internal/e2e/api ./internal/e2e/sdk

.PHONY: fuzz
fuzz: ## Run every fuzz target, two at a time (FUZZTIME=20s each, PKG=./signing/...)
	FUZZTIME=$(FUZZTIME) scripts/fuzz $(PKG)
	$(LONG) -timeout 20m ./scripts

.PHONY: mutation
mutation: ## Mutate the rules, one place at a time, and count what the tests notice (MUTATE="internal/money signing"); half an hour
	scripts/mutation $(MUTATE)

.PHONY: ha-demo
ha-demo: build ## Run Coax on three PostgreSQL under Patroni, to look at and to break (ARGS=--drill)
	scripts/ha-demo $(ARGS)

.PHONY: bench
bench: tools-present build-bench ## Measure the service beside what its parts can do, and print the ratios; some 25 minutes on an idle machine (ARGS="--only sqlite" PROFILE=1)
	bin/coaxbench compare $(if $(PROFILE),--profile) $(ARGS)

.PHONY: bench-full
bench-full: tools-present build-bench ## The same, with stores of ten million operations, which are filled first and kept in .bench: some 50 GB, and three quarters of an hour the first time
	bin/coaxbench fill --store sqlite
	bin/coaxbench fill --store postgres
	bin/coaxbench compare $(if $(PROFILE),--profile) $(ARGS)

.PHONY: bench-copy
bench-copy: tools-present ## Copy a store of a million operations from SQLite to PostgreSQL and back, compared and audited (OPERATIONS=1000000)
	COAX_BENCH_OPERATIONS=$(or $(OPERATIONS),1000000) $(PGSERVER) go test -tags long -run '^$$' -bench '^BenchmarkCopy_ThereAndBack$$' -benchtime 1x -timeout 2h ./cmd/coaxbench/growth

.PHONY: bench-pages
bench-pages: ## Time every page on the demo's history and for an operator with 100,000 subscribers, list the slowest, and fail if one takes 50 ms; a few minutes (STORE=postgres PAGES=20x)
	COAX_TEST_STORE=$(STORE) go test -tags long -run '^$$' -bench '^BenchmarkPages$$' -benchtime $(PAGES) -timeout 20m ./internal/e2e/pages

# docs/panel.png is the one generated file that is committed: README.md shows it.
.PHONY: readme-picture
readme-picture: tools-present ## Take the picture of the panel that README.md shows, docs/panel.png, from a demo in a temporary folder
	COAX_PANEL_PICTURE=$(CURDIR)/docs/panel.png go test -count=1 -tags picture -run '^TestPanelPicture$$' ./internal/e2e/pages

.PHONY: vectors
vectors: ## Check the signing vectors with a second implementation, in Python
	python3 contract/vectors/check.py

.PHONY: tools-present
tools-present: ## Install the missing tools that tests need besides Go
	@scripts/tools-present

.PHONY: clean
clean: ## Remove build output, dist, the demo's data in .demo, the pictures of pages in .shots and the Debian in .packages
	rm -rf bin dist .cover .demo .openapi .packages .shots coverage.out coverage.html
