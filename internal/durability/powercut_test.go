//go:build long

package durability

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// sector is what a disk writes whole, or not.
const sector = 512

// wreck is the files as a power cut leaves them, and what must be there all the
// same.
type wreck struct {
	name         string
	db, wal, shm []byte // shm nil: gone
	facts        []fact
	effects      map[string]int
	at           time.Time
	cutAt        int
}

// wrecks are the ways a power cut can end a commit. What was written before the
// last sync is there. Of what was written since, any part may be: the beginning,
// or some sectors, and where the rest should be there is what was there before,
// nothing, or rubbish.
var wrecks = []struct {
	name string
	// ends is for the commits that it can end; empty means every one.
	ends string
	make func(m moment, draw *rand.Rand) wreck
}{
	{name: "the log ends", make: func(m moment, draw *rand.Rand) wreck {
		from, to := m.written()
		cut := from + draw.IntN(to-from)
		return m.unfinished(cut, overlay(m.before.wal, m.after.wal, 0, cut))
	}},
	{name: "the log ends in zeros", make: func(m moment, draw *rand.Rand) wreck {
		from, to := m.written()
		cut := from + draw.IntN(to-from)
		return m.unfinished(cut, overlay(overlay(m.before.wal, m.after.wal, 0, cut), make([]byte, to), cut, to))
	}},
	{name: "the log ends in rubbish", make: func(m moment, draw *rand.Rand) wreck {
		from, to := m.written()
		cut := from + draw.IntN(to-from)
		return m.unfinished(cut, overlay(overlay(m.before.wal, m.after.wal, 0, cut), rubbish(draw, to), cut, to))
	}},
	{name: "some sectors of the log are missing", make: func(m moment, draw *rand.Rand) wreck {
		from, to := m.written()
		wal := m.before.wal
		if m.kind() == "restart" {
			// The log's new beginning is synced before any page: with the old one,
			// what the pages have left of the old log would be taken for all of it.
			from = logHeader
			wal = overlay(wal, m.after.wal, 0, from)
		}
		return m.unfinished(from, someSectors(draw, wal, m.after.wal, from, to))
	}},
	{name: "the log is whole", make: func(m moment, _ *rand.Rand) wreck {
		return m.finished(m.after.db)
	}},
	{name: "half the log is in the database", ends: "checkpoint", make: func(m moment, draw *rand.Rand) wreck {
		return m.finished(someSectors(draw, m.before.db, m.after.db, 0, len(m.after.db)))
	}},
}

// written is the part of the log that the commit wrote.
func (m moment) written() (from, to int) {
	if m.kind() == "restart" {
		return 0, m.after.log.end
	}
	return m.before.log.end, m.after.log.end
}

// unfinished is a power cut before the commit's sync had returned: nobody had
// been told of it, and it may be there or not.
func (m moment) unfinished(cut int, wal []byte) wreck {
	db := m.before.db
	if m.kind() == "restart" {
		// The log begins anew when all of it is in the database, and the last of it
		// may have got there since the moment began. What this commit wrote is not
		// in there yet: nothing of a log so short is.
		db = m.after.db
	}
	return wreck{db: db, wal: wal, facts: m.before.facts, effects: m.before.effects, at: m.before.at, cutAt: cut}
}

// finished is a power cut after it.
func (m moment) finished(db []byte) wreck {
	return wreck{db: db, wal: m.after.wal, facts: m.after.facts, effects: m.after.effects, at: m.after.at, cutAt: m.after.log.end}
}

// overlay is old with new written over it between two bytes. Where old is too
// short it grows, as a file does.
func overlay(old, new []byte, from, to int) []byte {
	mixed := make([]byte, max(len(old), to))
	copy(mixed, old)
	copy(mixed[from:to], new[from:to])
	return mixed
}

// someSectors is old with some of the sectors between two bytes written over.
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

func rubbish(draw *rand.Rand, size int) []byte {
	all := make([]byte, size)
	for i := range all {
		all[i] = byte(draw.Uint32())
	}
	return all
}

// wrecked ends a moment in one way. The index of the log, which is only memory
// that programs share, may be gone, as it was, or anything.
func wrecked(m moment, way int, draw *rand.Rand) wreck {
	w := wrecks[way].make(m, draw)
	w.name = m.kind() + ", " + wrecks[way].name
	switch draw.IntN(3) {
	case 0:
		w.name += ", without its index"
	case 1:
		w.shm = m.before.shm
	case 2:
		w.shm = rubbish(draw, len(m.before.shm))
		w.name += ", its index rubbish"
	}
	return w
}

// lay puts the files of a wreck into a folder.
func (w wreck) lay(t testing.TB, folder string) (path string) {
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
