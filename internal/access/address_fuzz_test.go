package access

import (
	"bytes"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// FuzzAddress takes a peer, what it forwards for somebody else, and a whitelist
// entry, and asks whether the request may come in. The answer is compared with
// one worked out on plain bytes, from the words of the rules: nothing of netip's
// notion of ranges, zones and mapped addresses is shared.
func FuzzAddress(f *testing.F) {
	for _, seed := range [][3]string{
		{"10.0.0.1", "203.0.113.7, 10.0.0.2", "203.0.113.0/24"}, {"10.0.0.1", "198.51.100.1\n203.0.113.7,10.0.0.3\n\n10.0.0.2", "203.0.113.7"},
		{"::ffff:10.0.0.1", "nonsense,, 10.0.0.2", "::ffff:0:0/96"}, {"203.0.113.7", "10.0.0.1", "203.0.113.7/24"}, {"10.0.0.1", "fe80::1%eth0, \t10.1.1.1,", "fe80::/64"},
		{"2001:db8::7", "", "2001:db8::/48"}, {"2001:db8::7", "", "2001:db8::/47"}, {"::1", "", "::/48"}, {"::1", "", "::1"}, {"203.0.113.7", "", "::ffff:203.0.113.7"},
		{"10.0.0.1", "2001:db8::7", "2001:db8::/0128"}, {"203.0.113.7", "", "010.0.0.1"}, {"203.0.113.7", "", "203.0.113.0/024"}, {"::", "", "::8000:0:0/81"}, {"0.0.0.0", "", "0.0.0.0/24"},
		{"fe80::1%eth0", "", "fe80::1%eth0"}, {"203.0.113.7", "", "203.0.113.7 "}, {"10.0.0.1", "fe80::1%eth0", "fe80::1"}, {"10.0.0.1", ",10.0.0.2", "10.0.0.2"}, {"203.0.113.255", "", "203.0.113.128/25"}, {"10.0.0.1", "::ffff:203.0.113.7", "203.0.113.7/32"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	proxies := mustProxies(f, "10.0.0.0/8")
	f.Fuzz(func(t *testing.T, peerText, header, entryText string) {
		entry, err := ParseWhitelistEntry(entryText)
		first, bits, good := entryByTheRules(entryText)
		switch {
		case good != (err == nil):
			t.Fatalf("entry %q: %v; by the rules it is good: %t", entryText, err, good)
		case good && (!bytes.Equal(entry.Addr().AsSlice(), first) || entry.Bits() != bits):
			t.Fatalf("entry %q was read as %v; want %v/%d", entryText, entry, first, bits)
		case !good && entry.IsValid():
			t.Fatalf("entry %q: %v beside an error", entryText, entry)
		}

		// A connection's address is handed over without its zone.
		peerText, _, _ = strings.Cut(peerText, "%")
		peer, err := netip.ParseAddr(peerText)
		if err != nil {
			return
		}
		lines := strings.Split(header, "\n")
		caller := proxies.Caller(peer, lines)
		address, known := callerByTheRules(peerText, lines)
		if known != caller.IsValid() || known && !bytes.Equal(caller.AsSlice(), address) {
			t.Fatalf("caller of %s with %q is %v; want %v (known: %t)", peerText, lines, caller, address, known)
		}
		want := good && known && within(address, first, bits)
		if got := allowed([]netip.Prefix{entry}, caller); got != want {
			t.Fatalf("%q lets %v in: %t; want %t", entryText, caller, got, want)
		}
		if allowed(nil, caller) {
			t.Fatalf("an empty whitelist lets %v in", caller)
		}
	})
}

var (
	entryForm = regexp.MustCompile(`\A([0-9A-Fa-f:.]+)(?:/(0|[1-9][0-9]{0,2}))?\z`)
	four      = regexp.MustCompile(`\A(?:(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])(?:\.|\z)){4}\z`)
)

// plainAddress reads an address without a zone: 4 or 16 bytes, and whether it
// was written as IPv6.
func plainAddress(text string) (address []byte, six, ok bool) {
	if strings.Contains(text, ":") {
		address = net.ParseIP(text)
		return address, true, address != nil
	}
	if !four.MatchString(text) || strings.HasSuffix(text, ".") {
		return nil, false, false
	}
	for part := range strings.SplitSeq(text, ".") {
		n, _ := strconv.Atoi(part)
		address = append(address, byte(n))
	}
	return address, false, true
}

var asSix = []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}

// unmapped turns IPv4 that was written as IPv6 back.
func unmapped(address []byte) []byte {
	if len(address) == 16 && bytes.HasPrefix(address, asSix) {
		return address[12:]
	}
	return address
}

// entryByTheRules reads a whitelist entry: an address, or a range no wider than
// /24 or /48, no bit set beyond it, nothing of IPv4 written as IPv6, no zone, and
// not the address that is none.
func entryByTheRules(text string) (first []byte, bits int, good bool) {
	parts := entryForm.FindStringSubmatch(text)
	if parts == nil {
		return nil, 0, false
	}
	first, six, ok := plainAddress(parts[1])
	if !ok {
		return nil, 0, false
	}
	bits = 8 * len(first)
	if parts[2] != "" {
		bits, _ = strconv.Atoi(parts[2])
	}
	widest := 24
	if six {
		widest = 48
	}
	last := slices.Clone(first)
	for i := bits; i < 8*len(first); i++ {
		if first[i/8]&(0x80>>(i%8)) != 0 {
			return nil, 0, false
		}
		last[i/8] |= 0x80 >> (i % 8)
	}
	none := bytes.Count(first, []byte{0}) == len(first)
	// A range of IPv6 holds IPv4 if it overlaps ::ffff:0:0 to ::ffff:ffff:ffff.
	holdsFour := six && bytes.Compare(first, append(slices.Clone(asSix), 255, 255, 255, 255)) <= 0 &&
		bytes.Compare(last, append(slices.Clone(asSix), 0, 0, 0, 0)) >= 0
	return first, bits, bits >= widest && bits <= 8*len(first) && !none && !holdsFour
}

// callerByTheRules is the nearest hop that is not a proxy of 10.0.0.0/8; the
// furthest, if all are; nobody, where a hop before that cannot be read. A zone is of
// the machine that wrote it, so a hop with one cannot be read here.
func callerByTheRules(peer string, lines []string) (address []byte, known bool) {
	hops := []string{peer}
	for _, line := range slices.Backward(lines) {
		if strings.Trim(line, " \t") == "" {
			continue
		}
		for _, hop := range slices.Backward(strings.Split(line, ",")) {
			hops = append(hops, strings.Trim(hop, " \t"))
		}
	}
	for _, hop := range hops {
		plain, _, ok := plainAddress(hop)
		if !ok {
			return nil, false
		}
		if address = unmapped(plain); len(address) != 4 || address[0] != 10 {
			break
		}
	}
	return address, true
}

// within reports whether an address begins with the first bits of another.
func within(address, first []byte, bits int) bool {
	if len(address) != len(first) {
		return false
	}
	for i := range bits {
		if (address[i/8]^first[i/8])&(0x80>>(i%8)) != 0 {
			return false
		}
	}
	return true
}
