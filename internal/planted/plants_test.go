package planted

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// plant is a bug and the tests that have to find it.
type plant struct {
	patch string
	// test is a package of `make test` whose tests fail with the bug; empty if only
	// the long tests find it.
	test string
	// by are the long tests that have to find it, each alone.
	by []detector
}

// inTest is the detector of `make test`. Any failure of the package counts.
func (p plant) inTest() (d detector, is bool) {
	if p.test == "" {
		return d, false
	}
	return detector{
		name: "make test, " + p.test, pkg: p.test, runs: [][]string{{"-test.parallel=4", "-test.timeout=15m"}}, short: true,
		limit: 15 * time.Minute, watch: anyFailure,
	}, true
}

// anyFailure reads what go test prints until a test fails.
func anyFailure() func(string) (sighting, bool) {
	return func(line string) (sighting, bool) {
		named := failedTest.FindStringSubmatch(line)
		if named == nil {
			return sighting{}, false
		}
		return sighting{what: named[1]}, true
	}
}

// The comment above each plant says what must happen for the bug to show.
var plants = []plant{
	// A commit that fails, or a look at the books, between the two.
	{patch: "01-two-commit-reserve", test: "internal/sim", by: []detector{simulation, exhaustive, torture}},
	// Two requests of one operator that have both read the balance.
	{patch: "02-read-then-write-balance", test: "internal/sim", by: []detector{simulation}},
	// A node whose lease expires, or that repeats a settlement that was committed.
	{patch: "03-settle-without-epoch", test: "internal/store/sqlite", by: []detector{simulation, exhaustive}},
	// A client that hangs up during the provider call. The money is right in the end; the
	// simulation notices that a healthy node lost its operation.
	{patch: "04-request-context-on-settle", test: "internal/operation", by: []detector{simulation}},
	// A reply that is lost after the order was carried out.
	{patch: "05-refund-on-timeout", test: "internal/operation", by: []detector{simulation, exhaustive}},
	// A malformed reply to an order that was not carried out.
	{patch: "06-malformed-200-is-success", test: "internal/provider/gateway", by: []detector{spoiltAnswers}},
	// A replayed request, on another node or after a restart.
	{patch: "07-nonce-in-memory", test: "internal/access", by: []detector{simulation}},
	// A replay five to ten minutes later, of a client whose clock is ahead, after a purge.
	{patch: "08-nonce-purge-after-300s", test: "internal/access", by: []detector{simulation}},
	// An order repeated with another API key of the same operator.
	{patch: "09-key-scoped-by-api-key", test: "internal/bulk", by: []detector{simulation}},
	// A renewal and an advance renewal with one body under one key.
	{patch: "10-fingerprint-without-path", test: "internal/operation", by: []detector{simulation}},
	// An empty wallet, a top-up, and the same order again at the same node.
	{patch: "11-refusal-402-stored", test: "internal/e2e/api", by: []detector{simulation}},
	// A low limit, and more requests than that in one minute to several nodes.
	{patch: "12-limiter-per-node", test: "internal/access", by: []detector{simulation}},
	// A staff action, and within half a minute a request on a node that has cached the key.
	{patch: "13-credential-cache-30s", test: "internal/store/sqlite", by: []detector{simulation}},
	// A commission that ends in exactly half a paisa.
	{patch: "14-float-rupees", test: "internal/store/sqlite", by: []detector{simulation}},
	// A review that ends in a refund, and a commit that fails on the way.
	{patch: "15-double-refund-in-recovery", test: "internal/sim", by: []detector{simulation, exhaustive}},
	// A provider that closes a reused connection.
	{patch: "16-provider-header-idempotency-key", test: "internal/provider/gateway", by: []detector{resendTrap}},
	// As 02, with concurrent writers.
	{patch: "17-read-then-write-balance-postgres", test: "internal/bulk", by: []detector{races}},
	// A changed staff action or digest that has a MAC.
	{patch: "18-mac-not-compared", test: "internal/audit"},
}

// histories is how far the simulation may look.
const histories = 1000

var (
	simulation = simulationOf(histories)

	// Every kind of fault at every place of short stories.
	exhaustive = detector{
		name: "a fault at every place", pkg: "internal/sim", runs: [][]string{{"-test.run=^TestFaults_AtEveryStep$"}},
		limit: 15 * time.Minute, watch: faultAtAPlace,
	}
	// Processes that are killed, at random and at every crash point.
	torture = detector{
		name: "torture", pkg: "internal/torture", runs: [][]string{{"-test.run=^TestKilledNodes_LoseNothing$/^sqlite$"}},
		settings: []string{"COAX_TEST_TORTURE_CYCLES=40", "COAX_TEST_TORTURE_SEED=1"},
		limit:    15 * time.Minute, watch: complaint(`violation: .*`),
	}
	// Two nodes on PostgreSQL and many clients at once.
	races = detector{
		name: "the histories of two nodes", pkg: "internal/linearizability",
		runs:     [][]string{{"-test.run=^TestTwoNodes_AreLinearizable$/^PostgreSQL$"}},
		settings: []string{"COAX_TEST_LINEAR_HISTORIES=40", "COAX_TEST_LINEAR_SEED=1"},
		limit:    10 * time.Minute, watch: complaint(`.*: no order of its \d+ steps explains them`),
	}
	// Answers that are spoilt in every way, at the socket.
	spoiltAnswers = detector{
		name: "spoilt answers", pkg: "internal/provider/providertest", runs: [][]string{{"-test.run=^TestGatewayFaults$/^Spoilt$"}},
		limit: time.Minute, watch: complaint(`.*answer = .*; want .*`),
	}
	// Connections that end under a request.
	resendTrap = detector{
		name: "the re-send trap", pkg: "internal/provider/providertest", runs: [][]string{{"-test.run=^TestGatewayFaults$/^Resending$"}},
		limit: time.Minute, watch: complaint(`.*was carried out \d+ times.*`),
	}
)

// simulationOf is the seeded simulation, from the first seed to the last, a few
// histories at a time.
func simulationOf(last int) detector {
	d := detector{name: "the simulation", pkg: "internal/sim", limit: 15 * time.Minute, watch: brokenHistory}
	const portion = 10
	for first := 1; first <= last; first += portion {
		var seeds []string
		for seed := first; seed < first+portion && seed <= last; seed++ {
			seeds = append(seeds, strconv.Itoa(seed))
		}
		d.runs = append(d.runs, []string{"-test.run=^TestWorker$", "-jobs=" + strings.Join(seeds, ",")})
	}
	return d
}

// brokenHistory reads what a worker of the simulation prints: a line of JSON for
// each history.
func brokenHistory() func(string) (sighting, bool) {
	histories := 0
	return func(line string) (sighting, bool) {
		text, is := strings.CutPrefix(line, "done ")
		if !is {
			return sighting{}, false
		}
		histories++
		var got struct {
			Seed       uint64
			Violations []string
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil || len(got.Violations) == 0 {
			return sighting{}, false
		}
		// The first words say which promise; the rest is for whoever replays it.
		words := strings.Join(strings.Fields(got.Violations[0]), " ")
		return sighting{fmt.Sprintf("seed %d: %.150s", got.Seed, words), histories}, true
	}
}

var storyAndKind = regexp.MustCompile(`^ +\w+\.go:\d+: (?:single|pairs)/\d+/[a-z ]+:$`)

// faultAtAPlace reads what the exhaustive faults print: a story and a kind of fault,
// and below them the place and the promise.
func faultAtAPlace() func(string) (sighting, bool) {
	next := false
	return func(line string) (sighting, bool) {
		if next {
			return sighting{what: fmt.Sprintf("%.200s", strings.TrimSpace(line))}, true
		}
		next = storyAndKind.MatchString(line)
		return sighting{}, false
	}
}

var failedTest = regexp.MustCompile(`^ *--- FAIL: (?:\w+/)?(\S+) `)

// complaint reads what go test prints of a test that failed: its name, and then
// what it complains of, which has to be a broken promise.
func complaint(promise string) func() func(string) (sighting, bool) {
	complains := regexp.MustCompile(`^ +\w+\.go:\d+: (` + promise + `)`)
	return func() func(string) (sighting, bool) {
		scenario := ""
		return func(line string) (sighting, bool) {
			if named := failedTest.FindStringSubmatch(line); named != nil {
				scenario = named[1]
			}
			said := complains.FindStringSubmatch(line)
			if scenario == "" || said == nil {
				return sighting{}, false
			}
			return sighting{what: scenario + ": " + said[1]}, true
		}
	}
}
