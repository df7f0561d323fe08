package failover

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
)

// haPatience is how soon writes resume on every node after a promotion.
const haPatience = 10 * time.Second

// haRounds is how often a failover is tried: `make failover ROUNDS=20` says so.
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

// The primary dies under load, its standby takes its place, and the nodes find it
// by themselves. Whatever was answered is so, nobody paid twice, and the provider
// did nothing that nobody remembers.
func TestFailover_KilledPrimaryLosesNothing(t *testing.T) {
	e2e.OnlyPostgres(t)
	h := newHAHouse(t, 3)
	for round := range haRounds(t, 2) {
		h.load(3)
		h.underWay(100)
		h.primary.Kill()
		killed := time.Now()
		h.standby.Promote(t)
		promoted := time.Now()
		took := h.resumed(promoted)
		if took > haPatience {
			t.Errorf("round %d: writes resumed on every node %s after the promotion; want %s at most", round, took, haPatience)
		}
		h.underWay(30)
		h.primary, h.standby = h.standby, h.primary
		h.standby.Rejoin(t, h.primary)
		h.underWay(30)
		h.finish()
		t.Logf("round %d: promoted %s after the kill, writes on every node %s later", round, promoted.Sub(killed), took)
		if t.Failed() {
			return
		}
	}
}

// A planned switchover: the primary is shut down in order, and the two change
// places.
func TestFailover_SwitchoverLosesNothing(t *testing.T) {
	e2e.OnlyPostgres(t)
	h := newHAHouse(t, 2)
	for round := range haRounds(t, 2) {
		h.load(3)
		h.underWay(60)
		h.primary.Shutdown(t)
		h.standby.Promote(t)
		promoted := time.Now()
		if took := h.resumed(promoted); took > haPatience {
			t.Errorf("round %d: writes resumed on every node %s after the switchover; want %s at most", round, took, haPatience)
		} else {
			t.Logf("round %d: writes on every node %s after the promotion", round, took)
		}
		h.primary, h.standby = h.standby, h.primary
		h.standby.Follow(t, h.primary)
		h.underWay(30)
		h.finish()
		if t.Failed() {
			return
		}
	}
}

// Without its standby the primary acknowledges nothing: requests fail or wait, none
// of them is lost, and they go on when the standby is back.
func TestFailover_NoStandbyNoAcknowledgement(t *testing.T) {
	e2e.OnlyPostgres(t)
	h := newHAHouse(t, 2)
	h.load(3)
	h.underWay(60)
	h.standby.Kill()
	h.primary.Until(t, "commits wait for the standby",
		`SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND state_change < clock_timestamp() - interval '1 second'`)
	answers, refusals := h.answers(), h.refusals()
	h.until("somebody is told to come again", func() bool { return h.refusals() > refusals })
	if more := h.answers() - answers; more > 0 {
		t.Errorf("%d answers were given about operations that the standby does not have", more)
	}
	if err := h.standby.Boot(); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	t.Logf("writes on every node %s after the standby was back", h.resumed(back))
	h.underWay(30)
	h.finish()
}
