package gateway

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/operation"
)

// meaning is the meaning of one status of the protocol.
type meaning struct {
	outcome  operation.Outcome
	notFound bool
	// refusal: the status may also come with HTTP 4xx.
	refusal bool
	detail  string
}

// The valid statuses of each call. Others are protocol violations, such as "rejected" for a void: it
// might mean that the void was refused.
var (
	applyAnswers = map[string]meaning{
		"applied":  {outcome: operation.Confirmed},
		"rejected": {outcome: operation.Rejected, refusal: true},
		"pending":  {detail: "the provider has taken the order and not carried it out yet"},
	}
	statusAnswers = map[string]meaning{
		"applied":           {outcome: operation.Confirmed},
		"rejected":          {outcome: operation.Rejected, refusal: true},
		"voided":            {outcome: operation.Rejected, detail: "the provider was told before never to carry it out"},
		"pending":           {detail: "the provider has taken the order and not carried it out yet"},
		"unknown_reference": {notFound: true, refusal: true, detail: "the provider does not know the reference"},
	}
	voidAnswers = map[string]meaning{
		"applied": {outcome: operation.Confirmed},
		"voided":  {outcome: operation.Rejected},
	}
)

// classify checks a reply against its order and returns what it means.
func (g *Gateway) classify(got reply, order operation.Order, meanings map[string]meaning) result {
	said, wrong := readAnswer(got.fields)
	if wrong != "" {
		return violation("HTTP %d, but %s", got.code, wrong).result()
	}
	if wrong := g.mismatch(said, order); wrong != "" {
		res := violation("HTTP %d, but %s", got.code, wrong).result()
		res.answer.Mismatch = true
		return res
	}

	means, known := meanings[said.status]
	switch {
	case !known:
		return violation("HTTP %d with a status that does not answer the question: %s", got.code, g.quoted(said.status, order.Password)).result()
	case got.code != http.StatusOK && !means.refusal:
		return violation("status %q with HTTP %d", said.status, got.code).result()
	case said.done() && said.transaction == "":
		return violation("status %q without a transaction_id", said.status).result()
	case g.reveals(said.transaction, order.Password):
		return violation("status %q with a transaction_id that repeats a secret", said.status).result()
	case said.status == "rejected" && tidy(said.message) == "":
		return violation("status %q without a message", said.status).result()
	}
	res := result{cause: Answered, answer: operation.Reply{
		Outcome:     means.outcome,
		NotFound:    means.notFound,
		Transaction: said.transaction,
		Message:     g.message(said.message, order.Password),
		Detail:      means.detail,
	}}
	if means.outcome == operation.Unknown {
		res.cause = Undecided
	}
	if said.status == "voided" {
		// The message of a rejection is the provider's reason. The message of a void is not:
		// the provider did not reject the order.
		res.answer.Message, res.answer.Detail = "", cmp.Or(res.answer.Detail, res.answer.Message)
	}
	return res
}

// mismatch says in which field a reply is about another order. What it repeats must be exact, and a
// confirmation must repeat everything.
func (g *Gateway) mismatch(said answer, order operation.Order) string {
	whole := said.done()
	for _, echo := range []struct {
		name      string
		got, want string
		required  bool
	}{
		{"reference", said.reference, order.Reference, true},
		{"subscriber_id", said.subscriberID, order.SubscriberID, whole},
		{"mobile", said.mobile, order.Mobile, whole},
		// A password reset, a reversal and contact data have no component.
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

// answer is the fields of a reply.
type answer struct {
	reference, subscriberID, mobile, component string
	status, transaction, message               string
	given                                      map[string]any
}

// done reports whether the provider says that it has done what it was asked.
func (a answer) done() bool { return a.status == "applied" || a.status == "reversed" }

// readAnswer reads the known fields of an object, which must be strings. Other fields are ignored.
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

// isNumber reports whether a text can be stored as a provider's transaction number; it may be empty.
func isNumber(text string) bool { return len(text) <= 100 && isVisible(text) }

func isVisible(text string) bool {
	for _, b := range []byte(text) {
		if b <= ' ' || b > '~' {
			return false
		}
	}
	return true
}

// readCatalogue accepts only a catalogue without errors: a part of one would make plans unavailable
// that the provider still sells.
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
