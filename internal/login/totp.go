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

// Codes are those of RFC 6238 as every app for them knows them: SHA-1, 30 seconds,
// six digits.
const (
	totpSecretBytes = 20
	totpPeriod      = 30
	totpDigits      = 6
	// totpSkew is how many steps a telephone's clock may be off, either way.
	totpSkew = 1

	issuer = "Coax"
)

// stepOf is the number of the step that a moment lies in.
func stepOf(t time.Time) int64 { return t.Unix() / totpPeriod }

// codeOf is the code of a step, by RFC 4226.
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

// stepOfCode finds the step that a code is of, among those near enough to now and
// later than the last one used: a code that somebody looked at over a shoulder is
// worth nothing once it was typed in.
func stepOfCode(secret []byte, code string, now time.Time, lastUsed int64) (step int64, found bool) {
	for candidate := stepOf(now) - totpSkew; candidate <= stepOf(now)+totpSkew; candidate++ {
		same := subtle.ConstantTimeCompare([]byte(codeOf(secret, candidate, totpDigits)), []byte(code)) == 1
		if same && candidate > lastUsed {
			step, found = candidate, true
		}
	}
	return step, found
}

// Enrolment is a second factor that is being set up, for the person's app.
type Enrolment struct {
	// Secret is what the app asks for where it cannot read the picture.
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

// plain is a code as it is compared: without the blanks and hyphens that make it
// readable, in lower case.
func plain(code string) string {
	return strings.NewReplacer(" ", "", "-", "").Replace(strings.ToLower(strings.TrimSpace(code)))
}

// looksLikeTOTP tells the codes of an app from recovery codes.
func looksLikeTOTP(plain string) bool { return len(plain) == totpDigits }
