package login

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestNetwork_IPv4By24AndIPv6By64(t *testing.T) {
	for _, row := range []struct {
		a, b          string
		network, host bool
	}{
		{"192.0.2.7", "192.0.2.250", true, false},
		{"192.0.2.7", "192.0.3.7", false, false},
		{"192.0.2.7", "::ffff:192.0.2.7", true, true},
		{"192.0.2.7", "::ffff:192.0.2.8", true, false},
		{"2001:db8:1:2::1", "2001:db8:1:2:ffff::9", true, true},
		{"2001:db8:1:2::1", "2001:db8:1:3::1", false, false},
		{"fe80::1%eth0", "fe80::1%eth1", true, true},
	} {
		a, b := netip.MustParseAddr(row.a), netip.MustParseAddr(row.b)
		if (network(a) == network(b)) != row.network || (oneAddress(a) == oneAddress(b)) != row.host {
			t.Errorf("%s and %s: networks %s and %s, addresses %s and %s", a, b, network(a), network(b), oneAddress(a), oneAddress(b))
		}
	}
	if network(netip.Addr{}) != "" || oneAddress(netip.Addr{}) != "" {
		t.Error("an unknown address has a network")
	}
}

func TestSlowdown_GrowsAndIsBounded(t *testing.T) {
	for n, want := range map[int]time.Duration{
		0: 0, 1: 0, 10: 0, 11: 250 * time.Millisecond, 12: 500 * time.Millisecond, 14: 2 * time.Second, 15: 4 * time.Second, 16: 4 * time.Second, 1 << 40: 4 * time.Second,
	} {
		if got := slowdown(n); got != want {
			t.Errorf("try %d is delayed by %s; want %s", n, got, want)
		}
	}
}

func TestCheckPassword(t *testing.T) {
	const short, long, simple, common, names = "too short", "too long", "simple sequence or repeats", "most common", "made of your name"
	for password, want := range map[string]string{
		"":                       short,
		"elevenchars":            short,
		"पासवर्डलंबा":            short, // 11 characters, 33 bytes
		"\xff\xfe1234567890":     "not valid text",
		strings.Repeat("qz", 65): long,

		"aaaaaaaaaaaa":           simple,
		strings.Repeat("a", 128): simple,
		"123456789012":           simple,
		"098765432109":           simple,
		"１２３４５６７８９０１２":           simple, // full-width
		"abcdefghijkl":           simple,
		"abcdef123456":           simple,
		"qwertyuiop12":           simple,
		"QWERTY123456":           simple,
		"aaaabbbbcccc":           simple,
		"kite9kite9kite9":        simple,
		"kite over kite over ":   simple,
		"abababcbabab":           simple, // three different characters
		"1q2w3e4r5t6y":           common,
		"Administrator":          common,
		"password2024!":          common,
		"P@ssw0rd2024":           common,
		"!!football!!1":          common,
		"sunshine12345":          common,
		"leave-me-alone":         common,
		"asha@cable.in":          names,
		"Asha@Cable.IN 1":        names,
		"asha-rao-2024":          names,
		"RaoAshaRao2024":         names,
		"sundaram-7744":          names, // the operator's name
		"SundaramVisionNetwork":  names,
		"coax-coax-2027":         names,
		"asha12345678":           names,
		"ashapassword1":          names,
		"correct horse battery":  "",
		"nine tall kites":        "",
		"asha flies nine kites":  "",
		"पतंग और नीला समुद्र": "",
		"7hdk-2mwq-pz9v-t4xe":      "",
		"qzvkxwjybnhd":             "",
		"the quick brown fox 1234": "",
	} {
		err := CheckPassword(password, "asha@cable.in", "Asha Rao", "Sundaram Vision Network")
		var refusal *Refusal
		switch {
		case want == "" && err != nil, want != "" && err == nil:
			t.Errorf("%q: %v; want %q", password, err, want)
		case err != nil && (!errors.As(err, &refusal) || refusal.Reason != WeakPassword || !strings.Contains(refusal.Text, want)):
			t.Errorf("%q: %v; want %q", password, err, want)
		}
	}
}

func TestCheckPassword_NamesAndSpellings(t *testing.T) {
	for _, password := range []string{"rajeshkumar12345", "r@jeshkum@r123", "password1234567", "pass.word.98765", "adm1nistrator99"} {
		var refusal *Refusal
		if err := CheckPassword(password, "raj", "Rajesh Kumar", ""); !errors.As(err, &refusal) || refusal.Reason != WeakPassword {
			t.Errorf("%q: %v; want it refused", password, err)
		}
	}
}

func TestCommonPasswords_AreEmbedded(t *testing.T) {
	if n := len(commonSet()); n < 10_000 || n > 11_000 {
		t.Errorf("%d common passwords are embedded; want 10,000 and a few", n)
	}
}

func TestReadMarks_SkipsInvalid(t *testing.T) {
	mark := browserMark{loginID: 7, at: 1, key: 2}.String()
	for sent, want := range map[string]int{
		"": 0, "x": 0, ".": 0, mark: 1, mark + "." + mark: 2, mark[1:]: 0, mark + "=": 0, mark + ".x": 1, strings.Repeat(mark+".", 9): browsersKept,
	} {
		if got := readMarks(sent); len(got) != want {
			t.Errorf("%q has %d marks; want %d", sent, len(got), want)
		}
	}
}
