package requestlog

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/fault"
)

// Block is some calls of one operator, packed, as stores keep them. A busy node
// answers twenty thousand calls a second, and a row for each of them would cost a
// tenth of what answering them does; a row for a few dozen costs next to nothing.
type Block struct {
	// ID grows with time, and is the store's to give.
	ID         int64
	OperatorID int64
	// From and Until are when its first and its last call came.
	From, Until time.Time
	// Refused: at least one of the calls was.
	Refused bool
	Packed  []byte
}

const (
	// blockFormat is how entries are packed. It stands at the beginning of every
	// block, so that another one can be told apart.
	blockFormat = 1
	// blockBytes bounds what has to be unpacked to show one call.
	blockBytes = 8 << 10
	// blockSpan bounds how far a block reaches. Whoever looks for a moment finds
	// it in a block that ends within so much of it.
	blockSpan = 10 * time.Second
)

// words are the texts that nearly every call has, each of which is kept as its
// place in this list. They stay where they are for good: to the end, more may be
// added. A text that is not here is kept as it is.
var words = []string{
	"",
	"GET", "POST",
	"/api/v1/balance", "/api/v1/renew", "/api/v1/plans", "/api/v1/subscription", "/api/v1/transaction", "/api/v1/activate", "/api/v1/advance-renew",
	"OK", "RATE_LIMITED", "PENDING_REVIEW", "REQUEST_IN_PROGRESS", "PROVIDER_ERROR", "INVALID_SIGNATURE", "TIMESTAMP_EXPIRED",
	"INVALID_NONCE", "REPLAY_DETECTED", "CREDENTIAL_REVOKED", "CREDENTIAL_EXPIRED", "IP_NOT_WHITELISTED", "PERMISSION_DENIED",
	"INSUFFICIENT_BALANCE", "SUBSCRIBER_EXISTS", "SUBSCRIBER_NOT_FOUND", "TRANSACTION_NOT_FOUND", "PLAN_ALREADY_ACTIVE",
	"DUPLICATE_REQUEST", "OPERATION_IN_PROGRESS", "PLANS_UNAVAILABLE", "VALIDATION_ERROR", "INVALID_PLAN", "INVALID_JSON",
	"IDEMPOTENCY_KEY_REUSED", "SERVICE_UNAVAILABLE", "INTERNAL_ERROR", "API_DISABLED", "API_ACCESS_BLOCKED", "LCO_INACTIVE",
}

var placeOf = func() map[string]uint64 {
	places := map[string]uint64{}
	for i, word := range words {
		places[word] = uint64(i)
	}
	return places
}()

// appendEntry packs an entry. The operator is not in it: it is the block's.
func appendEntry(b []byte, e *Entry) []byte {
	b = binary.AppendVarint(b, e.At.UnixMilli())
	b = binary.AppendUvarint(b, uint64(e.CredentialID))
	b = appendHex(b, e.KeyHint, keyPrefix)
	b = appendWord(b, e.Method)
	b = appendWord(b, e.Path)
	b = binary.AppendUvarint(b, uint64(e.Status))
	b = appendWord(b, string(e.Code))
	b = append(b, byte(e.Address.BitLen()/8))
	switch address := e.Address.WithZone(""); {
	case address.Is4():
		bytes := address.As4()
		b = append(b, bytes[:]...)
	case address.Is6():
		bytes := address.As16()
		b = append(b, bytes[:]...)
	}
	b = appendHex(b, e.RequestID, requestPrefix)
	b = binary.AppendUvarint(b, uint64(max(0, e.Took.Microseconds())))
	b = appendText(b, e.IdempotencyKey)
	if e.Signature == nil {
		return append(b, 0)
	}
	b = append(b, 1)
	b = appendText(b, e.Signature.StringToSign)
	b = appendText(b, e.Signature.SignatureStart)
	return appendText(b, string(e.Signature.SignatureForm))
}

const (
	keyPrefix     = "cxk_"
	requestPrefix = "req_"
)

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// appendWord packs a text that is probably one of the words. Their list begins with
// the empty one, whose place stands for a text that is spelled out.
func appendWord(b []byte, text string) []byte {
	place := placeOf[text]
	b = binary.AppendUvarint(b, place)
	if place == 0 {
		b = appendText(b, text)
	}
	return b
}

// appendHex packs a text that is probably a prefix and hex digits: in half the room.
func appendHex(b []byte, text, prefix string) []byte {
	digits, has := strings.CutPrefix(text, prefix)
	start := len(b)
	if has && len(digits) > 0 && len(digits)%2 == 0 && len(digits) <= 64 {
		b = append(b, byte(len(digits)/2))
		for i := 0; i < len(digits); i += 2 {
			high, low := lowerHex(digits[i]), lowerHex(digits[i+1])
			if high > 15 || low > 15 {
				break
			}
			b = append(b, high<<4|low)
		}
		if len(b) == start+1+len(digits)/2 {
			return b
		}
	}
	return appendText(append(b[:start], 0), text)
}

// lowerHex is the value of a lower-case hex digit, and more than fifteen of
// anything else.
func lowerHex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 255
}

var errDamaged = errors.New("it is not as it was packed")

// unpack reads the entries of a block, oldest first as they came.
func (b Block) unpack() ([]Entry, error) {
	r := unpacker{rest: b.Packed}
	if format := r.uvarint(); format != blockFormat {
		return nil, fmt.Errorf("block %d of the request log has format %d, which this release does not know", b.ID, format)
	}
	var entries []Entry
	for len(r.rest) > 0 && !r.damaged {
		one := unpacker{rest: r.bytes(r.uvarint())}
		e := one.entry()
		if r.damaged = r.damaged || one.damaged; r.damaged {
			return nil, fmt.Errorf("block %d of the request log: %w", b.ID, errDamaged)
		}
		e.OperatorID, e.ID = b.OperatorID, entryID(b.ID, len(entries))
		entries = append(entries, e)
	}
	return entries, nil
}

// unpacker reads what was packed. Once something is not there, nothing is.
type unpacker struct {
	rest    []byte
	damaged bool
}

func (r *unpacker) entry() Entry {
	e := Entry{
		At:           time.UnixMilli(r.varint()).UTC(),
		CredentialID: int64(r.uvarint()),
		KeyHint:      r.hex(keyPrefix),
		Method:       r.word(),
		Path:         r.word(),
		Status:       int(r.uvarint()),
		Code:         fault.Code(r.word()),
	}
	if address := r.bytes(r.uvarint()); len(address) > 0 {
		var read bool
		if e.Address, read = netip.AddrFromSlice(address); !read {
			r.damaged = true
		}
	}
	e.RequestID = r.hex(requestPrefix)
	e.Took = time.Duration(r.uvarint()) * time.Microsecond
	e.IdempotencyKey = r.text()
	if r.uvarint() == 1 {
		e.Signature = &SignatureDetails{StringToSign: r.text(), SignatureStart: r.text(), SignatureForm: SignatureForm(r.text())}
	}
	return e
}

func (r *unpacker) uvarint() uint64 {
	value, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.damaged, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return value
}

func (r *unpacker) varint() int64 {
	value, n := binary.Varint(r.rest)
	if n <= 0 {
		r.damaged, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return value
}

func (r *unpacker) bytes(length uint64) []byte {
	if length > uint64(len(r.rest)) {
		r.damaged, r.rest = true, nil
		return nil
	}
	bytes := r.rest[:length]
	r.rest = r.rest[length:]
	return bytes
}

func (r *unpacker) text() string { return string(r.bytes(r.uvarint())) }

func (r *unpacker) word() string {
	place := r.uvarint()
	switch {
	case place == 0:
		return r.text()
	case place >= uint64(len(words)):
		r.damaged = true
		return ""
	}
	return words[place]
}

func (r *unpacker) hex(prefix string) string {
	length := r.uvarint()
	if length == 0 {
		return r.text()
	}
	return prefix + hex.EncodeToString(r.bytes(length))
}
