package server

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// checkOrderedCertificate checks the certificate that the nodes order themselves.
func (d *doctor) checkOrderedCertificate(ctx context.Context) []Diagnosis {
	l := lines{check: "certificate"}
	names := d.config.Server.ACMEDomains
	if file := d.config.Server.ACMECAFile; file != "" {
		if _, err := readRoots(file); err != nil {
			l.problem("name the file with the authority's root certificate, in PEM", "server.acme_ca_file: %v", err)
		}
	}
	if origin, err := url.Parse(d.config.Panel.Origin); err == nil && origin.Hostname() != "" && !slices.Contains(names, origin.Hostname()) {
		l.problem("add it to server.acme_domains", "it is not for %s, which panel.origin names", origin.Hostname())
	}
	d.checkOrder(&l)
	d.checkReachable(ctx, &l)
	return l.all
}

// checkOrder says how long the certificate lasts, and what became of the last order.
func (d *doctor) checkOrder(l *lines) {
	names := strings.Join(d.config.Server.ACMEDomains, ", ")
	state, err := d.store()
	switch {
	case d.invalid["store.url"] != nil || err != nil || !state.Complete:
		l.warn("", "not checked: it is in the store, which cannot be read")
		return
	case state.acme.Version == 0 && state.acme.Problem == "":
		l.warn("start a node, which orders it from "+d.config.Server.ACMEDirectory, "there is none yet for %s", names)
		return
	}
	now := time.Now() // by which clients check it
	const wait = "a node tries again %s; once the cause is mended, `systemctl reload coax` makes it try at once"
	cure := fmt.Sprintf(wait, "by itself")
	if next := state.acme.NextTry; now.Before(next) {
		cure = fmt.Sprintf(wait, "at "+indian(next))
	}
	if problem := state.acme.Problem; problem != "" {
		status := StatusWarning
		if !now.Before(state.acme.Expires) {
			status = StatusProblem
		}
		l.add(status, cure, "the last order failed, number %d in a row: %s", state.acme.Failures, problem)
	}
	days := calendarDays(now, state.acme.Expires)
	switch {
	case state.acme.Version == 0:
		l.problem(cure, "there is none yet for %s, and clients are refused", names)
	case !now.Before(state.acme.Expires):
		l.problem(cure, "the one for %s has expired on %s, and clients refuse it", names, indian(state.acme.Expires))
	case state.acme.Problem == "" && now.After(state.acme.RenewAt.Add(time.Hour)):
		l.warn("see that a node runs", "the one for %s expires in %d days, on %s, and was not renewed on %s", names, days, indian(state.acme.Expires), indian(state.acme.RenewAt))
	default:
		l.ok("it is for %s, valid until %s (%d days), and renewed from %s on", names, indian(state.acme.Expires), days, indian(state.acme.RenewAt))
	}
}

// namesDialled limits how many names are looked up and dialled.
const namesDialled = 10

// checkReachable connects to port 443 of the names, as the authority does. This machine may be
// unable to, and the authority not, so it only warns.
func (d *doctor) checkReachable(ctx context.Context, l *lines) {
	names := d.config.Server.ACMEDomains
	names = names[:min(len(names), namesDialled)]
	failed := make([]error, len(names))
	var dialling sync.WaitGroup
	for i, name := range names {
		dialling.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, 2*dialTimeout)
			defer cancel()
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(name, "443"))
			if err == nil {
				_ = conn.Close()
			}
			failed[i] = err
		})
	}
	dialling.Wait()
	for i, name := range names {
		if failed[i] != nil {
			l.warn("see that the name leads to a node of this service, and that port 443 is open to the authority",
				"port 443 of %s, where the authority looks, cannot be reached from this machine: %v", name, failed[i])
		}
	}
}
