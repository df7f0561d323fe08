package torture

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/store/pgtest"
)

// A backup is minutes old when the machine is lost. What was sold since is forgotten by the
// restored store, and adopted from the provider's list; the clients repeat all their keys,
// staff their forms, and a bulk renewal that was under way goes on.
func TestOldBackup_CarriesNothingOutTwice(t *testing.T) {
	t.Parallel()
	eachSeed(t, number(t, "COAX_TEST_RECOVERY_BACKUP_ROUNDS", 2), 5, func(t *testing.T, seed uint64, rounds int) {
		r := newRecoveryWithClock(t, chosenStore(), seed)
		r.topUp(r.panel.account, "90000.00", false)
		for round := range rounds {
			r.backupRound()
			if t.Failed() {
				t.Fatalf("round %d of %d", round+1, rounds)
			}
		}
		r.requireSettled()
		r.compare(true, true)
		r.node().terminate()
		if r.panel.continued == 0 {
			t.Error("no bulk renewal was under way in any backup")
		}
		t.Logf("%d orders, %d answers in %d rounds, %d that had failed bought again, %d adopted with a plan by hand, %d bulk renewals continued: %s",
			len(r.record.all()), r.record.answers.Load(), rounds, r.resold, r.byHand, r.panel.continued, sortedCounts(r.record.codes))
	})
}

// startLater starts the node after some time has passed.
func (r *recovery) startLater(after time.Duration) {
	r.t.Helper()
	if r.node().process != nil && !r.node().process.over() {
		r.node().kill()
	}
	r.offset.Add(int64(after))
	r.node().start()
	r.panel.signIn()
}

func (r *recovery) backupRound() {
	r.t.Helper()
	age := time.Minute + time.Duration(r.rand.Int64N(int64(59*time.Minute)))
	r.startLater(0)
	spare := r.admin("key", "issue", "--lco", fmt.Sprint(r.operators[0].id))
	r.panel.activate()
	r.workAndStop(15)
	r.panel.startBulk(16)
	job := r.panel.jobs[len(r.panel.jobs)-1]
	until(r.t, "the bulk renewal has begun", func() bool { return r.panel.renewed(job) > 0 })
	var backup struct {
		Path    string    `json:"path"`
		SHA256  string    `json:"sha256"`
		Bytes   int64     `json:"bytes"`
		TakenAt time.Time `json:"taken_at"`
	}
	tr := r.begin() // a backup is taken while nodes work
	r.mustCoax(&backup, "backup", filepath.Join(r.t.TempDir(), "backup"), "--config", r.config, "--json")
	tr.end()
	if ago := r.now().Sub(backup.TakenAt); ago < 0 || ago > timeout || backup.Bytes == 0 || len(backup.SHA256) != 64 {
		r.t.Errorf("the backup, just taken, is %+v", backup)
	}

	// What the backup does not have.
	r.startLater(age / 2)
	r.panel.activate()
	r.topUp(r.operators[1], "1500.00", false)
	r.topUp(r.panel.account, "500.00", false)
	topUps := []string{fmt.Sprintf("payment %d", r.topUps-1), fmt.Sprintf("payment %d", r.topUps)}
	r.admin("key", "revoke", "--key-id", fmt.Sprint(spare["key_id"]))
	r.workAndStop(20)
	r.startLater(age / 2)
	if r.rand.IntN(2) == 0 {
		until(r.t, "the bulk renewal is through", func() bool { return r.panel.finished(job) })
	}
	r.panel.activate()
	r.work(25)

	r.putBack(backup.Path)
	r.record.forget()
	r.node().start()
	r.requireNoSale(fmt.Sprintf("restored from a backup %v old", age.Round(time.Second)))
	r.reconcile(func() {
		for i, o := range []*operator{r.operators[1], r.panel.account} {
			r.admin("wallet", "topup", "--lco", fmt.Sprint(o.id), "--amount", []string{"1500.00", "500.00"}[i], "--reference", topUps[i])
		}
		r.admin("key", "revoke", "--key-id", fmt.Sprint(spare["key_id"]))
	})
	r.endMaintenance()
	r.requireSettled()
	r.panel.finish()
	r.compareTold()
	r.compare(true, false)
}

// putBack restores a backup into a new folder, or a new database.
func (r *recovery) putBack(backup string) {
	r.t.Helper()
	if r.store == "postgres" {
		to := pgtest.NewDatabase(r.t)
		r.mustCoax(nil, "restore", backup, "--to", to, "--json")
		r.setStore(to)
		return
	}
	r.loseData()
	folder := r.newFolder()
	r.mustCoax(nil, "restore", backup, "--dir", folder, "--json")
	if !exists(filepath.Join(folder, "coax.toml")) {
		r.t.Error("coax restore --dir has written no coax.toml")
	}
	r.moveTo(folder, r.rand.IntN(2) == 0)
}
