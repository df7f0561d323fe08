//go:build long

package durability

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// sector is the unit that a disk writes atomically.
const sector = 512

// crashImage is the files as a power cut leaves them, and what must not be lost.
type crashImage struct {
	name         string
	db, wal, shm []byte // shm nil: gone
	acknowledged []acknowledgement
	effects      map[string]int
	at           time.Time
	cutAt        int
}

// powerCuts are the ways a power cut can end a commit. What was written before the last
// sync is on disk. Of what was written since, any part may be: the beginning, or some
// sectors; the rest is the old content, nothing, or garbage.
var powerCuts = []struct {
	name string
	// ends is the kind of commit that it can end; empty means every kind.
	ends string
	make func(m commitStates, draw *rand.Rand) crashImage
}{
	{name: "the log ends", make: func(m commitStates, draw *rand.Rand) crashImage {
		from, to := m.written()
		cut := from + draw.IntN(to-from)
		return m.unfinished(cut, overlay(m.before.wal, m.after.wal, 0, cut))
	}},
	{name: "the log ends in zeros", make: func(m commitStates, draw *rand.Rand) crashImage {
		from, to := m.written()
		cut := from + draw.IntN(to-from)
		return m.unfinished(cut, overlay(overlay(m.before.wal, m.after.wal, 0, cut), make([]byte, to), cut, to))
	}},
	{name: "the log ends in rubbish", make: func(m commitStates, draw *rand.Rand) crashImage {
		from, to := m.written()
		cut := from + draw.IntN(to-from)
		return m.unfinished(cut, overlay(overlay(m.before.wal, m.after.wal, 0, cut), garbage(draw, to), cut, to))
	}},
	{name: "some sectors of the log are missing", make: func(m commitStates, draw *rand.Rand) crashImage {
		from, to := m.written()
		wal := m.before.wal
		if m.kind() == "restart" {
			// The log's new header is synced before any page: with the old header, the
			// rest of the old log would be taken for all of it.
			from = logHeader
			wal = overlay(wal, m.after.wal, 0, from)
		}
		return m.unfinished(from, someSectors(draw, wal, m.after.wal, from, to))
	}},
	{name: "the log is whole", make: func(m commitStates, _ *rand.Rand) crashImage {
		return m.finished(m.after.db)
	}},
	{name: "half the log is in the database", ends: "checkpoint", make: func(m commitStates, draw *rand.Rand) crashImage {
		return m.finished(someSectors(draw, m.before.db, m.after.db, 0, len(m.after.db)))
	}},
}

// written is the part of the log that the commit wrote.
func (m commitStates) written() (from, to int) {
	if m.kind() == "restart" {
		return 0, m.after.log.end
	}
	return m.before.log.end, m.after.log.end
}

// unfinished is a power cut before the commit's sync had returned: it was not
// acknowledged, and may be on disk or not.
func (m commitStates) unfinished(cut int, wal []byte) crashImage {
	db := m.before.db
	if m.kind() == "restart" {
		// The log restarts when all of it is in the database, and the last pages may
		// have been copied during this commit. What this commit wrote is not in there
		// yet: a log so short is not checkpointed.
		db = m.after.db
	}
	return crashImage{db: db, wal: wal, acknowledged: m.before.acknowledged, effects: m.before.effects, at: m.before.at, cutAt: cut}
}

// finished is a power cut after it.
func (m commitStates) finished(db []byte) crashImage {
	return crashImage{db: db, wal: m.after.wal, acknowledged: m.after.acknowledged, effects: m.after.effects, at: m.after.at, cutAt: m.after.log.end}
}

// overlay returns old with new written over it between two offsets. If old is too
// short, it grows.
func overlay(old, new []byte, from, to int) []byte {
	mixed := make([]byte, max(len(old), to))
	copy(mixed, old)
	copy(mixed[from:to], new[from:to])
	return mixed
}

// someSectors returns old with some of the sectors between two offsets overwritten.
func someSectors(draw *rand.Rand, old, new []byte, from, to int) []byte {
	mixed := old
	for begin := from; begin < to; {
		end := min((begin/sector+1)*sector, to)
		if draw.IntN(2) == 0 {
			mixed = overlay(mixed, new, begin, end)
		}
		begin = end
	}
	return mixed
}

func garbage(draw *rand.Rand, size int) []byte {
	all := make([]byte, size)
	for i := range all {
		all[i] = byte(draw.Uint32())
	}
	return all
}

// cutPower applies one power cut to a commit. The log's index, which is shared memory,
// may be missing, unchanged or garbage.
func cutPower(m commitStates, cut int, draw *rand.Rand) crashImage {
	w := powerCuts[cut].make(m, draw)
	w.name = m.kind() + ", " + powerCuts[cut].name
	switch draw.IntN(3) {
	case 0:
		w.name += ", without its index"
	case 1:
		w.shm = m.before.shm
	case 2:
		w.shm = garbage(draw, len(m.before.shm))
		w.name += ", its index rubbish"
	}
	return w
}

// writeFiles writes the files of an image into a folder.
func (w crashImage) writeFiles(t testing.TB, folder string) (path string) {
	t.Helper()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(folder, "coax.db")
	for suffix, content := range map[string][]byte{"": w.db, "-wal": w.wal, "-shm": w.shm} {
		if suffix == "-shm" && content == nil {
			continue
		}
		if err := os.WriteFile(path+suffix, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}
