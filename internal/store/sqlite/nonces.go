package sqlite

import (
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/coaxhq/coax/internal/access"
)

// nonceRun is how many used nonces are known by heart before they are indexed in
// a run. More would be fewer runs to look through, and a longer pause to write one.
const nonceRun = 1 << 16

// nonces knows which nonces are used. Their rows stand in the file as they came,
// because a nonce that is put where it belongs by its key changes a page of its
// own. To find one again there is this: the newest by heart, the others in runs.
//
// Only the writer uses it, so that two requests cannot find a nonce free at once.
// No other process burns nonces: the folder has one node, and if it had two, they
// would give the same positions to their rows, which the file refuses.
type nonces struct {
	loaded bool
	last   int64 // the newest row's position
	runs   []run
	// fresh has the fingerprints of all rows that are in no run; twins those
	// whose fingerprint is another one's too, if that should ever happen.
	fresh map[fingerprint]int64
	twins []burned
	// added is what the present transaction has burned; dropped, that it has
	// removed a run.
	added   []burned
	dropped bool
	most    int // by heart
}

// fingerprint stands for a key and its nonce. Which nonce a fingerprint means is
// read from the row.
type fingerprint uint64

// burned is the place of a used nonce.
type burned struct {
	mark     fingerprint
	position int64
}

// markOf cannot be steered: an operator whose nonces all had one fingerprint would
// make everybody wait.
func markOf(credentialID int64, nonce string) fingerprint {
	text := make([]byte, 0, 8+64)
	text = binary.BigEndian.AppendUint64(text, uint64(credentialID))
	sum := sha256.Sum256(append(text, nonce...))
	return fingerprint(binary.BigEndian.Uint64(sum[:]))
}

// burn uses up a nonce, and says whether it was this request's to use: new, or
// burned by this very request before.
func (n *nonces) burn(tx *tx, a access.Admission) (bool, error) {
	if err := n.load(tx); err != nil {
		return false, err
	}
	mark := markOf(a.CredentialID, a.Nonce)
	owner, used, err := n.ownerOf(tx, mark, a)
	if err != nil || used {
		return owner == a.RequestID, err
	}
	one := burned{mark, n.last + 1}
	_, err = tx.exec(`INSERT INTO nonces (position, credential_id, nonce, request_id, used_at) VALUES (?1, ?2, ?3, ?4, ?5)`,
		one.position, a.CredentialID, a.Nonce, a.RequestID, a.Now.UnixMilli())
	if err != nil {
		return false, err
	}
	n.learn(one)
	n.added = append(n.added, one)
	return true, nil
}

// ownerOf is the request that has used a nonce, if one has.
func (n *nonces) ownerOf(tx *tx, mark fingerprint, a access.Admission) (owner string, used bool, err error) {
	look := func(position int64) (found bool, err error) {
		err = tx.queryRow(`SELECT request_id FROM nonces WHERE position = ?1 AND credential_id = ?2 AND nonce = ?3`,
			position, a.CredentialID, a.Nonce).Scan(&owner)
		if errors.Is(err, sql.ErrNoRows) {
			return false, nil // another nonce's row, or purged
		}
		return err == nil, err
	}
	if position, known := n.fresh[mark]; known {
		if used, err = look(position); err != nil || used {
			return owner, used, err
		}
	}
	for _, twin := range n.twins {
		if twin.mark == mark {
			if used, err = look(twin.position); err != nil || used {
				return owner, used, err
			}
		}
	}
	for i := range n.runs {
		if n.runs[i].filter.lacks(mark) {
			continue
		}
		places, err := n.runs[i].find(tx, mark)
		if err != nil {
			return "", false, err
		}
		for _, position := range places {
			if used, err = look(position); err != nil || used {
				return owner, used, err
			}
		}
	}
	return "", false, nil
}

func (n *nonces) learn(one burned) {
	if _, taken := n.fresh[one.mark]; taken {
		n.twins = append(n.twins, one)
	} else {
		n.fresh[one.mark] = one.position
	}
	n.last = max(n.last, one.position)
}

// keep believes what was burned, for it is committed.
func (n *nonces) keep() { n.added, n.dropped = n.added[:0], false }

// takeBack forgets what was burned since so many had been, for it is undone.
func (n *nonces) takeBack(to int) {
	if n.dropped {
		// Which runs there are is read again: that happens once for many thousand
		// requests, if ever.
		n.forget()
		return
	}
	for i := len(n.added) - 1; i >= to; i-- {
		one := n.added[i]
		if n.fresh[one.mark] == one.position {
			delete(n.fresh, one.mark)
		} else {
			n.twins = n.twins[:len(n.twins)-1] // the last one that came
		}
		n.last = one.position - 1
	}
	n.added = n.added[:to]
}

// forget is for a transaction whose fate is not known: what is true stands in the
// file, and is read from there when it is needed next.
func (n *nonces) forget() { *n = nonces{most: n.most} }

// load reads what has to be known, if it is not.
func (n *nonces) load(tx *tx) error {
	if n.loaded {
		return nil
	}
	n.forget()
	n.fresh = map[fingerprint]int64{}
	rows, err := tx.query(`SELECT run, first_position, last_position, filter FROM nonce_runs ORDER BY run`)
	n.runs, err = collect(rows, err, func(row scanner) (r run, err error) {
		return r, row.Scan(&r.number, &r.first, &r.last, (*[]byte)(&r.filter))
	})
	if err != nil {
		return fmt.Errorf("read the runs of nonces: %w", err)
	}
	for _, r := range n.runs {
		n.last = max(n.last, r.last)
	}
	fresh, err := tx.query(`SELECT position, credential_id, nonce FROM nonces WHERE position > ?1 ORDER BY position`, n.last)
	if err != nil {
		return fmt.Errorf("read the newest nonces: %w", err)
	}
	defer fresh.close()
	for {
		row, err := fresh.next()
		if err != nil {
			return fmt.Errorf("read the newest nonces: %w", err)
		}
		if !row {
			n.loaded = true
			return nil
		}
		var position, credential int64
		var nonce string
		if err := fresh.Scan(&position, &credential, &nonce); err != nil {
			return err
		}
		n.learn(burned{markOf(credential, nonce), position})
	}
}

// full reports whether what is known by heart should go into a run.
func (n *nonces) full() bool { return len(n.fresh)+len(n.twins) >= n.most }

// adopt takes a run in place of what it was made of, now that it is written.
func (n *nonces) adopt(r run) {
	n.runs = append(n.runs, r)
	n.fresh, n.twins = map[fingerprint]int64{}, nil
}

// purge removes the oldest nonces, if they were used before a moment, and says how
// many went. Where the clock was set back, one that looks younger than it is keeps
// those behind it for as long as the clock was off.
func (n *nonces) purge(tx *tx, before int64, most int) (removed int64, err error) {
	type head struct{ position, usedAt int64 }
	rows, err := tx.query(`SELECT position, used_at FROM nonces WHERE position > 0 ORDER BY position LIMIT ?1`, most)
	oldest, err := collect(rows, err, func(row scanner) (h head, err error) {
		return h, row.Scan(&h.position, &h.usedAt)
	})
	if err != nil {
		return 0, err
	}
	first := int64(math.MaxInt64)
	if len(oldest) > 0 {
		first = oldest[0].position
	}
	if err := n.dropRun(tx, first); err != nil {
		return 0, err
	}
	upTo := int64(-1)
	for _, h := range oldest {
		if h.usedAt >= before {
			break
		}
		upTo = h.position
	}
	return tx.exec(`DELETE FROM nonces WHERE position <= ?1`, upTo)
}

// dropRun removes the oldest run, if the first row that is left comes after it.
func (n *nonces) dropRun(tx *tx, first int64) error {
	if err := n.load(tx); err != nil {
		return err
	}
	if len(n.runs) == 0 || n.runs[0].last >= first {
		return nil
	}
	if err := n.runs[0].remove(tx); err != nil {
		return err
	}
	n.runs, n.dropped = n.runs[1:], true
	return nil
}
