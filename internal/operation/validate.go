package operation

import (
	"math"
	"net/mail"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/subscription"
)

// The fields of a request, by the contract's names.
const (
	fieldName           = "full_name"
	fieldMobile         = "mobile"
	fieldPlan           = "plan_id"
	fieldEmail          = "email"
	fieldPassword       = "password"
	fieldConnectionType = "connection_type"
	fieldAddress        = "address"
	fieldSubscriber     = "subscriber_id"
)

// KnownFields lists the fields of a kind of request. Others are ignored.
func KnownFields(kind Kind) []string {
	if kind == Activate {
		return []string{fieldName, fieldMobile, fieldPlan, fieldEmail, fieldPassword, fieldConnectionType, fieldAddress, fieldSubscriber}
	}
	return []string{fieldSubscriber, fieldMobile, fieldPlan}
}

// input is a request's valid fields.
type input struct {
	subscriberID string
	mobile       string
	planID       string
	name         string
	password     string
	profile      Profile
}

// validate parses the fields, or returns one error that names every invalid field.
func validate(r Request) (input, error) {
	form := form{request: r, errors: map[string]string{}}
	var in input
	in.planID = form.text(fieldPlan, 1, 100)
	if r.Kind == Activate {
		in.name = form.text(fieldName, 1, 100)
		in.mobile = form.digits(fieldMobile, 10, true)
		in.subscriberID = form.digits(fieldSubscriber, 6, false)
		in.password = form.password()
		in.profile = Profile{
			Email:          form.email(),
			Address:        form.lines(fieldAddress, 0, 500),
			ConnectionType: form.text(fieldConnectionType, 0, 100),
		}
		// The API's contract does not have these fields, and ignores what it does not have.
		if r.Channel == Web {
			in.profile.Area, in.profile.BoxNumber, in.profile.Notes = form.area(), form.boxNumber(), form.lines(fieldNotes, 0, 500)
		}
		if in.profile.ConnectionType == "" {
			in.profile.ConnectionType = subscription.DefaultConnectionType
		}
	} else {
		// A mobile beside an id is ignored, and not even validated.
		in.subscriberID = form.text(fieldSubscriber, 0, math.MaxInt)
		if in.subscriberID == "" && form.errors[fieldSubscriber] == "" {
			in.mobile = form.digits(fieldMobile, 10, false)
			if in.mobile == "" && form.errors[fieldMobile] == "" {
				form.errors[fieldSubscriber] = "Give a subscriber_id, or a mobile number."
			}
		}
	}
	if len(form.errors) > 0 {
		return in, fault.New(fault.ValidationError, "Some fields are not valid; data.fields says which and why.").With("fields", form.errors)
	}
	return in, nil
}

// form parses fields and collects their errors.
type form struct {
	request Request
	errors  map[string]string
}

// given returns a field's trimmed text; false if it is not a string or check returns a problem.
func (f *form) given(name string, trim, check func(string) string) (string, bool) {
	if slices.Contains(f.request.NotText, name) {
		f.errors[name] = "It has to be a text in quotes."
		return "", false
	}
	text := trim(f.request.Fields[name])
	if problem := check(text); problem != "" {
		f.errors[name] = problem
		return "", false
	}
	return text, true
}

// text parses a field of minLen to maxLen characters without the spaces around it.
func (f *form) text(name string, minLen, maxLen int) string {
	return f.sized(name, minLen, maxLen, subscription.Unprintable)
}

// lines is text for a field that may have several lines.
func (f *form) lines(name string, minLen, maxLen int) string {
	return f.sized(name, minLen, maxLen, subscription.UnprintableLines)
}

func (f *form) sized(name string, minLen, maxLen int, check func(string) string) string {
	text, ok := f.given(name, strings.TrimSpace, check)
	if !ok {
		return ""
	}
	switch length := utf8.RuneCountInString(text); {
	case length == 0 && minLen > 0:
		f.errors[name] = "It is required."
	case length > maxLen:
		f.errors[name] = sprint("It has %d characters; at most %d are allowed.", length, maxLen)
	}
	return text
}

// digits parses a field of exactly count ASCII digits.
func (f *form) digits(name string, count int, required bool) string {
	text, ok := f.given(name, strings.TrimSpace, subscription.Unprintable)
	if !ok {
		return ""
	}
	switch {
	case text == "" && required:
		f.errors[name] = "It is required."
	case text != "" && !isDigits(text, count):
		f.errors[name] = sprint("It has to be exactly %d digits.", count)
	}
	return text
}

// password is not trimmed: spaces belong to it.
func (f *form) password() string {
	text, ok := f.given(fieldPassword, func(as string) string { return as }, subscription.Unprintable)
	if ok && utf8.RuneCountInString(text) > 64 {
		f.errors[fieldPassword] = "It has more than 64 characters."
	}
	return text
}

func (f *form) email() string {
	text := f.text(fieldEmail, 0, 150)
	if text != "" && f.errors[fieldEmail] == "" && !isEmail(text) {
		f.errors[fieldEmail] = "It is not an e-mail address."
	}
	return text
}

func isDigits(text string, count int) bool {
	if len(text) != count {
		return false
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return true
}

// isEmail accepts a bare address with a possible Internet domain. net/mail also accepts display
// names, comments and domains of one label.
func isEmail(text string) bool {
	parsed, err := mail.ParseAddress(text)
	if err != nil || parsed.Address != text || strings.ContainsAny(text, "\" <>()") {
		return false
	}
	local, domain, _ := strings.Cut(text, "@")
	labels := strings.Split(domain, ".")
	if len(local) > 64 || len(labels) < 2 {
		return false
	}
	// The last label is a top-level domain, and never a number.
	if strings.Trim(labels[len(labels)-1], "0123456789") == "" {
		return false
	}
	for _, label := range labels {
		if label == "" || len(label) > 63 || strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") {
			return false
		}
		for _, r := range label {
			if r != '-' && !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r) {
				return false
			}
		}
	}
	return true
}
