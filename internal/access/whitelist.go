package access

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

const (
	// MaxWhitelistEntries is how many addresses and ranges an operator may list.
	MaxWhitelistEntries = 20

	// The widest ranges, by the number of bits that have to be given.
	minWhitelistBits4 = 24
	minWhitelistBits6 = 48
)

// mapped holds all of IPv4 written as IPv6.
var mapped = netip.MustParsePrefix("::ffff:0:0/96")

// ParseWhitelistEntry reads an address or a range from which an operator's
// requests may come. There is one way to write an entry; whatever else is
// refused, and the error says what to write instead.
func ParseWhitelistEntry(text string) (netip.Prefix, error) {
	entry, err := parseRange(text, func(addr netip.Addr, bits int) error {
		widest := minWhitelistBits6
		if addr.Is4() {
			widest = minWhitelistBits4
		}
		if bits < widest {
			return advise("the range is wider than /%d; list narrower ranges, or the addresses themselves", widest)
		}
		return nil
	})
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("whitelist entry %q: %w", text, err)
	}
	return entry, nil
}

// Advice is why an address or a range is not taken, and what to write instead.
type Advice struct {
	// Form and Args are the sentence taken apart, for whoever says it in another
	// language.
	Form string
	Args []any
}

func advise(form string, args ...any) *Advice { return &Advice{form, args} }

func (a *Advice) Error() string { return fmt.Sprintf(a.Form, a.Args...) }

// allowed reports whether a whitelist lets an address in. An empty one lets
// nobody in, and an address that is not known is in no list.
func allowed(list []netip.Prefix, addr netip.Addr) bool {
	addr = addr.Unmap()
	return slices.ContainsFunc(list, func(entry netip.Prefix) bool { return entry.Contains(addr) })
}

// parseRange reads a single address or a range in CIDR form. It is narrower
// than netip, which takes host bits, zones and IPv4 in IPv6's clothes: the last
// would let ::ffff:0:0/96, a small range by its bits, stand for all of IPv4.
//
// The width is judged first, lest the advice on something else recommend a range
// that is then refused as too wide.
func parseRange(text string, judgeWidth func(addr netip.Addr, bits int) error) (netip.Prefix, error) {
	switch {
	case text == "":
		return netip.Prefix{}, advise("it is empty; write an address such as 203.0.113.7 or a range such as 203.0.113.0/24")
	case strings.ContainsFunc(text, unicode.IsSpace):
		return netip.Prefix{}, advise("it contains a blank; write one address or range and nothing else")
	case strings.Contains(text, "%"):
		return netip.Prefix{}, advise("it names a zone (the part from %% on); write the address without it")
	}

	address, length, isRange := strings.Cut(text, "/")
	addr, err := parseAddress(address)
	if err != nil {
		return netip.Prefix{}, err
	}
	bits := addr.BitLen()
	if isRange {
		if bits, err = parseBits(length, addr.BitLen()); err != nil {
			return netip.Prefix{}, err
		}
	}
	entry := netip.PrefixFrom(addr, bits)

	if err := judgeWidth(addr, bits); err != nil {
		return netip.Prefix{}, err
	}
	if addr.IsUnspecified() {
		return netip.Prefix{}, advise("%s is no caller's address; write the address that requests come from", addr)
	}
	if entry.Overlaps(mapped) {
		if better := asIPv4(entry, judgeWidth); better != "" {
			return netip.Prefix{}, advise("it covers IPv4 written as IPv6; write %s", better)
		}
		return netip.Prefix{}, advise("it covers IPv4 written as IPv6; write the IPv4 addresses or ranges that you mean")
	}
	if entry != entry.Masked() {
		return netip.Prefix{}, advise("bits are set beyond /%d; write %s for the range, or %s for the one address",
			bits, entry.Masked(), addr)
	}
	return entry, nil
}

func parseAddress(text string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(text)
	switch {
	case err == nil:
		return addr, nil
	case hasLeadingZero(text):
		return netip.Addr{}, advise("a number in it begins with 0, which some programs read as octal; write it without the zero")
	}
	return netip.Addr{}, advise("%q is not an IPv4 or IPv6 address; host names are not looked up", text)
}

// hasLeadingZero finds out why an IPv4 address was refused. IPv6 allows zeros.
func hasLeadingZero(text string) bool {
	return slices.ContainsFunc(strings.Split(text, "."), func(part string) bool {
		return len(part) > 1 && part[0] == '0' && allDigits(part)
	})
}

func parseBits(text string, most int) (int, error) {
	if !allDigits(text) || len(text) > 3 || len(text) > 1 && text[0] == '0' {
		return 0, advise("%q after the slash is not a prefix length; write a number from 0 to %d", text, most)
	}
	bits, err := strconv.Atoi(text)
	if err != nil || bits > most {
		return 0, advise("/%s is longer than the address; write a number from 0 to %d", text, most)
	}
	return bits, nil
}

// asIPv4 is what to write for a range within, or around, IPv4 written as IPv6. What
// was narrow by the bits of IPv6 may be too wide by those of IPv4; then it is empty.
func asIPv4(entry netip.Prefix, judgeWidth func(addr netip.Addr, bits int) error) string {
	addr, bits := entry.Addr().Unmap(), entry.Bits()-mapped.Bits()
	switch {
	case entry.IsSingleIP():
		return addr.String()
	case bits < 0 || judgeWidth(addr, bits) != nil:
		return ""
	}
	return netip.PrefixFrom(addr, bits).Masked().String()
}

// allDigits reports whether a text is one or more ASCII digits.
func allDigits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}
