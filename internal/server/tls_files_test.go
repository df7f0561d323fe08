package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coaxhq/coax/internal/telemetry"
)

// pairAt writes a certificate of a year into a folder, and returns it.
func pairAt(t *testing.T, folder string) *x509.Certificate {
	t.Helper()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	return certificateFrom(t, folder, now.Add(-time.Hour), now.AddDate(1, 0, 0)).leaf()
}

// served returns the certificate that a listener with this one serves to a client.
func served(t *testing.T, c tlsCertificate) *x509.Certificate {
	t.Helper()
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	go func() { _ = tls.Server(server, &tls.Config{GetCertificate: c.get}).Handshake() }()
	conn := tls.Client(client, &tls.Config{InsecureSkipVerify: true, ServerName: "coax.example"})
	if err := conn.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return conn.ConnectionState().PeerCertificates[0]
}

func copyInto(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCertificatePoll_TakesReplacedFiles(t *testing.T) {
	for _, row := range []struct {
		name string
		// replace puts the new pair in place, in steps after each of which the files are polled.
		replace func(live, renewed string) []func()
	}{
		{"certificate first", func(live, renewed string) []func() {
			return []func(){
				func() { copyInto(t, filepath.Join(renewed, "tls.pem"), filepath.Join(live, "tls.pem")) },
				func() { copyInto(t, filepath.Join(renewed, "tls.key"), filepath.Join(live, "tls.key")) },
			}
		}},
		{"key first, then half of the certificate", func(live, renewed string) []func() {
			return []func(){
				func() { copyInto(t, filepath.Join(renewed, "tls.key"), filepath.Join(live, "tls.key")) },
				func() { _ = os.Truncate(filepath.Join(live, "tls.pem"), 100) },
				func() { _ = os.Remove(filepath.Join(live, "tls.pem")) },
				func() { copyInto(t, filepath.Join(renewed, "tls.pem"), filepath.Join(live, "tls.pem")) },
			}
		}},
		{"with the times of older files", func(live, renewed string) []func() {
			return []func(){func() {
				for _, name := range []string{"tls.pem", "tls.key"} {
					copyInto(t, filepath.Join(renewed, name), filepath.Join(live, name))
					if err := os.Chtimes(filepath.Join(live, name), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
						t.Fatal(err)
					}
				}
			}}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			live, renewed := filepath.Join(t.TempDir(), "live"), filepath.Join(t.TempDir(), "renewed")
			old, fresh := pairAt(t, live), pairAt(t, renewed)
			c, err := loadCertificate(filepath.Join(live, "tls.pem"), filepath.Join(live, "tls.key"))
			if err != nil {
				t.Fatal(err)
			}
			if taken, err := c.poll(); taken || err != nil || !served(t, c).Equal(old) {
				t.Fatalf("unchanged files: taken %v, %v", taken, err)
			}
			steps := row.replace(live, renewed)
			for i, step := range steps {
				step()
				taken, err := c.poll()
				last := i == len(steps)-1
				if taken != last || err != nil || c.problem() != "" {
					t.Fatalf("after step %d: taken %v, %v, problem %q; want it taken after the last one", i+1, taken, err, c.problem())
				}
				if want := map[bool]*x509.Certificate{false: old, true: fresh}[last]; !served(t, c).Equal(want) {
					t.Fatalf("after step %d another certificate is served", i+1)
				}
			}
		})
	}
}

// Kubernetes and certbot make a path lead to another file.
func TestCertificatePoll_FollowsLinks(t *testing.T) {
	folder := t.TempDir()
	pairAt(t, filepath.Join(folder, "1"))
	fresh := pairAt(t, filepath.Join(folder, "2"))
	link := filepath.Join(folder, "current")
	if err := os.Symlink("1", link); err != nil {
		t.Fatal(err)
	}
	c, err := loadCertificate(filepath.Join(link, "tls.pem"), filepath.Join(link, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("2", link+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link+".new", link); err != nil {
		t.Fatal(err)
	}
	if taken, err := c.poll(); !taken || err != nil || !served(t, c).Equal(fresh) {
		t.Errorf("after the link was changed: taken %v, %v", taken, err)
	}
}

// Files that stay broken are logged once, and the old certificate stays in use until they are
// mended.
func TestWatchCertificate_BrokenFilesKeepTheOldOne(t *testing.T) {
	folder, aside := t.TempDir(), t.TempDir()
	old := pairAt(t, folder)
	fresh := pairAt(t, aside)
	pem, key := filepath.Join(folder, "tls.pem"), filepath.Join(folder, "tls.key")
	c, err := loadCertificate(pem, key)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		n := &Node{provider: uncalledProvider(t), Config: configWithKey(key), certificate: c, log: telemetry.NewLogger(&log, slog.LevelInfo, "json"), metrics: telemetry.NewMetrics()}
		polls := make(chan time.Time)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go n.watchCertificate(ctx, nil, polls, nil)
		check := func(what string, errors, reads int, problem bool) {
			t.Helper()
			polls <- time.Time{}
			synctest.Wait()
			telemetry.Flush(n.log)
			if got := strings.Count(log.String(), "the new certificate was not taken"); got != errors {
				t.Errorf("%s: %d errors were logged; want %d\n%s", what, got, errors, log.String())
			}
			if got := strings.Count(log.String(), "the certificate was read again"); got != reads {
				t.Errorf("%s: it was read %d times; want %d\n%s", what, got, reads, log.String())
			}
			if got := n.certificate.problem() != ""; got != problem {
				t.Errorf("%s: there is a problem: %v; want %v", what, got, problem)
			}
		}
		copyInto(t, filepath.Join(aside, "tls.pem"), pem) // whose key does not come
		check("at once", 0, 0, false)
		for range 3 {
			check("unchanged", 1, 0, true)
		}
		if n.certificate.leaf() != old && !n.certificate.leaf().Equal(old) {
			t.Error("the old certificate is not in use")
		}
		if err := os.WriteFile(pem, []byte("garbage"), 0o600); err != nil {
			t.Fatal(err)
		}
		check("broken otherwise", 1, 0, true)
		check("and unchanged", 2, 0, true)
		copyInto(t, filepath.Join(aside, "tls.pem"), pem)
		copyInto(t, filepath.Join(aside, "tls.key"), key)
		check("mended", 2, 1, false)
		if !n.certificate.leaf().Equal(fresh) {
			t.Error("the new certificate is not in use")
		}
	})
}
