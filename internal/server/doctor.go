package server

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/access"
)

// Status is the result of a check.
type Status string

// The results of a check.
const (
	StatusOK      Status = "ok"
	StatusWarning Status = "warning"
	StatusProblem Status = "problem"
)

// Diagnosis is one line of coax doctor.
type Diagnosis struct {
	Check   string `json:"check"`
	Status  Status `json:"status"`
	Message string `json:"message"`
	// Cure is what to do; "" if nothing.
	Cure string `json:"cure,omitempty"`
}

const (
	// doctorTimeout bounds each check.
	doctorTimeout = 10 * time.Second
	// doctorGrace is how long a check that was told to end may take to do so.
	doctorGrace = 500 * time.Millisecond
)

// doctor looks at an installation and changes nothing.
type doctor struct {
	from    Sources
	config  Config
	invalid map[string]error
	backups string        // the folder of the backups; "" if it is not known
	timeout time.Duration // of each check; the reading of the store and a call of the provider have a part of it
	now     func() time.Time
	space   func(path string) (diskSpace, error)
	// synchronized reports whether the machine's clock is synchronized; known is false where
	// that cannot be told.
	synchronized func() (yes, known bool)
	vault        func() (*access.Vault, error)
	// store reads the store once for all checks, storeNow each time.
	store, storeNow func() (storeState, error)
	node            func() nodeState
}

// doctorCheck is a group of lines.
type doctorCheck struct {
	name string
	// keys are the settings without which nothing can be checked.
	keys []string
	run  func(*doctor, context.Context) []Diagnosis
}

var doctorChecks = []doctorCheck{
	{"permissions", nil, (*doctor).checkPermissions},
	{"disk", nil, (*doctor).checkDisk},
	{"master key", nil, (*doctor).checkMasterKey},
	{"store", []string{"store.url"}, (*doctor).checkStore},
	{"maintenance", []string{"store.url"}, (*doctor).checkMaintenance},
	{"mark", []string{"store.url", "store.mark_file"}, (*doctor).checkMark},
	{"clock", []string{"store.url"}, (*doctor).checkClock},
	{"certificate", nil, (*doctor).checkCertificate},
	{"provider", []string{"provider.url", "provider.timeout"}, (*doctor).checkProvider},
	{"prices", []string{"store.url", "provider.name", "catalogue.max_age"}, (*doctor).checkPrices},
	{"node", []string{"server.internal_addr", "server.addr"}, (*doctor).checkNode},
	{"backup", []string{"store.url"}, (*doctor).checkBackups},
	{"replica", []string{"store.replica", "store.url"}, (*doctor).checkReplica},
}

// Diagnose checks an installation. backups is the folder of its backups, "" for that of the
// setting backup.folder. It only reads, and may run beside nodes.
func Diagnose(ctx context.Context, from Sources, backups string) []Diagnosis {
	found := diagnoseConfig(from)
	if load(from).unread {
		return append(found, Diagnosis{"everything else", StatusWarning, "not checked: where things are is in the configuration, which cannot be read", "mend the configuration first"})
	}
	return append(found, newDoctor(ctx, from, backups).run(ctx)...)
}

func newDoctor(ctx context.Context, from Sources, backups string) *doctor {
	l := load(from)
	backups = cmp.Or(backups, l.config.Backup.Folder)
	d := &doctor{
		from: from, config: l.config, invalid: l.invalid, backups: backups, timeout: doctorTimeout,
		now: Clock(l.config.Clock.Offset), space: readSpace, synchronized: clockSynchronized,
	}
	d.vault = sync.OnceValues(func() (*access.Vault, error) { return OpenVault(d.config, from.Environ) })
	d.storeNow = func() (storeState, error) {
		ctx, cancel := context.WithTimeout(ctx, d.timeout*8/10) // several checks wait for it
		defer cancel()
		var proofs map[uint32][]byte
		if vault, err := d.vault(); err == nil {
			proofs = vault.CheckValues()
		}
		return readStoreState(ctx, d.config, proofs)
	}
	d.store = sync.OnceValues(d.storeNow)
	d.node = sync.OnceValue(func() nodeState { return findNode(ctx, d.config) })
	return d
}

// run runs all checks at once, each with its own time limit.
func (d *doctor) run(ctx context.Context) []Diagnosis {
	results := make([][]Diagnosis, len(doctorChecks))
	var running sync.WaitGroup
	for i, c := range doctorChecks {
		running.Go(func() { results[i] = d.runOne(ctx, c) })
	}
	running.Wait()
	return slices.Concat(results...)
}

func (d *doctor) runOne(ctx context.Context, c doctorCheck) []Diagnosis {
	for _, key := range c.keys {
		if d.invalid[key] != nil {
			return []Diagnosis{{c.name, StatusWarning, "not checked: " + key + " is not valid", "mend the configuration first"}}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	done := make(chan []Diagnosis, 1)
	go func() { done <- c.run(d, ctx) }()
	select {
	case found := <-done:
		return found
	case <-ctx.Done():
	}
	select {
	case found := <-done:
		return found
	case <-time.After(doctorGrace): // a disk or a mount that hangs cannot be called off
		return []Diagnosis{{c.name, StatusProblem, fmt.Sprintf("the check did not end within %s", d.timeout), "look whether a disk, a mount or a name server hangs"}}
	}
}

// lines collects the results of a check.
type lines struct {
	check string
	all   []Diagnosis
}

func (l *lines) add(status Status, cure, format string, args ...any) {
	l.all = append(l.all, Diagnosis{l.check, status, oneLineText(fmt.Sprintf(format, args...)), cure})
}

func (l *lines) ok(format string, args ...any) { l.add(StatusOK, "", format, args...) }

func (l *lines) warn(cure, format string, args ...any) { l.add(StatusWarning, cure, format, args...) }

func (l *lines) problem(cure, format string, args ...any) {
	l.add(StatusProblem, cure, format, args...)
}

// oneLineText joins the lines of an error.
func oneLineText(text string) string { return strings.Join(strings.Fields(text), " ") }

func diagnoseConfig(from Sources) []Diagnosis {
	l := lines{check: "configuration"}
	for _, f := range CheckConfig(from) {
		status := StatusProblem
		if f.Warning {
			status = StatusWarning
		}
		l.add(status, f.Cure, "%s", f.Text())
	}
	if l.all == nil {
		l.ok("%s", from.File)
	}
	return l.all
}

func (d *doctor) checkMasterKey(context.Context) []Diagnosis {
	l := lines{check: "master key"}
	where := d.config.Secrets.MasterKeyFile
	if hasMasterKey(d.from.Environ) {
		where = MasterKeyVariable
	}
	vault, err := d.vault()
	if err != nil {
		l.problem("the service does not start without it", "%v", err)
		return l.all
	}
	switch state, err := d.store(); {
	case d.invalid["store.url"] != nil || err != nil || !state.Complete:
		l.warn("", "%s is a master key; whether it is this store's was not checked", where)
	case state.KeyProblem != nil:
		l.problem("the service does not start with another key", "%s: %v", where, state.KeyProblem)
	default:
		keyringLines(&l, state, vault, where)
		if l.all == nil {
			l.ok("%s is the one of this store", where)
		}
	}
	return l.all
}

// keyringLines adds what is left to do of a rotation of the master key.
func keyringLines(l *lines, state storeState, vault *access.Vault, where string) {
	required := map[uint32]bool{}
	for _, key := range state.MasterKeys {
		required[key.ID] = true
		switch sealed := state.Sealed[key.ID]; {
		case state.PrimaryKey == 0 || key.ID == state.PrimaryKey:
		case sealed > 0:
			l.warn("`coax admin masterkey rotate` goes on", "the rotation is not complete: %d secrets are still sealed with key %d", sealed, key.ID)
		default:
			l.warn(fmt.Sprintf("`coax admin masterkey retire --key %d`, once all nodes seal with the new key", key.ID), "nothing is sealed with key %d any more", key.ID)
		}
	}
	ring := vault.RingKeys()
	for i, key := range ring {
		switch {
		case required[key.ID] || len(required) == 0:
		case i == len(ring)-1:
			l.warn("put the ring on every node, send SIGHUP, and run `coax admin masterkey rotate`", "key %d is in %s and does not seal yet", key.ID, where)
		default:
			l.warn(fmt.Sprintf("`coax admin masterkey retire --key %d` takes it out", key.ID), "key %d is in %s and is not used", key.ID, where)
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
