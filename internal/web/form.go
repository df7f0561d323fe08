package web

import (
	"errors"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/coaxhq/coax/internal/web/look"
)

// maxForm is how many bytes a form without files may have.
const maxForm = 64 << 10

// readForm reads the form of a post, up to what its route takes. Files stay in
// memory: what a route takes is small enough for that.
func (v *Visit) readForm() error {
	v.R.PostForm = url.Values{}
	if v.R.Method != http.MethodPost {
		return nil
	}
	most := max(v.route.Upload, maxForm)
	v.R.Body = http.MaxBytesReader(v.W, v.R.Body, most)
	kind, _, _ := mime.ParseMediaType(v.R.Header.Get("Content-Type"))
	v.R.PostForm = nil // or ParseForm takes it for read already
	var err error
	switch {
	case kind == "multipart/form-data" && v.route.Upload > 0:
		err = v.R.ParseMultipartForm(most)
	case kind == "" || kind == "application/x-www-form-urlencoded":
		err = v.R.ParseForm()
	default:
		err = problem(http.StatusUnsupportedMediaType, look.Word("This address does not take that kind of form."))
	}
	var tooLarge *http.MaxBytesError
	var told *Problem
	switch {
	case errors.As(err, &tooLarge):
		err = problem(http.StatusRequestEntityTooLarge, look.Word("That is more than this form takes.")).because(err)
	case err != nil && !errors.As(err, &told):
		err = problem(http.StatusBadRequest, look.Word("The form could not be read.")).because(err)
	}
	if v.R.PostForm == nil {
		v.R.PostForm = url.Values{}
	}
	return err
}

// carried is one field of a form that waits for a step-up.
type carried struct{ Name, Value string }

// carriedPrefix sets a waiting form's fields apart from the step-up's own.
const carriedPrefix = "form."

// carry lists what was filled in, to be shown again later. A password or a code is
// not among it: those are typed again.
func carry(form url.Values) []carried {
	var fields []carried
	for name, values := range form {
		lower := strings.ToLower(name)
		if strings.Contains(lower, "password") || strings.Contains(lower, "secret") || lower == "code" || lower == "passkey" || lower == "ticket" {
			continue
		}
		for _, value := range values {
			fields = append(fields, carried{carriedPrefix + name, value})
		}
	}
	slices.SortStableFunc(fields, func(a, b carried) int { return strings.Compare(a.Name, b.Name) })
	return fields
}

// uncarry is the form that carry listed.
func uncarry(form url.Values) url.Values {
	filled := url.Values{}
	for name, values := range form {
		if inner, ok := strings.CutPrefix(name, carriedPrefix); ok {
			filled[inner] = values
		}
	}
	return filled
}
