package access

import "net/netip"

// NetworkOf returns the network that an address is counted with: its /24 for IPv4, its /64
// for IPv6. IPv4 written as IPv6 is IPv4; the zone is dropped. An address that is not known
// has the zero Prefix.
func NetworkOf(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap()
	if addr.Is4() {
		return prefixOf(addr, 24)
	}
	return prefixOf(addr, 64)
}

func prefixOf(addr netip.Addr, bits int) netip.Prefix {
	prefix, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // only for an address that is not known
	}
	return prefix
}
