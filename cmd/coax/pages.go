package main

import (
	"slices"
	"sync"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/httpapi"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/console"
	"github.com/coaxhq/coax/internal/web/look"
	"github.com/coaxhq/coax/internal/web/panel"
)

// readPages reads what is part of the program once, however many nodes a process has,
// as it does in tests: it is most of what starting one takes.
var readPages = sync.OnceValues(func() (*look.Look, error) { return web.ReadPages(panel.Files, console.Files) })

// pages is the site that people see, beside the API.
func (n *node) pages() (*web.Site, error) {
	templates, err := readPages()
	if err != nil {
		return nil, err
	}
	reports := report.New(n.store, report.Config{Now: n.now})
	operators := panel.Config{
		Report:     reports,
		Operations: n.operations,
		Plans:      n.catalogue,
		Passwords:  admin.NewPasswords(n.store, n.provider, n.now),
		Operators:  n.store,
		Histories:  n.store,
		Bulk:       bulk.NewDesk(n.store, n.operations, n.now),
		Requests:   n.requests,
		StatusOf:   httpapi.StatusOf,
		Access:     n.store,
	}
	staff := console.Config{
		Operators: n.store,
		Store:     n.store,
		Vault:     n.vault,
		Limits:    admin.Limits{ApprovalAbove: n.config.Approval.Above},
		Reports:   reports,
		Requests:  n.requests,
		Provider:  n.config.Provider.Name,
		Health:    n.health,
		Now:       n.now,
	}
	return web.New(web.Config{
		Login:     n.logins,
		Now:       n.now,
		Routes:    slices.Concat(panel.Routes(operators), console.Routes(staff)),
		Pages:     templates,
		Operators: n.store,
		Badges:    console.Badges(staff),
		Proxies:   n.config.Server.TrustedProxies,
		Log:       n.log,
		Metrics:   n.metrics,
	})
}
