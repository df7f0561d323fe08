package sqlite

import (
	"cmp"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

const (
	// nonceBuffer is how many used nonces are kept in memory before they are moved to
	// the index. Sorted, so many of them share the pages of a small index.
	nonceBuffer = 1 << 16
	// indexedPerNonce is how many nonces are moved for each one that is used. With two,
	// the buffer is half empty again when the next one is full.
	indexedPerNonce = 2
	// backlogBatch is how many nonces are indexed in one transaction at startup, if an
	// older release has left very many.
	backlogBatch = 1 << 20
)

// nonces knows which nonces are used. Their rows are appended to a table; an index by
// hash says where the row of a nonce is. The index is in random order, so that a nonce
// that was put there at once would cost a commit a page of its own: the newest ones
// are kept in memory instead, and moved to the index later, sorted.
//
// Memory and the work for a nonce do not depend on how many are kept, save for the
// depth of the index. Only the writer uses it, so that two requests cannot find a
// nonce free at once. No other process uses up nonces: the folder has one node, and if
// it had two, they would give the same positions to their rows, which the file refuses.
type nonces struct {
	loaded bool
	last   int64 // the newest row's position
	// recent are not in the index yet. moving are on their way to it, and remain in
	// toMove, in the order of the index, until they are written.
	recent, moving map[mark]int64
	toMove         []usedNonce
	movingTo       int64 // all rows up to here are in the index once toMove is empty
	// added is what the present transaction has used up.
	added  []usedNonce
	buffer int // how many recent ones are enough to move
}

// mark is the hash of a key and its nonce. A nonce whose mark is already another one's
// is refused, though it is new. With 173 million nonces kept that happens to one request
// in 10^11, which has to send another nonce.
type mark int64

// usedNonce is the position of a used nonce's row, and that of the purged one with the
// same mark that it replaced in memory; 0 if it replaced none.
type usedNonce struct {
	mark               mark
	position, replaced int64
}

// markOf uses SHA-256, so that a caller cannot craft a nonce that collides with another
// caller's.
func markOf(credentialID int64, nonce string) mark {
	text := make([]byte, 0, 8+64)
	text = binary.BigEndian.AppendUint64(text, uint64(credentialID))
	sum := sha256.Sum256(append(text, nonce...))
	return mark(binary.BigEndian.Uint64(sum[:]))
}

// burn uses up a nonce, and reports whether the request may use it: it is new, or was
// burned by this very request before.
func (n *nonces) burn(tx *tx, a access.Admission) (bool, error) {
	if err := n.load(tx); err != nil {
		return false, err
	}
	m := markOf(a.CredentialID, a.Nonce)
	owner, used, err := n.ownerOf(tx, m, a)
	if err != nil || used {
		return used && owner == a.RequestID, err
	}
	position := n.last + 1
	_, err = tx.Exec(`INSERT INTO nonces (position, credential_id, nonce, request_id, used_at) VALUES (?1, ?2, ?3, ?4, ?5)`,
		position, a.CredentialID, a.Nonce, a.RequestID, a.Now.UnixMilli())
	if err != nil {
		return false, err
	}
	n.added = append(n.added, usedNonce{m, position, n.recent[m]})
	n.recent[m], n.last = position, position
	return true, nil
}

// ownerOf is the request that has used a nonce, if one has; "" if the nonce cannot be
// told from another one.
func (n *nonces) ownerOf(tx *tx, m mark, a access.Admission) (owner string, used bool, err error) {
	for _, buffered := range []map[mark]int64{n.recent, n.moving} {
		if position, found := buffered[m]; found {
			if owner, used, err = ownerAt(tx, position, a); err != nil || used {
				return owner, used, err
			}
		}
	}
	position, err := indexed(tx, m)
	if err != nil || position == 0 {
		return "", false, err
	}
	return ownerAt(tx, position, a)
}

// ownerAt is ownerOf for a nonce whose row is known; a purged row has no owner.
func ownerAt(tx *tx, position int64, a access.Admission) (owner string, used bool, err error) {
	var credentialID int64
	var nonce string
	err = tx.QueryRow(`SELECT credential_id, nonce, request_id FROM nonces WHERE position = ?1`, position).Scan(&credentialID, &nonce, &owner)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", false, nil
	case err == nil && (credentialID != a.CredentialID || nonce != a.Nonce):
		return "", true, nil
	}
	return owner, err == nil, err
}

// indexed is the position that the index has for a mark; 0 if it has none.
func indexed(tx *tx, m mark) (position int64, err error) {
	err = tx.QueryRow(`SELECT position FROM nonce_index WHERE mark = ?1`, int64(m)).Scan(&position)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return position, err
}

// committed accepts the burned nonces after a commit, and starts to move the buffer to the
// index when it is full.
func (n *nonces) committed() {
	n.added = n.added[:0]
	if len(n.toMove) == 0 {
		n.moving = nil
	}
	if n.loaded && n.moving == nil && len(n.recent) >= n.buffer {
		n.moving, n.movingTo, n.recent = n.recent, n.last, map[mark]int64{}
		n.toMove = make([]usedNonce, 0, len(n.moving))
		for m, position := range n.moving {
			n.toMove = append(n.toMove, usedNonce{mark: m, position: position})
		}
		sortByMark(n.toMove)
	}
}

// undo removes what was burned after the first nonces of the transaction.
func (n *nonces) undo(to int) {
	for i := len(n.added) - 1; i >= to; i-- {
		one := n.added[i]
		if one.replaced != 0 {
			n.recent[one.mark] = one.replaced
		} else {
			delete(n.recent, one.mark)
		}
		n.last = one.position - 1
	}
	n.added = n.added[:to]
}

// forget empties the buffers after a transaction whose outcome is unknown; they are read
// from the file when they are needed next.
func (n *nonces) forget() { *n = nonces{buffer: n.buffer} }

// load reads what is not in the index, if that is not in memory.
func (n *nonces) load(tx *tx) error {
	if n.loaded {
		return nil
	}
	n.forget()
	n.recent = map[mark]int64{}
	to, err := indexedTo(tx)
	if err != nil {
		return err
	}
	rows, err := rowsAfter(tx, to, math.MaxInt64)
	if err != nil {
		return err
	}
	for _, one := range rows {
		n.recent[one.mark] = one.position
	}
	// Not the last row's: that may be purged.
	err = tx.QueryRow(`SELECT max(indexed_to, aged_to, (SELECT coalesce(max(position), 0) FROM nonces)) FROM nonce_index_state WHERE id = 1`).Scan(&n.last)
	n.loaded = err == nil
	return err
}

// indexedTo is the position up to which all rows are in the index.
func indexedTo(tx *tx) (to int64, err error) {
	if err := tx.QueryRow(`SELECT indexed_to FROM nonce_index_state WHERE id = 1`).Scan(&to); err != nil {
		return 0, fmt.Errorf("read how far nonces are indexed: %w", err)
	}
	return to, nil
}

// positionsRestarted reports whether the rows are not those that indexed_to refers to. A
// release from before the index counts positions from 1 again if it finds no rows: then
// the oldest row is not in the index.
func positionsRestarted(tx *tx) (bool, error) {
	to, err := indexedTo(tx)
	if err != nil {
		return false, err
	}
	oldest, err := rowsAfter(tx, 0, 1)
	if err != nil || len(oldest) == 0 || oldest[0].position > to {
		return false, err
	}
	position, err := indexed(tx, oldest[0].mark)
	return position != oldest[0].position, err
}

// rowsAfter returns the oldest nonces after a position.
func rowsAfter(tx *tx, position, most int64) ([]usedNonce, error) {
	rows, err := tx.Query(`SELECT position, credential_id, nonce FROM nonces WHERE position > ?1 ORDER BY position LIMIT ?2`, position, most)
	found, err := sqlstore.Collect(rows, err, func(row sqlstore.Row) (one usedNonce, err error) {
		var credentialID int64
		var nonce string
		err = row.Scan(&one.position, &credentialID, &nonce)
		one.mark = markOf(credentialID, nonce)
		return one, err
	})
	if err != nil {
		return nil, fmt.Errorf("read nonces: %w", err)
	}
	return found, nil
}

// moveSome moves some nonces to the index for each that the transaction has used up. If
// the commit fails, everything is read again.
func (n *nonces) moveSome(tx *tx) error {
	count := min(indexedPerNonce*len(n.added), len(n.toMove))
	if count == 0 {
		return nil
	}
	oldest, err := rowsAfter(tx, 0, 1)
	if err != nil {
		return err
	}
	first := n.last + 1
	if len(oldest) > 0 {
		first = oldest[0].position
	}
	for _, one := range n.toMove[:count] {
		if one.position < first {
			continue // purged
		}
		if err := addToIndex(tx, one); err != nil {
			return err
		}
	}
	n.toMove = n.toMove[count:]
	if len(n.toMove) > 0 {
		return nil
	}
	return setIndexedTo(tx, n.movingTo)
}

func addToIndex(tx *tx, one usedNonce) error {
	if _, err := tx.Exec(`INSERT OR REPLACE INTO nonce_index (mark, position) VALUES (?1, ?2)`, int64(one.mark), one.position); err != nil {
		return fmt.Errorf("index a nonce: %w", err)
	}
	return nil
}

func setIndexedTo(tx *tx, position int64) error {
	if _, err := tx.Exec(`UPDATE nonce_index_state SET indexed_to = ?1 WHERE id = 1`, position); err != nil {
		return fmt.Errorf("note how far nonces are indexed: %w", err)
	}
	return nil
}

// resetIndex makes all rows be indexed again.
func resetIndex(tx *tx) error {
	_, err := tx.Exec(`UPDATE nonce_index_state SET indexed_to = 0, aged_to = 0, aged_at = 0 WHERE id = 1`)
	return err
}

func sortByMark(all []usedNonce) {
	slices.SortFunc(all, func(a, b usedNonce) int { return cmp.Compare(a.mark, b.mark) })
}

// backlog is the position after which no row is in the index, if more rows come after it
// than are kept in memory.
func (n *nonces) backlog(tx *tx) (after int64, found bool, err error) {
	after, err = indexedTo(tx)
	if err != nil {
		return 0, false, err
	}
	var position int64
	err = tx.QueryRow(`SELECT position FROM nonces WHERE position > ?1 ORDER BY position LIMIT 1 OFFSET ?2`, after, 2*n.buffer).Scan(&position)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	return after, err == nil, err
}

// indexAfter indexes the rows after a position, as many as one transaction takes.
func indexAfter(tx *tx, position int64) error {
	rows, err := rowsAfter(tx, position, backlogBatch)
	if err != nil {
		return err
	}
	last := rows[len(rows)-1].position
	sortByMark(rows)
	for _, one := range rows {
		if err := addToIndex(tx, one); err != nil {
			return err
		}
	}
	return setIndexedTo(tx, last)
}

// purge deletes the oldest nonces that were used before the given time, and returns how
// many.
//
// Rows that were written while the clock was ahead seem to be used in the future, and
// would keep everything behind them. Once the clock is right again, and the oldest row
// is one of them, all such rows that are there are taken to be used now, and go when
// that is old enough.
func (n *nonces) purge(tx *tx, now, before int64, most int) (removed int64, err error) {
	var agedTo, agedAt int64
	if err := tx.QueryRow(`SELECT aged_to, aged_at FROM nonce_index_state WHERE id = 1`).Scan(&agedTo, &agedAt); err != nil {
		return 0, err
	}
	var gone []usedNonce
	rows, err := tx.Query(`SELECT position, credential_id, nonce, used_at FROM nonces WHERE position > 0 ORDER BY position LIMIT ?1`, most)
	ahead, kept := false, false
	_, err = sqlstore.Collect(rows, err, func(row sqlstore.Row) (struct{}, error) {
		var position, credentialID, usedAt int64
		var nonce string
		err := row.Scan(&position, &credentialID, &nonce, &usedAt)
		if position <= agedTo && usedAt > now {
			usedAt = agedAt
		}
		switch {
		case kept:
		case usedAt >= before:
			kept, ahead = true, usedAt > now
		default:
			gone = append(gone, usedNonce{mark: markOf(credentialID, nonce), position: position})
		}
		return struct{}{}, err
	})
	if err != nil {
		return 0, err
	}
	if ahead {
		agedTo = 0
		_, err := tx.Exec(`UPDATE nonce_index_state SET aged_to = (SELECT max(position) FROM nonces), aged_at = ?1 WHERE id = 1`, now)
		if err != nil {
			return 0, err
		}
	}
	if len(gone) == 0 {
		return 0, nil
	}
	last := gone[len(gone)-1].position
	sortByMark(gone)
	for _, one := range gone {
		if _, err := tx.Exec(`DELETE FROM nonce_index WHERE mark = ?1 AND position = ?2`, int64(one.mark), one.position); err != nil {
			return 0, err
		}
	}
	if agedTo > 0 && last >= agedTo {
		// Positions may be used again.
		if _, err := tx.Exec(`UPDATE nonce_index_state SET aged_to = 0, aged_at = 0 WHERE id = 1`); err != nil {
			return 0, err
		}
	}
	return tx.Exec(`DELETE FROM nonces WHERE position <= ?1`, last)
}
