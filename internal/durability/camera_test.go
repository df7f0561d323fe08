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

// shot is the store's files while nobody writes, with what had been promised by
// then: every fact that was told, every order that the provider has carried out.
type shot struct {
	db, wal, shm []byte
	facts        []fact
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

// moment is one commit: the disk before it began, and after it had returned.
type moment struct{ before, after shot }

// kind is what the commit did to the files.
func (m moment) kind() string {
	switch {
	case m.before.log.salt != m.after.log.salt:
		return "restart" // the log from its beginning, over what is in the database by now
	case !bytes.Equal(m.before.db, m.after.db):
		return "checkpoint" // into the log, while what was there goes into the database
	default:
		return "append"
	}
}

// camera takes moments. It stands in the writer's way, between two batches, where
// everything that was answered is on disk or never will be.
type camera struct {
	t       testing.TB
	site    *site
	path    string
	witness *witness

	mu      sync.Mutex
	draw    *rand.Rand
	running bool
	moments map[string][]moment // by kind
	most    int                 // of each kind
	eager   bool                // the next batch is one of the rare ones
	batches int
}

// Batch is called by the writer before it begins a transaction.
func (c *camera) Batch(int) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	// The log is written back when it has two thousand pages, and begun anew by
	// the next commit; about each of those there is one chance.
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
		m := moment{before, c.take()}
		kind := m.kind()
		c.eager = kind == "checkpoint"
		if m.before.log != m.after.log && len(c.moments[kind]) < c.most {
			c.moments[kind] = append(c.moments[kind], m)
		}
	}
}

func (c *camera) take() shot {
	s := shot{facts: c.witness.sofar(), effects: c.site.provider.Effects(), at: c.site.now()}
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

// begin lets the camera take moments.
func (c *camera) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running, c.moments = true, map[string][]moment{}
}

// film returns what was taken.
func (c *camera) film() []moment {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = false
	var all []moment
	for _, kind := range []string{"append", "checkpoint", "restart"} {
		all = append(all, c.moments[kind]...)
	}
	return all
}
