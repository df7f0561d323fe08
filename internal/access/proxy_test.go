package access

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func mustProxies(t testing.TB, texts ...string) TrustedProxies {
	t.Helper()
	proxies, err := ParseTrustedProxies(texts)
	if err != nil {
		t.Fatal(err)
	}
	return proxies
}

func TestParseTrustedProxies(t *testing.T) {
	if got := mustProxies(t); len(got) != 0 {
		t.Errorf("no proxies parse to %v", got)
	}
	got := mustProxies(t, "10.0.0.0/8", "192.0.2.1", "fd00::/8")
	want := TrustedProxies{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("fd00::/8"),
	}
	if !slices.Equal(got, want) {
		t.Errorf("ParseTrustedProxies = %v; want %v", got, want)
	}

	refused := []struct{ name, text, want string }{
		{"everyone", "0.0.0.0/0", "trusts everyone"},
		{"everyone on IPv6", "::/0", "trusts everyone"},
		{"host bits", "10.1.2.3/8", "write 10.0.0.0/8"},
		{"mapped IPv4", "::ffff:10.0.0.1", "write 10.0.0.1"},
		{"a mapped range, which may be wide", "::ffff:10.0.0.0/104", "write 10.0.0.0/8"},
		{"everyone, mapped", "::ffff:0:0/96", "write the IPv4 addresses or ranges that you mean"},
		{"a zone", "fe80::1%lo", "zone"},
		{"a name", "proxy.internal", "host names"},
		{"a blank line", "", "empty"},
	}
	for _, tt := range refused {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseTrustedProxies([]string{"192.0.2.1", tt.text})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("ParseTrustedProxies(%q): %v; want an error with %q", tt.text, err, tt.want)
			}
		})
	}
}

func TestTrustedProxies_Caller(t *testing.T) {
	proxies := mustProxies(t, "10.0.0.0/8", "2001:db8:ffff::/48")
	tests := []struct {
		name  string
		peer  string
		lines []string
		want  string // empty: nobody knows
	}{
		{"no proxy", "203.0.113.7", nil, "203.0.113.7"},
		{"a stranger's header is not read", "203.0.113.7", []string{"198.51.100.1"}, "203.0.113.7"},
		{"a stranger's malformed header is not read", "203.0.113.7", []string{"nonsense"}, "203.0.113.7"},
		{"a mapped peer is IPv4", "::ffff:203.0.113.7", nil, "203.0.113.7"},
		{"a proxy names the caller", "10.0.0.1", []string{"203.0.113.7"}, "203.0.113.7"},
		{"a mapped proxy is a proxy", "::ffff:10.0.0.1", []string{"203.0.113.7"}, "203.0.113.7"},
		{"an IPv6 proxy is a proxy", "2001:db8:ffff::1", []string{"2001:db8::7"}, "2001:db8::7"},
		{"a mapped hop is IPv4", "10.0.0.1", []string{"::ffff:203.0.113.7"}, "203.0.113.7"},
		{"what the caller claimed is to the left and not believed", "10.0.0.1", []string{"198.51.100.1, 203.0.113.7"}, "203.0.113.7"},
		{"the caller claimed to be a proxy", "10.0.0.1", []string{"10.0.0.9, 203.0.113.7"}, "203.0.113.7"},
		{"the caller claimed nonsense", "10.0.0.1", []string{"nonsense,, ,203.0.113.7"}, "203.0.113.7"},
		{"proxies behind each other", "10.0.0.1", []string{"198.51.100.1,203.0.113.7,10.0.0.3,10.0.0.2"}, "203.0.113.7"},
		{"several lines are one list", "10.0.0.1", []string{"198.51.100.1", "203.0.113.7", "10.0.0.2"}, "203.0.113.7"},
		{"a line the caller sent is to the left as well", "10.0.0.1", []string{"198.51.100.1", "203.0.113.7"}, "203.0.113.7"},
		{"blanks and tabs around hops", "10.0.0.1", []string{" \t203.0.113.7 ,\t10.0.0.2 "}, "203.0.113.7"},
		{"no header: the proxy itself calls", "10.0.0.1", nil, "10.0.0.1"},
		{"an empty header says nothing", "10.0.0.1", []string{"", " \t"}, "10.0.0.1"},
		{"an empty line between others says nothing", "10.0.0.1", []string{"203.0.113.7", "", "10.0.0.2"}, "203.0.113.7"},
		{"proxies all the way: the furthest", "10.0.0.1", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"malformed, first met", "10.0.0.1", []string{"203.0.113.7, nonsense"}, ""},
		{"malformed behind a proxy", "10.0.0.1", []string{"203.0.113.7, nonsense, 10.0.0.2"}, ""},
		{"an empty hop", "10.0.0.1", []string{"203.0.113.7,"}, ""},
		{"an empty hop behind a proxy", "10.0.0.1", []string{"203.0.113.7,,10.0.0.2"}, ""},
		{"an empty hop at the far end", "10.0.0.1", []string{",10.0.0.2"}, ""},
		{"an empty hop at the far end of a line", "10.0.0.1", []string{"203.0.113.7", ",10.0.0.2"}, ""},
		{"a hop with a port", "10.0.0.1", []string{"203.0.113.7:5123"}, ""},
		{"a hop in brackets", "10.0.0.1", []string{"[2001:db8::7]"}, ""},
		{"a hop with a zone", "10.0.0.1", []string{"fe80::1%eth0"}, ""},
		{"a hop with a leading zero", "10.0.0.1", []string{"203.0.113.07"}, ""},
		{"unknown, as some proxies write", "10.0.0.1", []string{"unknown"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var want netip.Addr
			if tt.want != "" {
				want = netip.MustParseAddr(tt.want)
			}
			if got := proxies.Caller(netip.MustParseAddr(tt.peer), tt.lines); got != want {
				t.Errorf("Caller(%s, %q) = %v; want %v", tt.peer, tt.lines, got, want)
			}
		})
	}

	if got := TrustedProxies(nil).Caller(netip.MustParseAddr("10.0.0.1"), []string{"203.0.113.7"}); got.String() != "10.0.0.1" {
		t.Errorf("with no proxies trusted, the caller is %v; want the peer", got)
	}
	if got := proxies.Caller(netip.Addr{}, []string{"203.0.113.7"}); got.IsValid() {
		t.Errorf("with no peer known, the caller is %v; want nobody", got)
	}
}

func TestTrustedProxies_Secure(t *testing.T) {
	proxies := mustProxies(t, "10.0.0.0/8")
	tests := []struct {
		name    string
		peer    string
		overTLS bool
		lines   []string
		want    bool
	}{
		{"TLS", "203.0.113.7", true, nil, true},
		{"plain", "203.0.113.7", false, nil, false},
		{"a stranger says https over plain", "203.0.113.7", false, []string{"https"}, false},
		{"a stranger says http over TLS", "203.0.113.7", true, []string{"http"}, true},
		{"a proxy says https over plain", "10.0.0.1", false, []string{"https"}, true},
		{"a proxy says http over TLS", "10.0.0.1", true, []string{"http"}, false},
		{"a mapped proxy says https", "::ffff:10.0.0.1", false, []string{"https"}, true},
		{"a proxy says nothing over TLS", "10.0.0.1", true, nil, true},
		{"a proxy says nothing over plain", "10.0.0.1", false, []string{" "}, false},
		{"schemes have no case", "10.0.0.1", false, []string{"HTTPS"}, true},
		{"the nearest proxy's word counts", "10.0.0.1", false, []string{"http, https"}, true},
		{"the nearest proxy's word counts, against it too", "10.0.0.1", true, []string{"https, http"}, false},
		{"the last line is the nearest", "10.0.0.1", true, []string{"https", "http"}, false},
		{"an odd word is not https", "10.0.0.1", true, []string{"wss"}, false},
		{"nor is nothing behind a comma", "10.0.0.1", true, []string{"https,"}, false},
		{"nor the word with something around it", "10.0.0.1", true, []string{`"https"`}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := proxies.Secure(netip.MustParseAddr(tt.peer), tt.overTLS, tt.lines); got != tt.want {
				t.Errorf("Secure(%s, %t, %q) = %t; want %t", tt.peer, tt.overTLS, tt.lines, got, tt.want)
			}
		})
	}
}
