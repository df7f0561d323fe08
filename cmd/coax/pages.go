package main

import (
	"io/fs"
	"slices"

	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/console"
	"github.com/coaxhq/coax/internal/web/panel"
)

// panel is what an operator's pages read, and act through.
func (n *node) panel() panel.Config {
	return panel.Config{
		Wallets: n.store, Access: n.store, Operations: n.operations, Requests: n.requests,
		Report: report.New(n.store, report.Config{Now: n.now}),
		Bulk:   bulk.NewDesk(n.store, n.operations, n.now),
	}
}

// pages is the site that people see, beside the API.
func (n *node) pages() (*web.Site, error) {
	return web.New(web.Config{
		Login:     n.logins,
		Now:       n.now,
		Routes:    slices.Concat(panel.Routes(n.panel()), console.Routes(console.Config{Operators: n.store})),
		Pages:     []fs.FS{panel.Files, console.Files},
		Operators: n.store,
		Proxies:   n.config.Server.TrustedProxies,
		Log:       n.log,
		Metrics:   n.metrics,
	})
}
