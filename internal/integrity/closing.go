package integrity

import (
	"crypto/hmac"
	"crypto/sha256"
)

// closingLabel begins every MAC of a Closing.
const closingLabel = "coax retention closing 1"

// Closing records a transaction that removed old rows. Package retention says what each field
// of it counts.
type Closing struct {
	// Number counts the closings of all kinds of rows.
	Number int64
	// What is the table that rows were removed from, LastID the last operation or job it covers.
	What, LastID string
	// Before: everything that was removed belongs to what was ordered before it.
	Before int64
	// Operations lost Removed rows; Charged and Refunded are their amounts in paise.
	Operations, Removed, Charged, Refunded int64
	// IDsHash is a RowHash over the ids of the operations, in their order; of a bulk renewal in
	// that of its rows.
	IDsHash []byte
	MadeAt  int64
}

// SignClosing makes the MAC of a closing that follows the one with the given code.
func (k *Keys) SignClosing(previous []byte, c Closing) MAC {
	f := newFields(hmac.New(sha256.New, k.digests[k.current]))
	f.texts(closingLabel)
	f.number(int64(k.current))
	f.bytes(previous)
	f.number(c.Number)
	f.texts(c.What, c.LastID)
	for _, n := range []int64{c.Before, c.Operations, c.Removed, c.Charged, c.Refunded} {
		f.number(n)
	}
	f.bytes(c.IDsHash)
	f.number(c.MadeAt)
	return MAC{f.sum(), k.current}
}

// AddID adds the id of an operation.
func (h *RowHash) AddID(id string) { h.texts(id) }
