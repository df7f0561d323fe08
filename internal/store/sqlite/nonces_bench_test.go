package sqlite

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
)

const (
	// noncesEnv is how many nonces the filled store of BenchmarkNonces has: 172800000 is
	// a day at 2,000 requests a second.
	noncesEnv     = "COAX_BENCH_NONCES"
	noncesDefault = 2_000_000
	// noncesFolderEnv is where the filled store is kept for the next run.
	noncesFolderEnv = "COAX_BENCH_NONCES_FOLDER"

	benchKeys = 1000
	// noncesBatch is how many nonces share a commit in the benchmark.
	noncesBatch = 64
)

// BenchmarkNonces compares a store that keeps many nonces with a new one, by turns:
// what it takes to use up a nonce, with its part of the index's upkeep and of the
// commits, and to look for one that is not used and one that is. Beside that: the size
// of the file, how long it takes to open, what it adds to the memory, and to purge.
func BenchmarkNonces(b *testing.B) {
	count := noncesDefault
	if text := os.Getenv(noncesEnv); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil || count < noncesBatch {
			b.Fatalf("%s=%q: write a number of %d or more", noncesEnv, text, noncesBatch)
		}
	}
	folder := os.Getenv(noncesFolderEnv)
	if folder == "" {
		folder = b.TempDir()
	}
	path := filepath.Join(folder, fmt.Sprintf("nonces-%d.db", count))
	end := noon
	if _, err := os.Stat(path); err != nil {
		began := time.Now()
		fillNonces(b, path, count, end)
		b.Logf("filled %s with %d nonces in %s", path, count, time.Since(began).Round(time.Second))
	}
	before := residentMB(b)
	began := time.Now()
	filled := open(b, path, Options{})
	opened, added := time.Since(began), residentMB(b)-before
	fresh := open(b, filepath.Join(b.TempDir(), "fresh.db"), Options{})

	var costs [2]nonceCosts
	for i := range costs {
		costs[i].number = int(time.Now().UnixMicro()) // other nonces than an earlier run's
	}
	for b.Loop() {
		for i, db := range []*DB{fresh, filled} {
			// By turns: the machine is not the same from one minute to the next.
			for range 4 {
				costs[i].burnMany(b, db, end)
				costs[i].look(b, db, i*count)
			}
		}
	}
	after := residentMB(b)
	costs[1].purge(b, filled, end)
	file, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	for i, name := range []string{"fresh", "filled"} {
		c := costs[i]
		b.ReportMetric(micros(c.burned, c.burns), name+"-cpu-µs/nonce")
		b.ReportMetric(micros(c.missed, c.looks), name+"-cpu-µs/unused")
		if c.hits > 0 {
			b.ReportMetric(micros(c.hit, c.hits), name+"-cpu-µs/replay")
		}
	}
	b.ReportMetric(micros(costs[1].burned, costs[1].burns)/micros(costs[0].burned, costs[0].burns), "filled/fresh")
	b.ReportMetric(micros(costs[1].purged, costs[1].purges), "purge-cpu-µs/nonce")
	b.ReportMetric(float64(file.Size())/1e6, "MB-file")
	b.ReportMetric(float64(file.Size())/float64(count), "B/nonce")
	b.ReportMetric(opened.Seconds()*1000, "ms-open")
	b.ReportMetric(added, "MB-open")
	b.ReportMetric(after-before, "MB-used")
	b.ReportMetric(0, "ns/op")
}

type nonceCosts struct {
	number                      int
	burned, missed, hit, purged time.Duration
	burns, looks, hits, purges  int
}

// burnMany uses up nonces, more than the buffer has, so that as many are indexed.
func (c *nonceCosts) burnMany(b *testing.B, db *DB, now time.Time) {
	used := processor(b)
	for range nonceBuffer / noncesBatch {
		err := db.writer.do(b.Context(), func(tx *tx) error {
			for range noncesBatch {
				c.number++
				a := access.Admission{CredentialID: int64(c.number%benchKeys + 1), Nonce: benchNonce(-c.number), RequestID: benchRequest(c.number), Now: now}
				if fresh, err := tx.nonces.burn(tx, a); err != nil || !fresh {
					return fmt.Errorf("nonce %d: free %v, %w", c.number, fresh, err)
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	c.burned += processor(b) - used
	c.burns += nonceBuffer
}

// look looks for nonces that are unused, and for some of those the store was
// filled with.
func (c *nonceCosts) look(b *testing.B, db *DB, filled int) {
	const looks = 4096
	err := db.writer.do(b.Context(), func(tx *tx) error {
		look := func(key int64, nonce string) bool {
			_, used, err := tx.nonces.ownerOf(tx, markOf(key, nonce), access.Admission{CredentialID: key, Nonce: nonce})
			if err != nil {
				b.Error(err)
			}
			return used
		}
		began := processor(b)
		for i := range looks {
			if look(benchKeys+1, benchNonce(c.looks+i)) {
				b.Error("a nonce is used that was never sent")
			}
		}
		c.missed += processor(b) - began
		c.looks += looks
		if filled == 0 {
			return nil
		}
		began = processor(b)
		for i := range looks {
			// Not of the first tenth, from which each run purges some.
			number := filled/10 + int(mix(uint64(c.hits+i))%uint64(filled-filled/10))
			if !look(int64(number%benchKeys+1), benchNonce(number)) {
				b.Errorf("nonce %d is not used", number)
			}
		}
		c.hit += processor(b) - began
		c.hits += looks
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

// purge removes the oldest nonces, as a node does.
func (c *nonceCosts) purge(b *testing.B, db *DB, end time.Time) {
	used := processor(b)
	for range 100 {
		removed, err := db.PurgeAdmissions(b.Context(), end, 0, 500)
		if err != nil {
			b.Fatal(err)
		}
		c.purges += removed
	}
	c.purged = processor(b) - used
}

// fillNonces makes a store that has used so many nonces in the day up to a moment,
// and has all of them in its index. It writes by a connection that promises nothing.
func fillNonces(b *testing.B, path string, count int, end time.Time) {
	const perNonce = 100 // bytes; a little more than a row and its entry take
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		b.Fatal(err)
	}
	room, err := freeSpace(path)()
	if err != nil {
		b.Fatal(err)
	}
	if room < int64(count)*perNonce {
		b.Fatalf("%d nonces need %d MB in %s, which has %d: name another folder in %s, or fewer in %s",
			count, int64(count)*perNonce>>20, filepath.Dir(path), room>>20, noncesFolderEnv, noncesEnv)
	}
	partial := path + ".partial"
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(partial + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			b.Fatal(err)
		}
	}
	db, err := Open(context.Background(), partial, Options{})
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		b.Fatal(err)
	}
	c, err := connect(partial, "journal_mode = DELETE", "journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE", "cache_size = -65536")
	if err != nil {
		b.Fatal(err)
	}
	run := func(query string, args ...any) {
		if _, err := c.Exec(query, args...); err != nil {
			b.Fatal(err)
		}
	}
	said := time.Now()
	tell := func(step string, done int) {
		run("COMMIT")
		run("BEGIN")
		if time.Since(said) > 15*time.Second {
			said = time.Now()
			fmt.Fprintf(os.Stderr, "%s: %3.0f %%\n", step, 100*float64(done)/float64(count))
		}
	}
	run("BEGIN")
	// Entries of the index by their first byte, to be sorted one part after the other.
	type entry struct {
		mark     mark
		position int64
	}
	var parts [256][]entry
	day := 24 * time.Hour.Milliseconds()
	rows := newManyRows(b, c, "INSERT INTO nonces (position, credential_id, nonce, request_id, used_at) VALUES ", 5)
	for i := range count {
		key, nonce := int64(i%benchKeys+1), benchNonce(i)
		rows.add(i+1, key, nonce, benchRequest(i), end.UnixMilli()-day+day*int64(i)/int64(count))
		m := markOf(key, nonce)
		part := &parts[uint8(m>>56)+128]
		*part = append(*part, entry{m, int64(i + 1)})
		if i%(1<<18) == 0 {
			tell("rows", i)
		}
	}
	rows.end()
	entries, done := newManyRows(b, c, "INSERT INTO nonce_index (mark, position) VALUES ", 2), 0
	for i, part := range parts {
		slices.SortFunc(part, func(a, b entry) int { return cmp.Compare(a.mark, b.mark) })
		for _, one := range part {
			entries.add(int64(one.mark), one.position)
		}
		done += len(part)
		parts[i] = nil
		tell("index", done)
	}
	entries.end()
	run(`UPDATE nonce_index_state SET indexed_to = ?1 WHERE id = 1`, count)
	run("COMMIT")
	if err := c.close(); err != nil {
		b.Fatal(err)
	}
	file, err := os.OpenFile(partial, os.O_RDWR, 0)
	if err == nil {
		err = errors.Join(file.Sync(), file.Close(), os.Rename(partial, path))
	}
	if err != nil {
		b.Fatal(err)
	}
}

// manyRows inserts many rows with one statement.
type manyRows struct {
	b       *testing.B
	c       *connection
	text    string
	columns int
	many    *statement
	args    []any
}

const rowsAtOnce = 50

func newManyRows(b *testing.B, c *connection, text string, columns int) *manyRows {
	r := &manyRows{b: b, c: c, text: text, columns: columns}
	prepared, err := c.engine.Prepare(r.statement(rowsAtOnce))
	if err != nil {
		b.Fatal(err)
	}
	r.many = &statement{prepared, changes}
	return r
}

func (r *manyRows) statement(rows int) string {
	row := "(?" + strings.Repeat(", ?", r.columns-1) + ")"
	return r.text + row + strings.Repeat(", "+row, rows-1)
}

func (r *manyRows) add(values ...any) {
	r.args = append(r.args, values...)
	if len(r.args) < rowsAtOnce*r.columns {
		return
	}
	for i, value := range r.args {
		if err := bind(r.many.Stmt, i+1, value); err != nil {
			r.b.Fatal(err)
		}
	}
	r.args = r.args[:0]
	if _, err := r.c.step(r.many); err != nil {
		r.b.Fatal(err)
	}
	r.many.finish()
}

func (r *manyRows) end() {
	if len(r.args) > 0 {
		if _, err := r.c.Exec(r.statement(len(r.args)/r.columns), r.args...); err != nil {
			r.b.Fatal(err)
		}
		r.args = nil
	}
}

// benchNonce is 16 bytes that look random, as 22 characters.
func benchNonce(number int) string {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:], mix(uint64(number)))
	binary.BigEndian.PutUint64(raw[8:], mix(^uint64(number)))
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

func benchRequest(number int) string {
	return "req_" + strconv.FormatUint(mix(uint64(number)^0x5555), 36)
}

// mix is SplitMix64's.
func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

func micros(d time.Duration, of int) float64 {
	return float64(d.Nanoseconds()) / 1000 / float64(max(of, 1))
}

// processor is the time that this process has had of the processors.
func processor(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// residentMB is this process's memory, without what Go has let go of.
func residentMB(b *testing.B) float64 {
	debug.FreeOSMemory()
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatal("there is no /proc here to read the memory from:", err)
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(raw), &size, &resident); err != nil {
		b.Fatal(err)
	}
	return float64(resident*int64(os.Getpagesize())) / 1e6
}
