// Package reference serves the API's documentation, for everyone and without a sign-in:
// the reference, the guide's pages, and openapi.yaml, also as JSON with samples of code.
package reference

import (
	"embed"
	"net/http"
	"sync"

	"github.com/coaxhq/coax/contract"
	"github.com/coaxhq/coax/docs"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/sdk"
)

// Files are the templates of the pages.
//
//go:embed pages
var Files embed.FS

// What is served is made on first use: most processes never need it.
var (
	yamlFile    = sync.OnceValues(func() (*file, error) { return newFile("application/yaml", contract.OpenAPI), nil })
	jsonFile    = sync.OnceValues(readJSONFile)
	pictureFile = sync.OnceValues(func() (*file, error) { return newFile("image/svg+xml", docs.AfterEachAnswer), nil })
)

// guides are the files that are rendered as pages.
var guides = []struct {
	file   string
	render func() (guide, error)
}{
	{"docs/integrating.md", rendered("docs/integrating.md", docs.Integrating)},
	{"docs/what-happens-when.md", rendered("docs/what-happens-when.md", docs.WhatHappensWhen)},
	{"sdk/BEHAVIOUR.md", rendered("sdk/BEHAVIOUR.md", sdk.Behaviour)},
}

func rendered(file string, source []byte) func() (guide, error) {
	return sync.OnceValues(func() (guide, error) { return renderGuide(file, source) })
}

func readJSONFile() (*file, error) {
	text, err := toJSON(contract.OpenAPI, addSamples)
	if err != nil {
		return nil, err
	}
	return newFile("application/json", text), nil
}

// Routes returns the routes of the documentation.
func Routes() []web.Route {
	get := func(path string, handle func(*web.Visit) error) web.Route {
		return web.Route{Method: http.MethodGet, Path: path, Area: web.Docs, Allow: web.Anyone, Handle: handle}
	}
	routes := []web.Route{get("/docs", showReference)}
	for _, g := range guides {
		routes = append(routes, get(served[g.file], func(v *web.Visit) error { return showGuide(v, g.render) }))
	}
	return append(routes,
		get(served["docs/after-each-answer.svg"], showPicture),
		get("/openapi.yaml", func(v *web.Visit) error { return serve(v, yamlFile) }),
		get("/openapi.json", func(v *web.Visit) error { return serve(v, jsonFile) }),
	)
}

func showReference(v *web.Visit) error {
	return v.Show("docs/reference", struct{ Nonce string }{v.AllowRedoc()})
}

func showPicture(v *web.Visit) error {
	v.AllowOwnStyles()
	return serve(v, pictureFile)
}

func showGuide(v *web.Visit, render func() (guide, error)) error {
	page, err := render()
	if err != nil {
		return err
	}
	return v.Show("docs/guide", page)
}
