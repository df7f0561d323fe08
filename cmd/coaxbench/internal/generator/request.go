package generator

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	random "math/rand/v2"
	"strconv"
	"time"
)

// shot is one request to be written, and as whom.
type shot struct {
	account *Account
	method  string
	path    string
	// query is the canonical query of a look-up.
	query []byte
	body  []byte
	// key is the idempotency key; a read has none.
	key []byte
	// names is what a field of the answer's data has to hold, if anything.
	field, names string
	// subscriber is whom it is about, by its place in the account.
	subscriber int
}

// emptyBodySum is the last line that every read signs.
var emptyBodySum = func() string {
	sum := sha256.Sum256(nil)
	return hex.EncodeToString(sum[:])
}()

// scribe writes signed requests for one client, each over the last.
type scribe struct {
	host   string
	nonces *random.ChaCha8
	// stamp is the text of second, which most requests share with the one before.
	second int64
	stamp  []byte

	nonce, signed, sum, text []byte
}

func newScribe(host string) *scribe {
	var seed [32]byte
	// crypto/rand never fails; it ends the program where there is no randomness.
	_, _ = rand.Read(seed[:])
	return &scribe{host: host, nonces: random.NewChaCha8(seed), nonce: make([]byte, 32)}
}

// write returns the request as it travels, signed for this moment. The bytes are
// good until the next call.
func (s *scribe) write(of shot, now time.Time) []byte {
	if second := now.Unix(); second != s.second || s.stamp == nil {
		s.second, s.stamp = second, strconv.AppendInt(s.stamp[:0], second, 10)
	}
	var fresh [16]byte
	_, _ = s.nonces.Read(fresh[:])
	hex.Encode(s.nonce, fresh[:])

	t := s.text[:0]
	t = append(t, of.method...)
	t = append(t, ' ')
	t = append(t, of.path...)
	if len(of.query) > 0 {
		t = append(append(t, '?'), of.query...)
	}
	t = append(t, " HTTP/1.1\r\nHost: "...)
	t = append(t, s.host...)
	t = append(t, "\r\nUser-Agent: coax-bench\r\nX-API-Key: "...)
	t = append(t, of.account.key...)
	t = append(t, "\r\nX-Timestamp: "...)
	t = append(t, s.stamp...)
	t = append(t, "\r\nX-Nonce: "...)
	t = append(t, s.nonce...)
	t = append(t, "\r\nX-Signature: "...)
	t = hex.AppendEncode(t, s.sign(of))
	if of.method == "POST" {
		t = append(t, "\r\nContent-Type: application/json\r\nIdempotency-Key: "...)
		t = append(t, of.key...)
		t = append(t, "\r\nContent-Length: "...)
		t = strconv.AppendInt(t, int64(len(of.body)), 10)
	}
	t = append(t, "\r\n\r\n"...)
	s.text = append(t, of.body...)
	return s.text
}

// sign is the HMAC of the contract's six lines.
func (s *scribe) sign(of shot) []byte {
	l := s.signed[:0]
	l = append(l, of.method...)
	l = append(l, '\n')
	l = append(l, of.path...)
	l = append(l, '\n')
	l = append(l, of.query...)
	l = append(l, '\n')
	l = append(l, s.stamp...)
	l = append(l, '\n')
	l = append(l, s.nonce...)
	l = append(l, '\n')
	if len(of.body) == 0 {
		l = append(l, emptyBodySum...)
	} else {
		sum := sha256.Sum256(of.body)
		l = hex.AppendEncode(l, sum[:])
	}
	s.signed = l
	of.account.mac.Reset()
	of.account.mac.Write(l)
	s.sum = of.account.mac.Sum(s.sum[:0])
	return s.sum
}
