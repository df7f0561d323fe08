package panel

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

func (p panel) orderRoutes() []web.Route {
	const renew, advance = "/panel/subscribers/{id}/renew", "/panel/subscribers/{id}/advance-renew"
	return []web.Route{
		{Method: http.MethodGet, Path: "/panel/activate", Area: web.Panel, Allow: counters, FormOnly: true, Keys: "n", Menu: look.Text("Activate"), Icon: "user-plus", Handle: p.activateForm},
		{Method: http.MethodPost, Path: "/panel/activate", Area: web.Panel, Allow: counters, Handle: p.activate},
		{Method: http.MethodGet, Path: renew, Area: web.Panel, Allow: counters, FormOnly: true, Handle: p.renewForm(operation.Renew)},
		{Method: http.MethodPost, Path: renew, Area: web.Panel, Allow: counters, Handle: p.renew(operation.Renew)},
		{Method: http.MethodGet, Path: advance, Area: web.Panel, Allow: counters, FormOnly: true, Handle: p.renewForm(operation.AdvanceRenew)},
		{Method: http.MethodPost, Path: advance, Area: web.Panel, Allow: counters, Handle: p.renew(operation.AdvanceRenew)},
	}
}

// orderPage is the form of an activation or renewal, with its quote.
type orderPage struct {
	Kind       operation.Kind
	Subscriber report.SubscriberDetail // of a renewal
	Standing   string
	Choices    []look.Choice
	Areas      []string // of an activation, to choose from
	// Key is the form's idempotency key, made when the form is first shown: however often
	// it is sent, it is one purchase.
	Key    string
	Fields map[string]string
	Quote  *operation.Quote
	Held   money.Amount // by other operations
	// Recent is the last renewal, if it was less than recently ago: another clerk may just have
	// been paid for it. Ample: there is no such renewal, and more days are left than ampleDays.
	Recent string // in the visitor's language
	Ample  bool
	// Box is set if another subscriber has the box number of an activation.
	Box *sharedBox
	refusal
}

const (
	// recently is how long after a renewal another one looks like a mistake.
	recently = 24 * time.Hour
	// ampleDays is how many days may be left before a renewal looks like a mistake.
	ampleDays = 25
)

// noteRecent fills in what speaks against another renewal now.
func (o *orderPage) noteRecent(v *web.Visit) {
	for _, op := range o.Subscriber.Timeline {
		if op.Kind == operation.Activate || op.State != operation.Success || op.Reversed() || v.Now.Sub(op.CompletedAt) > recently {
			continue
		}
		at := op.CompletedAt.In(subscription.IST).Format("15:04")
		said := v.T("Renewed yesterday at %s (%s, %s).", at, op.PlanName, look.Rupees(op.Amount))
		if report.Day(op.CompletedAt).Equal(report.Day(v.Now)) {
			said = v.T("Renewed today at %s (%s, %s).", at, op.PlanName, look.Rupees(op.Amount))
		}
		o.Recent = said
		return
	}
	o.Ample = o.Kind == operation.Renew && o.Subscriber.DaysLeft > ampleDays
}

// Advance reports whether the form books the next cycle and leaves the present one.
func (o orderPage) Advance() bool { return o.Kind == operation.AdvanceRenew }

// Ready reports whether the order can be confirmed.
func (o orderPage) Ready() bool { return o.Quote != nil && o.Problem == "" }

// Path returns the URL that the form is posted to.
func (o orderPage) Path() string {
	switch o.Kind {
	case operation.Renew:
		return "/panel/subscribers/" + o.Subscriber.ID + "/renew"
	case operation.AdvanceRenew:
		return "/panel/subscribers/" + o.Subscriber.ID + "/advance-renew"
	}
	return "/panel/activate"
}

// Keys of the panel's forms have a prefix, so that a form cannot replay an operation of the
// API or of a bulk job.
var keyShape = regexp.MustCompile(`^web-[A-Z2-7]{26}$`)

func newKey() string { return "web-" + rand.Text() }

// request returns the form as a request for an operation.
func (p panel) request(v *web.Visit, page orderPage) operation.Request {
	// A map of strings always encodes to the same JSON: its names are sorted.
	content, err := json.Marshal(page.Fields)
	if err != nil {
		panic(err)
	}
	return operation.Request{
		OperatorID: v.Operator(), Channel: operation.Web, Actor: v.Actor(), IdempotencyKey: page.Key,
		Kind: page.Kind, Fields: page.Fields, Content: content,
	}
}

// offer fills in the plans to choose from.
func (p panel) offer(v *web.Visit, page *orderPage) error {
	plans, err := p.Plans.Plans(v.Context())
	if err != nil {
		if fault.CodeOf(err) == fault.InternalError {
			return err
		}
		page.refusal = explain(v, err)
		return nil
	}
	if page.Fields["plan_id"] == "" {
		page.Choices = append(page.Choices, look.Choice{Text: v.T("Choose a plan")})
	}
	for _, plan := range plans {
		page.Choices = append(page.Choices, look.Choice{Value: plan.ID, Text: plan.Name + ": " + look.Rupees(plan.Price)})
	}
	return nil
}

// readHeld fills in the money that is held, which is not part of a quote.
func (p panel) readHeld(v *web.Visit, page *orderPage) error {
	if page.Quote == nil {
		return nil
	}
	wallet, err := p.Report.Wallet(v.Context(), v.Operator())
	page.Held = wallet.Held
	return err
}

// quote fills in what the order would cost. If the form was sent before, it returns the
// transaction's page to redirect to.
func (p panel) quote(v *web.Visit, page *orderPage) (known string) {
	quote, err := p.Operations.Preview(v.Context(), p.request(v, *page))
	switch {
	case err != nil && fault.CodeOf(err) == fault.IdempotencyKeyReused:
		// The visitor went back to a form that was sent, and changed it. That
		// is another purchase, to be agreed to by itself.
		page.Key = newKey()
		return p.quote(v, page)
	case err != nil && fault.CodeOf(err) == fault.RequestInProgress:
		return p.known(v.Context(), v.Operator(), page.Key)
	case err == nil && quote.TransactionID != "":
		return quote.TransactionID
	case err != nil:
		page.refusal = explain(v, err)
	}
	if quote.Plan.ID != "" {
		page.Quote = &quote
	}
	return ""
}

// known returns the transaction of a form's key; empty if there is none.
func (p panel) known(ctx context.Context, operatorID int64, key string) string {
	op, err := p.Operations.Transaction(ctx, operatorID, "", key)
	if err != nil {
		return ""
	}
	return op.ID
}

// buy carries out a confirmed order and redirects to its transaction; after a refusal it
// shows the form again as it was filled in.
func (p panel) buy(v *web.Visit, page orderPage, again func(orderPage) error) error {
	operator, err := p.Operators.Operator(v.Context(), v.Operator())
	if err != nil {
		return err
	}
	if operator.Status != subscription.OperatorActive {
		page.Quote, page.refusal = nil, explain(v, fault.New(fault.LCOInactive, "The account is suspended."))
		p.log(v, page, page.Code)
		return again(page)
	}
	// The price may have changed since it was shown, and no price is charged that was not
	// shown. A form that was sent before keeps its price and its result.
	if known := p.quote(v, &page); known != "" {
		// One that a restored store had forgotten learns its key and its customer's name.
		if err := p.Operations.Claim(context.WithoutCancel(v.Context()), p.request(v, page)); err != nil {
			return err
		}
		p.logAgain(v, page, known)
		return v.Redirect("/panel/transactions/"+known, nil)
	}
	switch {
	case !page.Ready():
		p.log(v, page, page.Code)
		return again(page)
	case page.Key != v.Field("key"):
		page.Notice = v.T("This form was sent before with other values. Check it again before you pay.")
		return again(page)
	case page.Quote.Amount.String() != v.Field("amount"):
		page.Notice = v.T("The price has changed since it was shown. Check it again before you pay.")
		return again(page)
	}
	result, err := p.Operations.Process(v.Context(), p.request(v, page))
	if err != nil {
		// The visitor hung up, or the form was sent twice at once: if there is an
		// operation, its page shows the state.
		if known := p.known(context.WithoutCancel(v.Context()), v.Operator(), page.Key); known != "" {
			p.logAgain(v, page, known)
			return v.Redirect("/panel/transactions/"+known, nil)
		}
		page.Quote, page.refusal = nil, explain(v, err)
		p.log(v, page, page.Code)
		return again(page)
	}
	p.log(v, page, result.Code())
	if result.Password == "" {
		return v.Redirect("/panel/transactions/"+result.ID, nil)
	}
	// The password is stored nowhere, so it is shown in the response to the form. Sent
	// again, the form leads to the same transaction without it.
	return p.showOperation(v, result.Operation, result.Password)
}

// log puts an order into the request log, beside those of the operator's programs.
func (p panel) log(v *web.Visit, page orderPage, code fault.Code) {
	p.Requests.Record(requestlog.Entry{
		At: v.Now, OperatorID: v.Operator(), KeyHint: v.Session.Person.Username, Method: v.R.Method, Path: page.Path(),
		Status: p.StatusOf(code), Code: code, Address: v.Address, RequestID: v.RequestID, Took: v.Elapsed(), IdempotencyKey: page.Key,
		PlanID: page.PlanID,
	})
}

// logAgain logs a form that was sent before, with the result of its order.
func (p panel) logAgain(v *web.Visit, page orderPage, id string) {
	if op, err := p.Operations.Transaction(context.WithoutCancel(v.Context()), v.Operator(), id, ""); err == nil {
		p.log(v, page, op.Code())
	}
}

// key returns the form's key, or a new one.
func key(v *web.Visit) string {
	if brought := v.Field("key"); keyShape.MatchString(brought) {
		return brought
	}
	return newKey()
}

// activationFields are the fields of an activation's form.
var activationFields = []string{"full_name", "mobile", "plan_id", "email", "area", "address", "box_number", "notes", "connection_type"}

// mobileOf returns the ten digits of a number that may have +91, blanks and hyphens in it. What is not
// a mobile number stays as it is, to be refused.
func mobileOf(text string) string {
	if mobile, ok := subscription.ReadMobile(text); ok {
		return mobile
	}
	return text
}

func (p panel) activateForm(v *web.Visit) error {
	page := orderPage{Kind: operation.Activate, Key: newKey(), Fields: map[string]string{
		"mobile": mobileOf(v.Query("mobile")), "full_name": v.Query("name"), "plan_id": v.Query("plan"),
	}}
	return p.showActivation(v, page)
}

func (p panel) showActivation(v *web.Visit, page orderPage) error {
	if page.Problem != "" {
		v.Status = http.StatusUnprocessableEntity
	}
	if page.Code == fault.SubscriberExists {
		known, err := p.Operations.Subscription(v.Context(), v.Operator(), "", page.Fields["mobile"])
		switch {
		case err == nil:
			page.Known = known.ID
		case fault.CodeOf(err) != fault.SubscriberNotFound: // with another operator
			return err
		}
	}
	if err := p.offer(v, &page); err != nil {
		return err
	}
	if err := p.readHeld(v, &page); err != nil {
		return err
	}
	var err error
	if !page.Ready() {
		if page.Areas, err = p.Report.Areas(v.Context(), v.Operator()); err != nil {
			return err
		}
		return v.Show("panel/activate", page)
	}
	if page.Box, err = p.sharedBox(v, page.Fields["box_number"], ""); err != nil {
		return err
	}
	return v.Show("panel/activate-confirm", page)
}

func (p panel) activate(v *web.Visit) error {
	page := orderPage{Kind: operation.Activate, Key: key(v), Fields: map[string]string{}}
	for _, name := range activationFields {
		if value := v.Field(name); value != "" {
			// A browser sends a line break as two characters, and counts it as one
			// towards maxlength.
			page.Fields[name] = strings.ReplaceAll(value, "\r\n", "\n")
		}
	}
	if mobile, given := page.Fields["mobile"]; given {
		page.Fields["mobile"] = mobileOf(mobile)
	}
	// Blanks are part of a password, so it is not trimmed.
	if password := v.R.PostForm.Get("password"); password != "" {
		page.Fields["password"] = password
	}
	show := func(page orderPage) error { return p.showActivation(v, page) }
	switch v.Field("step") {
	case "confirm":
		return p.buy(v, page, show)
	case "edit":
		return show(page)
	}
	if known := p.quote(v, &page); known != "" {
		return v.Redirect("/panel/transactions/"+known, nil)
	}
	return show(page)
}

// renewForm shows the quote of a renewal, for the chosen plan or the subscriber's own.
func (p panel) renewForm(kind operation.Kind) func(*web.Visit) error {
	return func(v *web.Visit) error {
		page, err := p.renewal(v, kind, v.Query("plan_id"))
		if err != nil {
			return err
		}
		page.Key = newKey()
		if page.Fields["plan_id"] != "" {
			p.quote(v, &page)
		}
		return p.showRenewal(v, page)
	}
}

func (p panel) renew(kind operation.Kind) func(*web.Visit) error {
	return func(v *web.Visit) error {
		page, err := p.renewal(v, kind, v.Field("plan_id"))
		if err != nil {
			return err
		}
		page.Key = key(v)
		return p.buy(v, page, func(page orderPage) error {
			v.Status = http.StatusUnprocessableEntity
			return p.showRenewal(v, page)
		})
	}
}

// renewal returns the form for one of the operator's own subscribers.
func (p panel) renewal(v *web.Visit, kind operation.Kind, planID string) (orderPage, error) {
	detail, err := p.found(v)
	if err != nil {
		return orderPage{}, err
	}
	if planID == "" && kind == operation.Renew {
		planID = detail.PlanID
	}
	page := orderPage{
		Kind: kind, Subscriber: detail, Standing: standing(detail.Expires, v.Now),
		Fields: map[string]string{"subscriber_id": detail.ID, "plan_id": planID},
	}
	page.noteRecent(v)
	return page, nil
}

func (p panel) showRenewal(v *web.Visit, page orderPage) error {
	if err := p.readHeld(v, &page); err != nil {
		return err
	}
	if err := p.offer(v, &page); err != nil {
		return err
	}
	if v.ByHTMX() {
		return v.ShowPart("panel/renew", "order", page)
	}
	return v.Show("panel/renew", page)
}
