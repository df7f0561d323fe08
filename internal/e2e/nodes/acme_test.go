//go:build long

package nodes

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
)

// certificateLife is as long as a test can wait for two thirds of it.
const certificateLife = 30 * time.Second

// health asks for an unknown path on a connection, which needs no signature, and returns the status.
func health(t *testing.T, conn *tls.Conn) int {
	t.Helper()
	if _, err := fmt.Fprintf(conn, "GET /api/v1/nowhere HTTP/1.1\r\nHost: %s\r\n\r\n", apiName); err != nil {
		t.Fatalf("write to an open connection: %v", err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("read from an open connection: %v", err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// retry tells a node to order now.
func (n *clusterNode) retry() {
	n.TB.Helper()
	if err := n.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
		n.TB.Fatal(err)
	}
}

// The account at the authority has server.acme_email as its contact.
func TestACME_AccountHasContact(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, 90*24*time.Hour)
	a.pointTo("127.0.0.1")
	a.start()
	directory, accounts := a.recordAccounts()
	c := newEmptyCluster(t)
	c.setUp()
	n := a.node("127.0.0.1", c.config, "--set", "server.acme_directory="+directory)
	n.logs("a TLS certificate was ordered")
	made := accounts()
	if len(made) != 1 {
		t.Fatalf("the authority made the accounts %v; want one", made)
	}
	var account struct {
		Status  string
		Contact []string
	}
	if err := json.Unmarshal([]byte(made[0]), &account); err != nil || account.Status != "valid" || !slices.Equal(account.Contact, []string{"mailto:ops@coax.test"}) {
		t.Errorf("the account is %s (%v); want the contact mailto:ops@coax.test", made[0], err)
	}
}

// Two nodes share one certificate: one of them orders it, the other one answers the
// authority's validation connections.
func TestACME_NodesShareCertificate(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, 90*24*time.Hour)
	a.pointTo("127.0.0.2")
	c := newEmptyCluster(t)
	c.setUp()
	// Without the authority, one of the nodes tries, and both go on without a certificate.
	first, second := a.node("127.0.0.1", c.config), a.node("127.0.0.2", c.config)
	c.WaitUntil("an order fails", func() bool {
		return strings.Contains(first.Err.String()+second.Err.String(), "the TLS certificate could not be ordered")
	})
	for _, n := range []*clusterNode{first, second} {
		e2e.CheckMentions(t, "the log", n.Err.String(), "there is no TLS certificate yet")
		if conn, err := a.handshake(n, nil); err == nil {
			t.Errorf("%s serves a certificate without an authority: %v", n.base, conn.ConnectionState().PeerCertificates[0].Subject)
		}
		if status, text := e2e.HTTPGet(t, n.internal+"/readyz"); status != http.StatusOK {
			t.Errorf("without a certificate the node is not ready, so no validation connection would reach it: %d %s", status, text)
		}
		if got := n.metric("coax_tls_certificate_expiry_timestamp_seconds"); got != "0" {
			t.Errorf("without a certificate the metric says %s; want 0", got)
		}
	}
	c.WaitUntil("both nodes know of the failure", func() bool {
		return first.metric("coax_tls_certificate_problem") == "1" && second.metric("coax_tls_certificate_problem") == "1"
	})

	if tried := strings.Count(first.Err.String()+second.Err.String(), `"ordering a TLS certificate"`); tried != 1 {
		t.Errorf("%d orders were tried; want one, by one of the nodes", tried)
	}

	a.start()
	first.retry()
	// The first node orders, and the second one answers for it, unless that looks into the store
	// at this very moment.
	const ordered, taken = "a TLS certificate was ordered", "a newer TLS certificate was taken from the store"
	c.WaitUntil("one node orders, and the other takes the certificate", func() bool {
		one, other := first.Err.String(), second.Err.String()
		return strings.Contains(one, ordered) && strings.Contains(other, taken) || strings.Contains(other, ordered) && strings.Contains(one, taken)
	})
	roots := a.roots()
	if one, other := a.serial(first, roots), a.serial(second, roots); one != other {
		t.Errorf("the nodes serve the certificates %s and %s", one, other)
	}
	if got := a.issued(); got != 1 {
		t.Errorf("%d certificates were issued; want 1", got)
	}
	conn, err := a.handshake(second, roots)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if status := health(t, conn); status != http.StatusNotFound {
		t.Errorf("the API answers with %d; want %d", status, http.StatusNotFound)
	}

	// A third node starts without the authority, and has the certificate at once.
	a.stop()
	third := a.node("127.0.0.3", c.config)
	if got, want := a.serial(third, roots), a.serial(first, roots); got != want {
		t.Errorf("a third node serves %s; want %s", got, want)
	}
	if strings.Contains(third.Err.String(), "ordering a TLS certificate") {
		t.Errorf("the third node has ordered:\n%s", third.Err)
	}
	// The keys are in the store, and not in clear.
	if found := c.rows(`SELECT id FROM acme_secrets WHERE position('PRIVATE KEY' in encode(sealed, 'escape')) > 0`); len(found) > 0 {
		t.Errorf("in clear: %q", found)
	}
	if found := c.rows(`SELECT id FROM acme_secrets`); len(found) != 2 {
		t.Errorf("the sealed keys are %q; want the account's and the certificate's", found)
	}
}

// A node that is killed while it orders leaves a lease behind, after which another one orders.
func TestACME_OrderOfKilledNodeIsTakenOver(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, 90*24*time.Hour)
	a.pointTo("127.0.0.2")
	c := newEmptyCluster(t)
	c.setUp()
	a.start("PEBBLE_VA_NOSLEEP=0", "PEBBLE_VA_SLEEPTIME=20", "PEBBLE_AUTHZREUSE=0")
	first := a.node("127.0.0.1", c.config)
	first.logs("ordering a TLS certificate")
	c.WaitUntil("the order is at the authority", func() bool { return strings.Contains(a.pebble.Out.String(), "Pulled a task") })
	first.Kill()
	second := a.node("127.0.0.2", c.config)
	second.logs("a TLS certificate was ordered")
	a.serial(second, a.roots())
}

// One node on SQLite: it orders, keeps the certificate over a restart, renews it without
// dropping a connection, and goes on with the old one while the authority is away.
func TestACME_SQLiteRenewal(t *testing.T) {
	if os.Getenv("COAX_TEST_STORE") == "postgres" {
		t.Skip("on SQLite")
	}
	t.Parallel()
	a := newAuthority(t, certificateLife)
	a.pointTo("127.0.0.1")
	h := e2e.NewInstall(t)
	a.start()
	n := a.node("127.0.0.1", h.Config)
	n.logs("a TLS certificate was ordered")
	roots := a.roots()
	bought := a.serial(n, roots)

	n.Terminate()
	n = a.node("127.0.0.1", h.Config)
	if got := a.serial(n, roots); got != bought {
		t.Errorf("after a restart the node serves %s; want %s", got, bought)
	}
	open, err := a.handshake(n, roots)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	(&e2e.Env{TB: t}).WaitUntil("the certificate is renewed", func() bool {
		if status := health(t, open); status != http.StatusNotFound {
			t.Fatalf("on the open connection: %d", status)
		}
		return a.serial(n, roots) != bought
	})
	health(t, open)

	// The authority is away when the next one is due.
	renewed := a.serial(n, roots)
	a.stop()
	n.logs("the TLS certificate could not be ordered")
	if got := a.serial(n, roots); got != renewed {
		t.Errorf("without the authority the node serves %s; want the old one, %s", got, renewed)
	}
	if got := n.metric("coax_tls_certificate_problem"); got != "1" {
		t.Errorf("after a failed renewal coax_tls_certificate_problem is %s", got)
	}
	a.start()
	n.retry()
	(&e2e.Env{TB: t}).WaitUntil("the authority's new certificate is served", func() bool {
		conn, err := a.handshake(n, a.roots())
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	if got := n.metric("coax_tls_certificate_problem"); got != "0" {
		t.Errorf("after a renewal coax_tls_certificate_problem is %s", got)
	}
	health(t, open)
	n.Terminate()

	for _, suffix := range []string{"", "-wal"} {
		text, err := os.ReadFile(filepath.Join(h.Folder, "data", "coax.db") + suffix)
		if err == nil && strings.Contains(string(text), "PRIVATE KEY") {
			t.Errorf("a private key is in clear in the store's file%s", suffix)
		}
	}
	if strings.Contains(n.Err.String(), "PRIVATE KEY") {
		t.Error("a private key is in the log")
	}
}

// A name that leads elsewhere: the log and coax doctor say so, a restart does not order again
// at once, and a reload does once the name is right.
func TestACME_NameLeadsElsewhere(t *testing.T) {
	if os.Getenv("COAX_TEST_STORE") == "postgres" {
		t.Skip("on SQLite")
	}
	t.Parallel()
	a := newAuthority(t, 90*24*time.Hour)
	a.pointTo("127.0.0.9")
	h := e2e.NewInstall(t)
	a.start()
	n := a.node("127.0.0.1", h.Config)
	n.logs("the TLS certificate could not be ordered")
	e2e.CheckMentions(t, "the log", n.Err.String(), "authorization error for "+apiName, "Failed to connect", "next_try_at")
	doctor := e2e.Run(t, append([]string{"doctor", "--config", h.Config}, a.settings()...)...)
	e2e.CheckMentions(t, "coax doctor", doctor.Out, "the last order failed, number 1 in a row", "authorization error for "+apiName, "systemctl reload coax")

	n.Terminate()
	n = a.node("127.0.0.1", h.Config)
	(&e2e.Env{TB: t}).WaitUntil("the restarted node knows of the failure", func() bool { return n.metric("coax_tls_certificate_problem") == "1" })
	a.pointTo("127.0.0.1")
	if strings.Contains(n.Err.String(), `"ordering a TLS certificate"`) {
		t.Errorf("the restarted node has ordered at once:\n%s", n.Err)
	}
	n.retry()
	n.logs("a TLS certificate was ordered")
	a.serial(n, a.roots())
	doctor = e2e.Run(t, append([]string{"doctor", "--config", h.Config}, a.settings()...)...)
	e2e.CheckMentions(t, "coax doctor", doctor.Out, "it is for "+apiName+", valid until", "port 443 of "+apiName)

	// With another name, the certificate that there is serves until there is one for both.
	n.Terminate()
	roots := a.roots()
	n = a.node("127.0.0.1", h.Config, "--set", "server.acme_domains="+apiName+",panel.coax.test")
	a.serial(n, roots)
	n.logs("a TLS certificate was ordered")
	conn, err := a.handshake(n, roots)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := conn.ConnectionState().PeerCertificates[0].DNSNames; !slices.Equal(got, []string{apiName, "panel.coax.test"}) {
		t.Errorf("the certificate is for %q", got)
	}
	if strings.Contains(n.Err.String(), "there is no TLS certificate yet") {
		t.Errorf("the node has not taken the certificate for one of the names:\n%s", n.Err)
	}
}

// On SQLite a node that starts is alone, and takes over the order of one that was killed at once.
func TestACME_SQLiteKilledWhileOrdering(t *testing.T) {
	if os.Getenv("COAX_TEST_STORE") == "postgres" {
		t.Skip("on SQLite")
	}
	t.Parallel()
	a := newAuthority(t, 90*24*time.Hour)
	a.pointTo("127.0.0.1")
	h := e2e.NewInstall(t)
	a.start("PEBBLE_VA_NOSLEEP=0", "PEBBLE_VA_SLEEPTIME=20", "PEBBLE_AUTHZREUSE=0")
	n := a.node("127.0.0.1", h.Config)
	(&e2e.Env{TB: t}).WaitUntil("the order is at the authority", func() bool { return strings.Contains(a.pebble.Out.String(), "Pulled a task") })
	n.Kill()
	n = a.node("127.0.0.1", h.Config)
	n.logs("ordering a TLS certificate")
	n.logs("a TLS certificate was ordered")
	a.serial(n, a.roots())
}
