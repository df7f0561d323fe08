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

// environment is everything that one history runs in: a store, nodes, a provider,
// clients, staff, and the model that checks them.
type environment struct {
	*clock
	realTime bool // on PostgreSQL, in real time
	chance   chance
	folder   string
	db       backend
	journal  *journal
	gates    *gates
	model    *model
	observer observer
	provider *provider
	faults   *faults
	locks    *locks
	queries  *queries
	trace    *trace
	nodes    []*node
	service  *admin.Service
	// openStore opens the store for a process and returns how to close it.
	openStore func(process string) (db backend, closeStore func(), err error)

	background sync.WaitGroup
	woken      chan struct{} // buffered, 1: wakes the scheduler without a gate

	// Only the scheduler touches these, and the writer while it runs alone.
	writing map[string]bool
	commits int
	batch   int

	mu        sync.Mutex
	keys      []*apiKey
	captured  []*flight // requests that were sent, for replays of their bytes
	nicknames map[string]string
	reservers map[string]string
	processes map[string]*process
	left      map[string]bool // tasks whose client hung up
	happened  map[string]int
	problem   string
}

// apiKey is an API key as its owner knows it.
type apiKey struct {
	id, operator int64
	key, secret  string
}

// allKeys returns every key that was ever issued, in order.
func (env *environment) allKeys() []*apiKey {
	env.mu.Lock()
	defer env.mu.Unlock()
	return env.keys
}

func (env *environment) addKey(k *apiKey) {
	env.mu.Lock()
	defer env.mu.Unlock()
	env.keys = append(env.keys, k)
}

// capture stores a request so that its bytes can be sent again.
func (env *environment) capture(f *flight) {
	env.mu.Lock()
	defer env.mu.Unlock()
	env.captured = append(env.captured, f)
}

// capturedAgo returns the request captured the given number of requests ago; nil if
// there is none.
func (env *environment) capturedAgo(ago int) *flight {
	env.mu.Lock()
	defer env.mu.Unlock()
	if len(env.captured) == 0 {
		return nil
	}
	return env.captured[max(0, len(env.captured)-1-ago)]
}

// occurred counts an event; requireOccurred checks that all of them were seen.
func (env *environment) occurred(what string) {
	env.mu.Lock()
	defer env.mu.Unlock()
	env.happened[what]++
}

// hungUp notes that a task's client hung up.
func (env *environment) hungUp(task string) {
	env.occurred("a client hangs up")
	env.mu.Lock()
	defer env.mu.Unlock()
	env.left[task] = true
}

// name gives an operation the name of its idempotency key, which, unlike its id, is
// the same in every run.
func (env *environment) name(id, key string) {
	env.mu.Lock()
	defer env.mu.Unlock()
	env.nicknames[id] = key
}

func (env *environment) nickname(reference string) string {
	env.mu.Lock()
	defer env.mu.Unlock()
	return env.nicknameLocked(reference)
}

func (env *environment) nicknameLocked(reference string) string {
	id, rest, _ := strings.Cut(reference, "-2")
	if name, known := env.nicknames[id]; known {
		if id != reference {
			return name + "-2" + rest
		}
		return name
	}
	return reference
}

func (env *environment) reserves(id, task string) {
	env.mu.Lock()
	defer env.mu.Unlock()
	env.reservers[id] = task
	// The provider is called before the operation exists only by mistake; even then
	// a name is needed.
	if _, known := env.nicknames[id]; !known {
		env.nicknames[id] = "draft of " + task
	}
}

func (env *environment) reserverOf(id string) string {
	env.mu.Lock()
	defer env.mu.Unlock()
	return env.reservers[id]
}

func (env *environment) processNamed(name string) *process {
	env.mu.Lock()
	defer env.mu.Unlock()
	return env.processes[name]
}

func (env *environment) broken() bool {
	env.mu.Lock()
	defer env.mu.Unlock()
	return len(env.model.violations) > 0 || env.problem != ""
}

// wake wakes the scheduler though no goroutine came to a gate.
func (env *environment) wake() {
	select {
	case env.woken <- struct{}{}:
	default:
	}
}

// Batch makes the writer wait at a gate of its own before each commit, so that
// callers can gather behind it.
func (env *environment) Batch(writes int) func() {
	env.mu.Lock()
	env.batch = writes
	env.mu.Unlock()
	if writes >= 3 {
		env.occurred("a batch of three writes or more")
	}
	env.gates.pass("writer", "commit", nil, false)
	return func() {}
}

// commit runs in place of every COMMIT and may make it fail, before or after it took
// effect.
func (env *environment) commit(commit func() error) error {
	fault := env.faults.commit()
	env.commits++
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

// template is a store with the product's schema and the simulation's journal, made
// once per process.
var template = sync.OnceValues(func() ([]byte, error) {
	folder, err := os.MkdirTemp(memoryDir(), "coax-sim-template-")
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

// memoryDir is a folder in memory, if there is one. Simulated processes crash, the
// machine does not, so no disk is needed.
func memoryDir() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return os.TempDir()
}

// openEnvironment makes the environment of a history in fake time. During setup,
// gates let everything pass.
func openEnvironment(c chance, plan program) (*environment, error) {
	text, err := template()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp(memoryDir(), "coax-sim-")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(folder, "coax.db")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, err
	}
	env := newEnvironment(c, plan, newClock(1), false)
	env.folder, env.observer = folder, env.model
	db, err := sqlite.Open(context.Background(), path, sqlite.Options{Observe: env, Commit: env.commit, NonceBuffer: 5})
	if err != nil {
		return nil, err
	}
	env.db = db
	env.openStore = func(string) (backend, func(), error) { return db, func() {}, nil }
	if env.journal, err = openJournal(env, path); err != nil {
		return nil, err
	}
	if err := env.setUpData(); err != nil {
		return nil, err
	}
	env.journal.read()
	if err := env.startNodes(); err != nil {
		return nil, err
	}
	env.gates.endSetup()
	return env, nil
}

// newEnvironment makes an environment without a store, with open gates.
func newEnvironment(c chance, plan program, clock *clock, realTime bool) *environment {
	env := &environment{
		clock: clock, realTime: realTime, chance: c, processes: map[string]*process{}, woken: make(chan struct{}, 1), writing: map[string]bool{},
		nicknames: map[string]string{}, reservers: map[string]string{}, left: map[string]bool{}, happened: map[string]int{}, trace: &trace{sum: fnv.New64a()},
	}
	env.gates, env.model, env.faults = newGates(env), newModel(env), newFaults(env, plan)
	env.trace.env = env
	env.locks, env.queries = newLocks(env), newQueries()
	env.gates.open = true
	env.provider = newProvider(env)
	return env
}

// fail ends a history that cannot be checked any further.
func (env *environment) fail(problem string) {
	env.mu.Lock()
	defer env.mu.Unlock()
	if env.problem == "" {
		env.problem = problem
	}
}

// close stops everything and removes the store.
func (env *environment) close() {
	env.stop()
	env.journal.close()
	_ = env.db.Close()
	_ = os.RemoveAll(env.folder)
}

// stop ends all processes and waits for every goroutine.
func (env *environment) stop() {
	env.gates.mu.Lock()
	env.gates.closed = true
	env.gates.mu.Unlock()
	for _, n := range env.nodes {
		if l := n.running(); l != nil {
			l.crash()
		}
	}
	env.gates.mu.Lock()
	for _, s := range env.gates.waiting {
		if s.who == "writer" || strings.HasPrefix(s.who, "provider ") {
			s.result <- proceed
		} else {
			s.result <- endProcess
		}
	}
	env.gates.waiting = nil
	env.gates.mu.Unlock()
	env.provider.stop()
	env.background.Wait()
}
