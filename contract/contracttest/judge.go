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

// response is a recorded answer, with the request it answers.
type response struct {
	method, path string
	status       int
	header       http.Header
	body         []byte
}

// The headers that HTTP and HTTPS bring along. All others are the document's.
var transportHeaders = []string{"Content-Type", "Content-Length", "Connection", "Date", "Strict-Transport-Security"}

var rateHeaders = []string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"}

// judge names everything that is wrong with a response.
func (d *document) judge(r response) (found []string) {
	complain := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }

	promised, allow := d.promised(r.method, r.path)
	answer, documented := promised[r.status]
	if !documented {
		complain("the status is not documented here; these are: %v", slices.Sorted(maps.Keys(promised)))
		return found
	}
	headers := canonical(r.header)
	answer.judgeHeaders(headers, complain)
	if is := headers["Allow"]; allow != "" && answer.headers["Allow"].required && !slices.Equal(is, []string{allow}) {
		complain("Allow is %q; the path takes %s", is, allow)
	}
	if r.method == http.MethodHead {
		// An answer to HEAD is the head of the answer: its code cannot be seen.
		if len(r.body) > 0 {
			complain("an answer to HEAD has a body")
		}
		judgeRate("sometimes", headers, complain)
		return found
	}
	answer.judgeBody(r.body, headers, complain)
	return found
}

// promised finds what the document promises for a request and, if it is one with
// a wrong method, which methods are right.
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

// judgePrinted names what is wrong with a body of which nothing else is known. A
// code has one schema wherever an endpoint answers with it.
func (d *document) judgePrinted(method, path string, body []byte) (found []string) {
	value, err := decode(body)
	if err != nil {
		return []string{"the body: " + err.Error()}
	}
	envelope, _ := value.(map[string]any)
	code, _ := envelope["code"].(string)
	promised, _ := d.promised(method, path)
	for _, answer := range promised {
		if outcome, known := answer.outcomes[code]; known {
			return wrongs(outcome.body.Validate(value))
		}
	}
	return []string{fmt.Sprintf("the code %q is not documented here", code)}
}

// canonical spells header names as net/http does. The contract's spelling is not
// always that, and a recorder may have kept either.
func canonical(header http.Header) http.Header {
	folded := make(http.Header, len(header))
	for name, values := range header {
		name = http.CanonicalHeaderKey(name)
		folded[name] = append(folded[name], values...)
	}
	return folded
}

func (a *answer) judgeHeaders(headers http.Header, complain func(string, ...any)) {
	contentType := headers["Content-Type"]
	media, params, err := mime.ParseMediaType(strings.Join(contentType, ", "))
	if err != nil || len(contentType) != 1 || media != mediaType || len(params) != 1 || !strings.EqualFold(params["charset"], "utf-8") {
		complain("Content-Type is %q; want %s; charset=utf-8", contentType, mediaType)
	}
	for name, rule := range a.headers {
		switch values := headers[name]; {
		case len(values) == 0:
			if rule.required {
				complain("there is no header %s", name)
			}
		case len(values) > 1:
			complain("there are %d headers %s", len(values), name)
		default:
			for _, wrong := range wrongs(rule.schema.Validate(rule.value(values[0]))) {
				complain("header %s: %s", name, wrong)
			}
		}
	}
	for name := range headers {
		if _, documented := a.headers[name]; !documented && !slices.Contains(transportHeaders, name) {
			complain("header %s is not documented here", name)
		}
	}
}

var digits = regexp.MustCompile(`^[0-9]+$`)

// value is a header's value as its schema sees it.
func (h header) value(text string) any {
	if h.integer && digits.MatchString(text) {
		return json.Number(text)
	}
	return text
}

func (a *answer) judgeBody(body []byte, headers http.Header, complain func(string, ...any)) {
	value, err := decode(body)
	if err != nil {
		complain("the body: %v", err)
		return
	}
	envelope, _ := value.(map[string]any)
	code, _ := envelope["code"].(string)
	outcome, known := a.outcomes[code]
	if !known {
		complain("the code %q is not documented here; these are: %v", code, slices.Sorted(maps.Keys(a.outcomes)))
		return
	}
	// An answer is oneOf its codes' schemas. Each pins its code, so only this one
	// can fit.
	for _, wrong := range wrongs(outcome.body.Validate(value)) {
		complain("the body: %s", wrong)
	}
	for _, path := range outcome.once {
		if _, there := at(value, path); there && len(headers[replayHeader]) > 0 {
			complain("the body: %s is in a replay; it is given once", strings.Join(path, "."))
		}
	}
	if id := headers["X-Request-Id"]; len(id) == 1 && envelope["request_id"] != id[0] {
		complain("request_id is %v; X-Request-Id says %s", envelope["request_id"], id[0])
	}
	judgeRate(outcome.rate, headers, complain)
}

// at is what stands in a body under a path of names.
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

// judgeRate checks that the three rate headers come together, where the code
// says so, and that they make sense.
func judgeRate(rule string, headers http.Header, complain func(string, ...any)) {
	var there []string
	for _, name := range rateHeaders {
		if len(headers[name]) > 0 {
			there = append(there, name)
		}
	}
	switch {
	case rule == "never" && len(there) > 0:
		complain("%v: a request that was answered so never reached the rate check", there)
		return
	case rule == "always" && len(there) < len(rateHeaders), len(there) > 0 && len(there) < len(rateHeaders):
		complain("of the rate headers there are only %v", there)
		return
	case len(there) == 0:
		return
	}
	limit, limitErr := strconv.Atoi(headers["X-Ratelimit-Limit"][0])
	left, leftErr := strconv.Atoi(headers["X-Ratelimit-Remaining"][0])
	if limitErr == nil && leftErr == nil && left > limit {
		complain("%d requests are left of %d", left, limit)
	}
}

// wrongs takes a validator's complaint apart, down to what is wrong where. Where
// nothing of several fits, it complains about what comes closest.
func wrongs(err error) []string {
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
		found := wrongs(cause)
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
