package reference

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// file is a document with its compressed form. Each form has an ETag of its own.
type file struct {
	kind           string
	plain, gzipped []byte
	tag            string
}

func newFile(kind string, text []byte) *file {
	sum := sha256.Sum256(text)
	return &file{kind: kind, plain: text, gzipped: look.Gzip(text), tag: hex.EncodeToString(sum[:12])}
}

// serve sends a file, or 304 if the client has it. A client may keep it and has to ask
// whether it has changed: the next release may change it.
func serve(v *web.Visit, read func() (*file, error)) error {
	f, err := read()
	if err != nil {
		return err
	}
	h := v.W.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", "no-cache")
	h.Set("Vary", "Accept-Encoding")
	body, tag := f.plain, f.tag
	if look.AcceptsGzip(v.R) {
		h.Set("Content-Encoding", "gzip")
		body, tag = f.gzipped, f.tag+"-gzip"
	}
	h.Set("Etag", `"`+tag+`"`)
	http.ServeContent(v.W, v.R, "", time.Time{}, bytes.NewReader(body))
	return nil
}
