package panel

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// comparedMost is the size limit in bytes of a string to compare with its body.
const comparedMost = 256 << 10

// requestPage is one request, with the details of its signature.
type requestPage struct {
	Entry callRow
	// Meaning explains the code.
	Meaning string
	Lines   []signedLine
	Hints   []string // in the visitor's language
	// Theirs and Body are the string and body to compare.
	Theirs, Body string
	Problem      string
	Result       *comparison
}

// signedLine is one of the six lines of the server's string to sign.
type signedLine struct{ Name, Text string }

// comparison is how two strings to sign differ, in the visitor's language.
type comparison struct {
	requestlog.Explanation
	Hints []string
}

func (p panel) loggedCall(v *web.Visit) (page requestPage, err error) {
	entry, err := p.Requests.Entry(v.Context(), v.Operator(), v.R.PathValue("id"))
	if errors.Is(err, requestlog.ErrNotFound) {
		return page, web.NotFound()
	}
	if err != nil {
		return page, err
	}
	page = requestPage{Entry: newCallRow(v, entry), Meaning: meanings[entry.Code]}
	if entry.Signature != nil {
		// Compared with itself, a string yields its named lines.
		for _, line := range requestlog.Compare(entry.Signature.StringToSign, entry.Signature.StringToSign).Lines {
			page.Lines = append(page.Lines, signedLine{line.Name, line.Server.String()})
		}
	}
	page.Hints = hintTexts(v, requestlog.Explain(entry))
	return page, nil
}

// hintTexts translates hints, and those of their arguments that are texts.
func hintTexts(v *web.Visit, hints []requestlog.Hint) []string {
	var texts []string
	for _, hint := range hints {
		args := make([]any, len(hint.Args))
		for i, arg := range hint.Args {
			args[i] = arg
			if word, is := arg.(string); is {
				args[i] = v.T(word)
			}
		}
		texts = append(texts, v.T(hint.Text, args...))
	}
	return texts
}

func (p panel) showRequest(v *web.Visit) error {
	page, err := p.loggedCall(v)
	if err != nil {
		return err
	}
	return v.Show("panel/request", page)
}

// compareRequest compares an integrator's string to sign with the server's. It stores
// nothing.
func (p panel) compareRequest(v *web.Visit) error {
	page, err := p.loggedCall(v)
	if err != nil {
		return err
	}
	if page.Entry.Signature == nil {
		return web.NotFound()
	}
	// A browser sends the lines of a text field with CR LF; a file is sent unchanged.
	page.Theirs = unixLines(v.R.PostForm.Get("theirs"))
	page.Body = unixLines(v.R.PostForm.Get("body"))
	exact, err := uploadedText(v, "file")
	if err != nil {
		return err
	}
	if exact != "" {
		page.Theirs = exact
	}
	if page.Theirs == "" {
		page.Problem = v.T(look.Text("Paste the string that your program signs, or choose a file with it."))
		v.Status = http.StatusUnprocessableEntity
		return v.Show("panel/request", page)
	}
	found := requestlog.CompareWithBody(page.Entry.Signature.StringToSign, page.Theirs, page.Body)
	page.Result = &comparison{found, hintTexts(v, found.Hints)}
	return v.Show("panel/request", page)
}

func unixLines(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// uploadedText returns the content of an uploaded file; empty if there is none.
func uploadedText(v *web.Visit, name string) (string, error) {
	file, _, err := v.R.FormFile(name)
	if errors.Is(err, http.ErrMissingFile) || errors.Is(err, http.ErrNotMultipart) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(file)
	return string(text), err
}

// signaturePage lists the refused requests to choose from.
type signaturePage struct {
	Kept      kept
	RequestID string
	Problem   string
	Latest    []callRow
}

const (
	// explained is the number of refused signatures in the list.
	explained = 10
	// lookedAt is the number of refusals that are searched for them.
	lookedAt = 200
)

func (p panel) showSignature(v *web.Visit) error {
	page := signaturePage{Kept: p.kept(v), RequestID: v.Query("request")}
	if page.RequestID != "" {
		found, err := p.Requests.Search(v.Context(), v.Operator(), requestlog.Query{RequestID: page.RequestID, Limit: 1})
		if err != nil {
			return err
		}
		if len(found.Entries) > 0 {
			return v.Redirect("/panel/requests/"+url.PathEscape(found.Entries[0].ID), nil)
		}
		page.Problem = v.T(look.Text("There is no such request in the log. It may be older than the log reaches, or have named no key of yours."))
	}
	found, err := p.Requests.Search(v.Context(), v.Operator(), requestlog.Query{Refused: true, Limit: lookedAt})
	if err != nil {
		return err
	}
	for _, entry := range found.Entries {
		if entry.Signature != nil && len(page.Latest) < explained {
			page.Latest = append(page.Latest, newCallRow(v, entry))
		}
	}
	return v.Show("panel/signature", page)
}

// meanings explain the codes that integrators ask about most.
var meanings = map[fault.Code]string{
	fault.InvalidSignature:     look.Text("The signature does not match this request and the key's secret."),
	fault.TimestampExpired:     look.Text("The timestamp is too far from our clock."),
	fault.InvalidNonce:         look.Text("The nonce has an invalid format."),
	fault.ReplayDetected:       look.Text("This nonce was already used."),
	fault.CredentialRevoked:    look.Text("The key is revoked. Use another one."),
	fault.CredentialExpired:    look.Text("The key was rotated and its grace period is over. Use the new key."),
	fault.IPNotWhitelisted:     look.Text("The address is not on your whitelist. Ask your MSO to add it."),
	fault.PermissionDenied:     look.Text("The key may not do this. Ask your MSO to permit it."),
	fault.RateLimited:          look.Text("Too many requests. Wait for the time given in Retry-After."),
	fault.InsufficientBalance:  look.Text("The wallet does not cover it. Nothing was charged."),
	fault.SubscriberNotFound:   look.Text("There is no such subscriber."),
	fault.SubscriberExists:     look.Text("The subscriber exists already. Renew instead."),
	fault.ValidationError:      look.Text("A field is missing or invalid; the response names it."),
	fault.InvalidJSON:          look.Text("The body is not valid JSON."),
	fault.IdempotencyKeyReused: look.Text("The idempotency key was used before, with another body."),
	fault.PendingReview:        look.Text("The provider has not confirmed it yet. The money is held until it does."),
	fault.ProviderError:        look.Text("The provider refused it. The money is back in the wallet."),
	fault.OK:                   look.Text("The request succeeded."),
}
