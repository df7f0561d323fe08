package login

import (
	"encoding/base32"
	"net/url"
	"strings"
	"testing"
	"time"
)

// rfcSecret and the rows below are RFC 6238's, appendix B, for SHA-1.
var rfcSecret = []byte("12345678901234567890")

func TestTOTP_MatchesRFC6238(t *testing.T) {
	for unix, want := range map[int64]string{
		59: "94287082", 1111111109: "07081804", 1111111111: "14050471",
		1234567890: "89005924", 2000000000: "69279037", 20000000000: "65353130",
	} {
		if got := codeOf(rfcSecret, stepOf(time.Unix(unix, 0)), 8); got != want {
			t.Errorf("the code at %d is %s; want %s", unix, got, want)
		}
		if got := codeOf(rfcSecret, stepOf(time.Unix(unix, 0)), totpDigits); got != want[2:] {
			t.Errorf("six digits of it at %d are %s; want %s", unix, got, want[2:])
		}
	}
}

func TestTOTP_SkewAndSingleUse(t *testing.T) {
	now := time.Unix(1111111111, 0)
	present := stepOf(now)
	for _, row := range []struct {
		name string
		of   int64 // the step that the code is of, counted from now
		last int64 // the last one used, counted from now
		want bool
	}{
		{"of now", 0, -100, true},
		{"of a clock half a minute behind", -1, -100, true},
		{"of a clock half a minute ahead", 1, -100, true},
		{"a minute old", -2, -100, false},
		{"a minute early", 2, -100, false},
		{"used already", 0, 0, false},
		{"older than one that was used", -1, 0, false},
		{"the next after one that was used", 1, 0, true},
	} {
		step, found := stepOfCode(rfcSecret, codeOf(rfcSecret, present+row.of, totpDigits), now, present+row.last)
		if found != row.want || found && step != present+row.of {
			t.Errorf("%s: step %d, good %v; want step %d, %v", row.name, step-present, found, row.of, row.want)
		}
	}
	for _, code := range []string{"", "000000", "94287082", "１２３４５６"} {
		if _, found := stepOfCode(rfcSecret, code, now, 0); found {
			t.Errorf("%q is taken for a code", code)
		}
	}
}

func TestEnrolment_URL(t *testing.T) {
	got := enrolment(rfcSecret, "asha@example.in")
	at, err := url.Parse(got.URL)
	if err != nil {
		t.Fatal(err)
	}
	q := at.Query()
	if at.Scheme != "otpauth" || at.Host != "totp" || at.Path != "/Coax:asha@example.in" || q.Get("issuer") != "Coax" ||
		q.Get("algorithm") != "SHA1" || q.Get("digits") != "6" || q.Get("period") != "30" || q.Get("secret") != got.Secret {
		t.Errorf("the address is %s", got.URL)
	}
	if secret, err := base32.StdEncoding.DecodeString(got.Secret); err != nil || string(secret) != string(rfcSecret) {
		t.Errorf("the secret reads %q, %v", secret, err)
	}
}

func TestRecoveryCodes_TenReadableCodes(t *testing.T) {
	codes, stored, err := newRecoveryCodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hashes := stored.Hashes
	cost, salt, _, err := decodeHash(stored.Salt)
	if err != nil || cost != recoveryCost {
		t.Fatalf("the salt is stored as %q: %v", stored.Salt, err)
	}
	seen := map[string]bool{}
	for i, code := range codes {
		seen[code] = true
		if len(code) != 19 || strings.ContainsAny(code, "ilo01 ") || looksLikeTOTP(plain(code)) {
			t.Errorf("code %q cannot be read out", code)
		}
		typed := " " + strings.ToUpper(strings.ReplaceAll(code, "-", " ")) + " "
		if sum, err := cost.hash(t.Context(), plain(typed), salt, hashBytes); err != nil || string(sum) != string(hashes[i]) {
			t.Errorf("%q is not known again as %q", typed, code)
		}
		if strings.Contains(string(hashes[i]), plain(code)) {
			t.Error("a code is stored as it is")
		}
	}
	if len(seen) != 10 || len(hashes) != 10 {
		t.Errorf("there are %d codes and %d hashes; want 10", len(seen), len(hashes))
	}
}
