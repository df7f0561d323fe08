package sim

import (
	"context"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"sync"

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
	*clock
	real      bool // on PostgreSQL, in real time
	chance    chance
	folder    string
	db        backend
	journal   *journal
	gates     *gates
	model     *model
	witness   witness
	provider  *provider
	faults    *faults
	locks     *locks
	questions *questions
	trace     *trace
	nodes     []*node
	service   *admin.Service
	// openStore opens the store for a process, and says how to close it.
	openStore func(life string) (db backend, closeStore func(), err error)

	background sync.WaitGroup
	stirred    chan struct{} // holds one: something happened that is no gate

	// Only the scheduler touches these, and the writer while it runs alone.
	writing map[string]bool
	commits int
	batch   int

	mu        sync.Mutex
	keys      []*apiKey
	captured  []*flight // requests that were sent, for whoever sends one again
	nicknames map[string]string
	reservers map[string]string
	lives     map[string]*life
	left      map[string]bool // tasks whose client hung up
	happened  map[string]int
	problem   string
}

// apiKey is an API key as its owner knows it.
type apiKey struct {
	id, operator int64
	key, secret  string
}

// ring is every key that was ever issued, in order.
func (w *world) ring() []*apiKey {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.keys
}

func (w *world) addKey(k *apiKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys = append(w.keys, k)
}

// capture keeps a request for whoever sends the same bytes again.
func (w *world) capture(f *flight) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.captured = append(w.captured, f)
}

// lately is the request that was captured so many ago; nil if there is none.
func (w *world) lately(ago int) *flight {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.captured) == 0 {
		return nil
	}
	return w.captured[max(0, len(w.captured)-1-ago)]
}

// sometimes notes that something worth having seen has happened.
func (w *world) sometimes(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.happened[what]++
}

// leave: a client hung up.
func (w *world) leave(task string) {
	w.sometimes("a client hangs up")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left[task] = true
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

func (w *world) lifeNamed(name string) *life {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lives[name]
}

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
	w := newWorld(c, plan, newClock(1), false)
	w.folder, w.witness = folder, w.model
	db, err := sqlite.Open(context.Background(), path, sqlite.Options{Observe: w, Commit: w.commit, NonceBuffer: 5})
	if err != nil {
		return nil, err
	}
	w.db = db
	w.openStore = func(string) (backend, func(), error) { return db, func() {}, nil }
	if w.journal, err = openJournal(w, path); err != nil {
		return nil, err
	}
	if err := w.furnish(); err != nil {
		return nil, err
	}
	w.journal.read()
	if err := w.populate(); err != nil {
		return nil, err
	}
	w.gates.shut()
	return w, nil
}

// newWorld is a world without a store, its doors open.
func newWorld(c chance, plan program, clock *clock, real bool) *world {
	w := &world{
		clock: clock, real: real, chance: c, lives: map[string]*life{}, stirred: make(chan struct{}, 1), writing: map[string]bool{},
		nicknames: map[string]string{}, reservers: map[string]string{}, left: map[string]bool{}, happened: map[string]int{}, trace: &trace{sum: fnv.New64a()},
	}
	w.gates, w.model, w.faults = newGates(w), newModel(w), newFaults(w, plan)
	w.trace.w = w
	w.locks, w.questions = newLocks(w), newQuestions()
	w.gates.open = true
	w.provider = newProvider(w)
	return w
}

// fail ends a history that cannot be judged any further.
func (w *world) fail(problem string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.problem == "" {
		w.problem = problem
	}
}

// close ends the world and removes it.
func (w *world) close() {
	w.stop()
	w.journal.close()
	_ = w.db.Close()
	_ = os.RemoveAll(w.folder)
}

// stop ends everything that happens; every goroutine must come to its end.
func (w *world) stop() {
	w.gates.mu.Lock()
	w.gates.closed = true
	w.gates.mu.Unlock()
	for _, n := range w.nodes {
		if l := n.running(); l != nil {
			l.crash()
		}
	}
	w.gates.mu.Lock()
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
}
