package gateway

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/operation"
)

// meaning is what one status of the protocol comes to.
type meaning struct {
	verdict  operation.Outcome
	notFound bool
	// refusal: it may also come with a 4xx, as web frameworks like to.
	refusal bool
	detail  string
}

// What may be answered to each question. A status that is not listed under the
// question, "voided" to an order or "rejected" to a void, means nothing: the
// latter might as well say that the void was refused.
var (
	applyAnswers = map[string]meaning{
		"applied":  {verdict: operation.Confirmed},
		"rejected": {verdict: operation.Rejected, refusal: true},
		"pending":  {detail: "the provider has taken the order and not carried it out yet"},
	}
	statusAnswers = map[string]meaning{
		"applied":           {verdict: operation.Confirmed},
		"rejected":          {verdict: operation.Rejected, refusal: true},
		"voided":            {verdict: operation.Rejected, detail: "the provider was told before never to carry it out"},
		"pending":           {detail: "the provider has taken the order and not carried it out yet"},
		"unknown_reference": {notFound: true, refusal: true, detail: "the provider does not know the reference"},
	}
	voidAnswers = map[string]meaning{
		"applied": {verdict: operation.Confirmed},
		"voided":  {verdict: operation.Rejected},
	}
)

// judge holds an answer against the order it should be about.
func (g *Gateway) judge(got reply, order operation.Order, meanings map[string]meaning) judged {
	said, wrong := readAnswer(got.fields)
	if wrong != "" {
		return violation("HTTP %d, but %s", got.code, wrong).judged()
	}
	if wrong := g.misfit(said, order); wrong != "" {
		result := violation("HTTP %d, but %s", got.code, wrong).judged()
		result.answer.Mismatch = true
		return result
	}

	means, known := meanings[said.status]
	switch {
	case !known:
		return violation("HTTP %d with a status that does not answer the question: %s", got.code, g.quoted(said.status, order.Password)).judged()
	case got.code != http.StatusOK && !means.refusal:
		return violation("status %q with HTTP %d", said.status, got.code).judged()
	case said.status == "applied" && said.transaction == "":
		return violation("status %q without a transaction_id", said.status).judged()
	case g.reveals(said.transaction, order.Password):
		return violation("status %q with a transaction_id that repeats a secret", said.status).judged()
	case said.status == "rejected" && tidy(said.message) == "":
		return violation("status %q without a message", said.status).judged()
	}
	result := judged{cause: Answered, answer: operation.Reply{
		Outcome:     means.verdict,
		NotFound:    means.notFound,
		Transaction: said.transaction,
		Message:     g.message(said.message, order.Password),
		Detail:      means.detail,
	}}
	if means.verdict == operation.Unknown {
		result.cause = Undecided
	}
	if said.status == "voided" {
		// A message with a rejection is why the provider refused the order. What
		// it says beside a void is not: it never judged the order at all.
		result.answer.Message, result.answer.Detail = "", cmp.Or(result.answer.Detail, result.answer.Message)
	}
	return result
}

// misfit says where an answer is about something else than the order. What it
// repeats must be exact. A success repeats everything; it would be believed.
func (g *Gateway) misfit(said answer, order operation.Order) string {
	whole := said.status == "applied"
	for _, echo := range []struct {
		name      string
		got, want string
		required  bool
	}{
		{"reference", said.reference, order.Reference, true},
		{"subscriber_id", said.subscriberID, order.SubscriberID, whole},
		{"mobile", said.mobile, order.Mobile, whole},
		// What is about no component, such as a password, repeats none.
		{"component", said.component, order.Component, whole && order.Component != ""},
	} {
		_, given := said.given[echo.name]
		switch {
		case !given && echo.required:
			return fmt.Sprintf("it does not repeat the %s", echo.name)
		case given && echo.got != echo.want:
			return fmt.Sprintf("it is about another %s: %s", echo.name, g.quoted(echo.got, order.Password))
		}
	}
	return ""
}

// answer is what the provider said about a reference.
type answer struct {
	reference, subscriberID, mobile, component string
	status, transaction, message               string
	given                                      map[string]any
}

// readAnswer takes the known fields out of an object. Others may be there, for
// a provider that has more to say; a known one that is no text spoils it all.
func readAnswer(fields map[string]any) (said answer, wrong string) {
	said.given = fields
	for _, field := range []struct {
		name string
		into *string
	}{
		{"reference", &said.reference},
		{"subscriber_id", &said.subscriberID},
		{"mobile", &said.mobile},
		{"component", &said.component},
		{"status", &said.status},
		{"transaction_id", &said.transaction},
		{"message", &said.message},
	} {
		value, given := fields[field.name]
		text, ok := value.(string)
		if given && !ok {
			return answer{}, fmt.Sprintf("its %s is not a text", field.name)
		}
		*field.into = text
	}
	if !isNumber(said.transaction) {
		return answer{}, "its transaction_id is not 1 to 100 visible ASCII characters"
	}
	return said, ""
}

// isNumber reports whether a text can be kept as a provider's transaction
// number; none is fine here.
func isNumber(text string) bool {
	for _, b := range []byte(text) {
		if b <= ' ' || b > '~' {
			return false
		}
	}
	return len(text) <= 100
}

// readCatalogue takes a catalogue only as a whole: half of one would take plans
// out of sale that the provider still sells.
func (g *Gateway) readCatalogue(fields map[string]any) ([]catalogue.Component, *failure) {
	listed, ok := fields["components"].([]any)
	if !ok {
		return nil, violation("the catalogue has no list of components")
	}
	components := make([]catalogue.Component, 0, len(listed))
	seen := map[string]bool{}
	for i, item := range listed {
		object, _ := item.(map[string]any)
		code, _ := object["code"].(string)
		name, _ := object["name"].(string)
		role, _ := object["role"].(string)
		switch {
		case code == "" || !isNumber(code):
			return nil, violation("component %d has no code of 1 to 100 visible ASCII characters", i+1)
		case seen[code]:
			return nil, violation("component %s is listed twice", g.quoted(code, ""))
		case tidy(name) == "":
			return nil, violation("component %s has no name", g.quoted(code, ""))
		case role != string(catalogue.Main) && role != string(catalogue.Addon):
			return nil, violation("component %s is neither main nor addon", g.quoted(code, ""))
		}
		seen[code] = true
		components = append(components, catalogue.Component{
			Code: code, Name: tidy(name), Role: catalogue.Role(role),
		})
	}
	return components, nil
}
