package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/fault"
)

// FuzzClaim sends the four headers, each as any number of lines, and expects the
// first of the contract's objections, which is worked out beside it with
// expressions, numbers of any size and its own HMAC. The fuzzer cannot guess a
// key or a signature, so the words KEY and SIGN stand for the right ones.
func FuzzClaim(f *testing.F) {
	const nonce = "0123456789abcdef"
	for _, seed := range [][4]string{
		{"KEY", "1803902405", nonce, "SIGN"}, {"KEY", "1803902105", nonce, "SIGN"}, {"KEY", "1803902104", nonce, "SIGN"}, {"KEY", "01803902705", nonce, "SIGN"},
		{"KEY", "1803902706", nonce, "SIGN"}, {"KEY", "+1803902405", nonce, "SIGN"}, {"KEY", "18446744075513454021", nonce, "SIGN"}, {"KEY", "１803902405", nonce, "SIGN"},
		{"KEY", "1803902405", "short", "SIGN"}, {"KEY", "1803902405", strings.Repeat("a", 65), "SIGN"}, {"KEY", "1803902405", nonce, "00"},
		{"KEY", "1803902405", "0123456789abcde\n", "SIGN"}, {"KEY\nKEY", "1803902405", nonce, "SIGN"}, {"", "", "", ""},
		{"cxk_0123456789abcdef0123456789abcdef", "1803902405", nonce, "SIGN"}, {"cxk_0123456789ABCDEF0123456789abcdef", "x", "y", "z"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	s := newFixture(f)
	sign := func(timestamp, nonce string) string {
		body := fmt.Sprintf("%x", sha256.Sum256([]byte("{}")))
		mac := hmac.New(sha256.New, []byte(s.secret.Reveal()))
		fmt.Fprintf(mac, "POST\n/api/v1/renew\n\n%s\n%s\n%s", timestamp, nonce, body)
		return fmt.Sprintf("%x", mac.Sum(nil))
	}
	f.Fuzz(func(t *testing.T, keys, timestamps, nonces, signatures string) {
		right := sign(timestamps, nonces)
		keys = strings.ReplaceAll(keys, "KEY", s.key)
		signatures = strings.ReplaceAll(signatures, "SIGN", right)
		req := Request{
			ID: "req_1", Now: now, Method: "POST", Path: "/api/v1/renew", Body: []byte("{}"), Needs: Renew,
			Key: headerLines(keys), Timestamp: headerLines(timestamps), Nonce: headerLines(nonces), Signature: headerLines(signatures),
		}
		got := func() error {
			c, err := readClaim(req)
			if err != nil {
				return err
			}
			who, err := s.authorizer.readKey(t.Context(), c)
			if err != nil {
				return err
			}
			return checkIdentity(who, c)
		}()

		want := fault.OK
		switch {
		case !oneLine.MatchString(keys) || !oneLine.MatchString(timestamps) || !oneLine.MatchString(nonces) || !oneLine.MatchString(signatures):
			want = fault.MissingAuthHeaders
		case keys != s.key:
			want = fault.InvalidAPIKey
		case !closeTo(timestamps, now.Unix()):
			want = fault.TimestampExpired
		case signatures != right:
			want = fault.InvalidSignature
		case !nonceForm.MatchString(nonces):
			want = fault.InvalidNonce
		}
		if fault.CodeOf(got) != want {
			t.Errorf("key %q, timestamp %q, nonce %q, signature %q: %v; want %s", keys, timestamps, nonces, signatures, got, want)
		}
		if hint := Hint(keys); hint != "" && (!keyForm.MatchString(keys) || hint != keys[:12]) || hint == "" && keyForm.MatchString(keys) {
			t.Errorf("Hint(%q) = %q", keys, hint)
		}
	})
}

var (
	oneLine   = regexp.MustCompile(`\A[^\n]+\z`)
	keyForm   = regexp.MustCompile(`\Acxk_[0-9a-f]{32}\z`)
	nonceForm = regexp.MustCompile(`\A[A-Za-z0-9_-]{16,64}\z`)
	decimal   = regexp.MustCompile(`\A[0-9]+\z`)
)

// headerLines is a header that was sent once for each line; not at all, if there
// is nothing.
func headerLines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// closeTo reports whether a timestamp is at most 300 seconds from a moment.
func closeTo(timestamp string, moment int64) bool {
	if !decimal.MatchString(timestamp) {
		return false
	}
	seconds, _ := new(big.Int).SetString(timestamp, 10)
	off := seconds.Sub(seconds, big.NewInt(moment))
	return off.Abs(off).Cmp(big.NewInt(300)) <= 0
}
