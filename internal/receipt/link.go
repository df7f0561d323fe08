package receipt

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"
)

// LinkPurpose is the purpose for which the keys of links are derived from data keys.
const LinkPurpose = "receipt link"

// LinkLife is how long a link opens its receipt.
const LinkLife = 30 * 24 * time.Hour

// Keys are the keys that sign links, by the id of their data key. Data keys outlive master keys, so
// a link stays valid when the master key is replaced.
type Keys interface {
	CurrentID() uint32
	Key(id uint32) (key []byte, known bool)
}

// Links makes and checks links. They are not stored: a link has the transaction, when it ends, and
// a MAC of both.
type Links struct {
	keys Keys
	now  func() time.Time
}

// NewLinks returns links under keys.
func NewLinks(keys Keys, now func() time.Time) *Links { return &Links{keys, now} }

const (
	// linkHead is the id of the key and the end in Unix seconds, before the transaction's id.
	linkHead = 4 + 8
	// linkMAC is how much of the MAC a link has: 128 bits, because it is typed by nobody and
	// guessed by nobody, and has to fit into a message.
	linkMAC = 16
	// maxLink bounds what is decoded.
	maxLink = 200
)

// Make returns the token of a link to a transaction's receipt, and when it ends.
func (l *Links) Make(transactionID string) (token string, ends time.Time, ok bool) {
	id := l.keys.CurrentID()
	key, known := l.keys.Key(id)
	if !known {
		return "", time.Time{}, false
	}
	ends = l.now().Add(LinkLife).Truncate(time.Second)
	text := binary.BigEndian.AppendUint32(nil, id)
	text = binary.BigEndian.AppendUint64(text, uint64(ends.Unix()))
	text = append(text, transactionID...)
	return base64.RawURLEncoding.EncodeToString(append(text, mac(key, text)...)), ends, true
}

// Open returns the transaction of a link; false if the link was not made here, or has ended.
func (l *Links) Open(token string) (transactionID string, ends time.Time, ok bool) {
	if len(token) > maxLink {
		return "", time.Time{}, false
	}
	// Strict, so that a link has one spelling.
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) <= linkHead+linkMAC {
		return "", time.Time{}, false
	}
	text, signed := raw[:len(raw)-linkMAC], raw[len(raw)-linkMAC:]
	key, known := l.keys.Key(binary.BigEndian.Uint32(text))
	if !known || !hmac.Equal(signed, mac(key, text)) {
		return "", time.Time{}, false
	}
	ends = time.Unix(int64(binary.BigEndian.Uint64(text[4:])), 0)
	return string(text[linkHead:]), ends, l.now().Before(ends)
}

func mac(key, text []byte) []byte {
	sum := hmac.New(sha256.New, key)
	sum.Write(text)
	return sum.Sum(nil)[:linkMAC]
}
