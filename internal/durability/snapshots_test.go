//go:build long

package durability

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/store/sqlite"
)

// diskState is the store's files between two writes, with what had been acknowledged by
// then and what the provider had carried out.
type diskState struct {
	db, wal, shm []byte
	acknowledged []acknowledgement
	effects      map[string]int
	at           time.Time
	log          logEnd
}

// logEnd is where a write-ahead log's last committed frame ends, and which
// generation of the log it belongs to.
type logEnd struct {
	salt uint64
	end  int
}

// logHeader is how many bytes a write-ahead log begins with before its first frame.
const logHeader = 32

// readLog finds the end of what is committed in a write-ahead log. Frames that an
// earlier generation has left behind have another salt.
func readLog(wal []byte) logEnd {
	const frameHeader = 24
	if len(wal) < logHeader {
		return logEnd{}
	}
	page := int(binary.BigEndian.Uint32(wal[8:]))
	found := logEnd{salt: binary.BigEndian.Uint64(wal[16:])}
	for at := logHeader; at+frameHeader+page <= len(wal); at += frameHeader + page {
		if binary.BigEndian.Uint64(wal[at+8:]) != found.salt {
			break
		}
		if committed := binary.BigEndian.Uint32(wal[at+4:]); committed != 0 {
			found.end = at + frameHeader + page
		}
	}
	return found
}

// commitStates is the disk before and after one commit.
type commitStates struct{ before, after diskState }

// kind is what the commit did to the files.
func (m commitStates) kind() string {
	switch {
	case m.before.log.salt != m.after.log.salt:
		return "restart" // the log is written from its start again, after a full checkpoint
	case !bytes.Equal(m.before.db, m.after.db):
		return "checkpoint" // pages of the log were copied to the database meanwhile
	default:
		return "append"
	}
}

// snapshotter copies the store's files before and after commits. It runs in the writer,
// between two batches, where everything that was answered is on disk.
type snapshotter struct {
	t        testing.TB
	site     *site
	path     string
	recorder *recorder

	mu      sync.Mutex
	draw    *rand.Rand
	running bool
	commits map[string][]commitStates // by kind
	limit   int                       // of each kind
	eager   bool                      // the next batch is of a rare kind
	batches int
}

// Batch is called by the writer before it begins a transaction.
func (c *snapshotter) Batch(int) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	// A checkpoint runs when the log has two thousand pages, and the next commit restarts
	// the log; each happens only once.
	info, err := os.Stat(c.path + "-wal")
	if !c.running || err != nil {
		return func() {}
	}
	c.batches++
	if !c.eager && info.Size() < 1900*(sqlite.PageSize+24) && c.draw.IntN(12) > 0 {
		return func() {}
	}
	before := c.take()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		m := commitStates{before, c.take()}
		kind := m.kind()
		c.eager = kind == "checkpoint"
		if m.before.log != m.after.log && len(c.commits[kind]) < c.limit {
			c.commits[kind] = append(c.commits[kind], m)
		}
	}
}

func (c *snapshotter) take() diskState {
	s := diskState{acknowledged: c.recorder.all(), effects: c.site.provider.Effects(), at: c.site.now()}
	for suffix, into := range map[string]*[]byte{"": &s.db, "-wal": &s.wal, "-shm": &s.shm} {
		content, err := os.ReadFile(c.path + suffix)
		if err != nil {
			c.t.Errorf("take a copy: %v", err)
		}
		*into = content
	}
	s.log = readLog(s.wal)
	return s
}

// begin starts recording.
func (c *snapshotter) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running, c.commits = true, map[string][]commitStates{}
}

// recorded stops recording and returns the recorded commits.
func (c *snapshotter) recorded() []commitStates {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = false
	var all []commitStates
	for _, kind := range []string{"append", "checkpoint", "restart"} {
		all = append(all, c.commits[kind]...)
	}
	return all
}
