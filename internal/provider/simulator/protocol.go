package simulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/operation"
)

const maxBody = 64 << 10

// request is the body of a call. Of the password only its presence is recorded.
type request struct {
	Reference    string `json:"reference"`
	SubscriberID string `json:"subscriber_id"`
	Mobile       string `json:"mobile"`
	Component    string `json:"component"`
	ClientKey    string `json:"client_key"`
	Months       int    `json:"months"`
	StartDate    string `json:"start_date"`
	ExpiresAt    string `json:"expires_at"`
	Name         string `json:"name"`
	Email        string `json:"email"`
	Password     string `json:"password"`
	Order        string `json:"order"`
	Addon        string `json:"addon_order"`
	Version      int64  `json:"version"`
	Area         string `json:"area"`
	Address      string `json:"address"`
	BoxNumber    string `json:"box_number"`
}

// answer is the reply about a reference.
type answer struct {
	Reference    string `json:"reference"`
	Status       string `json:"status"`
	SubscriberID string `json:"subscriber_id,omitempty"`
	Mobile       string `json:"mobile,omitempty"`
	Component    string `json:"component,omitempty"`
	Transaction  string `json:"transaction_id,omitempty"`
	Message      string `json:"message,omitempty"`
	Order        string `json:"order,omitempty"`
	Addon        string `json:"addon_order,omitempty"`
}

// applying returns the handler of orders of one kind.
func (s *Simulator) applying(kind operation.Kind) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if requested, ok := readRequest(w, r); ok {
			s.order(w, r, requested, string(kind))
		}
	}
}

// kindPassword is the kind of a password reset: an order without component and
// months.
const kindPassword = "reset_password"

// kindContact is the kind of a call that brings a customer's contact data.
const kindContact = "contact"

// isPaid reports whether a kind of order is for a component and months.
func isPaid(kind string) bool {
	return kind != kindPassword && kind != kindReversal && kind != kindContact
}

// Contact is a customer's contact data.
type Contact struct {
	Version   int64  `json:"version"`
	Name      string `json:"name,omitempty"`
	Email     string `json:"email,omitempty"`
	Area      string `json:"area,omitempty"`
	Address   string `json:"address,omitempty"`
	BoxNumber string `json:"box_number,omitempty"`
}

// updateContact handles a customer's contact data. The simulator shows nobody's, and keeps it with
// the call only.
func (s *Simulator) updateContact(w http.ResponseWriter, r *http.Request) {
	if requested, ok := readRequest(w, r); ok {
		requested.Component = ""
		s.order(w, r, requested, kindContact)
	}
}

// contact is the contact data of a request of a kind; nil if the kind has none.
func (r request) contact(kind string) *Contact {
	if kind != kindContact {
		return nil
	}
	return &Contact{Version: r.Version, Name: r.Name, Email: r.Email, Area: r.Area, Address: r.Address, BoxNumber: r.BoxNumber}
}

// resetPassword handles orders for a new app password. The password itself is not
// stored.
func (s *Simulator) resetPassword(w http.ResponseWriter, r *http.Request) {
	if requested, ok := readRequest(w, r); ok {
		requested.Component = ""
		s.order(w, r, requested, kindPassword)
	}
}

// order claims an order and carries it out, or answers with its record if its
// reference is known.
func (s *Simulator) order(w http.ResponseWriter, r *http.Request, requested request, kind string) {
	call := s.book.logCall(Call{
		Reference: requested.Reference, Kind: kind, Component: requested.Component,
		Mobile: requested.Mobile, SubscriberID: requested.SubscriberID, Months: requested.Months,
		StartDate: requested.StartDate, ExpiresAt: requested.ExpiresAt,
		PasswordGiven: requested.Password != "", Contact: requested.contact(kind), Traceparent: r.Header.Get("Traceparent"), At: s.now(),
	})
	found, result := s.book.claim(order{
		Reference: requested.Reference, Kind: kind, Component: requested.Component,
		Mobile: requested.Mobile, SubscriberID: requested.SubscriberID,
		ClientKey: requested.ClientKey, Months: requested.Months, ExpiresAt: requested.ExpiresAt,
		Reverses: requested.Order, ReversesAddon: requested.Addon,
	})
	switch result {
	case conflict:
		// A rejection would mean that the reference was not carried out,
		// which may be wrong.
		s.book.setAnswer(call, "conflict")
		refuse(w, http.StatusConflict, "the reference was used for another order")
	case known:
		said := found.toOrder()
		s.book.setAnswer(call, said.Status)
		respond(w, said)
	case claimed:
		s.carryOut(w, r, requested, call)
	}
}

// carryOut handles an order according to its outcome.
func (s *Simulator) carryOut(w http.ResponseWriter, r *http.Request, requested request, call *Call) {
	role, sold := s.settings.roleOf(requested.Component)
	outcome := s.settings.next(requested.Mobile, role)
	s.book.setOutcome(call, outcome)

	why := requested.faultOf(call.Kind)
	if why == "" && !sold && isPaid(call.Kind) {
		why = fmt.Sprintf("The component %s is not for sale.", requested.Component)
	}
	switch {
	case why != "":
		outcome = Reject
	case outcome == AddonFails && role == catalogue.Addon:
		outcome, why = Reject, "The add-on cannot be had at the moment."
	case outcome == AddonFails:
		outcome = Success
	case outcome == Reject:
		why = "The provider does not accept this order."
	}

	switch outcome {
	case Reject:
		s.finish(w, call, decision{state: rejected, message: why, answer: "rejected"}, func(said answer) { respond(w, said) })
	case TimeoutApplied:
		s.finish(w, call, decision{state: applied, answer: "none"}, func(answer) { s.hold(r) })
	case TimeoutNotApplied:
		s.book.release(call, "none")
		s.hold(r)
	case GatewayError:
		s.book.release(call, "503")
		unavailable(w)
	case WrongReference:
		s.finish(w, call, decision{state: applied, answer: "wrong_reference"}, func(said answer) {
			said.Reference += "-OTHER"
			respond(w, said)
		})
	case Unknowable:
		s.finish(w, call, decision{state: unknowable, answer: "none"}, func(answer) { s.hold(r) })
	case ResetApplied:
		s.finish(w, call, decision{state: applied, answer: "dropped"}, func(answer) { drop() })
	case Slow:
		s.pause()
		fallthrough
	default:
		s.finish(w, call, decision{state: applied, answer: "applied"}, func(said answer) { respond(w, said) })
	}
}

// finish records a decision, and then sends the reply.
func (s *Simulator) finish(w http.ResponseWriter, call *Call, made decision, say func(answer)) {
	made.at = s.now()
	stands, err := s.book.decide(call, made)
	if err != nil {
		// An order that cannot be recorded is not carried out.
		unavailable(w)
		return
	}
	say(stands.toOrder())
}

// void handles a void: the reference is not carried out from now on.
func (s *Simulator) void(w http.ResponseWriter, r *http.Request) {
	requested, ok := readRequest(w, r)
	if !ok {
		return
	}
	call := s.book.logCall(Call{
		Reference: requested.Reference, Kind: "void", Component: requested.Component,
		Mobile: requested.Mobile, SubscriberID: requested.SubscriberID, Traceparent: r.Header.Get("Traceparent"), At: s.now(),
	})
	stands, err := s.book.void(call)
	if err != nil || stands.State == unknowable {
		unavailable(w)
		return
	}
	respond(w, stands.toVoid())
}

// status handles a status call.
func (s *Simulator) status(w http.ResponseWriter, r *http.Request) {
	references := r.URL.Query()["reference"]
	if len(references) != 1 || references[0] == "" {
		refuse(w, http.StatusBadRequest, "one reference is needed in the query")
		return
	}
	call := s.book.logCall(Call{Reference: references[0], Kind: "status", Traceparent: r.Header.Get("Traceparent"), At: s.now()})
	stands := s.book.lookup(call)
	if stands.State == unknowable {
		s.book.setAnswer(call, "503")
		unavailable(w)
		return
	}
	said := stands.toStatus()
	s.book.setAnswer(call, said.Status)
	respond(w, said)
}

// catalogue lists the components for sale.
func (s *Simulator) catalogue(w http.ResponseWriter, _ *http.Request) {
	call := s.book.logCall(Call{Kind: "catalogue", At: s.now()})
	if s.settings.catalogueIsDown() {
		s.book.setAnswer(call, "503")
		unavailable(w)
		return
	}
	type component struct {
		Code string         `json:"code"`
		Name string         `json:"name"`
		Role catalogue.Role `json:"role"`
	}
	listed := []component{}
	for _, c := range s.settings.sellable() {
		listed = append(listed, component{c.Code, c.Name, c.Role})
	}
	s.book.setAnswer(call, "listed")
	respond(w, map[string]any{"components": listed})
}

// faultOf returns the message of an invalid order, or an empty string.
func (r request) faultOf(kind string) string {
	switch {
	case r.SubscriberID == "":
		return "The order names no subscriber."
	case !isMobile(r.Mobile):
		return "The mobile number does not have ten digits."
	case kind == kindPassword && r.Password == "":
		return "The order brings no password."
	case kind == kindReversal && r.Order == "":
		return "The reversal names no order."
	case kind == kindContact && r.Version < 1:
		return "The contact data has no version."
	case !isPaid(kind):
		return ""
	case r.Months < 1:
		return "The order is for no time at all."
	}
	if _, err := time.Parse(time.DateOnly, r.StartDate); r.StartDate != "" && err != nil {
		return "The start date is not a date."
	}
	if _, err := time.Parse(time.RFC3339, r.ExpiresAt); r.ExpiresAt != "" && err != nil {
		return "The expiry is not a time."
	}
	return ""
}

// readRequest reads a body to its end, because the server detects a closed
// connection only after that.
func readRequest(w http.ResponseWriter, r *http.Request) (request, bool) {
	var requested request
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if media != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, "the body must be application/json")
		return requested, false
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		refuse(w, http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", maxBody)
		return requested, false
	}
	if err != nil {
		drop()
	}
	if err := json.Unmarshal(text, &requested); err != nil {
		refuse(w, http.StatusBadRequest, "the body is not the JSON object of an order")
		return requested, false
	}
	if requested.Reference == "" {
		refuse(w, http.StatusBadRequest, "the order has no reference")
		return requested, false
	}
	return requested, true
}

func respond(w http.ResponseWriter, body any) { write(w, http.StatusOK, body) }

// refuse answers a request outside the protocol. It is not a reply to an order.
func refuse(w http.ResponseWriter, code int, format string, args ...any) {
	write(w, code, map[string]string{"error": fmt.Sprintf(format, args...)})
}

// unavailable answers as a proxy before a dead provider would.
func unavailable(w http.ResponseWriter) {
	http.Error(w, "upstream unavailable", http.StatusServiceUnavailable)
}

func write(w http.ResponseWriter, code int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		drop()
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	// The caller may have disconnected.
	_, _ = w.Write(append(text, '\n'))
}
