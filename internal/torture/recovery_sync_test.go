package torture

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/store/sqlite"
)

// A SQLite store is replicated with store.replica_mode=sync. Again and again its node is
// killed under load, its data folder is deleted, and it is restored from the replica,
// compared with the provider and put to work again. The clients' record goes on through all
// of it: what they were answered stays true, and nothing is carried out or charged twice.
func TestSyncReplica_LosesNoAnswer(t *testing.T) {
	if pgtest.Chosen() {
		t.Skip("replicates a SQLite store")
	}
	t.Parallel()
	eachSeed(t, number(t, "COAX_TEST_RECOVERY_SYNC_ROUNDS", 2), 10, func(t *testing.T, seed uint64, rounds int) {
		replica := t.TempDir()
		r := newRecovery(t, "sqlite", seed, "store.replica=file://"+replica, "store.replica_mode=sync")
		for round := range rounds {
			r.syncRound(replica, round == rounds-1)
			if t.Failed() {
				t.Fatalf("round %d of %d", round+1, rounds)
			}
		}
		r.node().terminate()
		t.Logf("%d orders, %d answers in %d rounds: %s", len(r.record.all()), r.record.answers.Load(), rounds, sortedCounts(r.record.codes))
	})
}

func (r *recovery) syncRound(replica string, last bool) {
	r.t.Helper()
	if r.node().process == nil || r.node().process.over() {
		r.node().start()
	}
	r.panel.signIn()
	r.panel.activate()
	r.topUp(r.operators[1], "1500.00", false)
	r.work(40)
	r.loseData()
	folder := r.newFolder()
	r.mustCoax(nil, "restore", "file://"+replica, "--dir", folder, "--json")
	r.requireAnswered(filepath.Join(folder, "data", "coax.db"))
	r.moveTo(folder, r.rand.IntN(2) == 0)
	r.node().start()
	r.requireNoSale("restored from the replica")
	r.reconcile(func() {})
	r.endMaintenance()
	if last {
		r.requireSettled()
	} else {
		within(500*time.Millisecond, pollPause, r.settle)
	}
	r.panel.finish()
	r.compare(last, last)
}

// requireAnswered looks up in a restored file, before anything is adopted, what clients and the
// panel's staff were told: the replica itself has lost none of it.
func (r *recovery) requireAnswered(file string) {
	r.t.Helper()
	db, err := sqlite.OpenSQL(file)
	if err != nil {
		r.t.Fatal(err)
	}
	defer db.Close()
	status := func(id string) (status string) {
		r.t.Helper()
		err := db.QueryRow(`SELECT status FROM operations WHERE id = ?`, id).Scan(&status)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			r.t.Fatal(err)
		}
		return status
	}
	looked := 0
	for _, o := range r.record.all() {
		state, _ := r.record.stateOf(o)
		if state == "" || o.id == "" {
			continue
		}
		looked++
		if is := status(o.id); is == "" || (state == "success" || state == "failed") && is != state {
			r.record.violation(o, "its client was told that it is %s, and the replica has it as %q", state, is)
		}
	}
	for _, f := range r.panel.forms {
		looked++
		if is := status(f.transaction); is != "success" {
			r.record.violation(nil, "the panel showed %s for %s as sold, and the replica has it as %q", f.transaction, f.mobile, is)
		}
	}
	if looked == 0 {
		r.t.Error("no client was told anything")
	}
}
