package torture

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

// chosenStore is the store of the tests of recovery: COAX_TEST_STORE, or else SQLite.
func chosenStore() string {
	if pgtest.Chosen() {
		return "postgres"
	}
	return "sqlite"
}

// newRecovery makes an installation with one node, two operators with clients, and the
// demo's operator for its panel.
func newRecovery(t testing.TB, store string, seed uint64, sets ...string) *recovery {
	t.Helper()
	return buildRecovery(&environment{t: t, store: store}, seed, sets...)
}

// newRecoveryWithClock is newRecovery with a clock that the test moves.
func newRecoveryWithClock(t testing.TB, store string, seed uint64) *recovery {
	t.Helper()
	return buildRecovery(&environment{t: t, store: store, offset: new(atomic.Int64)}, seed)
}

func buildRecovery(env *environment, seed uint64, sets ...string) *recovery {
	env.t.Helper()
	if env.store == "postgres" {
		env.database = e2e.NewMigratedDatabase(env.t)
	}
	// Longer than provider.timeout, and less than what maintenance off waits for.
	env.slowFor = 400 * time.Millisecond
	env.build(1, append([]string{"review.refund_after=2s"}, sets...)...)
	env.rand = rand.New(rand.NewPCG(seed, 1))
	r := &recovery{environment: env, seed: seed, began: time.Now().Add(-2 * time.Hour)}
	r.panel = &panelOperator{r: r, account: env.operators[0]}
	env.operators = nil
	env.openAccount("Rich Cable", "900000.00")
	env.openAccount("Poor Cable", "2000.00")
	for i := range 4 {
		env.addClient(env.operators[i%len(env.operators)], seed, uint64(i))
	}
	return r
}

// recovery is an installation that is lost and restored, again and again.
type recovery struct {
	*environment
	seed  uint64
	began time.Time
	panel *panelOperator
	// replica is the folder of the store's replica.
	replica string
	// resold counts orders whose client was told of a failure that the restored store has
	// forgotten, and whose repetition then succeeded.
	resold int
	keys   operation.ClientKeys
	// byHand counts orders that were adopted with a plan that a person named.
	byHand int
}

func (r *recovery) node() *node { return r.nodes[0] }

// coax runs a command and returns its output, whatever its exit status.
func (r *recovery) coax(args ...string) (out string, code int, message string) {
	r.t.Helper()
	p := launch(r.t, "", args...)
	p.awaitEnd()
	p.checkLog()
	return p.out.String(), p.cmd.ProcessState.ExitCode(), p.err.String()
}

// mustCoax runs a command that has to succeed and to print JSON.
func (r *recovery) mustCoax(into any, args ...string) {
	r.t.Helper()
	out, err := run(r.t, args...)
	if err == nil && into != nil {
		err = json.Unmarshal([]byte(out), into)
	}
	if err != nil {
		r.t.Fatalf("coax %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// installation is what of an installation is not in its store: keys, certificates and the
// demo's saved credentials. They are kept apart from the data, so they outlive it.
var installation = []string{"*.key", "*.pem", "demo.json", "simulator.json"}

// moveTo makes a restored folder the installation's: with the keys and certificates that
// were kept apart, the settings of the old one, and the store that the restore has set.
// With mark, the files beside coax.toml come along, among them the mark.
func (r *recovery) moveTo(folder string, mark bool) {
	r.t.Helper()
	kept := slices.Clone(installation)
	if mark {
		kept = append(kept, "*mark*")
	}
	for _, pattern := range kept {
		files, err := filepath.Glob(filepath.Join(r.folder, pattern))
		if err != nil {
			r.t.Fatal(err)
		}
		for _, file := range files {
			r.copyFile(file, filepath.Join(folder, filepath.Base(file)))
		}
	}
	settings, err := server.ReadConfigFile(r.config)
	if err != nil {
		r.t.Fatal(err)
	}
	delete(settings, "store.url")
	config := filepath.Join(folder, "coax.toml")
	if restored, err := server.ReadConfigFile(config); err == nil {
		if url, set := restored["store.url"]; set {
			settings["store.url"] = url
		}
	}
	if err := server.ReplaceFile(config, 0o600, server.RenderConfig("The settings of the lost installation.", settings)); err != nil {
		r.t.Fatal(err)
	}
	r.folder, r.config = folder, config
}

func (r *recovery) copyFile(from, to string) {
	r.t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o600)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// setStore names another store in the installation's settings.
func (r *recovery) setStore(url string) {
	r.t.Helper()
	settings, err := server.ReadConfigFile(r.config)
	if err != nil {
		r.t.Fatal(err)
	}
	settings["store.url"] = url
	if err := server.ReplaceFile(r.config, 0o600, server.RenderConfig("The settings with another store.", settings)); err != nil {
		r.t.Fatal(err)
	}
	r.database = url
}

// loseData removes the data folder, and with it everything that a machine's disk had.
func (r *recovery) loseData() {
	r.t.Helper()
	if err := os.RemoveAll(filepath.Join(r.folder, "data")); err != nil {
		r.t.Fatal(err)
	}
}

// newFolder returns a path that does not exist yet.
func (r *recovery) newFolder() string {
	r.t.Helper()
	return filepath.Join(r.t.TempDir(), "restored")
}

// underMaintenance reports what `coax admin maintenance show` says.
func (r *recovery) underMaintenance() bool {
	r.t.Helper()
	is, _ := r.admin("maintenance", "show")["maintenance"].(bool)
	return is
}

// mains are the references of main components that the provider has carried out for the
// installation.
func (r *recovery) mains() map[string]string {
	r.t.Helper()
	carriedOut := map[string]string{}
	for _, call := range r.provider.calls("") {
		if _, _, addon := strings.Cut(call.Reference, "-2"); call.Applied && !addon {
			carriedOut[call.Reference] = call.Mobile
		}
	}
	return carriedOut
}

// requireNoSale checks that a restored store sells nothing: not to clients that repeat their
// keys, not to a new key, and not in the panel, whose form and bulk job are given.
func (r *recovery) requireNoSale(what string) {
	r.t.Helper()
	if !r.underMaintenance() {
		r.record.violation(nil, "%s: the restored store is not in maintenance", what)
	}
	before, slow := r.mains(), map[string]bool{}
	var asking sync.WaitGroup
	for _, s := range r.clients {
		for _, o := range s.orders {
			slow[o.mobile] = slow[o.mobile] || o.outcome == "slow"
		}
		asking.Go(func() {
			for _, o := range s.orders {
				s.send(o)
			}
		})
	}
	asking.Wait()
	r.requireNewKeyRefused(what)
	r.panel.requireNoSale(what)
	for reference, mobile := range r.mains() {
		// A slow order of before may be carried out only now. If it is sold again, compare finds it.
		if _, known := before[reference]; !known && !slow[mobile] {
			r.record.violation(r.record.byTransaction[reference], "%s: the provider carried out %s for %s before an administrator allowed it", what, reference, mobile)
		}
	}
	if !r.underMaintenance() {
		r.record.violation(nil, "%s: the restored store has ended maintenance by itself", what)
	}
}

// difference is an entry of `coax reconcile --json`.
type difference struct {
	Kind          string `json:"kind"`
	TransactionID string `json:"transaction_id"`
	Reference     string `json:"reference"`
	Operation     string `json:"operation"`
	Mobile        string `json:"mobile"`
	// Suggestion says what can be done about it.
	Suggestion string `json:"suggestion"`
	Adoptable  bool   `json:"adoptable"`
}

// differences runs coax reconcile.
func (r *recovery) differences(more ...string) (found []difference, output string) {
	r.t.Helper()
	args := append([]string{"reconcile", "--config", r.config, "--since", r.began.UTC().Format(time.RFC3339), "--json"}, more...)
	if !within(timeout/4, time.Second/10, func() bool {
		out, code, message := r.coax(args...)
		output = fmt.Sprintf("coax %s: exit %d\n%s%s", strings.Join(args, " "), code, out, message)
		// provider.timeout is short here, and the machine may be busy.
		return json.Unmarshal([]byte(out), &found) == nil
	}) {
		r.t.Fatalf("no list of differences:\n%s", output)
	}
	return found, output
}

// reconcile compares the restored store with the provider, adopts what it has forgotten, and
// does so until there is no difference. What a person does again from memory, such as
// top-ups, is done before the first adoption or after it.
func (r *recovery) reconcile(topUpAgain func()) {
	r.t.Helper()
	early := r.rand.IntN(2) == 0 // or else some operations cannot be adopted at first
	if early {
		topUpAgain()
	}
	r.differences("--adopt", "--reason", "restored from a copy")
	if !early {
		topUpAgain()
	}
	var left []difference
	var output, adopted string
	if !within(timeout/2, 100*time.Millisecond, func() bool {
		left, output = r.differences()
		for _, d := range left {
			if strings.Contains(d.Suggestion, "--plan") {
				r.adoptByHand(d)
			}
		}
		if len(left) > 0 {
			_, adopted = r.differences("--adopt", "--reason", "restored from a copy")
		}
		return len(left) == 0
	}) {
		r.record.violation(nil, "after the adoption these differences are left: %v\n%s\n%s", left, output, adopted)
	}
}

// adoptByHand adopts an order of which several plans fit: its operator knows which one was
// sold.
func (r *recovery) adoptByHand(d difference) {
	r.t.Helper()
	for _, o := range r.record.all() {
		if !slices.Contains(r.clientKeys().All(o.by.id, o.key), r.provider.clientKey(d.Reference)) {
			continue
		}
		r.byHand++
		r.differences("--adopt", "--only", d.Reference, "--plan", o.plan, "--reason", "the operator told the plan")
		return
	}
	r.t.Fatalf("no client has ordered %+v", d)
}

// clientKeys are what makes client keys of idempotency keys.
func (r *recovery) clientKeys() operation.ClientKeys {
	r.t.Helper()
	if r.keys == nil {
		config, err := server.LoadConfig(server.Sources{File: r.config, Environ: []string{}})
		if err != nil {
			r.t.Fatal(err)
		}
		vault, err := server.OpenVault(config, []string{})
		if err != nil {
			r.t.Fatal(err)
		}
		r.keys = vault.DeriveInOrder(operation.ClientKeyPurpose)
	}
	return r.keys
}

// endMaintenance ends maintenance, which has to be possible after a reconciliation without
// differences.
func (r *recovery) endMaintenance() {
	r.t.Helper()
	var out, message string
	var code int
	if within(timeout/8, time.Second/10, func() bool {
		// It compares once more, and provider.timeout is short.
		out, code, message = r.coax("admin", "--config", r.config, "--json", "maintenance", "off")
		return code == 0 || !strings.Contains(message, "in time")
	}) && code == 0 && !r.underMaintenance() {
		return
	}
	left, output := r.differences()
	r.record.violation(nil, "after the reconciliation maintenance cannot be ended: exit %d\n%s%s\ndifferences: %v\n%s", code, out, message, left, output)
	r.acceptRestore()
}

// acceptRestore ends maintenance whatever was found.
func (r *recovery) acceptRestore() {
	r.t.Helper()
	r.admin("maintenance", "off", "--accept", "--reason", "accepted as it is")
	if r.underMaintenance() {
		r.t.Fatal("maintenance off --accept leaves the store in maintenance")
	}
}

// work has the clients work until they have got some answers, and then kills the node.
func (r *recovery) work(answers int) {
	r.t.Helper()
	tr := r.begin()
	defer tr.end()
	r.after(tr, answers/2+r.rand.IntN(answers))
	jitter(r.rand, 20*time.Millisecond)
	r.node().kill()
}

// workAndStop is work that ends without a crash.
func (r *recovery) workAndStop(answers int) {
	r.t.Helper()
	tr := r.begin()
	r.after(tr, answers/2+r.rand.IntN(answers))
	tr.end()
}

// requireSettled waits until every order is settled, while its client repeats it.
func (r *recovery) requireSettled() {
	r.t.Helper()
	if within(timeout/4, pollPause, r.settle) {
		return
	}
	for _, s := range r.clients {
		for _, o := range s.orders {
			if s.pending(o) {
				r.record.violation(o, "it is never settled")
			}
		}
	}
}

// compareTold compares the orders with what their clients were told before the store was put
// back: what the provider had carried out is still the same operation. What had failed may
// have been bought by the repetition: neither the store nor the provider knows of it.
func (r *recovery) compareTold() {
	r.t.Helper()
	effects := r.provider.effects()
	r.record.mu.Lock()
	defer r.record.mu.Unlock()
	for _, o := range r.record.orders {
		failed := false
		for _, t := range o.before {
			id := fmt.Sprint(t.data["transaction_id"])
			carriedOut := effects[id] > 0 || t.state == "success"
			if carriedOut && (o.id != id || o.state() != "success") {
				r.record.violation(o, "before the restore it was told as %s %s, which the provider has carried out; now it is %s %s", t.state, id, o.state(), o.id)
				break
			}
			was, _ := t.data["expiry"].(map[string]any)
			if is := o.lastExpiry(); t.state == "success" && fmt.Sprint(was["new"]) != is {
				r.record.violation(o, "before the restore it was told to extend until %v; now until %s", was["new"], is)
				break
			}
			failed = failed || t.state == "failed"
		}
		if failed && o.state() == "success" {
			r.resold++
		}
	}
}

// lastExpiry is the expiry that the last successful answer showed. The record is locked.
func (o *order) lastExpiry() string {
	for _, t := range slices.Backward(o.answers) {
		if t.state == "success" {
			expiry, _ := t.data["expiry"].(map[string]any)
			return fmt.Sprint(expiry["new"])
		}
	}
	return ""
}

// forget begins the record anew, for a store that was put back from an older copy: what the
// clients were told may be unknown to it, until they repeat their keys.
func (r *record) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.orders {
		for _, t := range o.answers {
			if t.state != "" && t.data["transaction_id"] != nil {
				o.before = append(o.before, t)
			}
		}
		o.answers, o.id, o.unknowable = nil, "", false
	}
	clear(r.byTransaction)
	clear(r.named)
}

// seeds returns the seeds of the environments, and how many rounds each runs.
func seeds(t testing.TB, rounds, each int) map[uint64]int {
	t.Helper()
	first := uint64(number(t, "COAX_TEST_RECOVERY_SEED", 1+rand.IntN(1_000_000)))
	all := map[uint64]int{}
	for i := 0; i < rounds; i += each {
		all[first+uint64(i/each)] = min(each, rounds-i)
	}
	return all
}

// eachSeed runs rounds in several environments at once: they mostly wait. A failure prints
// the seed that repeats its environment.
func eachSeed(t *testing.T, rounds, each int, run func(t *testing.T, seed uint64, rounds int)) {
	t.Helper()
	all := seeds(t, rounds, each)
	for _, seed := range slices.Sorted(maps.Keys(all)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			defer func() {
				if t.Failed() {
					target := map[string]string{"sqlite": "recovery", "postgres": "recovery-postgres"}[chosenStore()]
					t.Logf("again: make %s ROUNDS=%d SEED=%d ARGS=-run=%s", target, all[seed], seed, strings.Split(t.Name(), "/")[0])
				}
			}()
			run(t, seed, all[seed])
		})
	}
}

// exists reports whether there is such a file.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil || !os.IsNotExist(err)
}

// copyFolder copies a folder, as a person does who keeps a raw copy.
func copyFolder(t testing.TB, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		if entry.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}
