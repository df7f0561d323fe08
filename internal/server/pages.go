package server

import (
	"slices"
	"strings"
	"sync"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/httpapi"
	"github.com/coaxhq/coax/internal/receipt"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/console"
	"github.com/coaxhq/coax/internal/web/look"
	"github.com/coaxhq/coax/internal/web/panel"
	"github.com/coaxhq/coax/internal/web/reference"
)

// readPages parses the embedded pages once for all nodes of a process. It is most of the
// time that a node takes to start, and tests start many.
var readPages = sync.OnceValues(func() (*look.Look, error) { return web.ReadPages(panel.Files, console.Files, reference.Files) })

// pages returns the site for people: panel, console and the API's documentation.
func (n *Node) pages() (*web.Site, error) {
	templates, err := readPages()
	if err != nil {
		return nil, err
	}
	reports := report.New(n.Store, report.Config{Now: n.Now})
	operators := panel.Config{
		Report:     reports,
		Operations: n.Operations,
		Plans:      n.Catalogue,
		Passwords:  admin.NewPasswords(n.Store, n.provider, n.Now),
		Contacts:   admin.NewContacts(n.Store, n.provider, n.Now),
		Operators:  n.Store,
		Histories:  n.Store,
		Bulk:       bulk.NewService(n.Store, n.Operations, n.Now),
		Requests:   n.Requests,
		Receipts:   n.Store,
		Links:      receipt.NewLinks(n.Vault.KeysFor(receipt.LinkPurpose), n.Now),
		StatusOf:   httpapi.StatusOf,
		Access:     n.Store,
		Failures:   n.Authorizer,
		Payments:   admin.NewPayments(n.Store, n.Config.Payments, n.Now),
		Store:      n.Store,
		Now:        n.Now,

		ReversalAge: n.Config.ReversalAge,
	}
	staff := console.Config{
		Operators: n.Store,
		Store:     n.Store,
		Vault:     n.Vault,
		Limits: admin.Limits{
			ApprovalAbove: n.Config.Approval.Above, Window: n.Config.Approval.Window, PriceChange: n.Config.Approval.PriceChange,
			NewLoginWait: n.Config.Approval.NewLoginWait,
		},
		MaxMonths:    n.Config.Plans.MaxMonths,
		ReversalAge:  n.Config.ReversalAge,
		ReversalWait: n.Config.Review.RefundAfter,

		Reports:  reports,
		Requests: n.Requests,
		Provider: n.Config.Provider.Name,
		Failures: n.Authorizer,
		Node:     n.name,
		Compare:  nodeComparer{n},
		Health:   n.Health,
		Now:      n.Now,
	}
	return web.New(web.Config{
		Login:     n.Logins,
		Now:       n.Now,
		Routes:    slices.Concat(panel.Routes(operators), console.Routes(staff), reference.Routes()),
		Pages:     templates,
		Operators: n.Store,
		Badges: func(v *web.Visit, path string) int {
			if strings.HasPrefix(path, "/panel/") {
				return panel.Badges(operators)(v, path)
			}
			return console.Badges(staff)(v, path)
		},
		Maintenance: n.maintenance,
		Origin:      n.Config.Panel.Origin,
		Proxies:     n.Config.Server.TrustedProxies,
		Log:         n.log,
		Metrics:     n.metrics,
		Security:    n.Security,
		Tracer:      n.tracer,
	})
}
