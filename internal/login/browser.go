package login

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"
)

const (
	// BrowserKnownFor is how long a browser is known after its last sign-in.
	BrowserKnownFor = 365 * 24 * time.Hour
	// browsersKept is how many logins' marks one browser stores: several people may share
	// the computer at a counter.
	browsersKept = 4

	markSeparator = "."
	markedAs      = "coax/browser/1"
)

// browserMark proves that a browser has signed in to a login before. It grants nothing:
// it only gives the browser its own counter of wrong tries. It becomes invalid with the
// password, and when the login is disabled.
type browserMark struct {
	loginID int64
	at      int64 // Unix milliseconds
	key     uint32
	id      [16]byte
	mac     [sha256.Size]byte
}

const (
	markSigned = 8 + 8 + 4 + 16
	markBytes  = markSigned + sha256.Size
)

func (m browserMark) signed() []byte {
	b := make([]byte, 0, markBytes)
	b = binary.BigEndian.AppendUint64(b, uint64(m.loginID))
	b = binary.BigEndian.AppendUint64(b, uint64(m.at))
	b = binary.BigEndian.AppendUint32(b, m.key)
	return append(b, m.id[:]...)
}

func (m browserMark) String() string {
	return base64.RawURLEncoding.EncodeToString(append(m.signed(), m.mac[:]...))
}

// readMarks parses the marks that a browser sent, and skips what is invalid.
func readMarks(sent string) (marks []browserMark) {
	for text := range strings.SplitSeq(sent, markSeparator) {
		b, err := base64.RawURLEncoding.Strict().DecodeString(text)
		if err != nil || len(b) != markBytes {
			continue
		}
		m := browserMark{
			loginID: int64(binary.BigEndian.Uint64(b)), at: int64(binary.BigEndian.Uint64(b[8:])), key: binary.BigEndian.Uint32(b[16:]),
		}
		copy(m.id[:], b[20:markSigned])
		copy(m.mac[:], b[markSigned:])
		if marks = append(marks, m); len(marks) == browsersKept {
			break
		}
	}
	return marks
}

// sign returns the MAC of a mark for an account as it is now; false if its data
// key is not known.
func (svc *Service) sign(m browserMark, account Account) (mac [sha256.Size]byte, ok bool) {
	key, err := svc.vault.DeriveKey(m.key, "known browsers")
	if err != nil {
		return mac, false
	}
	sum := hmac.New(sha256.New, key)
	sum.Write([]byte(markedAs))
	sum.Write(m.signed())
	sum.Write(binary.BigEndian.AppendUint64(nil, uint64(account.PasswordChangedAt.UnixMilli())))
	sum.Write(binary.BigEndian.AppendUint64(nil, uint64(account.BrowserEpoch)))
	return [sha256.Size]byte(sum.Sum(nil)), true
}

// browserOf returns the id of a browser that has signed in to the account before; empty if
// it has not.
func (svc *Service) browserOf(account Account, sent string, now time.Time) string {
	for _, m := range readMarks(sent) {
		mac, ok := svc.sign(m, account)
		if ok && hmac.Equal(mac[:], m.mac[:]) && account.ID != 0 && m.loginID == account.ID && !account.Disabled &&
			now.Sub(time.UnixMilli(m.at)) < BrowserKnownFor {
			return hex.EncodeToString(m.id[:])
		}
	}
	return ""
}

// RememberBrowser returns what a browser is to send next time; sent is what it sent now.
// It returns an empty string while the session's second factor is outstanding.
func (svc *Service) RememberBrowser(ctx context.Context, token, sent string) (string, error) {
	now := svc.config.Now()
	record, err := svc.open(ctx, token, now)
	if err != nil {
		return "", err
	}
	if svc.session(record).Stage == NeedsCode {
		return "", nil
	}
	account := record.Account
	mark := browserMark{loginID: account.ID, at: now.UnixMilli(), key: svc.vault.DataKeyID()}
	if known, err := hex.DecodeString(svc.browserOf(account, sent, now)); err == nil && len(known) == len(mark.id) {
		mark.id = [16]byte(known) // its counter goes on
	} else {
		rand.Read(mark.id[:])
	}
	mark.mac, _ = svc.sign(mark, account)
	marks := []string{mark.String()}
	for _, other := range readMarks(sent) {
		if other.loginID != account.ID && len(marks) < browsersKept {
			marks = append(marks, other.String())
		}
	}
	return strings.Join(marks, markSeparator), nil
}
