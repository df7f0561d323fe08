package access

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// TrustedProxies are the addresses whose word about somebody else's connection
// is believed. With none, which is the default, nobody's is.
type TrustedProxies []netip.Prefix

// ParseTrustedProxies reads addresses and ranges. Ranges may be wide, as a
// private network is, but not the whole world: then every caller could choose
// the address to be seen under.
func ParseTrustedProxies(texts []string) (TrustedProxies, error) {
	var proxies TrustedProxies
	for _, text := range texts {
		proxy, err := parseRange(text, func(_ netip.Addr, bits int) error {
			if bits == 0 {
				return errors.New("it trusts everyone; write the addresses of your proxies")
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("trusted proxy %q: %w", text, err)
		}
		proxies = append(proxies, proxy)
	}
	return proxies, nil
}

// Trusts reports whether addr is a trusted proxy's.
func (t TrustedProxies) Trusts(addr netip.Addr) bool {
	addr = addr.Unmap()
	return slices.ContainsFunc(t, func(proxy netip.Prefix) bool { return proxy.Contains(addr) })
}

// Caller is the address a request comes from: the peer's, or, if the peer is a
// trusted proxy, the first stranger's in X-Forwarded-For, read from the right.
//
// Every proxy adds the address that it saw at the right, so what stands to the
// left of the first stranger is only that stranger's claim and is never read.
// Up to there each hop was written by a trusted proxy. If one of those cannot
// be read, nobody knows who is calling, and guessing (the proxy itself, or the
// next hop) would let somebody pass for another: the answer is the zero Addr,
// which is in no whitelist.
func (t TrustedProxies) Caller(peer netip.Addr, forwardedFor []string) netip.Addr {
	caller := peer.Unmap()
	if !t.Trusts(caller) {
		return caller
	}
	for hop := range fromTheRight(forwardedFor) {
		addr, err := netip.ParseAddr(hop)
		if err != nil || addr.Zone() != "" { // a zone means nothing on another machine
			return netip.Addr{}
		}
		caller = addr.Unmap()
		if !t.Trusts(caller) {
			return caller
		}
	}
	return caller // proxies all the way: a health check of theirs, say
}

// Secure reports whether a request came over HTTPS. What a trusted proxy says
// in X-Forwarded-Proto counts instead of the transport, which is then only the
// last leg; if several wrote there, the nearest one counts. Said by anyone else,
// it is not read.
func (t TrustedProxies) Secure(peer netip.Addr, overTLS bool, forwardedProto []string) bool {
	if !t.Trusts(peer) {
		return overTLS
	}
	for proto := range fromTheRight(forwardedProto) {
		return strings.EqualFold(proto, "https")
	}
	return overTLS
}

// fromTheRight yields the elements of a header that is a list, the last one
// first. Several lines are one list; a line with nothing on it adds nothing.
func fromTheRight(lines []string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, line := range slices.Backward(lines) {
			for rest, more := line, strings.Trim(line, " \t") != ""; more; {
				comma := strings.LastIndexByte(rest, ',')
				if !yield(strings.Trim(rest[comma+1:], " \t")) {
					return
				}
				if more = comma >= 0; more {
					rest = rest[:comma]
				}
			}
		}
	}
}
