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

// request is the body of a call. The password is looked at to see whether there
// is one, and goes no further.
type request struct {
	Reference    string `json:"reference"`
	SubscriberID string `json:"subscriber_id"`
	Mobile       string `json:"mobile"`
	Component    string `json:"component"`
	Months       int    `json:"months"`
	StartDate    string `json:"start_date"`
	ExpiresAt    string `json:"expires_at"`
	Name         string `json:"name"`
	Email        string `json:"email"`
	Password     string `json:"password"`
}

// answer is what the protocol says about a reference.
type answer struct {
	Reference    string `json:"reference"`
	Status       string `json:"status"`
	SubscriberID string `json:"subscriber_id,omitempty"`
	Mobile       string `json:"mobile,omitempty"`
	Component    string `json:"component,omitempty"`
	Transaction  string `json:"transaction_id,omitempty"`
	Message      string `json:"message,omitempty"`
}

// applying answers orders of one kind.
func (s *Simulator) applying(kind operation.Kind) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if asked, ok := readRequest(w, r); ok {
			s.order(w, r, asked, string(kind))
		}
	}
}

// kindPassword is what the books call a reset of a customer's password: an order
// of no component, for no time.
const kindPassword = "reset_password"

// resetPassword answers orders for a new app password. What the password is goes
// no further than into whether there is one.
func (s *Simulator) resetPassword(w http.ResponseWriter, r *http.Request) {
	if asked, ok := readRequest(w, r); ok {
		asked.Component = ""
		s.order(w, r, asked, kindPassword)
	}
}

// order takes an order into the books, or answers for one that is there.
func (s *Simulator) order(w http.ResponseWriter, r *http.Request, asked request, kind string) {
	call := s.book.hear(Call{
		Reference: asked.Reference, Kind: kind, Component: asked.Component,
		Mobile: asked.Mobile, SubscriberID: asked.SubscriberID, Months: asked.Months,
		StartDate: asked.StartDate, ExpiresAt: asked.ExpiresAt,
		PasswordGiven: asked.Password != "", At: s.now(),
	})
	found, standing := s.book.take(order{
		Reference: asked.Reference, Kind: kind, Component: asked.Component,
		Mobile: asked.Mobile, SubscriberID: asked.SubscriberID,
	})
	switch standing {
	case another:
		// A rejection would say that the reference was never carried
		// out, which may not be true.
		s.book.answered(call, "conflict")
		refuse(w, http.StatusConflict, "the reference was used for another order")
	case known:
		said := found.toOrder()
		s.book.answered(call, said.Status)
		respond(w, said)
	case taken:
		s.carryOut(w, r, asked, call)
	}
}

// carryOut does with an order what its outcome says.
func (s *Simulator) carryOut(w http.ResponseWriter, r *http.Request, asked request, call *Call) {
	role, sold := s.steering.roleOf(asked.Component)
	outcome := s.steering.next(asked.Mobile, role)
	s.book.meets(call, outcome)

	why := asked.faultOf(call.Kind)
	if why == "" && !sold && call.Kind != kindPassword {
		why = fmt.Sprintf("The component %s is not for sale.", asked.Component)
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
		s.book.letGo(call, "none")
		s.hold(r)
	case GatewayError:
		s.book.letGo(call, "503")
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

// finish writes a decision into the books, and then says what it says.
func (s *Simulator) finish(w http.ResponseWriter, call *Call, made decision, say func(answer)) {
	stands, err := s.book.decide(call, made)
	if err != nil {
		// What cannot be remembered is not done.
		unavailable(w)
		return
	}
	say(stands.toOrder())
}

// void takes a reference out of what may be carried out.
func (s *Simulator) void(w http.ResponseWriter, r *http.Request) {
	asked, ok := readRequest(w, r)
	if !ok {
		return
	}
	call := s.book.hear(Call{
		Reference: asked.Reference, Kind: "void", Component: asked.Component,
		Mobile: asked.Mobile, SubscriberID: asked.SubscriberID, At: s.now(),
	})
	stands, err := s.book.void(call)
	if err != nil || stands.State == unknowable {
		unavailable(w)
		return
	}
	respond(w, stands.toVoid())
}

// status says what became of a reference.
func (s *Simulator) status(w http.ResponseWriter, r *http.Request) {
	references := r.URL.Query()["reference"]
	if len(references) != 1 || references[0] == "" {
		refuse(w, http.StatusBadRequest, "one reference is needed in the query")
		return
	}
	call := s.book.hear(Call{Reference: references[0], Kind: "status", At: s.now()})
	stands := s.book.look(call)
	if stands.State == unknowable {
		s.book.answered(call, "503")
		unavailable(w)
		return
	}
	said := stands.toStatus()
	s.book.answered(call, said.Status)
	respond(w, said)
}

// catalogue lists what is for sale.
func (s *Simulator) catalogue(w http.ResponseWriter, _ *http.Request) {
	call := s.book.hear(Call{Kind: "catalogue", At: s.now()})
	if s.steering.catalogueIsDown() {
		s.book.answered(call, "503")
		unavailable(w)
		return
	}
	type component struct {
		Code string         `json:"code"`
		Name string         `json:"name"`
		Role catalogue.Role `json:"role"`
	}
	listed := []component{}
	for _, c := range s.steering.sellable() {
		listed = append(listed, component{c.Code, c.Name, c.Role})
	}
	s.book.answered(call, "listed")
	respond(w, map[string]any{"components": listed})
}

// faultOf says what is wrong with an order, for the customer's operator.
func (r request) faultOf(kind string) string {
	switch {
	case r.SubscriberID == "":
		return "The order names no subscriber."
	case !isMobile(r.Mobile):
		return "The mobile number does not have ten digits."
	case kind == kindPassword && r.Password == "":
		return "The order brings no password."
	case kind == kindPassword:
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

// readRequest reads a body to its end, without which the server would not notice
// that a caller has gone.
func readRequest(w http.ResponseWriter, r *http.Request) (request, bool) {
	var asked request
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if media != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, "the body must be application/json")
		return asked, false
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		refuse(w, http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", maxBody)
		return asked, false
	}
	if err != nil {
		drop()
	}
	if err := json.Unmarshal(text, &asked); err != nil {
		refuse(w, http.StatusBadRequest, "the body is not the JSON object of an order")
		return asked, false
	}
	if asked.Reference == "" {
		refuse(w, http.StatusBadRequest, "the order has no reference")
		return asked, false
	}
	return asked, true
}

func respond(w http.ResponseWriter, body any) { write(w, http.StatusOK, body) }

// refuse answers a call that is not of the protocol. It is no answer to an
// order.
func refuse(w http.ResponseWriter, code int, format string, args ...any) {
	write(w, code, map[string]string{"error": fmt.Sprintf(format, args...)})
}

// unavailable answers as the thing in front of a dead provider would.
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
	// Whoever asked may be gone; there is nobody to tell.
	_, _ = w.Write(append(text, '\n'))
}
