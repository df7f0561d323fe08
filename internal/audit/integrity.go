package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"strconv"
	"time"
)

// Keys verify the message authentication codes (MACs) of a store. Each map is by the id
// of a key.
type Keys struct {
	// CheckValues show whether the ring is the store's.
	CheckValues map[uint32][]byte
	// Actions and Digests are derived for "staff actions" and "ledger digests" from the ring.
	Actions, Digests map[uint32][]byte
	// Open derives them from a data key as the store has it, sealed; nil for a store without.
	Open func(id uint32, sealed []byte) (actions, digests []byte, err error)
}

// chainStart is where the signed part of the chain of staff actions begins.
type chainStart struct {
	lastID         int64
	lastHash, mac  []byte
	key            int64
	found, reached bool
}

// signedChain follows the MACs of staff actions.
type signedChain struct {
	start    chainStart
	previous []byte
	signed   int64
}

// digest is a row of ledger_digests.
type digest struct {
	number, operator, made                     int64
	firstLine, lastLine, firstEntry, lastEntry int64
	day                                        string
	ledgerHash, walletHash, mac                []byte
	key                                        int64
}

const digestColumns = `number, operator_id, day, first_line, last_line, first_entry, last_entry, ledger_hash, wallet_hash, mac, mac_key, made_at`

func readDigest(row scanner, d *digest) {
	row(&d.number, &d.operator, &d.day, &d.firstLine, &d.lastLine, &d.firstEntry, &d.lastEntry, &d.ledgerHash, &d.walletHash, &d.mac, &d.key, &d.made)
}

// readMasterKeys decides whether MACs can be verified.
func (a *auditor) readMasterKeys() {
	switch {
	case !a.has(migrationIntegrity):
		a.skip("the MACs of staff actions and the digests of wallet entries and ledger lines: no node of this release has opened the store yet")
		a.macKeys = nil
		return
	case a.macKeys == nil:
		why := a.noMACKeys
		if why == "" {
			why = "the master key was not given"
		}
		a.skip("the MACs of staff actions and of digests of wallet entries and ledger lines: %s", why)
		return
	}
	type masterKey struct {
		id    int64
		proof []byte
	}
	known := open(a, "master_keys", `SELECT key_id, proof FROM master_keys ORDER BY key_id`, func(row scanner, k *masterKey) int64 {
		row(&k.id, &k.proof)
		return k.id
	})
	wrong := false
	walk(func(id int64) {
		known.each(id, func(k *masterKey) {
			if proof, held := a.macKeys.CheckValues[uint32(k.id)]; !held || !bytes.Equal(proof, k.proof) {
				a.found("A12", fmt.Sprintf("master key %d", k.id), "the master key at hand lacks it, or has another one: MACs were not verified")
				wrong = true
			}
		})
	}, known)
	if wrong {
		a.skip("the MACs of staff actions and of digests of wallet entries and ledger lines: the master key at hand is not the store's")
		a.macKeys = nil
		return
	}
	a.readDataKeys()
}

// readDataKeys opens the data keys, which a store has once its master key was rotated.
func (a *auditor) readDataKeys() {
	if !a.has(migrationDataKeys) || a.macKeys.Open == nil {
		return
	}
	type dataKey struct {
		id     int64
		sealed []byte
	}
	keys := *a.macKeys
	keys.Actions, keys.Digests = maps.Clone(keys.Actions), maps.Clone(keys.Digests)
	stored := open(a, "data_keys", `SELECT key_id, sealed FROM data_keys ORDER BY key_id`, func(row scanner, k *dataKey) int64 {
		row(&k.id, &k.sealed)
		return k.id
	})
	walk(func(id int64) {
		stored.each(id, func(k *dataKey) {
			actions, digests, err := keys.Open(uint32(k.id), k.sealed)
			if err != nil {
				a.found("A12", fmt.Sprintf("data key %d", k.id), "it cannot be opened: %v", err)
				return
			}
			keys.Actions[uint32(k.id)], keys.Digests[uint32(k.id)] = actions, digests
		})
	}, stored)
	a.macKeys = &keys
}

// skip reports what was not checked, and why.
func (a *auditor) skip(format string, args ...any) {
	a.report.Skipped = append(a.report.Skipped, oneLine(fmt.Sprintf(format, args...)))
}

// readChainStart reads where MACs begin, and verifies the MAC of that start.
func (a *auditor) readChainStart() *signedChain {
	c := &signedChain{}
	if !a.has(migrationIntegrity) {
		return c
	}
	starts := open(a, "staff_chain_start", `SELECT last_id, last_hash, mac, mac_key FROM staff_chain_start ORDER BY last_id`,
		func(row scanner, s *chainStart) int64 {
			row(&s.lastID, &s.lastHash, &s.mac, &s.key)
			return s.lastID
		})
	walk(func(id int64) {
		starts.each(id, func(s *chainStart) { c.start, c.start.found = *s, true })
	}, starts)
	if !c.start.found {
		return c
	}
	c.start.reached = c.start.lastID == 0
	c.previous = c.start.mac
	a.verify("A12", fmt.Sprintf("staff actions up to %d", c.start.lastID), a.actionKeys(), c.start.key, c.start.mac, func(m *message) {
		m.texts("coax staff actions start 1")
		m.numbers(c.start.key, c.start.lastID)
		m.bytes(c.start.lastHash)
	})
	return c
}

func (a *auditor) actionKeys() map[uint32][]byte {
	if a.macKeys == nil {
		return nil
	}
	return a.macKeys.Actions
}

// verify compares a MAC with what it must be, where there are keys.
func (a *auditor) verify(invariant, subject string, keys map[uint32][]byte, key int64, mac []byte, write func(*message)) {
	if keys == nil {
		return
	}
	secret, held := keys[uint32(key)]
	if !held || int64(uint32(key)) != key {
		a.found(invariant, subject, "its MAC was made under key %d, which is neither in the ring nor in the store", key)
		return
	}
	a.message.begin()
	write(&a.message)
	sum := hmac.New(sha256.New, secret)
	sum.Write(a.message.text)
	if !hmac.Equal(sum.Sum(nil), mac) {
		a.found(invariant, subject, "its MAC is wrong: it was changed without the master key, or what stood before it was removed or changed")
	}
}

// addAction verifies the MAC of a staff action.
func (a *auditor) addAction(c *signedChain, action, last *staffAction) {
	subject := fmt.Sprintf("staff action %d", action.id)
	defer a.compareActionHeads(c, action)
	switch {
	case !c.start.found && action.mac != nil:
		a.found("A12", subject, "it has a MAC, and the start of the signed staff actions is missing")
	case !c.start.found:
	case action.id <= c.start.lastID:
		if action.id == c.start.lastID {
			c.start.reached = true
			if !bytes.Equal(action.hash, c.start.lastHash) {
				a.found("A12", subject, "its hash is %s; expected %s, which it had when all actions up to it were sealed", short(action.hash), short(c.start.lastHash))
			}
		}
		return
	case action.mac == nil:
		a.found("A12", subject, "it has no MAC; expected one on every action after %d", c.start.lastID)
		return
	}
	if action.mac == nil {
		return
	}
	c.signed++
	if expected := max(last.id, c.start.lastID) + 1; action.id != expected {
		a.found("A12", subject, "it follows staff action %d; expected %d: what stood between was removed", expected-1, expected)
	}
	previous := c.previous
	c.previous = action.mac // continue from the stored MAC, so that one break is reported once
	a.verify("A12", subject, a.actionKeys(), action.macKey.Int64, action.mac, func(m *message) {
		m.texts("coax staff action 1")
		m.numbers(action.macKey.Int64)
		m.bytes(previous)
		m.numbers(action.id, action.operator, action.at)
		m.texts(action.actor, action.action, action.subject, action.before, action.after, action.reason, action.origin)
	})
}

// closeActions checks the chain as a whole, after its last action.
func (a *auditor) closeActions(c *signedChain, last *staffAction) {
	if c.start.found && !c.start.reached {
		a.found("A12", fmt.Sprintf("staff action %d", c.start.lastID), "all actions up to it were sealed, and it is missing")
	}
	if !c.start.found && a.macKeys != nil && last.id > 0 {
		a.found("A12", "staff actions", "none of them is signed, although the store has a master key: start a node, or find out who removed the MACs")
	}
	h := &a.report.Head
	h.At = time.UnixMilli(a.now).UTC()
	h.Actions, h.Hash, h.MAC = last.id, hex.EncodeToString(last.hash), hex.EncodeToString(c.macOf(last))
	// A head of a store without actions has no action to be compared with.
	if nothing := (&staffAction{}); c.start.found && c.start.lastID == 0 {
		a.compareActionHeads(c, nothing)
	} else {
		delete(a.actionHeads, 0)
	}
	for _, heads := range sortedHeads(a.actionHeads) {
		a.truncated(heads[0].At, "staff action %d is missing; the last one is %d", heads[0].Actions, last.id)
	}
}

// macOf returns the MAC of a head whose last action is this one.
func (c *signedChain) macOf(action *staffAction) []byte {
	if action.mac == nil && c.start.found && action.id == c.start.lastID {
		return c.start.mac
	}
	return action.mac
}

// readDigests verifies the chain of digests; readWallets compares the rows with them.
func (a *auditor) readDigests() {
	if !a.has(migrationIntegrity) {
		return
	}
	var last digest
	digests := open(a, "ledger_digests", `SELECT `+digestColumns+` FROM ledger_digests ORDER BY number`, func(row scanner, d *digest) int64 {
		readDigest(row, d)
		return d.number
	})
	keys := map[uint32][]byte(nil)
	if a.macKeys != nil {
		keys = a.macKeys.Digests
	}
	walk(func(number int64) {
		digests.each(number, func(d *digest) {
			subject := fmt.Sprintf("lco %d, %s", d.operator, d.day)
			if d.number != last.number+1 {
				a.found("L5", subject, "its digest has number %d; expected %d: digests between were removed", d.number, last.number+1)
			}
			a.verify("L5", subject, keys, d.key, d.mac, func(m *message) {
				m.texts("coax ledger digest 1")
				m.numbers(d.key)
				m.bytes(last.mac)
				m.numbers(d.number, d.operator)
				m.texts(d.day)
				m.numbers(d.firstLine, d.lastLine, d.firstEntry, d.lastEntry)
				m.bytes(d.ledgerHash)
				m.bytes(d.walletHash)
				m.numbers(d.made)
			})
			last = *d
			a.compareDigestHeads(d)
		})
	}, digests)
	a.report.Counts.Digests = digests.count
	h := &a.report.Head
	h.Digests, h.Day, h.DigestMAC = last.number, last.day, hex.EncodeToString(last.mac)
	delete(a.digestHeads, 0)
	for _, heads := range sortedHeads(a.digestHeads) {
		a.truncated(heads[0].At, "ledger digest %d is missing; the last one is %d", heads[0].Digests, last.number)
	}
}

// sealedRows compares an operator's rows, in their order, with its digests.
type sealedRows struct {
	a       *auditor
	what    string
	ranges  []sealedRange
	at      int
	sum     hash.Hash
	last    int64 // the end of the range before
	subject string
}

type sealedRange struct {
	day         string
	first, last int64
	hash        []byte
}

func (s *sealedRows) add(number int64, write func(*message)) {
	for s.at < len(s.ranges) && number > s.ranges[s.at].last {
		s.end()
	}
	if s.at == len(s.ranges) {
		s.a.report.Counts.Unsealed++
		return
	}
	s.a.message.begin()
	write(&s.a.message)
	s.sum.Write(s.a.message.text)
}

// end closes the range that rows are in.
func (s *sealedRows) end() {
	r := s.ranges[s.at]
	s.at++
	switch {
	case r.first != s.last+1:
		s.a.found("L5", s.subject+", "+r.day, "its digest covers %s from %d; expected from %d", s.what, r.first, s.last+1)
	case !bytes.Equal(s.sum.Sum(nil), r.hash):
		s.a.found("L5", s.subject+", "+r.day, "%s %d to %d are not as they were when the day was sealed", s.what, r.first, r.last)
	}
	s.last = r.last
	s.sum.Reset()
}

func (s *sealedRows) finish() {
	for s.at < len(s.ranges) {
		s.end()
	}
}

// seal gives a fold the operator's digests, before its rows.
func (f *fold) seal(digests []digest) {
	f.sealedEntries = sealedRows{a: f.a, what: "wallet entries", subject: f.subject, sum: sha256.New()}
	f.sealedLines = sealedRows{a: f.a, what: "ledger lines", subject: f.subject, sum: sha256.New()}
	for _, d := range digests {
		f.sealedEntries.ranges = append(f.sealedEntries.ranges, sealedRange{d.day, d.firstEntry, d.lastEntry, d.walletHash})
		f.sealedLines.ranges = append(f.sealedLines.ranges, sealedRange{d.day, d.firstLine, d.lastLine, d.ledgerHash})
	}
}

func (e *entry) write(m *message) {
	m.numbers(e.operator, e.seq, e.amount, e.balanceAfter, e.created)
	m.texts(e.kind, e.actor)
	m.nullable(e.operation)
	m.nullable(e.reference)
}

func (l *ledgerLine) write(m *message) {
	m.numbers(l.id, l.operator, l.line, l.amount, l.balanceAfter, l.created)
	m.texts(l.kind, l.text)
	m.nullable(l.operation)
}

// message is what a MAC or a hash is computed over: fields, each behind its length as
// eight bytes.
type message struct{ text []byte }

func (m *message) begin() { m.text = m.text[:0] }

func (m *message) bytes(field []byte) {
	m.text = binary.BigEndian.AppendUint64(m.text, uint64(len(field)))
	m.text = append(m.text, field...)
}

func (m *message) texts(fields ...string) {
	for _, field := range fields {
		m.text = binary.BigEndian.AppendUint64(m.text, uint64(len(field)))
		m.text = append(m.text, field...)
	}
}

func (m *message) numbers(all ...int64) {
	var digits [20]byte
	for _, n := range all {
		m.bytes(strconv.AppendInt(digits[:0], n, 10))
	}
}

func (m *message) nullable(text sql.NullString) {
	if !text.Valid {
		m.texts("0")
		return
	}
	m.texts("1", text.String)
}
