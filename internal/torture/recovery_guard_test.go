package torture

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

// putBack is a way in which an older store comes back.
type putBack struct {
	name  string
	store string
	sets  func(replica string) []string
	// take keeps a copy of the store, whose node is not running.
	take func(r *recovery, aside string) string
	// back puts the copy back.
	back func(r *recovery, copied string)
	// running: the node runs meanwhile.
	running bool
}

// putBacks are the ways in which a store comes back from an older copy.
var putBacks = []putBack{
	{
		name: "the SQLite file", store: "sqlite",
		take: func(r *recovery, aside string) string {
			copyFolder(r.t, filepath.Join(r.folder, "data"), aside)
			return aside
		},
		back: func(r *recovery, copied string) {
			r.loseData()
			copyFolder(r.t, copied, filepath.Join(r.folder, "data"))
		},
	},
	{
		name: "the SQLite file on a new machine", store: "sqlite",
		take: func(r *recovery, aside string) string {
			copyFolder(r.t, filepath.Join(r.folder, "data"), aside)
			return aside
		},
		back: func(r *recovery, copied string) {
			folder := r.newFolder()
			copyFolder(r.t, copied, filepath.Join(folder, "data"))
			r.moveTo(folder, false)
		},
	},
	{
		name: "a backup of SQLite", store: "sqlite", take: takeBackup,
		back: func(r *recovery, copied string) { r.putBack(copied) },
	},
	{
		name: "a replica", store: "sqlite",
		sets: func(replica string) []string {
			return []string{"store.replica=file://" + replica, "store.replica_mode=async"}
		},
		take: func(r *recovery, aside string) string { return "" },
		back: func(r *recovery, _ string) {
			r.loseData()
			folder := r.newFolder()
			r.mustCoax(nil, "restore", "file://"+r.replica, "--dir", folder, "--json")
			r.moveTo(folder, true)
		},
	},
	{
		name: "a backup of PostgreSQL", store: "postgres", take: takeBackup,
		back: func(r *recovery, copied string) { r.putBack(copied) },
	},
	{
		name: "the PostgreSQL database, nodes stopped", store: "postgres",
		take: func(r *recovery, _ string) string { return pgtest.CopyDatabase(r.t, r.database) },
		back: func(r *recovery, copied string) { pgtest.PutBack(r.t, r.database, copied) },
	},
	{
		name: "the PostgreSQL database, nodes running", store: "postgres", running: true,
		take: func(r *recovery, _ string) string { return pgtest.CopyDatabase(r.t, r.database) },
		back: func(r *recovery, copied string) { pgtest.PutBack(r.t, r.database, copied) },
	},
}

func takeBackup(r *recovery, aside string) string {
	var backup struct {
		Path string `json:"path"`
	}
	r.mustCoax(&backup, "backup", aside, "--config", r.config, "--json")
	return backup.Path
}

// However an older store comes back, it sells nothing until an administrator ends the
// maintenance: no order of the API, no form, and no row of a bulk renewal that was under way.
func TestRestoredStore_SellsNothingBeforeAnAdministrator(t *testing.T) {
	for i, way := range putBacks {
		if way.store != chosenStore() {
			continue
		}
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			replica := t.TempDir()
			var sets []string
			if way.sets != nil {
				sets = way.sets(replica)
			}
			r := newRecovery(t, way.store, uint64(i), sets...)
			r.replica = replica
			r.topUp(r.panel.account, "9000.00", false)
			r.node().start()
			r.panel.signIn()
			r.panel.activate()
			r.workAndStop(20)
			r.panel.startBulk(10)
			r.node().kill()
			copied := way.take(r, filepath.Join(t.TempDir(), "aside"))

			r.node().start()
			r.panel.signIn()
			r.panel.activate()
			if way.running {
				r.workAndStop(20)
			} else {
				r.work(20)
			}
			way.back(r, copied)
			r.record.forget()
			if way.running {
				r.requireNewKeyRefused("at once")
				until(t, "the node finds the restore", r.underMaintenance)
			} else {
				r.node().start()
			}
			r.requireNoSale(way.name)
			if !way.running {
				r.node().kill()
				r.node().start()
				r.requireNoSale(way.name + ", restarted")
			}
			// A replica may have forgotten nothing.
			if found, _ := r.differences(); len(found) > 0 {
				if _, code, message := r.coax("admin", "--config", r.config, "maintenance", "off"); code != e2e.ExitRefused || !strings.Contains(message, "reconcile") {
					t.Errorf("maintenance off with %d differences: exit %d, %s", len(found), code, message)
				}
				if !r.underMaintenance() {
					t.Error("a refused maintenance off has ended maintenance")
				}
			} else if way.name != "a replica" {
				t.Error("the provider knows of nothing that was forgotten")
			}
			r.acceptRestore()
			o := r.placeNew(r.clients[0])
			if state, _ := r.record.stateOf(o); state != "success" {
				t.Errorf("after the maintenance a new key is answered so: %v", o)
			}
			r.audit()
			r.node().terminate()
		})
	}
}

// requireNewKeyRefused sends an order with a new key, until there is an answer.
func (r *recovery) requireNewKeyRefused(what string) {
	r.t.Helper()
	before := len(r.mains())
	o := r.placeNew(r.clients[0])
	if state, _ := r.record.stateOf(o); state != "" || len(r.mains()) != before {
		r.record.violation(o, "%s: a new key is sold to", what)
	}
}

// placeNew places an order with a new key that the provider would carry out.
func (r *recovery) placeNew(s *operatorClient) *order {
	o := s.newOrder("activate")
	// A mobile number of its own, so that whatever becomes of it can be told apart.
	o.outcome, o.plan, o.mobile = "success", "BASIC-1", fmt.Sprintf("98%02d%06d", 90+s.number, len(s.orders))
	o.body = s.activation(o.mobile, o.plan)
	s.orders = append(s.orders, o)
	r.record.add(o)
	s.send(o)
	return o
}

// A store with all kinds of rows, some of them open, is copied to the other kind of store
// and back. Both copies have the same digest, and sell at once: a copy is no restore.
func TestStoreCopy_ThereAndBackIsEqual(t *testing.T) {
	t.Parallel()
	r := newRecovery(t, chosenStore(), uint64(number(t, "COAX_TEST_RECOVERY_SEED", 1)))
	r.topUp(r.panel.account, "9000.00", false)
	r.node().start()
	r.panel.signIn()
	r.panel.activate()
	r.workAndStop(60)
	r.panel.startBulk(10)
	r.admin("key", "revoke", "--key-id", fmt.Sprint(r.admin("key", "issue", "--lco", "1")["key_id"]))
	r.admin("plan", "set", "--id", "COPY-1", "--name", "Copied", "--price", "1.00", "--duration", "1", "--component", "main=TV-BASIC")
	r.work(30)

	newSQLite := func() string { return "sqlite:" + filepath.Join(t.TempDir(), "coax.db") }
	newPostgres := func() string { return pgtest.NewDatabase(t) }
	from, other, same := "sqlite:"+filepath.Join(r.folder, "data", "coax.db"), newPostgres, newSQLite
	if r.store == "postgres" {
		from, other, same = r.database, newSQLite, newPostgres
	}
	type result struct {
		Rows   int64  `json:"rows"`
		Digest string `json:"digest"`
	}
	copied := func(from, to string) (made result) {
		t.Helper()
		r.mustCoax(&made, "store", "copy", "--from", from, "--to", to, "--json")
		return made
	}
	there, back := other(), same()
	if first, second := copied(from, there), copied(there, back); first != second || first.Rows == 0 || len(first.Digest) != 64 {
		t.Errorf("there %+v, and back %+v", first, second)
	}
	sells := func(url string) {
		t.Helper()
		r.setStore(url)
		r.store, _, _ = strings.Cut(url, ":")
		r.node().start()
		if r.underMaintenance() {
			t.Errorf("the copy in %s is in maintenance:\n%s", url, asJSON(r.admin("maintenance", "show")))
			r.acceptRestore()
		}
		o := r.placeNew(r.clients[0])
		if state, _ := r.record.stateOf(o); state != "success" {
			t.Errorf("the copy in %s answers a new key so: %v", url, o)
		}
		r.requireSettled()
		r.compare(true, true)
		r.node().terminate()
	}
	sells(there)
	again := same()
	copied(there, again)
	sells(again)
}

// What cannot be done ends with an error that says why, and changes nothing.
func TestRestore_RefusalsChangeNothing(t *testing.T) {
	t.Parallel()
	r := newRecovery(t, chosenStore(), 1)
	r.node().start()
	r.workAndStop(20)
	r.node().terminate()
	backup := takeBackup(r, filepath.Join(t.TempDir(), "backup"))
	content, err := os.ReadFile(backup)
	if err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(t.TempDir(), "damaged")
	copied := append([]byte(nil), content...)
	copied[len(copied)/2] ^= 0x20
	shortened := filepath.Join(t.TempDir(), "shortened")
	for path, content := range map[string][]byte{damaged: copied, shortened: content[:len(content)*2/3]} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	target := func() []string {
		if r.store == "postgres" {
			return []string{"--to", pgtest.NewDatabase(t)}
		}
		return []string{"--dir", r.newFolder()}
	}
	occupied := []string{"--dir", r.folder}
	if r.store == "postgres" {
		occupied = []string{"--to", r.database}
	}
	noReplica, rest := t.TempDir(), filepath.Join(r.folder, "data")
	refused := map[string][]string{
		"a damaged backup":     append([]string{"restore", damaged}, target()...),
		"half a backup":        append([]string{"restore", shortened}, target()...),
		"no backup":            append([]string{"restore", filepath.Join(t.TempDir(), "nothing")}, target()...),
		"a target that is one": append([]string{"restore", backup}, occupied...),
	}
	if r.store == "sqlite" {
		refused["an empty replica"] = []string{"restore", "file://" + noReplica, "--dir", r.newFolder()}
		refused["a replica that is none"] = []string{"restore", "file://" + rest, "--dir", r.newFolder()}
	}
	for what, args := range refused {
		before := r.digest()
		out, code, message := r.coax(args...)
		if code != e2e.ExitRefused || strings.TrimSpace(message) == "" || out != "" {
			t.Errorf("%s: exit %d\n%s%s", what, code, out, message)
		}
		t.Logf("%s: %s", what, strings.TrimSpace(message))
		if after := r.digest(); after != before {
			t.Errorf("%s: the installation's store was %s and is %s", what, before, after)
		}
		if at := args[3]; args[2] == "--dir" && at != r.folder && exists(filepath.Join(at, "data", "coax.db")) {
			t.Errorf("%s: it has left a store in %s", what, at)
		}
	}
}

// A restored store starts only with the master key that sealed it; with another one, nothing
// in it changes.
func TestRestore_WrongMasterKeyIsRefused(t *testing.T) {
	t.Parallel()
	r := newRecovery(t, chosenStore(), 1)
	r.node().start()
	r.workAndStop(20)
	r.node().kill()
	r.putBack(takeBackup(r, filepath.Join(t.TempDir(), "backup")))
	r.record.forget()
	right, wrong := filepath.Join(r.folder, "master.key"), t.TempDir()
	r.mustCoax(nil, "init", "--dir", filepath.Join(wrong, "other"))
	key, err := os.ReadFile(right)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(right); err != nil {
		t.Fatal(err)
	}
	r.copyFile(filepath.Join(wrong, "other", "master.key"), right)
	if _, code, message := r.coax("serve", "--config", r.config, "--set", "server.addr=127.0.0.1:0", "--set", "server.internal_addr=127.0.0.1:0"); code != e2e.ExitRefused || !strings.Contains(message, "master key") {
		t.Errorf("with another master key: exit %d\n%s", code, message)
	}
	if err := os.WriteFile(right, key, 0o600); err != nil {
		t.Fatal(err)
	}
	r.node().start()
	r.requireNoSale("with its own master key")
	r.node().terminate()
}

// digest is what coax audit counts in the installation's store.
func (r *recovery) digest() string {
	r.t.Helper()
	out, code, message := r.coax("audit", "--config", r.config, "--json")
	var report struct {
		Counts   json.RawMessage `json:"counts"`
		ActsHead string          `json:"acts_head"`
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 0 {
		r.t.Fatalf("the audit: exit %d, %v\n%s%s", code, err, out, message)
	}
	return string(report.Counts) + report.ActsHead
}
