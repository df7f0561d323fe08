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

// maxForm is the size limit in bytes of a form without files.
const maxForm = 64 << 10

// readForm parses the form of a POST within its route's size limit. Files stay in memory:
// the limits are small enough for that.
func (v *Visit) readForm() error {
	v.R.PostForm = url.Values{}
	if v.R.Method != http.MethodPost {
		return nil
	}
	most := max(v.route.Upload, maxForm)
	v.R.Body = http.MaxBytesReader(v.W, v.R.Body, most)
	kind, _, _ := mime.ParseMediaType(v.R.Header.Get("Content-Type"))
	v.R.PostForm = nil // else ParseForm would take it for parsed
	var err error
	switch {
	case kind == "multipart/form-data" && v.route.Upload > 0:
		err = v.R.ParseMultipartForm(most)
	case kind == "" || kind == "application/x-www-form-urlencoded":
		err = v.R.ParseForm()
	default:
		err = problem(http.StatusUnsupportedMediaType, look.Text("This page does not accept that kind of form."))
	}
	var tooLarge *http.MaxBytesError
	var told *Problem
	switch {
	case errors.As(err, &tooLarge):
		err = problem(http.StatusRequestEntityTooLarge, look.Text("The form is too large.")).because(err)
	case err != nil && !errors.As(err, &told):
		err = problem(http.StatusBadRequest, look.Text("The form could not be read.")).because(err)
	}
	if v.R.PostForm == nil {
		v.R.PostForm = url.Values{}
	}
	return err
}

// carried is one field of a form that waits for a step-up.
type carried struct{ Name, Value string }

// carriedPrefix distinguishes a waiting form's fields from the step-up's own.
const carriedPrefix = "form."

// carry lists the fields of a form that waits for a step-up. It leaves out passwords,
// secrets and codes, which have to be typed again.
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

// uncarry returns the form that carry listed.
func uncarry(form url.Values) url.Values {
	filled := url.Values{}
	for name, values := range form {
		if inner, ok := strings.CutPrefix(name, carriedPrefix); ok {
			filled[inner] = values
		}
	}
	return filled
}
