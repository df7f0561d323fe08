package contracttest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// response is a response with its request.
type response struct {
	method, path string
	status       int
	header       http.Header
	body         []byte
}

// Headers of HTTP and HTTPS itself. All others have to be documented.
var transportHeaders = []string{"Content-Type", "Content-Length", "Connection", "Date", "Strict-Transport-Security"}

var rateHeaders = []string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"}

// check lists the violations of a response.
func (d *document) check(r response) (found []string) {
	report := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }

	promised, allow := d.promised(r.method, r.path)
	answer, documented := promised[r.status]
	if !documented {
		report("the status is not documented here; these are: %v", slices.Sorted(maps.Keys(promised)))
		return found
	}
	headers := canonical(r.header)
	answer.checkHeaders(headers, report)
	if is := headers["Allow"]; allow != "" && answer.headers["Allow"].required && !slices.Equal(is, []string{allow}) {
		report("Allow is %q; the path takes %s", is, allow)
	}
	if r.method == http.MethodHead {
		// A response to HEAD has no body, so its code is not known.
		if len(r.body) > 0 {
			report("an answer to HEAD has a body")
		}
		checkRate("sometimes", headers, report)
		return found
	}
	answer.checkBody(r.body, headers, report)
	return found
}

// promised returns the documented responses to a request and, if its method is
// wrong, the methods that are allowed.
func (d *document) promised(method, path string) (promised answers, allow string) {
	path, _, _ = strings.Cut(path, "?")
	below, inside := strings.CutPrefix(path, d.prefix)
	methods, known := d.operations[below]
	if !inside || !known {
		return d.unknownPath, ""
	}
	if promised, known := methods[method]; known {
		return promised, ""
	}
	return d.wrongMethod, strings.Join(slices.Sorted(maps.Keys(methods)), ", ")
}

// checkPrinted lists the violations of a body without status and headers. A code
// has one schema in all responses of an endpoint.
func (d *document) checkPrinted(method, path string, body []byte) (found []string) {
	value, err := decode(body)
	if err != nil {
		return []string{"the body: " + err.Error()}
	}
	envelope, _ := value.(map[string]any)
	code, _ := envelope["code"].(string)
	promised, _ := d.promised(method, path)
	for _, answer := range promised {
		if outcome, known := answer.outcomes[code]; known {
			return schemaErrors(outcome.body.Validate(value))
		}
	}
	return []string{fmt.Sprintf("the code %q is not documented here", code)}
}

// canonical spells header names as net/http does. The contract and recorded
// responses may use other spellings.
func canonical(header http.Header) http.Header {
	folded := make(http.Header, len(header))
	for name, values := range header {
		name = http.CanonicalHeaderKey(name)
		folded[name] = append(folded[name], values...)
	}
	return folded
}

func (a *answer) checkHeaders(headers http.Header, report func(string, ...any)) {
	contentType := headers["Content-Type"]
	media, params, err := mime.ParseMediaType(strings.Join(contentType, ", "))
	if err != nil || len(contentType) != 1 || media != mediaType || len(params) != 1 || !strings.EqualFold(params["charset"], "utf-8") {
		report("Content-Type is %q; want %s; charset=utf-8", contentType, mediaType)
	}
	for name, rule := range a.headers {
		switch values := headers[name]; {
		case len(values) == 0:
			if rule.required {
				report("there is no header %s", name)
			}
		case len(values) > 1:
			report("there are %d headers %s", len(values), name)
		default:
			for _, wrong := range schemaErrors(rule.schema.Validate(rule.value(values[0]))) {
				report("header %s: %s", name, wrong)
			}
		}
	}
	for name := range headers {
		if _, documented := a.headers[name]; !documented && !slices.Contains(transportHeaders, name) {
			report("header %s is not documented here", name)
		}
	}
}

var digits = regexp.MustCompile(`^[0-9]+$`)

// value converts a header's value for its schema.
func (h header) value(text string) any {
	if h.integer && digits.MatchString(text) {
		return json.Number(text)
	}
	return text
}

func (a *answer) checkBody(body []byte, headers http.Header, report func(string, ...any)) {
	value, err := decode(body)
	if err != nil {
		report("the body: %v", err)
		return
	}
	envelope, _ := value.(map[string]any)
	code, _ := envelope["code"].(string)
	outcome, known := a.outcomes[code]
	if !known {
		report("the code %q is not documented here; these are: %v", code, slices.Sorted(maps.Keys(a.outcomes)))
		return
	}
	// A body is oneOf the schemas of its codes. Each fixes its code, so only this
	// one can match.
	for _, wrong := range schemaErrors(outcome.body.Validate(value)) {
		report("the body: %s", wrong)
	}
	for _, path := range outcome.once {
		if _, there := at(value, path); there && len(headers[replayHeader]) > 0 {
			report("the body: %s is in a replay; it is given once", strings.Join(path, "."))
		}
	}
	if id := headers["X-Request-Id"]; len(id) == 1 && envelope["request_id"] != id[0] {
		report("request_id is %v; X-Request-Id says %s", envelope["request_id"], id[0])
	}
	checkRate(outcome.rate, headers, report)
}

// at returns the value at a path of names.
func at(value any, path []string) (any, bool) {
	for _, name := range path {
		object, _ := value.(map[string]any)
		var there bool
		if value, there = object[name]; !there {
			return nil, false
		}
	}
	return value, true
}

// checkRate checks that the three rate headers come together, that the code allows
// or requires them, and that their values are consistent.
func checkRate(rule string, headers http.Header, report func(string, ...any)) {
	var there []string
	for _, name := range rateHeaders {
		if len(headers[name]) > 0 {
			there = append(there, name)
		}
	}
	switch {
	case rule == "never" && len(there) > 0:
		report("%v: a request that was answered so never reached the rate check", there)
		return
	case rule == "always" && len(there) < len(rateHeaders), len(there) > 0 && len(there) < len(rateHeaders):
		report("of the rate headers there are only %v", there)
		return
	case len(there) == 0:
		return
	}
	limit, limitErr := strconv.Atoi(headers["X-Ratelimit-Limit"][0])
	left, leftErr := strconv.Atoi(headers["X-Ratelimit-Remaining"][0])
	if limitErr == nil && leftErr == nil && left > limit {
		report("%d requests are left of %d", left, limit)
	}
}

// schemaErrors splits a validation error into its causes. If none of several
// alternatives matches, it returns the errors of the closest one.
func schemaErrors(err error) []string {
	if err == nil {
		return nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return []string{err.Error()}
	}
	if len(invalid.Causes) == 0 {
		return []string{invalid.Error()}
	}
	var all, closest []string
	for _, cause := range invalid.Causes {
		found := schemaErrors(cause)
		all = append(all, found...)
		if closest == nil || len(found) < len(closest) {
			closest = found
		}
	}
	if _, alternatives := invalid.ErrorKind.(*kind.OneOf); alternatives {
		return closest
	}
	return all
}
