package sqlite

import (
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// run is an index of nonces that came one after the other. It is written whole
// and never changed, so that it costs a commit no more pages than it fills.
type run struct {
	number      int64
	first, last int64 // the positions of the rows it speaks of
	filter      filter
}

const (
	// runParts is how many parts a run has, one for each first byte of a
	// fingerprint: a part of a run of 65,536 fits a page.
	runParts = 256
	// entrySize is a fingerprint and the distance of its row from the run's first.
	entrySize = 8 + 4
)

// parts are a run's fingerprints, as they are written.
type parts [runParts][]byte

// newRun makes a run of all that is known by heart.
func (n *nonces) newRun() (run, *parts) {
	r := run{number: 1, first: n.last, last: n.last, filter: newFilter(len(n.fresh) + len(n.twins))}
	if len(n.runs) > 0 {
		r.number = n.runs[len(n.runs)-1].number + 1
	}
	for _, position := range n.fresh {
		r.first = min(r.first, position)
	}
	var p parts
	add := func(mark fingerprint, position int64) {
		r.filter.add(mark)
		part := &p[mark>>56]
		*part = binary.BigEndian.AppendUint64(*part, uint64(mark))
		*part = binary.BigEndian.AppendUint32(*part, uint32(position-r.first))
	}
	for mark, position := range n.fresh {
		add(mark, position)
	}
	for _, twin := range n.twins {
		add(twin.mark, twin.position)
	}
	return r, &p
}

// write puts a run into the file.
func (r run) write(tx *tx, p *parts) error {
	for i, entries := range p {
		if entries == nil {
			continue
		}
		if _, err := tx.exec(`INSERT INTO nonce_run_parts (id, entries) VALUES (?1, ?2)`, r.part(i), entries); err != nil {
			return fmt.Errorf("write a run of nonces: %w", err)
		}
	}
	_, err := tx.exec(`INSERT INTO nonce_runs (run, first_position, last_position, filter) VALUES (?1, ?2, ?3, ?4)`,
		r.number, r.first, r.last, []byte(r.filter))
	if err != nil {
		return fmt.Errorf("write a run of nonces: %w", err)
	}
	return nil
}

func (r run) part(i int) int64 { return r.number*runParts + int64(i) }

// find is where the rows with a fingerprint are, if the run has any.
func (r run) find(tx *tx, mark fingerprint) (positions []int64, err error) {
	var entries []byte
	err = tx.queryRow(`SELECT entries FROM nonce_run_parts WHERE id = ?1`, r.part(int(mark>>56))).Scan(&entries)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look into a run of nonces: %w", err)
	}
	for ; len(entries) >= entrySize; entries = entries[entrySize:] {
		if fingerprint(binary.BigEndian.Uint64(entries)) == mark {
			positions = append(positions, r.first+int64(binary.BigEndian.Uint32(entries[8:])))
		}
	}
	return positions, nil
}

// remove takes a run out of the file.
func (r run) remove(tx *tx) error {
	_, err := tx.exec(`DELETE FROM nonce_run_parts WHERE id BETWEEN ?1 AND ?2`, r.part(0), r.part(runParts-1))
	if err == nil {
		_, err = tx.exec(`DELETE FROM nonce_runs WHERE run = ?1`, r.number)
	}
	if err != nil {
		return fmt.Errorf("remove a run of nonces: %w", err)
	}
	return nil
}

// filter is a Bloom filter: what it lacks was never put in; of what was not, it
// lacks all but one in a thousand.
type filter []byte

// filterProbes is how many bits stand for a fingerprint; there are at least 16 bits
// for each.
const filterProbes = 6

func newFilter(fingerprints int) filter {
	return make(filter, 1<<max(6, bits.Len(uint(2*fingerprints-1))))
}

func (f filter) add(mark fingerprint) {
	for i := range uint64(filterProbes) {
		at := f.probe(mark, i)
		f[at>>3] |= 1 << (at & 7)
	}
}

func (f filter) lacks(mark fingerprint) bool {
	for i := range uint64(filterProbes) {
		if at := f.probe(mark, i); f[at>>3]&(1<<(at&7)) == 0 {
			return true
		}
	}
	return false
}

// probe is the bit of a fingerprint's nth probe. The two halves of the fingerprint
// are two numbers that have nothing to do with each other.
func (f filter) probe(mark fingerprint, nth uint64) uint64 {
	return (uint64(mark)&0xFFFFFFFF + nth*(uint64(mark)>>32|1)) & uint64(8*len(f)-1)
}
