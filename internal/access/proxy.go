package access

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// TrustedProxies are the addresses whose X-Forwarded headers are believed. The default is none.
type TrustedProxies []netip.Prefix

// ParseTrustedProxies parses addresses and ranges. A range may be as wide as a private network, but
// not /0: then every caller could choose its address.
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

// Trusts reports whether addr is a trusted proxy.
func (t TrustedProxies) Trusts(addr netip.Addr) bool {
	addr = addr.Unmap()
	return slices.ContainsFunc(t, func(proxy netip.Prefix) bool { return proxy.Contains(addr) })
}

// Caller is the address that a request comes from: the peer's or, if the peer is a trusted proxy,
// the rightmost untrusted address in X-Forwarded-For.
//
// Every proxy appends the address that it saw. So what is left of the first untrusted address was
// written by that caller and is ignored; what is right of it was written by trusted proxies. If one
// of those entries cannot be parsed, the caller is unknown: the result is the zero Addr, which is in
// no whitelist, because any guess could impersonate another address.
func (t TrustedProxies) Caller(peer netip.Addr, forwardedFor []string) netip.Addr {
	caller := peer.Unmap()
	if !t.Trusts(caller) {
		return caller
	}
	for hop := range fromRight(forwardedFor) {
		addr, err := netip.ParseAddr(hop)
		if err != nil || addr.Zone() != "" { // a zone is local to the proxy
			return netip.Addr{}
		}
		caller = addr.Unmap()
		if !t.Trusts(caller) {
			return caller
		}
	}
	return caller // only proxies, for example a health check
}

// Secure reports whether a request came over HTTPS. Behind a trusted proxy X-Forwarded-Proto decides
// instead of the transport; of several values the last one counts. From others it is ignored.
func (t TrustedProxies) Secure(peer netip.Addr, overTLS bool, forwardedProto []string) bool {
	if !t.Trusts(peer) {
		return overTLS
	}
	for proto := range fromRight(forwardedProto) {
		return strings.EqualFold(proto, "https")
	}
	return overTLS
}

// fromRight yields the elements of a list header, the last one first. Several lines are one list;
// empty lines are skipped.
func fromRight(lines []string) func(yield func(string) bool) {
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
