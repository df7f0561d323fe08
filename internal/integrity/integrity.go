// Package integrity computes the message authentication codes (MACs) that show when a
// row of a store was changed with access to the database but not to the master key:
// one per staff action, chained, and one per operator and day over wallet entries and
// ledger lines. Package audit verifies them with code of its own.
package integrity

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"strconv"
)

// The purposes that keys are derived for, one per kind of MAC.
const (
	ActionsPurpose = "staff actions"
	DigestsPurpose = "ledger digests"
)

// Every MAC begins with one of these, so that none can be taken for another kind.
const (
	startLabel  = "coax staff actions start 1"
	actionLabel = "coax staff action 1"
	digestLabel = "coax ledger digest 1"
)

// Keys are derived from every data key. The current one's make new MACs.
type Keys struct {
	current          uint32
	actions, digests map[uint32][]byte
}

// NewKeys derives keys for each purpose, as access.Vault.Derive does. current is the
// id of the current data key.
func NewKeys(current uint32, derive func(purpose string) map[uint32][]byte) *Keys {
	return &Keys{current: current, actions: derive(ActionsPurpose), digests: derive(DigestsPurpose)}
}

const hidden = "[secret]"

// Format, LogValue and MarshalJSON keep keys out of logs.
func (*Keys) Format(f fmt.State, _ rune)   { io.WriteString(f, hidden) }
func (*Keys) LogValue() slog.Value         { return slog.StringValue(hidden) }
func (*Keys) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }

// MAC is a code and the id of the data key that it was made under.
type MAC struct {
	Code []byte
	Key  uint32
}

// Start is where the keyed part of the chain of staff actions begins. Its MAC covers
// the plain hash of the last action before it, and thereby all of them.
type Start struct {
	LastID   int64
	LastHash []byte
}

// SignStart makes the MAC that the first keyed action continues.
func (k *Keys) SignStart(s Start) MAC {
	f := newFields(hmac.New(sha256.New, k.actions[k.current]))
	f.texts(startLabel)
	f.number(int64(k.current))
	f.number(s.LastID)
	f.bytes(s.LastHash)
	return MAC{f.sum(), k.current}
}

// Action is a row of the log of staff actions.
type Action struct {
	ID, OperatorID, At                                    int64
	Actor, Action, Subject, Before, After, Reason, Origin string
}

// SignAction makes the MAC of an action that follows the one with the given code.
func (k *Keys) SignAction(previous []byte, a Action) MAC {
	f := newFields(hmac.New(sha256.New, k.actions[k.current]))
	f.texts(actionLabel)
	f.number(int64(k.current))
	f.bytes(previous)
	f.number(a.ID)
	f.number(a.OperatorID)
	f.number(a.At)
	f.texts(a.Actor, a.Action, a.Subject, a.Before, a.After, a.Reason, a.Origin)
	return MAC{f.sum(), k.current}
}

// Digest covers an operator's wallet entries and ledger lines of one day: all that
// follow those of its previous digest, up to the first that was made later. A range
// without rows ends one before it begins.
type Digest struct {
	// Number counts the digests of all operators.
	Number     int64
	OperatorID int64
	// Day is the day in IST, as 2026-11-18.
	Day                   string
	FirstLine, LastLine   int64
	FirstEntry, LastEntry int64
	// LedgerHash and WalletHash are SHA-256 over the rows.
	LedgerHash, WalletHash []byte
	MadeAt                 int64
}

// SignDigest makes the MAC of a digest that follows the one with the given code,
// whichever operator's that is.
func (k *Keys) SignDigest(previous []byte, d Digest) MAC {
	f := newFields(hmac.New(sha256.New, k.digests[k.current]))
	f.texts(digestLabel)
	f.number(int64(k.current))
	f.bytes(previous)
	f.number(d.Number)
	f.number(d.OperatorID)
	f.texts(d.Day)
	for _, n := range []int64{d.FirstLine, d.LastLine, d.FirstEntry, d.LastEntry} {
		f.number(n)
	}
	f.bytes(d.LedgerHash)
	f.bytes(d.WalletHash)
	f.number(d.MadeAt)
	return MAC{f.sum(), k.current}
}

// LedgerLine is a row of the ledger. Operation is nil where there is none.
type LedgerLine struct {
	ID, OperatorID, Line, Amount, BalanceAfter, CreatedAt int64
	Kind, Description                                     string
	Operation                                             *string
}

// WalletEntry is a row of the wallets' entries. Operation and Reference are nil where
// there is none.
type WalletEntry struct {
	OperatorID, Seq, Amount, BalanceAfter, CreatedAt int64
	Kind, Actor                                      string
	Operation, Reference                             *string
}

// RowHash hashes rows one after the other.
type RowHash struct{ fields }

// NewRowHash begins with no row.
func NewRowHash() *RowHash { return &RowHash{newFields(sha256.New())} }

// AddLine adds a ledger line.
func (h *RowHash) AddLine(l LedgerLine) {
	for _, n := range []int64{l.ID, l.OperatorID, l.Line, l.Amount, l.BalanceAfter, l.CreatedAt} {
		h.number(n)
	}
	h.texts(l.Kind, l.Description)
	h.nullable(l.Operation)
}

// AddEntry adds a wallet entry.
func (h *RowHash) AddEntry(e WalletEntry) {
	for _, n := range []int64{e.OperatorID, e.Seq, e.Amount, e.BalanceAfter, e.CreatedAt} {
		h.number(n)
	}
	h.texts(e.Kind, e.Actor)
	h.nullable(e.Operation)
	h.nullable(e.Reference)
}

// Sum is the hash of all rows that were added.
func (h *RowHash) Sum() []byte { return h.sum() }

// fields writes values behind their lengths, so that no two different rows can run
// together into the same bytes.
type fields struct{ to hash.Hash }

func newFields(to hash.Hash) fields { return fields{to} }

func (f fields) bytes(field []byte) {
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(field)))
	f.to.Write(size[:])
	f.to.Write(field)
}

func (f fields) texts(all ...string) {
	for _, text := range all {
		f.bytes([]byte(text))
	}
}

func (f fields) number(n int64) { f.bytes(strconv.AppendInt(nil, n, 10)) }

// nullable tells an absent text from an empty one.
func (f fields) nullable(text *string) {
	if text == nil {
		f.texts("0")
		return
	}
	f.texts("1", *text)
}

func (f fields) sum() []byte { return f.to.Sum(nil) }
