package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"time"
)

// EnsureCertificate makes a CA (ca.pem, ca.key) and a certificate from it (tls.pem,
// tls.key) for an address in a folder. Valid ones that exist stay: clients may trust
// the CA already.
func EnsureCertificate(folder, addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("read the address to serve on: %w", err)
	}
	// Clients check certificates against the machine's clock, not the demo's.
	now := time.Now()
	ca, err := loadOrMakeCA(folder, now)
	if err != nil {
		return fmt.Errorf("make the demo's CA: %w", err)
	}
	if goodCertificate(folder, ca, host, now) {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: "Coax demo"},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.AddDate(1, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = append(template.IPAddresses, ip)
	} else if host != "" {
		template.DNSNames = append(template.DNSNames, host)
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, ca.Leaf, key.Public(), ca.PrivateKey)
	if err != nil {
		return fmt.Errorf("make the demo's certificate: %w", err)
	}
	return writePair(filepath.Join(folder, "tls.pem"), filepath.Join(folder, "tls.key"), signed, key)
}

func goodCertificate(folder string, ca *tls.Certificate, host string, now time.Time) bool {
	pair, err := tls.LoadX509KeyPair(filepath.Join(folder, "tls.pem"), filepath.Join(folder, "tls.key"))
	if err != nil {
		return false
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.Leaf)
	// Valid for another day, so that it does not expire while the demo runs.
	for _, at := range []time.Time{now, now.Add(24 * time.Hour)} {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: at}); err != nil {
			return false
		}
	}
	ip := net.ParseIP(host)
	return host == "" || (ip != nil && ip.IsUnspecified()) || pair.Leaf.VerifyHostname(host) == nil
}

func loadOrMakeCA(folder string, now time.Time) (*tls.Certificate, error) {
	certFile, keyFile := filepath.Join(folder, "ca.pem"), filepath.Join(folder, "ca.key")
	if pair, err := tls.LoadX509KeyPair(certFile, keyFile); err == nil && now.Before(pair.Leaf.NotAfter.AddDate(0, 0, -2)) {
		return &pair, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: "Coax demo CA"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.AddDate(10, 0, 0),
		KeyUsage:              x509.KeyUsageCertSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	if err := writePair(certFile, keyFile, signed, key); err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	return &pair, err
}

func writePair(certFile, keyFile string, certificate []byte, key *ecdsa.PrivateKey) error {
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	// The key first, so that no certificate exists without its key.
	if err := ReplaceFile(keyFile, 0o600, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})); err != nil {
		return err
	}
	return ReplaceFile(certFile, 0o644, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}))
}

func serial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	return n
}

// ShellQuote quotes a word for a shell.
func ShellQuote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+:@%", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
