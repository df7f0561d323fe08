// Package reference serves the API's documentation, for everyone and without a sign-in:
// the reference, the guide, and openapi.yaml, also as JSON with samples of code.
package reference

import (
	"embed"
	"net/http"
	"sync"

	"github.com/coaxhq/coax/contract"
	"github.com/coaxhq/coax/docs"
	"github.com/coaxhq/coax/internal/web"
)

// Files are the templates of the pages.
//
//go:embed pages
var Files embed.FS

// What is served is made on first use: most processes never need it.
var (
	yamlFile  = sync.OnceValues(func() (*file, error) { return newFile("application/yaml", contract.OpenAPI), nil })
	jsonFile  = sync.OnceValues(readJSONFile)
	guidePage = sync.OnceValues(func() (guide, error) { return renderGuide(docs.Integrating) })
)

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
	return []web.Route{
		get("/docs", showReference),
		get("/docs/guide", showGuide),
		get("/openapi.yaml", func(v *web.Visit) error { return serve(v, yamlFile) }),
		get("/openapi.json", func(v *web.Visit) error { return serve(v, jsonFile) }),
	}
}

func showReference(v *web.Visit) error {
	return v.Show("docs/reference", struct{ Nonce string }{v.AllowRedoc()})
}

func showGuide(v *web.Visit) error {
	page, err := guidePage()
	if err != nil {
		return err
	}
	return v.Show("docs/guide", page)
}
