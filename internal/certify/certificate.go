package certify

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/coaxhq/coax/internal/server"
)

// certificates are those that lines present: the right one under "", and the wrong ones.
type certificates map[string]tls.Certificate

// Kinds of wrong certificates.
const (
	otherAuthority = "other authority"
	expired        = "expired"
	wrongName      = "wrong name"
)

// newCertificates makes the certificates. The authority that the program is told to trust is
// in the service's folder.
func newCertificates(folder string) (certificates, error) {
	other := filepath.Join(folder, "other")
	if err := os.Mkdir(other, 0o700); err != nil {
		return nil, err
	}
	if err := server.EnsureCertificate(other, "127.0.0.1:0"); err != nil {
		return nil, err
	}
	all := certificates{}
	var err error
	if all[""], err = pair(folder, "tls"); err != nil {
		return nil, err
	}
	if all[otherAuthority], err = pair(other, "tls"); err != nil {
		return nil, err
	}
	authority, err := pair(folder, "ca")
	if err != nil {
		return nil, err
	}
	now := time.Now()
	if all[expired], err = sign(authority, now.AddDate(0, 0, -1), net.IPv4(127, 0, 0, 1), "localhost"); err != nil {
		return nil, err
	}
	if all[wrongName], err = sign(authority, now.AddDate(0, 1, 0), net.IPv4(192, 0, 2, 1), "billing.example"); err != nil {
		return nil, err
	}
	return all, nil
}

func pair(folder, name string) (tls.Certificate, error) {
	return tls.LoadX509KeyPair(filepath.Join(folder, name+".pem"), filepath.Join(folder, name+".key"))
}

// sign makes a certificate of an authority.
func sign(authority tls.Certificate, until time.Time, ip net.IP, name string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: "Coax certify"},
		NotBefore:    until.AddDate(0, -2, 0),
		NotAfter:     until,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{name},
		IPAddresses:  []net.IP{ip},
	}
	text, err := x509.CreateCertificate(rand.Reader, template, authority.Leaf, key.Public(), authority.PrivateKey)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{text}, PrivateKey: key}, nil
}
