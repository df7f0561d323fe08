package access

import (
	"net/netip"
	"strings"
	"testing"
)

func TestParseWhitelistEntry_Accepted(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"one IPv4 address", "203.0.113.7", "203.0.113.7/32"},
		{"one IPv4 address, written as a range", "203.0.113.7/32", "203.0.113.7/32"},
		{"the widest IPv4 range", "203.0.113.0/24", "203.0.113.0/24"},
		{"a narrow IPv4 range", "203.0.113.64/26", "203.0.113.64/26"},
		{"a zero is no leading zero", "10.0.0.0/24", "10.0.0.0/24"},
		{"loopback, for trying things out", "127.0.0.1", "127.0.0.1/32"},
		{"one IPv6 address", "2001:db8::7", "2001:db8::7/128"},
		{"IPv6 loopback", "::1", "::1/128"},
		{"the widest IPv6 range", "2001:db8:1::/48", "2001:db8:1::/48"},
		{"IPv6 allows zeros in front and upper case", "2001:0DB8:0001::/64", "2001:db8:1::/64"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseWhitelistEntry(tt.text)
			if err != nil || got.String() != tt.want {
				t.Errorf("ParseWhitelistEntry(%q) = %v, %v; want %s", tt.text, got, err, tt.want)
			}
		})
	}
}

func TestParseWhitelistEntry_RefusedWithAdvice(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"nothing", "", "write an address such as"},
		{"a blank behind", "203.0.113.7 ", "contains a blank"},
		{"a blank before", "\t203.0.113.7", "contains a blank"},
		{"a blank within", "203.0.113.0 /24", "contains a blank"},
		{"a line feed", "203.0.113.7\n", "contains a blank"},
		{"a no-break space", "203.0.113.7\u00a0", "contains a blank"},
		{"only a blank", " ", "contains a blank"},
		{"a zone", "fe80::1%eth0", "without it"},
		{"a range with a zone", "fe80::%eth0/64", "without it"},
		{"a host name", "billing.example.org", "host names are not looked up"},
		{"an address with a port", "203.0.113.7:443", "is not an IPv4 or IPv6 address"},
		{"an address in brackets", "[2001:db8::7]", "is not an IPv4 or IPv6 address"},
		{"three numbers", "203.0.113", "is not an IPv4 or IPv6 address"},
		{"a number beyond 255", "203.0.113.256", "is not an IPv4 or IPv6 address"},
		{"full-width digits", "203.0.113.\uff17", "is not an IPv4 or IPv6 address"},
		{"a leading zero", "203.0.113.07", "octal"},
		{"a leading zero in a range", "010.0.0.0/24", "octal"},
		{"hex", "0xcb007107", "is not an IPv4 or IPv6 address"},
		{"an IPv4 range too wide", "203.0.112.0/23", "wider than /24"},
		{"an IPv4 range too wide with host bits", "10.1.2.3/8", "wider than /24"},
		{"all of IPv4", "0.0.0.0/0", "wider than /24"},
		{"an IPv6 range too wide", "2001:db8::/47", "wider than /48"},
		{"all of IPv6", "::/0", "wider than /48"},
		{"IPv4 host bits", "203.0.113.7/24", "write 203.0.113.0/24 for the range, or 203.0.113.7 for the one address"},
		{"IPv6 host bits", "2001:db8::7/64", "write 2001:db8::/64 for the range, or 2001:db8::7 for the one address"},
		{"no IPv4 address", "0.0.0.0", "is no caller's address"},
		{"a range that begins at none", "0.0.0.0/24", "is no caller's address"},
		{"no IPv6 address", "::", "is no caller's address"},
		{"the lowest IPv6 range", "::/64", "is no caller's address"},
		{"a mapped IPv4 address", "::ffff:203.0.113.7", "write 203.0.113.7"},
		{"a mapped IPv4 address in hex", "::ffff:cb00:7107", "write 203.0.113.7"},
		{"a mapped IPv4 range", "::ffff:203.0.113.0/120", "write 203.0.113.0/24"},
		{"a mapped IPv4 range with host bits", "::ffff:203.0.113.7/120", "write 203.0.113.0/24"},
		{"all of IPv4, mapped: few bits by the count of IPv6", "::ffff:0:0/96", "IPv4 written as IPv6; write the IPv4 addresses or ranges that you mean"},
		{"a mapped range that is too wide as IPv4 is not recommended", "::ffff:203.0.0.0/112", "write the IPv4 addresses or ranges that you mean"},
		{"a range around all of mapped IPv4", "::ffff:0:0/95", "write the IPv4 addresses or ranges that you mean"},
		{"a range that begins before mapped IPv4", "::fffe:0:0/95", "write the IPv4 addresses or ranges that you mean"},
		{"around all of IPv4, mapped", "::fffe:0:0/95", "IPv4 written as IPv6"},
		{"far around all of IPv4, mapped", "::8000:0:0/81", "IPv4 written as IPv6"},
		{"no length behind the slash", "203.0.113.0/", "is not a prefix length"},
		{"a length with a sign", "203.0.113.0/+24", "is not a prefix length"},
		{"a negative length", "203.0.113.0/-1", "is not a prefix length"},
		{"a length with a leading zero", "203.0.113.0/024", "is not a prefix length"},
		{"a length that is a mask", "203.0.113.0/255.255.255.0", "is not a prefix length"},
		{"two lengths", "203.0.113.0/24/24", "is not a prefix length"},
		{"a length beyond IPv4", "203.0.113.7/33", "from 0 to 32"},
		{"a length beyond IPv6", "2001:db8::7/129", "from 0 to 128"},
		{"a length beyond everything", "2001:db8::7/99999999999999999999", "from 0 to 128"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseWhitelistEntry(tt.text)
			if err == nil {
				t.Fatalf("ParseWhitelistEntry(%q) = %v; want an error", tt.text, got)
			}
			if got.IsValid() || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("ParseWhitelistEntry(%q) = %v, %v; want an error with %q", tt.text, got, err, tt.want)
			}
		})
	}
}

func TestAllowed(t *testing.T) {
	list := []netip.Prefix{
		netip.MustParsePrefix("203.0.113.0/24"),
		netip.MustParsePrefix("198.51.100.7/32"),
		netip.MustParsePrefix("2001:db8:1::/48"),
	}
	tests := []struct {
		name string
		list []netip.Prefix
		addr string // empty: not known
		want bool
	}{
		{"first of a range", list, "203.0.113.0", true},
		{"last of a range", list, "203.0.113.255", true},
		{"before a range", list, "203.0.112.255", false},
		{"behind a range", list, "203.0.114.0", false},
		{"a single address", list, "198.51.100.7", true},
		{"its neighbour", list, "198.51.100.8", false},
		{"IPv6 in a range", list, "2001:db8:1:ffff::1", true},
		{"IPv6 beside it", list, "2001:db8:2::1", false},
		{"IPv4 mapped to IPv6 counts as IPv4", list, "::ffff:203.0.113.9", true},
		{"another one mapped", list, "::ffff:203.0.114.9", false},
		{"an empty list blocks everyone", nil, "203.0.113.9", false},
		{"nobody knows the address", list, "", false},
		{"an address with a zone is on another network", []netip.Prefix{netip.MustParsePrefix("fe80::/64")}, "fe80::1%eth0", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var addr netip.Addr
			if tt.addr != "" {
				addr = netip.MustParseAddr(tt.addr)
			}
			if got := allowed(tt.list, addr); got != tt.want {
				t.Errorf("allowed(%v, %v) = %t; want %t", tt.list, addr, got, tt.want)
			}
		})
	}
}
