package signing

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// pair is one part of a query, name and value already re-encoded.
type pair struct{ name, value []byte }

// CanonicalQuery returns the form of a raw query that is signed: every name and
// value decoded, encoded again in the one way RFC 3986 prefers, and sorted. Two
// queries that differ only in spelling or order come out the same.
//
// It works on bytes and accepts any input. url.ParseQuery does not: it drops a part
// with a ';' or an invalid '%', and a dropped part would not be signed.
func CanonicalQuery(raw string) string {
	if raw == "" {
		return "" // no query, which is not the same as a query of one empty part
	}

	// A byte becomes at most three bytes, so the buffer is never reallocated while
	// pairs point into it.
	buf := make([]byte, 0, 3*len(raw))
	pairs := make([]pair, 0, strings.Count(raw, "&")+1)
	for part := range strings.SplitSeq(raw, "&") {
		// A part without '=' is a name with an empty value, and an empty part is an
		// empty name with an empty value.
		name, value, _ := strings.Cut(part, "=")
		start := len(buf)
		buf = reencode(buf, name)
		middle := len(buf)
		buf = reencode(buf, value)
		pairs = append(pairs, pair{buf[start:middle], buf[middle:]})
	}

	// By name, then by value, and not by the joined text: '=' sorts after '-',
	// '.', '%' and the digits, so joined, "a-=1" would come before "a=1".
	slices.SortFunc(pairs, func(a, b pair) int {
		return cmp.Or(bytes.Compare(a.name, b.name), bytes.Compare(a.value, b.value))
	})

	var out strings.Builder
	out.Grow(len(buf) + 2*len(pairs))
	for i, p := range pairs {
		if i > 0 {
			out.WriteByte('&')
		}
		out.Write(p.name)
		out.WriteByte('=')
		out.Write(p.value)
	}
	return out.String()
}

// reencode appends s to dst, each byte decoded and encoded again. It decodes once:
// a decoded '%' is data and does not start another escape.
func reencode(dst []byte, s string) []byte {
	const digits = "0123456789ABCDEF"
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '+':
			c = ' '
		case c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			c = fromHex(s[i+1])<<4 | fromHex(s[i+2])
			i += 2
		}
		if isUnreserved(c) {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', digits[c>>4], digits[c&0xF])
		}
	}
	return dst
}

// isUnreserved reports whether RFC 3986, section 2.3, lets c stand for itself.
func isUnreserved(c byte) bool {
	switch {
	case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		return true
	}
	return c == '-' || c == '_' || c == '.' || c == '~'
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// fromHex returns the value of a hex digit; the caller has checked isHex.
func fromHex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	}
	return c - 'a' + 10
}
