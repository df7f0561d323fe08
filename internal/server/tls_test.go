package server

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coaxhq/coax/internal/provider/gateway"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/telemetry"
)

// certificateFrom writes a certificate that is valid from one time to another.
func certificateFrom(t *testing.T, folder string, from, until time.Time) *certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: serial(), NotBefore: from, NotAfter: until, DNSNames: []string{"coax.example"}}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := filepath.Join(folder, "tls.pem"), filepath.Join(folder, "tls.key")
	if err := writePair(certFile, keyFile, signed, key); err != nil {
		t.Fatal(err)
	}
	loaded, err := loadCertificate(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

func TestCertificateHealth_ExpiryByLifetime(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Date(2027, 3, 1, 18, 0, 0, 0, subscription.IST)
	for _, row := range []struct {
		name              string
		age, left         time.Duration
		days              int
		expiring, expired bool
	}{
		{"a year's, with 31 days left", 334 * day, 31 * day, 31, false, false},
		{"a year's, with exactly 30", 335 * day, 30 * day, 30, false, false},
		{"a year's, with less than 30", 335 * day, 30*day - time.Second, 30, true, false},
		{"90 days', with 23 left", 67 * day, 23 * day, 23, false, false},
		{"90 days', with 22 left", 68 * day, 22 * day, 22, true, false},
		{"six days', with 2 left", 4 * day, 2 * day, 2, false, false},
		{"six days', with 1 left", 5 * day, day, 1, true, false},
		{"one that ends this evening", 89 * day, 5 * time.Hour, 0, true, false},
		{"one that ends tonight after midnight", 89 * day, 7 * time.Hour, 1, true, false},
		{"one that ends now", 90 * day, 0, 0, false, true},
		{"one that ended yesterday", 90 * day, -day, -1, false, true},
	} {
		got := certificateFrom(t, t.TempDir(), now.Add(-row.age), now.Add(row.left)).health(now)
		if got.Days != row.days || got.Expiring != row.expiring || got.Expired != row.expired || !got.Expires.Equal(now.Add(row.left)) {
			t.Errorf("%s: %+v; want %d days, expiring %v, expired %v", row.name, got, row.days, row.expiring, row.expired)
		}
	}
}

func TestCertificateHealth_KeyMode(t *testing.T) {
	now := time.Now()
	c := certificateFrom(t, t.TempDir(), now.Add(-time.Hour), now.AddDate(1, 0, 0))
	for mode, want := range map[os.FileMode]string{0o400: "", 0o600: "", 0o640: "", 0o644: "0644", 0o604: "0604"} {
		if err := os.Chmod(c.keyFile, mode); err != nil {
			t.Fatal(err)
		}
		if got := c.health(now).OpenKeyMode; got != want {
			t.Errorf("a key of mode %04o has the health %q; want %q", mode, got, want)
		}
	}
}

// uncalledProvider is a provider that no test calls.
func uncalledProvider(t *testing.T) *gateway.Gateway {
	t.Helper()
	provider, err := gateway.New(gateway.Config{URL: "http://127.0.0.1:1", Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return provider
}

func configWithKey(file string) (config Config) {
	config.Server.TLSKey = file
	return config
}

// The log repeats what is wrong every day, and stops once a reload has read a good
// certificate and key.
func TestWatchCertificate_WarnsDailyUntilRenewed(t *testing.T) {
	now := time.Now()
	folder := t.TempDir()
	old := certificateFrom(t, folder, now.AddDate(-1, 0, 0), now.Add(-time.Hour))
	if err := os.Chmod(old.keyFile, 0o644); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		n := &Node{provider: uncalledProvider(t), Config: configWithKey(old.keyFile), certificate: old, log: telemetry.NewLogger(&log, slog.LevelInfo, "json"), metrics: telemetry.NewMetrics()}
		hangup, daily := make(chan os.Signal), make(chan time.Time)
		ctx, stop := context.WithCancel(t.Context())
		go n.watchCertificate(ctx, hangup, nil, daily)
		counts := func(expired, open int) {
			t.Helper()
			synctest.Wait()
			telemetry.Flush(n.log)
			if got := strings.Count(log.String(), "has expired"); got != expired {
				t.Errorf("the expired certificate was logged %d times; want %d\n%s", got, expired, log.String())
			}
			if got := strings.Count(log.String(), "chmod 600"); got != open {
				t.Errorf("the open key was logged %d times; want %d\n%s", got, open, log.String())
			}
		}
		daily <- now
		daily <- now.Add(24 * time.Hour)
		counts(2, 2)
		certificateFrom(t, folder, now.Add(-time.Hour), now.AddDate(1, 0, 0)) // writes the key with mode 0600
		hangup <- os.Interrupt
		daily <- now.Add(48 * time.Hour)
		counts(2, 2)
		if got := n.certificate.leaf().NotAfter; got.Before(now) {
			t.Errorf("the certificate still expires at %s", got)
		}
		stop()
		synctest.Wait()
	})
}
