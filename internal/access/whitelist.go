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

	// The shortest prefixes, that is the widest ranges, that are accepted.
	minWhitelistBits4 = 24
	minWhitelistBits6 = 48
)

// mapped is the range of IPv4-mapped IPv6 addresses.
var mapped = netip.MustParsePrefix("::ffff:0:0/96")

// ParseWhitelistEntry parses an address or a range from which an operator's requests may come. Each
// entry has one accepted spelling; the error for another one says what to write instead.
func ParseWhitelistEntry(text string) (netip.Prefix, error) {
	entry, err := parseRange(text, func(addr netip.Addr, bits int) error {
		widest := minWhitelistBits6
		if addr.Is4() {
			widest = minWhitelistBits4
		}
		if bits < widest {
			return rangeError("the range is wider than /%d; list narrower ranges, or the addresses themselves", widest)
		}
		return nil
	})
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("whitelist entry %q: %w", text, err)
	}
	return entry, nil
}

// RangeError says why an address or range is refused, and what to write instead.
type RangeError struct {
	// Format and Args make the message; they are separate so that it can be translated.
	Format string
	Args   []any
}

func rangeError(format string, args ...any) *RangeError { return &RangeError{format, args} }

func (e *RangeError) Error() string { return fmt.Sprintf(e.Format, e.Args...) }

// allowed reports whether a whitelist has an address. An empty one allows none, and an unknown
// address is in no list.
func allowed(list []netip.Prefix, addr netip.Addr) bool {
	addr = addr.Unmap()
	return slices.ContainsFunc(list, func(entry netip.Prefix) bool { return entry.Contains(addr) })
}

// parseRange parses an address or a CIDR range. It is stricter than netip, which accepts host bits,
// zones and IPv4-mapped IPv6: ::ffff:0:0/96, a narrow range by its bits, would be all of IPv4.
//
// The width is checked first, so that no other error recommends a range that is too wide.
func parseRange(text string, checkWidth func(addr netip.Addr, bits int) error) (netip.Prefix, error) {
	switch {
	case text == "":
		return netip.Prefix{}, rangeError("it is empty; write an address such as 203.0.113.7 or a range such as 203.0.113.0/24")
	case strings.ContainsFunc(text, unicode.IsSpace):
		return netip.Prefix{}, rangeError("it contains a blank; write one address or range and nothing else")
	case strings.Contains(text, "%"):
		return netip.Prefix{}, rangeError("it names a zone (the part from %% on); write the address without it")
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

	if err := checkWidth(addr, bits); err != nil {
		return netip.Prefix{}, err
	}
	if addr.IsUnspecified() {
		return netip.Prefix{}, rangeError("%s is no caller's address; write the address that requests come from", addr)
	}
	if entry.Overlaps(mapped) {
		if better := asIPv4(entry, checkWidth); better != "" {
			return netip.Prefix{}, rangeError("it covers IPv4 written as IPv6; write %s", better)
		}
		return netip.Prefix{}, rangeError("it covers IPv4 written as IPv6; write the IPv4 addresses or ranges that you mean")
	}
	if entry != entry.Masked() {
		return netip.Prefix{}, rangeError("bits are set beyond /%d; write %s for the range, or %s for the one address",
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
		return netip.Addr{}, rangeError("a number in it begins with 0, which some programs read as octal; write it without the zero")
	}
	return netip.Addr{}, rangeError("%q is not an IPv4 or IPv6 address; host names are not looked up", text)
}

// hasLeadingZero reports whether an IPv4 address was refused for a leading zero. IPv6 allows them.
func hasLeadingZero(text string) bool {
	return slices.ContainsFunc(strings.Split(text, "."), func(part string) bool {
		return len(part) > 1 && part[0] == '0' && allDigits(part)
	})
}

func parseBits(text string, maxBits int) (int, error) {
	if !allDigits(text) || len(text) > 3 || len(text) > 1 && text[0] == '0' {
		return 0, rangeError("%q after the slash is not a prefix length; write a number from 0 to %d", text, maxBits)
	}
	bits, err := strconv.Atoi(text)
	if err != nil || bits > maxBits {
		return 0, rangeError("/%s is longer than the address; write a number from 0 to %d", text, maxBits)
	}
	return bits, nil
}

// asIPv4 returns the IPv4 spelling of a range that overlaps IPv4-mapped IPv6; empty if that range
// would be too wide for IPv4.
func asIPv4(entry netip.Prefix, checkWidth func(addr netip.Addr, bits int) error) string {
	addr, bits := entry.Addr().Unmap(), entry.Bits()-mapped.Bits()
	switch {
	case entry.IsSingleIP():
		return addr.String()
	case bits < 0 || checkWidth(addr, bits) != nil:
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
