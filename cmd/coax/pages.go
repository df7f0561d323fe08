package main

import (
	"io/fs"
	"slices"

	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/console"
	"github.com/coaxhq/coax/internal/web/panel"
)

// pages is the site that people see, beside the API.
func (n *node) pages() (*web.Site, error) {
	return web.New(web.Config{
		Login:     n.logins,
		Now:       n.now,
		Routes:    slices.Concat(panel.Routes(panel.Config{Wallets: n.store}), console.Routes(console.Config{Operators: n.store})),
		Pages:     []fs.FS{panel.Files, console.Files},
		Operators: n.store,
		Proxies:   n.config.Server.TrustedProxies,
		Log:       n.log,
		Metrics:   n.metrics,
	})
}
