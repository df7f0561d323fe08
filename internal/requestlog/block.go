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

// Block is a group of packed calls of one operator, stored as one row. A busy node
// answers twenty thousand calls a second: a row for each would add a tenth to the cost
// of answering them; a row for a few dozen costs next to nothing.
type Block struct {
	// ID is assigned by the store and grows with time.
	ID         int64
	OperatorID int64
	// From and Until are the times of its first and its last call.
	From, Until time.Time
	// Refused is set if at least one of the calls was refused.
	Refused bool
	Packed  []byte
}

const (
	// blockFormat is the version of the encoding, the first value of every block.
	blockFormat = 1
	// blockBytes is the maximum size of a block: showing one call unpacks a whole block.
	blockBytes = 8 << 10
	// blockSpan is the maximum time between two calls of a block: a call is in a block that
	// ends at most that much later.
	blockSpan = 10 * time.Second
)

// dictionary has the strings that nearly every call has; each is stored as its index.
// Stored blocks depend on the indexes: new strings are added only at the end. Other strings
// are stored as they are.
var dictionary = []string{
	"",
	"GET", "POST",
	"/api/v1/balance", "/api/v1/renew", "/api/v1/plans", "/api/v1/subscription", "/api/v1/transaction", "/api/v1/activate", "/api/v1/advance-renew",
	"OK", "RATE_LIMITED", "PENDING_REVIEW", "REQUEST_IN_PROGRESS", "PROVIDER_ERROR", "INVALID_SIGNATURE", "TIMESTAMP_EXPIRED",
	"INVALID_NONCE", "REPLAY_DETECTED", "CREDENTIAL_REVOKED", "CREDENTIAL_EXPIRED", "IP_NOT_WHITELISTED", "PERMISSION_DENIED",
	"INSUFFICIENT_BALANCE", "SUBSCRIBER_EXISTS", "SUBSCRIBER_NOT_FOUND", "TRANSACTION_NOT_FOUND", "PLAN_ALREADY_ACTIVE",
	"DUPLICATE_REQUEST", "OPERATION_IN_PROGRESS", "PLANS_UNAVAILABLE", "VALIDATION_ERROR", "INVALID_PLAN", "INVALID_JSON",
	"IDEMPOTENCY_KEY_REUSED", "SERVICE_UNAVAILABLE", "INTERNAL_ERROR", "API_DISABLED", "API_ACCESS_BLOCKED", "LCO_INACTIVE",
}

var indexOf = func() map[string]uint64 {
	indexes := map[string]uint64{}
	for i, text := range dictionary {
		indexes[text] = uint64(i)
	}
	return indexes
}()

// appendEntry packs an entry without its operator, which the block has.
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
		b = append(b, 0)
	} else {
		b = append(b, 1)
		b = appendText(b, e.Signature.StringToSign)
		b = appendText(b, e.Signature.SignatureStart)
		b = appendText(b, string(e.Signature.SignatureForm))
	}
	// Releases that do not know it ignore what follows.
	if e.PlanID != "" {
		b = appendText(b, e.PlanID)
	}
	return b
}

const (
	keyPrefix     = "cxk_"
	requestPrefix = "req_"
)

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// appendWord packs a string that is probably in the dictionary. Index 0 means that the
// string follows.
func appendWord(b []byte, text string) []byte {
	index := indexOf[text]
	b = binary.AppendUvarint(b, index)
	if index == 0 {
		b = appendText(b, text)
	}
	return b
}

// appendHex packs a string that is probably a prefix and hex digits, two digits in a byte.
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

// lowerHex returns the value of a lower-case hex digit, and 255 for other characters.
func lowerHex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 255
}

var errDamaged = errors.New("the block is damaged")

// unpack reads the entries of a block in the order they were recorded.
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

// unpacker decodes packed values. After the first error it returns zero values.
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
	if len(r.rest) > 0 {
		e.PlanID = r.text()
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
	index := r.uvarint()
	switch {
	case index == 0:
		return r.text()
	case index >= uint64(len(dictionary)):
		r.damaged = true
		return ""
	}
	return dictionary[index]
}

func (r *unpacker) hex(prefix string) string {
	length := r.uvarint()
	if length == 0 {
		return r.text()
	}
	return prefix + hex.EncodeToString(r.bytes(length))
}
