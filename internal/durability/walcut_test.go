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

// wanted is how much of something a run tries: a little, unless the environment
// asks for more.
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

// filmed runs a load on a new store and returns moments of it.
func filmed(t testing.TB, seed uint64, customers, most int) (*site, []moment) {
	t.Helper()
	s := newSite(t)
	path := newFolder(t)
	lens := &camera{t: t, site: s, path: path, witness: &witness{}, draw: rand.New(rand.NewPCG(seed, 0)), most: most}
	h := s.open(t, path, sqlite.Options{Observe: lens})
	lens.begin()
	stop := h.review()
	load{house: h, witness: lens.witness, clients: 6, customers: customers, seed: seed}.run()
	stop()
	film := lens.film()
	h.close()
	return s, film
}

// mostFilms is how many loads are run until each kind of moment was met.
const mostFilms = 30

// The power goes at any byte of any commit, under a load: the store opens again
// by itself, everything that anybody was told is in it, everything the provider
// did has its operation, no nonce can be used again, and the books are clean.
func TestPowerCut_LosesNothingAcknowledged(t *testing.T) {
	cuts := wanted(t, "COAX_TEST_CUTS", size(60, 12))
	tried := map[string]int{}
	untried := func(e ending) bool { return tried[e.name()] == 0 }
	facts, done := 0, 0
	// A film need not have every kind of moment: whether a page goes into the database
	// within a commit is between the copier and the writer. Further ones are made for
	// what is missing.
	for seed := uint64(1); done < cuts || cuts >= 60 && seed <= mostFilms && slices.ContainsFunc(endings(), untried); seed++ {
		s, film := filmed(t, seed, size(12, 2), size(8, 4))
		draw := rand.New(rand.NewPCG(seed, 1))
		folder := t.TempDir()
		for i := range 200 {
			end := endings()[i%len(endings())]
			if done >= cuts && !untried(end) {
				continue
			}
			seen := slices.DeleteFunc(slices.Clone(film), func(m moment) bool { return m.kind() != end.kind })
			if len(seen) == 0 {
				continue
			}
			w := wrecked(seen[i/len(endings())%len(seen)], end.way, draw)
			path := w.lay(t, filepath.Join(folder, strconv.Itoa(i)))
			for _, wrong := range s.inspect(t.Context(), path, w.facts, w.effects, w.at) {
				t.Errorf("seed %d, cut %d (%s, at byte %d): %s", seed, i, w.name, w.cutAt, wrong)
			}
			if done%10 == 0 {
				s.recover(t, path)
			}
			if err := os.RemoveAll(filepath.Dir(path)); err != nil {
				t.Fatal(err)
			}
			tried[end.name()]++
			facts += len(w.facts)
			done++
		}
		t.Logf("%d of %d power cuts; %d facts looked for", done, cuts, facts)
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

// ending is a way for the power to go during one kind of commit.
type ending struct {
	kind string
	way  int
}

func (e ending) name() string { return e.kind + ", " + wrecks[e.way].name }

func endings() (all []ending) {
	for _, kind := range []string{"append", "checkpoint", "restart"} {
		for way, wreck := range wrecks {
			if wreck.ends == "" || wreck.ends == kind {
				all = append(all, ending{kind, way})
			}
		}
	}
	return all
}

// What finds no loss must be able to. After each answer the log is cut one byte
// below what the answer's commit had written, and then the answer is lost; at
// that byte it is not.
func TestPowerCut_LostSyncedByteIsDetected(t *testing.T) {
	s := newSite(t)
	path := newFolder(t)
	h := s.open(t, path, sqlite.Options{})
	lens := &camera{t: t, site: s, path: path, witness: &witness{}}
	told := load{house: h, witness: lens.witness}
	told.insist("activate", "bite-activate", map[string]string{"full_name": "Asha Rao", "mobile": "9812345678", "plan_id": "BASIC-1"})
	for i := range 3 {
		// By turns the last thing told is an operation, a nonce, and both.
		want := "is forgotten"
		switch i % 3 {
		case 0:
			told.insist("renew", "bite-renew-"+strconv.Itoa(i), map[string]string{"mobile": "9812345678", "plan_id": "FAMILY-3"})
			want = "was told as OK and is processing"
		case 1:
			lens.witness.heard("", h.send("GET", "balance", "", nil))
		case 2:
			lens.witness.heard("", h.send("GET", "transaction?idempotency_key=bite-activate", "", nil))
		}
		last := lens.take()
		for _, below := range []int{0, 1} {
			w := wreck{db: last.db, wal: last.wal[:last.log.end-below]}
			left := w.lay(t, filepath.Join(t.TempDir(), "left"))
			wrong := s.inspect(t.Context(), left, last.facts, last.effects, last.at)
			if below == 0 && len(wrong) > 0 {
				t.Errorf("answer %d: a cut behind its commit: %q; want nothing lost", i, wrong)
			}
			if below == 1 && !strings.Contains(strings.Join(wrong, "\n"), want) {
				t.Errorf("answer %d: a cut into its commit: %q; want that it %s", i, wrong, want)
			}
		}
	}
}
