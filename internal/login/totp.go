package login

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Codes follow RFC 6238, with the parameters that all apps support: SHA-1, 30 seconds, six
// digits.
const (
	totpSecretBytes = 20
	totpPeriod      = 30
	totpDigits      = 6
	// totpSkew is how many steps a telephone's clock may be off, either way.
	totpSkew = 1

	issuer = "Coax"
)

// stepOf returns the step of a moment.
func stepOf(t time.Time) int64 { return t.Unix() / totpPeriod }

// codeOf returns the code of a step, by RFC 4226.
func codeOf(secret []byte, step int64, digits int) string {
	mac := hmac.New(sha1.New, secret)
	var counter [8]byte
	binary.BigEndian.PutUint64(counter[:], uint64(step))
	mac.Write(counter[:])
	sum := mac.Sum(nil)
	offset := sum[len(sum)-1] & 0x0f
	value := binary.BigEndian.Uint32(sum[offset:]) & 0x7fffffff
	modulus := uint32(1)
	for range digits {
		modulus *= 10
	}
	return fmt.Sprintf("%0*d", digits, value%modulus)
}

// stepOfCode finds the step of a code, among those near now and later than the last one
// used: a code that was observed while it was typed cannot be used again.
func stepOfCode(secret []byte, code string, now time.Time, lastUsed int64) (step int64, found bool) {
	for candidate := stepOf(now) - totpSkew; candidate <= stepOf(now)+totpSkew; candidate++ {
		same := subtle.ConstantTimeCompare([]byte(codeOf(secret, candidate, totpDigits)), []byte(code)) == 1
		if same && candidate > lastUsed {
			step, found = candidate, true
		}
	}
	return step, found
}

// Enrolment is what the person's app needs to set up a second factor.
type Enrolment struct {
	// Secret is for an app that cannot read the QR code.
	Secret string
	// URL is otpauth://…, for a QR code.
	URL string
}

func newTOTPSecret() []byte {
	secret := make([]byte, totpSecretBytes)
	rand.Read(secret)
	return secret
}

func enrolment(secret []byte, username string) Enrolment {
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(secret)
	values := url.Values{
		"secret": {text}, "issuer": {issuer}, "algorithm": {"SHA1"},
		"digits": {fmt.Sprint(totpDigits)}, "period": {fmt.Sprint(totpPeriod)},
	}
	at := url.URL{Scheme: "otpauth", Host: "totp", Path: "/" + issuer + ":" + username, RawQuery: values.Encode()}
	return Enrolment{Secret: text, URL: at.String()}
}

// plain normalises a code for comparison: without blanks and hyphens, in lower case.
func plain(code string) string {
	return strings.NewReplacer(" ", "", "-", "").Replace(strings.ToLower(strings.TrimSpace(code)))
}

// looksLikeTOTP distinguishes an app's codes from recovery codes.
func looksLikeTOTP(plain string) bool { return len(plain) == totpDigits }
