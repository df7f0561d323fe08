package postgres

import (
	"crypto/tls"
	"net/netip"
	"path/filepath"
	"strings"
)

// HostEncryption is how connections to one host of an address are protected.
type HostEncryption struct {
	Host string
	// Local: the host is a Unix socket or this machine itself.
	Local bool
	// Encrypted: there is no connection without TLS.
	Encrypted bool
	// Verified: the server's certificate is checked, at least for its issuer.
	Verified bool
}

// Encryption returns how connections to each host of an address are protected, according to
// the address and the PG* variables.
func Encryption(address string) ([]HostEncryption, error) {
	config, err := readAddress(address)
	if err != nil {
		return nil, err
	}
	var hosts []HostEncryption
	// sslmode=prefer and allow make two attempts per host, one of them unencrypted.
	attempt := func(host string, with *tls.Config) {
		encrypted := with != nil
		verified := encrypted && (!with.InsecureSkipVerify || with.VerifyPeerCertificate != nil || with.VerifyConnection != nil)
		for i := range hosts {
			if hosts[i].Host == host {
				hosts[i].Encrypted = hosts[i].Encrypted && encrypted
				hosts[i].Verified = hosts[i].Verified && verified
				return
			}
		}
		hosts = append(hosts, HostEncryption{Host: host, Local: isLocal(host), Encrypted: encrypted, Verified: verified})
	}
	attempt(config.ConnConfig.Host, config.ConnConfig.TLSConfig)
	for _, fallback := range config.ConnConfig.Fallbacks {
		attempt(fallback.Host, fallback.TLSConfig)
	}
	return hosts, nil
}

func isLocal(host string) bool {
	if filepath.IsAbs(host) || strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
