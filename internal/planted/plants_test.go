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

// inTest returns the detector of `make test`. Any failure of the package counts.
func (p plant) inTest() (d detector, is bool) {
	if p.test == "" {
		return d, false
	}
	return detector{
		name: "make test, " + p.test, pkg: p.test, runs: [][]string{{"-test.parallel=4", "-test.timeout=15m"}}, short: true,
		limit: 15 * time.Minute, watch: anyFailure,
	}, true
}

// anyFailure parses the output of go test until a test fails.
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
	// A commit that fails, or an audit, between the two.
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
	{patch: "06-malformed-200-is-success", test: "internal/provider/gateway", by: []detector{malformedReplies}},
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
	// A person who settles a reversal during a call, and an answer that says the opposite.
	{patch: "19-late-reversal-answer-dropped", test: "internal/store/sqlite", by: []detector{simulation, exhaustive}},
	// A reversal that a person settled as undone, and the sum of the commissions.
	{patch: "20-settled-reversal-keeps-commission", test: "internal/store/sqlite", by: []detector{simulation, exhaustive}},
}

// histories is the limit of the simulation.
const histories = 1000

var (
	simulation = simulationOf(histories)

	// Every kind of fault at every step of short scenarios.
	exhaustive = detector{
		name: "exhaustive faults", pkg: "internal/sim", runs: [][]string{{"-test.run=^TestFaults_AtEveryStep$"}},
		limit: 15 * time.Minute, watch: faultAtStep,
	}
	// Processes that are killed, at random and at every crash point.
	torture = detector{
		name: "torture", pkg: "internal/torture", runs: [][]string{{"-test.run=^TestKilledNodes_LoseNothing$/^sqlite$"}},
		settings: []string{"COAX_TEST_TORTURE_CYCLES=40", "COAX_TEST_TORTURE_SEED=1"},
		limit:    15 * time.Minute, watch: complaint(`violation: .*`),
	}
	// Two nodes on PostgreSQL and many clients at once.
	races = detector{
		name: "two-node histories", pkg: "internal/linearizability",
		runs:     [][]string{{"-test.run=^TestTwoNodes_AreLinearizable$/^PostgreSQL$"}},
		settings: []string{"COAX_TEST_LINEAR_HISTORIES=40", "COAX_TEST_LINEAR_SEED=1"},
		limit:    10 * time.Minute, watch: complaint(`.*: no order of its \d+ steps explains them`),
	}
	// Provider replies with every defect, over a socket.
	malformedReplies = detector{
		name: "malformed replies", pkg: "internal/provider/providertest", runs: [][]string{{"-test.run=^TestGatewayFaults$/^Malformed$"}},
		limit: time.Minute, watch: complaint(`.*answer = .*; want .*`),
	}
	// Connections that end during a request.
	resendTrap = detector{
		name: "resend trap", pkg: "internal/provider/providertest", runs: [][]string{{"-test.run=^TestGatewayFaults$/^Resending$"}},
		limit: time.Minute, watch: complaint(`.*was carried out \d+ times.*`),
	}
)

// simulationOf returns the simulation with the seeds from 1 to last, a few at a
// time.
func simulationOf(last int) detector {
	d := detector{name: "simulation", pkg: "internal/sim", limit: 15 * time.Minute, watch: brokenHistory}
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

// brokenHistory parses the output of a simulation worker: a line of JSON for each
// history.
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
		// The first words name the violation; the rest is for replaying it.
		words := strings.Join(strings.Fields(got.Violations[0]), " ")
		return sighting{fmt.Sprintf("seed %d: %.150s", got.Seed, words), histories}, true
	}
}

var scenarioAndKind = regexp.MustCompile(`^ +\w+\.go:\d+: (?:single|pairs)/\d+/[a-z ]+:$`)

// faultAtStep parses the output of the exhaustive faults: a scenario and a kind of
// fault, and below them the step and the violation.
func faultAtStep() func(string) (sighting, bool) {
	next := false
	return func(line string) (sighting, bool) {
		if next {
			return sighting{what: fmt.Sprintf("%.200s", strings.TrimSpace(line))}, true
		}
		next = scenarioAndKind.MatchString(line)
		return sighting{}, false
	}
}

var failedTest = regexp.MustCompile(`^ *--- FAIL: (?:\w+/)?(\S+) `)

// complaint parses the output of a failed test: its name, and then its message,
// which has to match a violation.
func complaint(violation string) func() func(string) (sighting, bool) {
	message := regexp.MustCompile(`^ +\w+\.go:\d+: (` + violation + `)`)
	return func() func(string) (sighting, bool) {
		scenario := ""
		return func(line string) (sighting, bool) {
			if named := failedTest.FindStringSubmatch(line); named != nil {
				scenario = named[1]
			}
			found := message.FindStringSubmatch(line)
			if scenario == "" || found == nil {
				return sighting{}, false
			}
			return sighting{what: scenario + ": " + found[1]}, true
		}
	}
}
