package sim

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/store/sqlite"
)

// vault seals the secrets of every history's keys.
var vault = func() *access.Vault {
	text, err := access.NewMasterKey()
	if err != nil {
		panic(err)
	}
	v, err := access.OpenVault(text)
	if err != nil {
		panic(err)
	}
	return v
}()

// world is one history: a store, nodes, a provider, clients, staff, and the
// model that watches them.
type world struct {
	chance   chance
	folder   string
	db       backend
	journal  *journal
	gates    *gates
	model    *model
	provider *provider
	faults   *faults
	trace    *trace
	nodes    []*node
	lives    map[string]*life
	desk     *admin.Desk

	background sync.WaitGroup
	stirred    chan struct{} // holds one: something happened that is no gate
	leapt      atomic.Int64  // how far all clocks were put forward, in nanoseconds
	timesMoved int           // how often clocks were moved
	// clocksWrong: a node once had the wrong time, so that moments in the store
	// may contradict each other.
	clocksWrong bool

	// Only the scheduler touches these, and the writer while it runs alone.
	writing map[string]bool
	commits int
	batch   int

	captured []*flight // requests that were sent, for whoever sends one again

	keys []*apiKey

	mu        sync.Mutex
	nicknames map[string]string
	reservers map[string]string
	happened  map[string]int
	problem   string
}

// apiKey is an API key as its owner knows it.
type apiKey struct {
	id, operator int64
	key, secret  string
	since        time.Time
}

// now is the true time of the world.
func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.leapt.Load())) }

// sometimes notes that something worth having seen has happened.
func (w *world) sometimes(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.happened[what]++
}

// name gives an operation the name of its key, which does not change from run to
// run.
func (w *world) name(id, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nicknames[id] = key
}

func (w *world) nickname(reference string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nicknameLocked(reference)
}

func (w *world) nicknameLocked(reference string) string {
	id, rest, _ := strings.Cut(reference, "-2")
	if name, known := w.nicknames[id]; known {
		if id != reference {
			return name + "-2" + rest
		}
		return name
	}
	return reference
}

func (w *world) reserves(id, task string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reservers[id] = task
	// Before the operation is there, the provider may be asked about it only by
	// mistake; its name is needed all the same.
	if _, known := w.nicknames[id]; !known {
		w.nicknames[id] = "draft of " + task
	}
}

func (w *world) reserverOf(id string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reservers[id]
}

func (w *world) lifeNamed(name string) *life { return w.lives[name] }

func (w *world) broken() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.model.violations) > 0 || w.problem != ""
}

// stir wakes the scheduler though nobody came to a gate.
func (w *world) stir() {
	select {
	case w.stirred <- struct{}{}:
	default:
	}
}

// Batch makes the writer wait at a gate of its own before each commit, so that
// callers can gather behind it.
func (w *world) Batch(facts int) func() {
	w.mu.Lock()
	w.batch = facts
	w.mu.Unlock()
	if facts >= 3 {
		w.sometimes("a batch of three facts or more")
	}
	w.gates.pass("writer", "commit", nil, false)
	return func() {}
}

// commit stands around every COMMIT.
func (w *world) commit(commit func() error) error {
	fault := w.faults.commit()
	w.commits++
	switch fault {
	case "before":
		return errInjected
	case "after":
		if err := commit(); err != nil {
			return err
		}
		return errInjected
	}
	return commit()
}

// template is a store with the product's schema and the simulation's journal,
// made once a process.
var template = sync.OnceValues(func() ([]byte, error) {
	folder, err := os.MkdirTemp(memory(), "coax-sim-template-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "coax.db")
	db, err := sqlite.Open(context.Background(), path, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	if err := execute(path, journalSchema()); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// memory is a folder in memory, where there is one: a process that dies needs no
// disk to survive it, and the simulation kills no machine.
func memory() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return os.TempDir()
}

// openWorld makes a history's world, whole and well, with its doors open: what is
// set up passes no gate.
func openWorld(c chance, plan program) (*world, error) {
	text, err := template()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp(memory(), "coax-sim-")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(folder, "coax.db")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, err
	}
	w := &world{
		chance: c, folder: folder, lives: map[string]*life{}, stirred: make(chan struct{}, 1), writing: map[string]bool{},
		nicknames: map[string]string{}, reservers: map[string]string{}, happened: map[string]int{}, trace: &trace{sum: fnv.New64a()},
	}
	w.gates, w.model, w.faults = newGates(w), newModel(w), newFaults(w, plan)
	w.trace.w = w
	w.leapt.Store(int64(sinceThen))
	w.gates.open = true
	db, err := sqlite.Open(context.Background(), path, sqlite.Options{Observe: w, Commit: w.commit})
	if err != nil {
		return nil, err
	}
	w.db = db
	if w.journal, err = openJournal(w, path); err != nil {
		return nil, err
	}
	w.provider = newProvider(w)
	w.desk = admin.NewDesk(db, vault, "cli:asha", func() time.Time { return w.now().UTC().Truncate(time.Millisecond) })
	if err := w.furnish(); err != nil {
		return nil, err
	}
	w.journal.read()
	for i := range 1 + c.below(3, "nodes") {
		n := &node{w: w, name: fmt.Sprint("n", i+1)}
		w.nodes = append(w.nodes, n)
		w.startNode(n)
	}
	w.gates.open = false
	return w, nil
}

func (w *world) startNode(n *node) {
	n.start()
	w.lives[n.life.name()] = n.life
}

// close ends the world; every goroutine of it must come to its end.
func (w *world) close() {
	for _, n := range w.nodes {
		if n.life != nil {
			n.life.crash()
		}
	}
	w.gates.mu.Lock()
	w.gates.closed = true
	for _, s := range w.gates.waiting {
		if s.who == "writer" || strings.HasPrefix(s.who, "provider ") {
			s.lets <- goOn
		} else {
			s.lets <- die
		}
	}
	w.gates.waiting = nil
	w.gates.mu.Unlock()
	w.provider.stop()
	w.background.Wait()
	w.journal.close()
	_ = w.db.Close()
	_ = os.RemoveAll(w.folder)
}

// sinceThen is how far the world's clocks are ahead of synctest's, which begin in
// the year 2000.
const sinceThen = 27*365*24*time.Hour + 90*24*time.Hour + 7*time.Hour
