//go:build long

package durability

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/store/sqlite"
)

// wanted returns how much a run tries: the default, unless the environment sets it.
func wanted(t testing.TB, variable string, usual int) int {
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	count, err := strconv.Atoi(text)
	if err != nil || count < 1 {
		t.Fatalf("%s=%q is no count", variable, text)
	}
	return count
}

// recordLoad runs a load on a new store and returns some of its commits.
func recordLoad(t testing.TB, seed uint64, customers, limit int) (*site, []commitStates) {
	t.Helper()
	s := newSite(t)
	path := newFolder(t)
	snapshots := &snapshotter{t: t, site: s, path: path, recorder: &recorder{}, draw: rand.New(rand.NewPCG(seed, 0)), limit: limit}
	h := s.open(t, path, sqlite.Options{Observe: snapshots})
	snapshots.begin()
	stop := h.review()
	load{harness: h, recorder: snapshots.recorder, clients: 6, customers: customers, seed: seed}.run()
	stop()
	recorded := snapshots.recorded()
	h.close()
	return s, recorded
}

// maxLoads is how many loads are run at most until each kind of commit was recorded.
const maxLoads = 30

// The power fails at any byte of any commit, under load: the store opens again, contains
// everything that was acknowledged and an operation for everything that the provider
// did, no nonce can be used again, and the audit is clean.
func TestPowerCut_LosesNothingAcknowledged(t *testing.T) {
	cuts := wanted(t, "COAX_TEST_CUTS", size(60, 12))
	tried := map[string]int{}
	untried := func(e ending) bool { return tried[e.name()] == 0 }
	acknowledged, done := 0, 0
	// A load need not have every kind of commit: whether a checkpoint copies pages during
	// a commit depends on timing. Further loads are run for the missing kinds.
	for seed := uint64(1); done < cuts || cuts >= 60 && seed <= maxLoads && slices.ContainsFunc(endings(), untried); seed++ {
		s, recorded := recordLoad(t, seed, size(12, 2), size(8, 4))
		draw := rand.New(rand.NewPCG(seed, 1))
		folder := t.TempDir()
		for i := range 200 {
			end := endings()[i%len(endings())]
			if done >= cuts && !untried(end) {
				continue
			}
			seen := slices.DeleteFunc(slices.Clone(recorded), func(m commitStates) bool { return m.kind() != end.kind })
			if len(seen) == 0 {
				continue
			}
			w := cutPower(seen[i/len(endings())%len(seen)], end.cut, draw)
			path := w.writeFiles(t, filepath.Join(folder, strconv.Itoa(i)))
			for _, wrong := range s.inspect(t.Context(), path, w.acknowledged, w.effects, w.at) {
				t.Errorf("seed %d, cut %d (%s, at byte %d): %s", seed, i, w.name, w.cutAt, wrong)
			}
			if done%10 == 0 {
				s.recover(t, path)
			}
			if err := os.RemoveAll(filepath.Dir(path)); err != nil {
				t.Fatal(err)
			}
			tried[end.name()]++
			acknowledged += len(w.acknowledged)
			done++
		}
		t.Logf("%d of %d power cuts; %d facts looked for", done, cuts, acknowledged)
		if t.Failed() {
			t.FailNow()
		}
	}
	for _, end := range endings() {
		if untried(end) && cuts >= 60 {
			t.Errorf("no power cut of this kind was tried: %s (%v)", end.name(), tried)
		}
	}
	t.Log(tried)
}

// ending is one power cut during one kind of commit.
type ending struct {
	kind string
	cut  int
}

func (e ending) name() string { return e.kind + ", " + powerCuts[e.cut].name }

func endings() (all []ending) {
	for _, kind := range []string{"append", "checkpoint", "restart"} {
		for cut, crashImage := range powerCuts {
			if crashImage.ends == "" || crashImage.ends == kind {
				all = append(all, ending{kind, cut})
			}
		}
	}
	return all
}

// The check must be able to detect a loss. After each answer the log is cut one byte
// before the end of the answer's commit, which loses the answer; cut at the end, it does
// not.
func TestPowerCut_LostSyncedByteIsDetected(t *testing.T) {
	s := newSite(t)
	path := newFolder(t)
	h := s.open(t, path, sqlite.Options{})
	snapshots := &snapshotter{t: t, site: s, path: path, recorder: &recorder{}}
	clients := load{harness: h, recorder: snapshots.recorder}
	clients.sendUntilSettled("activate", "bite-activate", map[string]string{"full_name": "Asha Rao", "mobile": "9812345678", "plan_id": "BASIC-1"})
	for i := range 3 {
		// In turn, the last acknowledgement is an operation, a nonce, and both.
		want := "is forgotten"
		switch i % 3 {
		case 0:
			clients.sendUntilSettled("renew", "bite-renew-"+strconv.Itoa(i), map[string]string{"mobile": "9812345678", "plan_id": "FAMILY-3"})
			want = "was told as OK and is processing"
		case 1:
			snapshots.recorder.record("", h.send("GET", "balance", "", nil))
		case 2:
			snapshots.recorder.record("", h.send("GET", "transaction?idempotency_key=bite-activate", "", nil))
		}
		last := snapshots.take()
		for _, below := range []int{0, 1} {
			w := crashImage{db: last.db, wal: last.wal[:last.log.end-below]}
			left := w.writeFiles(t, filepath.Join(t.TempDir(), "left"))
			wrong := s.inspect(t.Context(), left, last.acknowledged, last.effects, last.at)
			if below == 0 && len(wrong) > 0 {
				t.Errorf("answer %d: a cut behind its commit: %q; want nothing lost", i, wrong)
			}
			if below == 1 && !strings.Contains(strings.Join(wrong, "\n"), want) {
				t.Errorf("answer %d: a cut into its commit: %q; want that it %s", i, wrong, want)
			}
		}
	}
}
