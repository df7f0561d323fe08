package failover

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
)

// haTimeLimit is how soon writes resume on every node after a promotion.
const haTimeLimit = 10 * time.Second

// haRounds is the number of failovers; `make failover ROUNDS=20` sets it.
func haRounds(t *testing.T, standard int) int {
	t.Helper()
	text := os.Getenv("COAX_TEST_FAILOVER_ROUNDS")
	if text == "" {
		return standard
	}
	rounds, err := strconv.Atoi(text)
	if err != nil || rounds < 1 {
		t.Fatalf("COAX_TEST_FAILOVER_ROUNDS=%q is not a number of rounds", text)
	}
	return rounds
}

// The primary is killed under load, the standby is promoted, and the nodes find it by
// themselves. Every answer holds, nothing is charged twice, and the provider carried out
// nothing that is not stored.
func TestFailover_KilledPrimaryLosesNothing(t *testing.T) {
	e2e.OnlyPostgres(t)
	h := newHACluster(t, 3)
	for round := range haRounds(t, 2) {
		h.load(3)
		h.awaitAnswers(100)
		h.primary.Kill()
		killed := time.Now()
		h.standby.Promote(t)
		promoted := time.Now()
		took := h.awaitWrites(promoted)
		if took > haTimeLimit {
			t.Errorf("round %d: writes resumed on every node %s after the promotion; want %s at most", round, took, haTimeLimit)
		}
		h.awaitAnswers(30)
		h.primary, h.standby = h.standby, h.primary
		h.standby.Rejoin(t, h.primary)
		h.awaitAnswers(30)
		h.finish()
		t.Logf("round %d: promoted %s after the kill, writes on every node %s later", round, promoted.Sub(killed), took)
		if t.Failed() {
			return
		}
	}
}

// In a planned switchover the primary is shut down cleanly and becomes the standby.
func TestFailover_SwitchoverLosesNothing(t *testing.T) {
	e2e.OnlyPostgres(t)
	h := newHACluster(t, 2)
	for round := range haRounds(t, 2) {
		h.load(3)
		h.awaitAnswers(60)
		h.primary.Shutdown(t)
		h.standby.Promote(t)
		promoted := time.Now()
		if took := h.awaitWrites(promoted); took > haTimeLimit {
			t.Errorf("round %d: writes resumed on every node %s after the switchover; want %s at most", round, took, haTimeLimit)
		} else {
			t.Logf("round %d: writes on every node %s after the promotion", round, took)
		}
		h.primary, h.standby = h.standby, h.primary
		h.standby.Follow(t, h.primary)
		h.awaitAnswers(30)
		h.finish()
		if t.Failed() {
			return
		}
	}
}

// Without its standby the primary acknowledges nothing: requests fail or wait, none is
// lost, and they continue when the standby is back.
func TestFailover_NoStandbyNoAcknowledgement(t *testing.T) {
	e2e.OnlyPostgres(t)
	h := newHACluster(t, 2)
	h.load(3)
	h.awaitAnswers(60)
	h.standby.Kill()
	h.primary.Until(t, "commits wait for the standby",
		`SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND state_change < clock_timestamp() - interval '1 second'`)
	answers, refusals := h.answers(), h.refusals()
	h.waitUntil("a client is answered 503", func() bool { return h.refusals() > refusals })
	if more := h.answers() - answers; more > 0 {
		t.Errorf("%d answers were given about operations that the standby does not have", more)
	}
	if err := h.standby.Boot(); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	t.Logf("writes on every node %s after the standby was back", h.awaitWrites(back))
	h.awaitAnswers(30)
	h.finish()
}
