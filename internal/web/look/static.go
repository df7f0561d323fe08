package look

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

//go:embed static style
var assetFiles embed.FS

// assetPrefix is where assets are served.
const assetPrefix = "/static/"

type asset struct {
	path    string // with the hash of its content, except for the service worker
	kind    string
	plain   []byte
	gzipped func() []byte // made on first use: compressing takes a while, and many processes serve few assets
}

// The assets by name and by URL path. They are made on first use: most commands show no
// pages.
var (
	assets       = sync.OnceValue(loadAssets)
	assetsByPath = sync.OnceValue(func() map[string]asset {
		all := map[string]asset{}
		for _, a := range assets() {
			all[a.path] = a
		}
		return all
	})
)

var contentTypes = map[string]string{
	".css":         "text/css; charset=utf-8",
	".html":        "text/html; charset=utf-8",
	".js":          "text/javascript; charset=utf-8",
	".png":         "image/png",
	".svg":         "image/svg+xml",
	".webmanifest": "application/manifest+json",
}

// linked are the assets that contain the paths of others, as {{name}}, after those.
var linked = []string{"manifest.webmanifest", "offline.html", workerName}

// The service worker has one path for good: a browser looks there for its next version.
const (
	workerName = "worker.js"
	workerPath = assetPrefix + workerName
)

// redocChanges are the changes to Redoc as it is served; the file is kept as published. It
// loads no logo from its maker's host. The styles that it inserts while it is loaded, before
// it can be told a nonce, get that of its own script element.
var redocChanges = strings.NewReplacer(
	"https://cdn.redoc.ly/redoc/logo-mini.svg", "data:,",
	`var t=n.nc;t&&e.setAttribute("nonce",t)`, `var t=n.nc||document.currentScript.nonce;t&&e.setAttribute("nonce",t)`,
)

// loadAssets reads the embedded scripts and images, and joins the parts of the stylesheet
// in the order of their names, so that a browser requests one file.
func loadAssets() map[string]asset {
	all := map[string]asset{}
	var style bytes.Buffer
	err := fs.WalkDir(assetFiles, ".", func(name string, entry fs.DirEntry, err error) error {
		kind, served := contentTypes[path.Ext(name)]
		if err != nil || entry.IsDir() || !served {
			return err
		}
		text, err := assetFiles.ReadFile(name)
		if err != nil {
			return err
		}
		if path.Dir(name) == "style" {
			style.Write(text)
			return nil
		}
		if path.Base(name) == "redoc.standalone.js" {
			text = []byte(redocChanges.Replace(string(text)))
		}
		if slices.Contains(linked, path.Base(name)) {
			return nil
		}
		all[path.Base(name)] = newAsset(path.Base(name), kind, text)
		return nil
	})
	if err != nil {
		panic(err)
	}
	all["style.css"] = newAsset("style.css", contentTypes[".css"], style.Bytes())
	for _, name := range linked {
		text, err := assetFiles.ReadFile("static/" + name)
		if err != nil {
			panic(err)
		}
		text = assetReference.ReplaceAllFunc(text, func(found []byte) []byte {
			return []byte(assetNamed(all, string(found[2:len(found)-2])).path)
		})
		all[name] = newAsset(name, contentTypes[path.Ext(name)], text)
	}
	return all
}

var assetReference = regexp.MustCompile(`\{\{[a-z0-9.-]+\}\}`)

func newAsset(name, kind string, text []byte) asset {
	sum := sha256.Sum256(text)
	ext := path.Ext(name)
	hashed := assetPrefix + strings.TrimSuffix(name, ext) + "." + hex.EncodeToString(sum[:6]) + ext
	if name == workerName {
		hashed = workerPath
	}
	return asset{
		path:    hashed,
		kind:    kind,
		plain:   text,
		gzipped: sync.OnceValue(func() []byte { return Gzip(text) }),
	}
}

// Gzip compresses a file that is served often.
func Gzip(text []byte) []byte {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		panic(err)
	}
	// A buffer takes everything.
	_, _ = w.Write(text)
	_ = w.Close()
	return packed.Bytes()
}

// Asset returns the URL path of a file that pages use. Except for the service worker's it
// contains the content's hash, so browsers may cache it for good. It panics for an unknown file, which is a mistake in a
// page.
func Asset(name string) string { return assetNamed(assets(), name).path }

func assetNamed(all map[string]asset, name string) asset {
	a, ok := all[name]
	if !ok {
		panic("look: there is no asset " + name)
	}
	return a
}

// Static serves every asset under its own path.
func Static() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := assetsByPath()[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		h := w.Header()
		h.Set("Content-Type", a.kind)
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
		if a.path == workerPath {
			h.Set("Cache-Control", "no-cache")
			h.Set("Service-Worker-Allowed", "/")
		}
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Vary", "Accept-Encoding")
		body := a.plain
		if AcceptsGzip(r) {
			h.Set("Content-Encoding", "gzip")
			body = a.gzipped()
		}
		// An error means that the client hung up.
		_, _ = w.Write(body)
	})
}

// AcceptsGzip reports whether the client can read a gzipped response.
func AcceptsGzip(r *http.Request) bool {
	for _, offer := range strings.Split(r.Header.Get("Accept-Encoding"), ",") {
		coding, quality, _ := strings.Cut(strings.TrimSpace(offer), ";")
		if coding == "gzip" && strings.TrimSpace(quality) != "q=0" {
			return true
		}
	}
	return false
}
