package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
)

// The tables that rows are removed from when they are old. Of an operation all rows of a table
// are removed, or none.
const (
	oldCalls  = "provider_calls"
	oldEvents = "operation_events"
	oldJobs   = "bulk_jobs"
)

// keptAtLeastMS is how old removed rows must have been, settledWithinMS how soon after its order an
// operation must have been settled for its rows to be removed.
var keptAtLeastMS = map[string]int64{oldCalls: 90 * dayMS, oldEvents: 90 * dayMS, oldJobs: 30 * dayMS}

const settledWithinMS = 7 * dayMS

// removal is a row of retention_closings: what one transaction removed.
type removal struct {
	number, before, made                   int64
	operations, removed, charged, refunded int64
	what, lastID                           string
	ids, mac                               []byte
	key                                    int64
}

const removalColumns = `number, what, last_id, before_at, operations, removed, charged_paise, refunded_paise, ids_hash, mac, mac_key, made_at`

func readRemoval(row scanner, r *removal) {
	row(&r.number, &r.what, &r.lastID, &r.before, &r.operations, &r.removed, &r.charged, &r.refunded, &r.ids, &r.mac, &r.key, &r.made)
}

// readRemovals verifies the chain of closings; readOperations compares the operations with them.
func (a *auditor) readRemovals() {
	if !a.has(migrationRetention) {
		return
	}
	keys := map[uint32][]byte(nil)
	if a.macKeys != nil {
		keys = a.macKeys.Digests
	}
	var last removal
	all := open(a, "retention_closings", `SELECT `+removalColumns+` FROM retention_closings ORDER BY number`, func(row scanner, r *removal) int64 {
		readRemoval(row, r)
		return r.number
	})
	walk(func(number int64) {
		all.each(number, func(r *removal) {
			subject := fmt.Sprintf("closing %d of %s", r.number, r.what)
			if r.number != last.number+1 {
				a.found("R1", subject, "it follows closing %d; expected %d: closings between were removed", last.number, r.number-1)
			}
			if keep, known := keptAtLeastMS[r.what]; !known || r.before > r.made-keep {
				a.found("R1", subject, "at %s it removed what was ordered before %s; expected only what is at least %d days old",
					moment(r.made), moment(r.before), keep/dayMS)
			}
			a.verify("R1", subject, keys, r.key, r.mac, func(m *message) {
				m.texts("coax retention closing 1")
				m.numbers(r.key)
				m.bytes(last.mac)
				m.numbers(r.number)
				m.texts(r.what, r.lastID)
				m.numbers(r.before, r.operations, r.removed, r.charged, r.refunded)
				m.bytes(r.ids)
				m.numbers(r.made)
			})
			last = *r
			a.report.Counts.Removed += r.removed
		})
	}, all)
	a.report.Counts.Closings = all.count
}

// removedRows follows the closings of one table beside the operations, in the order of their ids.
type removedRows struct {
	a    *auditor
	what string
	// ranges end at their keys; nil where nothing was ever removed.
	ranges *stream[string, removal]
	// found is what the operations of the present range come to; its hash is sum.
	found removal
	sum   hash.Hash
}

func (a *auditor) openRemoved(what string) *removedRows {
	r := &removedRows{a: a, what: what, sum: sha256.New()}
	if a.has(migrationRetention) {
		r.ranges = open(a, "retention_closings", `SELECT `+removalColumns+` FROM retention_closings WHERE what = '`+what+`' ORDER BY last_id `+bytewise,
			func(row scanner, c *removal) string {
				readRemoval(row, c)
				return c.lastID
			})
	}
	return r
}

// reach closes the ranges that end before an operation, and reports whether one covers it.
func (r *removedRows) reach(id string) bool {
	if r.ranges == nil {
		return false
	}
	for {
		last, here := r.ranges.peek()
		if !here || last >= id {
			return here
		}
		r.end(last)
	}
}

// add counts an operation of the present range whose rows are gone.
func (r *removedRows) add(op *operation) {
	c := r.ranges.ahead[r.ranges.at].row
	if op.open() || op.adopted() || op.created >= c.before || op.completed.Int64 >= c.before+settledWithinMS {
		r.a.found("R2", op.subject(), "its %s were removed; expected them kept: closing %d covers what was ordered before %s, and settled within %d days",
			r.what, c.number, moment(c.before), settledWithinMS/dayMS)
	}
	r.found.operations++
	if op.status == "success" {
		r.found.charged += op.amount
	} else {
		r.found.refunded += op.amount
	}
	r.a.message.begin()
	r.a.message.texts(op.id)
	r.sum.Write(r.a.message.text)
}

// end compares the range that ends with an id with its closing.
func (r *removedRows) end(id string) {
	r.ranges.each(id, func(c *removal) {
		f := &r.found
		switch subject := fmt.Sprintf("closing %d of %s", c.number, c.what); {
		case f.operations != c.operations || f.charged != c.charged || f.refunded != c.refunded:
			r.a.found("R2", subject, "%d operations up to %s lack their %s, charged %s and refunded %s; expected %d, %s and %s, which the service removed",
				f.operations, c.lastID, r.what, rupees(f.charged), rupees(f.refunded), c.operations, rupees(c.charged), rupees(c.refunded))
		case !bytes.Equal(r.sum.Sum(nil), c.ids):
			r.a.found("R2", subject, "the operations up to %s that lack their %s have the hash %s; expected %s, of those that the service removed them from",
				c.lastID, r.what, ellipsis(hex.EncodeToString(r.sum.Sum(nil))), ellipsis(hex.EncodeToString(c.ids)))
		}
		r.found = removal{}
		r.sum.Reset()
	})
}

// finish closes the ranges that are left.
func (r *removedRows) finish() {
	if r.ranges == nil {
		return
	}
	for last, here := r.ranges.peek(); here; last, here = r.ranges.peek() {
		r.end(last)
	}
	r.ranges.close()
}
