// Package reconcile compares what the provider says that it has carried out with our operations, and
// finds how a forgotten order becomes an operation again. It knows no HTTP and no SQL, changes nothing
// itself, and guesses nothing: what it cannot tell, it leaves to a person.
package reconcile

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// Kind is the kind of a difference.
type Kind string

// The kinds of differences. Operations that are processing or in review are none: review settles them,
// also in maintenance.
const (
	// OursOnly: charged here, and not in the provider's list.
	OursOnly Kind = "ours_only"
	// TheirsOnly: carried out there, and unknown here.
	TheirsOnly Kind = "theirs_only"
	// Differs: known on both sides, and not the same.
	Differs Kind = "differs"
)

// Difference is one difference between the provider's list and our operations.
type Difference struct {
	Kind Kind
	// TransactionID is our operation's, or what it was before it was forgotten. Reference is the
	// provider's of the main component, or of the add-on if only that differs.
	TransactionID string
	Reference     string
	// HasClientKey: the order carries a client key, so that a repeated request is recognised.
	HasClientKey bool

	OperatorID   int64 // zero if it is not known
	Operation    operation.Kind
	SubscriberID string
	Mobile       string
	Components   []string
	Months       int
	// PlanID and Amount are our operation's, or those that it would be adopted with; empty if they
	// are not known.
	PlanID string
	Amount money.Amount
	State  operation.State // of our operation

	CreatedAt    time.Time // of our operation
	CarriedOutAt time.Time // by the provider
	ExpiresAt    time.Time
	// ProviderTransaction is the provider's number.
	ProviderTransaction string

	// Detail says what differs, Suggestion what to do about it on the command line.
	Detail     string
	Suggestion string
	// ReversedBy is the reversal under which the provider has undone the order. For an operation that
	// is not reversed here, it can be carried out here, too.
	ReversedBy string
	// Missing is what a person has to give before a forgotten order can be adopted, Obstacle why it
	// cannot be adopted whatever they give. Both are empty for other differences.
	Missing  Missing
	Obstacle string

	reversal bool // it is reversed on one side only

	main   *operation.ListedOrder
	addon  *operation.ListedOrder
	addons int // how often the add-on was rejected before
}

// At is the time of a difference, for its order in a list.
func (d Difference) At() time.Time {
	if d.CarriedOutAt.IsZero() {
		return d.CreatedAt
	}
	return d.CarriedOutAt
}

// slack is how much more of the provider's list is read than the window has: for clocks that differ and
// for orders that were carried out after their day.
const slack = time.Hour

// Window is the time that is compared.
type Window struct {
	From time.Time
	// Until is exclusive; zero is now.
	Until time.Time
}

// Day returns the window of an Indian day, written as 2006-01-02.
func Day(text string) (Window, error) {
	day, err := time.ParseInLocation(time.DateOnly, text, subscription.IST)
	if err != nil {
		return Window{}, fmt.Errorf("%q is no day: write it like 2027-03-01", text)
	}
	return Window{From: day, Until: day.Add(24 * time.Hour)}, nil
}

// Since returns the window from a moment until now. The moment is written in RFC 3339, or as a day.
func Since(text string) (Window, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return Window{From: at}, nil
	}
	day, err := Day(text)
	if err != nil {
		return Window{}, fmt.Errorf("%q is no time: write it like 2027-03-01T12:00:00+05:30, or as a day like 2027-03-01", text)
	}
	return Window{From: day.From}, nil
}

// String writes the window for people.
func (w Window) String() string {
	if !w.Until.IsZero() {
		return w.From.In(subscription.IST).Format(time.DateOnly)
	}
	return "since " + w.From.In(subscription.IST).Format("2006-01-02 15:04:05")
}

// has reports whether a listed order is compared. Without an end also one in the slack before is: a
// forgotten order must not be lost to a clock.
func (w Window) has(carriedOut time.Time) bool {
	return w.Until.IsZero() || !carriedOut.Before(w.From) && carriedOut.Before(w.Until)
}

// Books are our operations.
type Books interface {
	OperationsByID(ctx context.Context, ids []string) ([]operation.Operation, error)
	// PendingReversal reads the reversal of an operation that the provider is asked about.
	PendingReversal(ctx context.Context, operationID string) (r operation.Reversal, pending bool, err error)
	// Successes lists successful operations that were created in a window, oldest first, after
	// another one.
	Successes(ctx context.Context, w Window, after operation.Operation, limit int) ([]operation.Operation, error)
	Adopters
}

// Comparison compares the provider's list with our operations.
type Comparison struct {
	Provider operation.OrderLister
	Books    Books
	Now      func() time.Time
	Choice   Choice
	// ReversalAge is how long after its success an operation can be reversed. A window without an end
	// reads the list from so much earlier: what was sold before may have been undone in the window.
	ReversalAge time.Duration
	// Progress is called with the number of orders that have been read; may be nil.
	Progress func(orders int)

	window Window
	// began is when the comparison began.
	began time.Time
	// listed has every reference of the list by its hash, with the hash of the provider's
	// transaction.
	listed    map[[16]byte][8]byte
	forgotten map[string]*Difference
	found     []*Difference
	orders    int
	// owners are where forgotten orders came from, by client key.
	owners   map[string]KeyOwner
	versions []subscription.Plan
}

// Report is the result of a comparison.
type Report struct {
	Differences []Difference
	// Undone are the orders that are not known here and that the provider has undone since: nothing is
	// to be done about them.
	Undone []Difference
	// Orders is how many orders of the list were read, Operations how many of ours compared.
	Orders, Operations int
}

// Run compares a window. The provider's list is read first and our operations after it, so that a listed
// order has been reserved here. The error is operation.ErrListUnsupported if the provider has no list.
func (c *Comparison) Run(ctx context.Context, w Window) (Report, error) {
	c.window, c.listed, c.forgotten = w, map[[16]byte][8]byte{}, map[string]*Difference{}
	began := c.Now()
	c.began = began
	pages := &pager{provider: c.Provider, since: w.From.Add(-slack)}
	if w.Until.IsZero() {
		pages.since = pages.since.Add(-c.ReversalAge)
	}
	// past: the rest of the list is after the window.
	past := func(page []operation.ListedOrder) bool {
		return !w.Until.IsZero() && len(page) > 0 && page[len(page)-1].CarriedOutAt.After(w.Until.Add(slack))
	}
	for !pages.ended {
		page, err := pages.next(ctx)
		if err != nil {
			return Report{}, err
		}
		if err := c.comparePage(ctx, page); err != nil {
			return Report{}, err
		}
		if past(page) {
			break
		}
	}
	operations, missing, err := c.missing(ctx, began)
	if err != nil {
		return Report{}, err
	}
	// What is missing may have been carried out later: an order can wait at the provider for hours.
	if missing, err = c.readOn(ctx, pages, missing); err != nil {
		return Report{}, err
	}
	// An add-on may have been carried out since its page was read.
	orders := c.orders
	if missing, err = c.readOn(ctx, &pager{provider: c.Provider, since: began.Add(-slack)}, missing); err != nil {
		return Report{}, err
	}
	c.orders = orders
	for _, op := range missing {
		c.found = append(c.found, oursOnly(op, c.unlisted(op)))
	}
	c.dropReversedAddons()
	undone := []*Difference{}
	for _, d := range c.forgotten {
		if d.ReversedBy != "" {
			d.Detail = "the provider carried it out, and undid it as " + d.ReversedBy + ": nothing is to be done"
			undone = append(undone, d)
			continue
		}
		c.found = append(c.found, d)
	}
	byTime := func(a, b *Difference) int {
		return cmp.Or(a.At().Compare(b.At()), cmp.Compare(a.Reference, b.Reference))
	}
	slices.SortFunc(c.found, byTime)
	slices.SortFunc(undone, byTime)
	report := Report{Differences: []Difference{}, Orders: c.orders, Operations: operations}
	for _, d := range undone {
		report.Undone = append(report.Undone, *d)
	}
	if err := c.plan(ctx); err != nil {
		return Report{}, err
	}
	for _, d := range c.found {
		report.Differences = append(report.Differences, *d)
	}
	return report, nil
}

// readOn reads the list until it has what is missing, and returns what it does not have.
func (c *Comparison) readOn(ctx context.Context, pages *pager, missing []operation.Operation) ([]operation.Operation, error) {
	for !pages.ended && len(missing) > 0 {
		page, err := pages.next(ctx)
		if err != nil {
			return nil, err
		}
		c.note(page)
		missing = slices.DeleteFunc(missing, func(op operation.Operation) bool { return len(c.unlisted(op)) == 0 })
	}
	return missing, nil
}

// pager reads a provider's list page by page.
type pager struct {
	provider operation.OrderLister
	since    time.Time
	cursor   string
	ended    bool
}

func (p *pager) next(ctx context.Context) ([]operation.ListedOrder, error) {
	page, err := p.provider.ListOrders(ctx, p.since, p.cursor)
	if err != nil {
		return nil, err
	}
	p.cursor, p.ended = page.Next, page.Next == ""
	return page.Orders, nil
}

// lookupSize is how many operations are looked up at a time.
const lookupSize = 500

// comparePage compares a page of the list with our operations.
func (c *Comparison) comparePage(ctx context.Context, page []operation.ListedOrder) error {
	twice := c.note(page)
	// Of what is too early to be compared, only the reversals are.
	page = slices.DeleteFunc(slices.Clone(page), func(o operation.ListedOrder) bool { return c.early(o) && o.ReversedBy == "" })
	for batch := range slices.Chunk(page, lookupSize) {
		var ids []string
		for _, order := range batch {
			id, _, _ := splitReference(order.Reference)
			ids = append(ids, id)
		}
		slices.Sort(ids)
		known, err := c.Books.OperationsByID(ctx, slices.Compact(ids))
		if err != nil {
			return err
		}
		ours := make(map[string]operation.Operation, len(known))
		for _, op := range known {
			ours[op.ID] = op
		}
		for _, order := range batch {
			if !c.window.has(order.CarriedOutAt) {
				continue
			}
			id, addon, attempt := splitReference(order.Reference)
			op, is := ours[id]
			if !is {
				if !c.early(order) {
					c.forget(id, addon, attempt, order)
				}
				continue
			}
			d, err := c.reversalDiffers(ctx, op, order)
			if err != nil {
				return err
			}
			if d == nil && !c.early(order) {
				d = differs(op, addon, order, twice[order.Reference])
			}
			if d != nil {
				c.found = append(c.found, d)
			}
		}
	}
	return nil
}

// note remembers the references of a page, and returns those that the list has under two of the
// provider's transactions.
func (c *Comparison) note(page []operation.ListedOrder) map[string]bool {
	twice := map[string]bool{}
	for _, order := range page {
		reference, transaction := hash[[16]byte](order.Reference), hash[[8]byte](order.Transaction)
		if before, is := c.listed[reference]; is && before != transaction {
			twice[order.Reference] = true
		}
		c.listed[reference] = transaction
		if !c.early(order) {
			c.orders++
		}
	}
	if c.Progress != nil {
		c.Progress(c.orders)
	}
	return twice
}

// early reports whether an order is listed only because it may have been undone in the window.
func (c *Comparison) early(order operation.ListedOrder) bool {
	return order.CarriedOutAt.Before(c.window.From.Add(-slack - time.Second)) // providers list whole seconds
}

func hash[T [8]byte | [16]byte](text string) (short T) {
	sum := sha256.Sum256([]byte(text))
	switch into := any(&short).(type) {
	case *[8]byte:
		copy(into[:], sum[:])
	case *[16]byte:
		copy(into[:], sum[:])
	}
	return short
}

// splitReference returns the transaction id of a reference, whether it is the add-on's, and how often
// the add-on had been rejected before.
func splitReference(reference string) (id string, addon bool, attempt int) {
	id, rest, addon := strings.Cut(reference, "-2")
	if !addon {
		return reference, false, 0
	}
	if rest != "" {
		n, err := strconv.Atoi(strings.TrimPrefix(rest, "."))
		if err != nil || rest[0] != '.' || n < 1 {
			return reference, false, 0 // of some other form
		}
		attempt = n
	}
	return id, true, attempt
}

// forget adds an order to the forgotten operation that it is a part of.
func (c *Comparison) forget(id string, addon bool, attempt int, order operation.ListedOrder) {
	d := c.forgotten[id]
	if d == nil {
		d = &Difference{Kind: TheirsOnly, TransactionID: id}
		c.forgotten[id] = d
	}
	if d.main == nil {
		d.Reference, d.Operation, d.SubscriberID, d.Mobile = order.Reference, order.Kind, order.SubscriberID, order.Mobile
		d.CarriedOutAt, d.ExpiresAt, d.ProviderTransaction, d.Months = order.CarriedOutAt, order.ExpiresAt, order.Transaction, order.Months
		d.HasClientKey = order.ClientKey != ""
	}
	if addon {
		d.addon, d.addons = &order, attempt
		d.Components = append(d.Components, order.Component)
	} else {
		d.main = &order
		d.Components = append([]string{order.Component}, d.Components...)
	}
	d.ReversedBy = order.ReversedBy
	for _, part := range []*operation.ListedOrder{d.main, d.addon} {
		if part != nil && part.ReversedBy == "" {
			d.ReversedBy = "" // not all of it
		}
	}
}

// differs returns the difference between an order and its operation; nil if there is none.
func differs(op operation.Operation, addon bool, order operation.ListedOrder, twice bool) *Difference {
	// What was refunded here and undone there costs nobody anything.
	if op.State.Open() || op.State == operation.Failed && order.ReversedBy != "" {
		return nil
	}
	var what []string
	add := func(differs bool, format string, args ...any) {
		if differs {
			what = append(what, fmt.Sprintf(format, args...))
		}
	}
	component := op.Main
	if addon {
		component = op.Addon
	}
	add(op.State == operation.Failed, "it failed here (%s) and was refunded, and the provider carried it out", op.Reason)
	add(order.Kind != op.Kind, "it is %s here and %s there", op.Kind, order.Kind)
	add(order.SubscriberID != op.SubscriberID, "it is for subscriber %s here and %s there", op.SubscriberID, order.SubscriberID)
	add(order.Mobile != op.Mobile, "its mobile number is %s here and %s there", op.Mobile, order.Mobile)
	add(order.Component != component, "its component is %s here and %s there", cmp.Or(component, "none"), order.Component)
	add(order.Months != 0 && order.Months != op.PlanMonths, "it is for %d months here and %d there", op.PlanMonths, order.Months)
	add(!order.ExpiresAt.IsZero() && order.ExpiresAt.Sub(op.ExpiryPlanned).Abs() >= time.Second,
		"it runs until %s here and %s there", moment(op.ExpiryPlanned), moment(order.ExpiresAt))
	// What was rejected last is ordered under a new reference, and may be carried out before the answer is here.
	rejected := op.AddonState == operation.AddonFailed && order.Reference != op.AddonReference()
	add(addon && order.ReversedBy == "" && op.State == operation.Success && (op.AddonState == operation.AddonClosed || rejected),
		"its add-on is %s here, and the provider carried it out", op.AddonState)
	other := !addon && op.ProviderTransaction != "" && order.Transaction != op.ProviderTransaction
	add(other, "the provider carried it out as %s here and as %s there: perhaps twice", op.ProviderTransaction, order.Transaction)
	add(twice && !other, "the provider lists it twice, under different numbers, the last %s", order.Transaction)
	if len(what) == 0 {
		return nil
	}
	d := ofOperation(Differs, op, order.Reference)
	d.Components, d.HasClientKey = []string{order.Component}, order.ClientKey != ""
	d.CarriedOutAt, d.ExpiresAt, d.ProviderTransaction, d.Months = order.CarriedOutAt, order.ExpiresAt, order.Transaction, order.Months
	d.Detail = strings.Join(what, "; ")
	switch {
	case op.State == operation.Failed:
		d.Suggestion = fmt.Sprintf("Ask the provider to take it back; or let the operator pay: coax admin wallet adjust --lco %d --amount=-%s --reference %s --reason TEXT", op.OperatorID, op.Amount, order.Reference)
	case other || twice:
		d.Suggestion = "Ask the provider whether it was carried out twice, and to take one back."
	default:
		d.Suggestion = "Ask the provider what it carried out, and have it put right there."
	}
	return d
}

// missing returns our successful operations that the list lacks, and how many were compared. One that was
// completed after the comparison began may have been carried out after its page was read.
func (c *Comparison) missing(ctx context.Context, began time.Time) (compared int, missing []operation.Operation, err error) {
	var after operation.Operation
	for {
		batch, err := c.Books.Successes(ctx, c.window, after, lookupSize)
		if err != nil {
			return compared, nil, err
		}
		for _, op := range batch {
			after = op
			// An adopted operation was carried out before it was created.
			if !op.CompletedAt.Before(began) || op.Adopted() && op.CarriedOutAt.Before(c.window.From) {
				continue
			}
			compared++
			// What was reversed is paid back, whatever the provider has kept of it.
			if !op.Reversed() && len(c.unlisted(op)) > 0 {
				missing = append(missing, op)
			}
		}
		if len(batch) < lookupSize {
			return compared, missing, nil
		}
	}
}

// unlisted returns the references of an operation's delivered components that the list has not had.
func (c *Comparison) unlisted(op operation.Operation) (references []string) {
	delivered := []string{op.ID}
	if op.Addon != "" && op.AddonState == operation.AddonSuccess {
		delivered = append(delivered, op.AddonReference())
	}
	for _, reference := range delivered {
		if _, is := c.listed[hash[[16]byte](reference)]; !is {
			references = append(references, reference)
		}
	}
	return references
}

func oursOnly(op operation.Operation, references []string) *Difference {
	d := ofOperation(OursOnly, op, references[0])
	for _, reference := range references {
		component := op.Main
		if reference != op.ID {
			component = op.Addon
		}
		d.Components = append(d.Components, component)
	}
	d.ProviderTransaction = op.ProviderTransaction
	d.Detail = "it is a success here, and is not in the provider's list: " + strings.Join(references, ", ")
	d.Suggestion = fmt.Sprintf("Ask the provider about %s. If it was not carried out, have it carried out, or pay it back: coax admin wallet adjust --lco %d --amount %s --reference %s --reason TEXT",
		references[0], op.OperatorID, op.Amount, references[0])
	return d
}

// ofOperation returns a difference of one of our operations.
func ofOperation(kind Kind, op operation.Operation, reference string) *Difference {
	return &Difference{
		Kind: kind, TransactionID: op.ID, Reference: reference, HasClientKey: true, OperatorID: op.OperatorID, Operation: op.Kind,
		SubscriberID: op.SubscriberID, Mobile: op.Mobile, Months: op.PlanMonths, PlanID: op.PlanID, Amount: op.Amount, State: op.State,
		CreatedAt: op.CreatedAt, ExpiresAt: op.ExpiryPlanned,
	}
}

func moment(t time.Time) string { return t.In(subscription.IST).Format("2006-01-02 15:04:05") }
