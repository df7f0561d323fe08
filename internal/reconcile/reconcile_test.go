package reconcile_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/reconcile"
	"github.com/coaxhq/coax/internal/subscription"
)

var (
	noon = time.Date(2027, 3, 1, 12, 0, 0, 0, subscription.IST)
	end  = noon.Add(30 * 24 * time.Hour)
	keys = operation.ClientKeys{[]byte("key")}
)

// id returns a transaction id.
func id(n int) string { return fmt.Sprintf("CX06D3K9ZR%018d", n) }

// list is a provider's list in pages of a few orders.
type list struct {
	orders []operation.ListedOrder
	// later is carried out once the last page was read.
	later []operation.ListedOrder
	page  int
	reads int
	since time.Time
}

func (l *list) ListOrders(_ context.Context, since time.Time, cursor string) (page operation.OrderPage, err error) {
	l.reads++
	l.since = since
	var after []operation.ListedOrder
	for _, order := range l.orders {
		if !order.CarriedOutAt.Before(since) {
			after = append(after, order)
		}
	}
	slices.SortStableFunc(after, func(a, b operation.ListedOrder) int { return a.CarriedOutAt.Compare(b.CarriedOutAt) })
	first := 0
	if cursor != "" {
		_, err = fmt.Sscan(cursor, &first)
	}
	last := min(len(after), first+cmp.Or(l.page, 2))
	page.Orders = after[first:last]
	if last < len(after) {
		page.Next = fmt.Sprint(last)
	} else {
		l.orders, l.later = append(l.orders, l.later...), nil
	}
	return page, err
}

// books are operations and subscribers in memory.
type books struct {
	operations  []operation.Operation
	subscribers []operation.Subscriber
	plans       []subscription.Plan
	owners      map[string]reconcile.KeyOwner
	adopted     []string
	refuse      map[string]error
	// reversing is the operation whose reversal is open.
	reversing string
}

func (b *books) PendingReversal(_ context.Context, id string) (r operation.Reversal, pending bool, err error) {
	if pending = id == b.reversing; pending {
		r.State = operation.ReversalAsked
	}
	return r, pending, nil
}

func (b *books) AdoptReversal(_ context.Context, transactionID, reference, _ string) error {
	b.adopted = append(b.adopted, transactionID+" "+reference)
	return b.refuse[transactionID]
}

func (b *books) OperationsByID(_ context.Context, ids []string) (found []operation.Operation, err error) {
	for _, op := range b.operations {
		if slices.Contains(ids, op.ID) {
			found = append(found, op)
		}
	}
	return found, nil
}

func (b *books) Successes(_ context.Context, w reconcile.Window, after operation.Operation, limit int) (found []operation.Operation, err error) {
	past := after.ID == ""
	for _, op := range b.operations {
		if past && op.State == operation.Success && !op.CreatedAt.Before(w.From) && (w.Until.IsZero() || op.CreatedAt.Before(w.Until)) && len(found) < limit {
			found = append(found, op)
		}
		past = past || op.ID == after.ID
	}
	return found, nil
}

func (b *books) SubscribersNamed(_ context.Context, id, mobile string) (found []operation.Subscriber, err error) {
	for _, s := range b.subscribers {
		if s.ID == id || s.Mobile == mobile {
			found = append(found, s)
		}
	}
	return found, nil
}

func (b *books) PlanVersions(context.Context) ([]subscription.Plan, error) { return b.plans, nil }

func (b *books) OperationsOf(_ context.Context, subscriberID string) (found []operation.Operation, err error) {
	for _, op := range b.operations {
		if op.SubscriberID == subscriberID {
			found = append(found, op)
		}
	}
	return found, nil
}

func (b *books) KeyOwners(context.Context, time.Time, []string) (map[string]reconcile.KeyOwner, error) {
	return b.owners, nil
}

func (b *books) Adopt(_ context.Context, a operation.Adoption, _ string) (op operation.Operation, adopted bool, err error) {
	if err := b.refuse[a.Main.Reference]; err != nil {
		return op, false, err
	}
	b.adopted = append(b.adopted, a.Main.Reference+" "+a.Plan.ID)
	if a.Main.Kind == operation.Activate {
		b.subscribers = append(b.subscribers, operation.Subscriber{ID: a.Main.SubscriberID, OperatorID: a.OperatorID, Mobile: a.Main.Mobile, Expires: a.Main.ExpiresAt})
	}
	return op, true, nil
}

// asked is an order's client key that is known, with the plans that were asked for under it.
func asked(o operation.ListedOrder, plans ...string) map[string]reconcile.KeyOwner {
	return map[string]reconcile.KeyOwner{o.ClientKey: {OperatorID: 7, Channel: operation.API, Plans: plans}}
}

func newBooks() *books {
	plan := func(id, main, addon string, months int, version int64, price string, since time.Time) subscription.Plan {
		amount, err := money.Parse(price)
		if err != nil {
			panic(err)
		}
		return subscription.Plan{ID: id, Name: id, Main: main, Addon: addon, Months: months, Version: version, Price: amount, UpdatedAt: since}
	}
	before := noon.Add(-1000 * time.Hour)
	return &books{
		plans: []subscription.Plan{
			plan("BASIC-1", "TV-BASIC", "", 1, 1, "199", before), plan("BASIC-1", "TV-BASIC", "", 1, 2, "249", noon.Add(24*time.Hour)),
			plan("COMBO-1", "TV-FAMILY", "OTT", 1, 1, "499", before), plan("FAMILY-1", "TV-FAMILY", "", 1, 1, "349", before),
			plan("TWIN-A", "TV-TWIN", "", 1, 1, "10", before), plan("TWIN-B", "TV-TWIN", "", 1, 1, "20", before),
		},
		subscribers: []operation.Subscriber{{ID: "100001", OperatorID: 7, Mobile: "9800000001", Expires: noon}},
	}
}

// sold returns a successful operation, and the order of its main component.
func sold(n int, at time.Time) (operation.Operation, operation.ListedOrder) {
	op := operation.Operation{
		ID: id(n), OperatorID: 7, IdempotencyKey: fmt.Sprint("key-", n), Kind: operation.Renew, SubscriberID: "100001", Mobile: "9800000001", PlanID: "BASIC-1", PlanMonths: 1,
		Main: "TV-BASIC", Amount: money.Paise(19900), ExpiryPlanned: end, State: operation.Success, ProviderTransaction: fmt.Sprint("P", n), CreatedAt: at, CompletedAt: at.Add(time.Second),
	}
	return op, operation.ListedOrder{
		Reference: op.ID, ClientKey: keys.Of(7, op.IdempotencyKey), Kind: op.Kind, SubscriberID: op.SubscriberID, Mobile: op.Mobile, Component: op.Main, Months: 1,
		ExpiresAt: end, CarriedOutAt: at.Add(time.Second), Transaction: op.ProviderTransaction,
	}
}

func compare(t *testing.T, b *books, l *list, w reconcile.Window, choice reconcile.Choice) (*reconcile.Comparison, reconcile.Report) {
	t.Helper()
	choice.Keys, choice.Term, choice.Source = keys, subscription.ThirtyDays, "a test"
	c := &reconcile.Comparison{Provider: l, Books: b, Now: func() time.Time { return noon.Add(48 * time.Hour) }, Choice: choice, ReversalAge: 72 * time.Hour}
	report, err := c.Run(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return c, report
}

var since = reconcile.Window{From: noon.Add(-time.Hour)}

func TestComparison_SameIsNoDifference(t *testing.T) {
	b, l := newBooks(), &list{}
	for n := range 7 {
		op, order := sold(n, noon.Add(time.Duration(n)*time.Minute))
		if n == 3 {
			op.Addon, op.AddonState, op.AddonAttempt = "OTT", operation.AddonSuccess, 2
			addon := order
			addon.Reference, addon.Component, addon.Transaction = op.ID+"-2.2", "OTT", "P3-2"
			l.orders = append(l.orders, addon)
		}
		b.operations, l.orders = append(b.operations, op), append(l.orders, order)
	}
	_, report := compare(t, b, l, since, reconcile.Choice{})
	if len(report.Differences) != 0 || report.Orders != 8 || report.Operations != 7 || l.reads != 4 {
		t.Errorf("the report is %+v after %d reads; want no difference in 8 orders and 7 operations after 4", report, l.reads)
	}
}

func TestComparison_Differences(t *testing.T) {
	rows := []struct {
		name string
		edit func(op *operation.Operation, order *operation.ListedOrder)
		want string // empty for none
	}{
		{"refunded here", func(op *operation.Operation, _ *operation.ListedOrder) {
			op.State, op.Reason = operation.Failed, operation.NotConfirmed
		}, "failed here (NOT_CONFIRMED) and was refunded"},
		{"in review", func(op *operation.Operation, _ *operation.ListedOrder) { op.State = operation.NeedsReview }, ""},
		{"processing", func(op *operation.Operation, _ *operation.ListedOrder) { op.State = operation.Processing }, ""},
		{"another subscriber", func(_ *operation.Operation, o *operation.ListedOrder) { o.SubscriberID = "2" }, "subscriber 100001 here and 2 there"},
		{"another mobile", func(_ *operation.Operation, o *operation.ListedOrder) { o.Mobile = "9800000002" }, "mobile number"},
		{"another component", func(_ *operation.Operation, o *operation.ListedOrder) { o.Component = "TV-X" }, "TV-BASIC here and TV-X there"},
		{"other months", func(_ *operation.Operation, o *operation.ListedOrder) { o.Months = 3 }, "1 months here and 3 there"},
		{"months not kept", func(_ *operation.Operation, o *operation.ListedOrder) { o.Months = 0 }, ""},
		{"another expiry", func(_ *operation.Operation, o *operation.ListedOrder) { o.ExpiresAt = end.Add(time.Minute) }, "runs until"},
		{"an expiry in whole seconds", func(op *operation.Operation, _ *operation.ListedOrder) {
			op.ExpiryPlanned = end.Add(300 * time.Millisecond)
		}, ""},
		{"another kind", func(_ *operation.Operation, o *operation.ListedOrder) { o.Kind = operation.Activate }, "renew here and activate there"},
		{"another transaction", func(_ *operation.Operation, o *operation.ListedOrder) { o.Transaction = "P-other" }, "perhaps twice"},
		{"an add-on that was closed", func(op *operation.Operation, o *operation.ListedOrder) {
			op.Addon, op.AddonState = "OTT", operation.AddonClosed
			o.Reference, o.Component = op.ID+"-2", "OTT"
		}, "add-on is closed here"},
		{"an add-on that is followed up", func(op *operation.Operation, o *operation.ListedOrder) {
			op.Addon, op.AddonState = "OTT", operation.AddonUnknown
			o.Reference, o.Component = op.ID+"-2", "OTT"
		}, ""},
		{"an add-on that was rejected", func(op *operation.Operation, o *operation.ListedOrder) {
			op.Addon, op.AddonState, op.AddonAttempt = "OTT", operation.AddonFailed, 2
			o.Reference, o.Component = op.ID+"-2.1", "OTT"
		}, "add-on is failed here"},
		{"an add-on whose next order is under way", func(op *operation.Operation, o *operation.ListedOrder) {
			op.Addon, op.AddonState, op.AddonAttempt = "OTT", operation.AddonFailed, 2
			o.Reference, o.Component = op.ID+"-2.2", "OTT"
		}, ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			op, order := sold(1, noon)
			main := order
			row.edit(&op, &order)
			l := &list{orders: []operation.ListedOrder{order}}
			if order.Reference != op.ID {
				l.orders = append(l.orders, main)
			}
			b := newBooks()
			b.operations = []operation.Operation{op}
			_, report := compare(t, b, l, since, reconcile.Choice{})
			switch {
			case row.want == "" && len(report.Differences) > 0:
				t.Errorf("found %+v; want nothing", report.Differences)
			case row.want != "" && (len(report.Differences) != 1 || report.Differences[0].Kind != reconcile.Differs || !strings.Contains(report.Differences[0].Detail, row.want) || report.Differences[0].Suggestion == ""):
				t.Errorf("found %+v; want one that differs: %s", report.Differences, row.want)
			}
		})
	}
}

func TestComparison_ListedTwice(t *testing.T) {
	op, order := sold(1, noon)
	again := order
	again.Transaction, again.CarriedOutAt = "P-again", order.CarriedOutAt.Add(time.Hour)
	op.ProviderTransaction = ""
	b := newBooks()
	b.operations = []operation.Operation{op}
	_, report := compare(t, b, &list{orders: []operation.ListedOrder{order, again}, page: 1}, since, reconcile.Choice{})
	if len(report.Differences) != 1 || !strings.Contains(report.Differences[0].Detail, "lists it twice") {
		t.Errorf("found %+v; want that it is listed twice", report.Differences)
	}
}

func TestComparison_OursOnly(t *testing.T) {
	combo, _ := sold(1, noon)
	combo.Addon, combo.AddonState = "OTT", operation.AddonSuccess
	half, listed := sold(2, noon)
	half.Addon, half.AddonState = "OTT", operation.AddonSuccess
	late, _ := sold(3, noon)
	late.CompletedAt = noon.Add(72 * time.Hour) // after the comparison began
	failed, _ := sold(4, noon)
	failed.State = operation.Failed
	adopted, _ := sold(5, noon)
	adopted.CarriedOutAt = noon.Add(-500 * time.Hour)
	b := newBooks()
	b.operations = []operation.Operation{combo, half, late, failed, adopted}
	_, report := compare(t, b, &list{orders: []operation.ListedOrder{listed}}, since, reconcile.Choice{})
	var got []string
	for _, d := range report.Differences {
		got = append(got, fmt.Sprint(d.Kind, " ", d.Reference, " ", d.Components))
	}
	want := []string{"ours_only " + id(1) + " [TV-BASIC OTT]", "ours_only " + id(2) + "-2 [OTT]"}
	if !slices.Equal(got, want) {
		t.Errorf("found %q; want %q", got, want)
	}
}

// The service has an add-on carried out while the list is read: it is on a page that was read before.
func TestComparison_AddonCarriedOutMeanwhile(t *testing.T) {
	op, listed := sold(1, noon)
	op.Addon, op.AddonState = "OTT", operation.AddonSuccess
	addon := listed
	addon.Reference, addon.Component, addon.Transaction, addon.CarriedOutAt = op.AddonReference(), "OTT", "P-addon", noon.Add(48*time.Hour)
	b := newBooks()
	b.operations = []operation.Operation{op}
	l := &list{orders: []operation.ListedOrder{listed}, later: []operation.ListedOrder{addon}}
	if _, report := compare(t, b, l, since, reconcile.Choice{}); len(report.Differences) != 0 || report.Orders != 1 {
		t.Errorf("found %+v in %d orders; want no difference in 1", report.Differences, report.Orders)
	}
}

func TestComparison_DayEdges(t *testing.T) {
	day, err := reconcile.Day("2027-03-01")
	if err != nil {
		t.Fatal(err)
	}
	midnight := day.Until
	b, l := newBooks(), &list{}
	add := func(n int, created, carried time.Time) {
		op, order := sold(n, created)
		order.CarriedOutAt = carried
		b.operations, l.orders = append(b.operations, op), append(l.orders, order)
	}
	add(1, day.From, day.From.Add(-30*time.Minute))                 // the provider's clock is behind
	add(2, midnight.Add(-time.Second), midnight.Add(time.Minute))   // carried out on the next day
	add(3, midnight.Add(-time.Second), midnight.Add(7*time.Hour))   // waited at the provider for hours
	add(4, midnight.Add(time.Second), midnight.Add(-1*time.Minute)) // our clock is ahead
	_, stranger := sold(5, midnight)                                // another day's
	stranger.CarriedOutAt = midnight
	_, forgotten := sold(6, midnight)
	forgotten.CarriedOutAt, forgotten.ExpiresAt = midnight.Add(-time.Millisecond), end
	l.orders = append(l.orders, stranger, forgotten)
	_, report := compare(t, b, l, day, reconcile.Choice{})
	if len(report.Differences) != 1 || report.Differences[0].TransactionID != id(6) {
		t.Errorf("found %+v; want the forgotten order alone", report.Differences)
	}
	if want := day.From.Add(-time.Hour); !l.since.Equal(want) {
		t.Errorf("the list was read since %s; want %s", l.since, want)
	}
}

func TestComparison_ListUnsupported(t *testing.T) {
	c := &reconcile.Comparison{Provider: unsupported{}, Books: newBooks(), Now: func() time.Time { return noon }}
	if _, err := c.Run(t.Context(), since); !errors.Is(err, operation.ErrListUnsupported) {
		t.Errorf("compared with %v; want %v", err, operation.ErrListUnsupported)
	}
}

type unsupported struct{}

func (unsupported) ListOrders(context.Context, time.Time, string) (operation.OrderPage, error) {
	return operation.OrderPage{}, fmt.Errorf("HTTP 404: %w", operation.ErrListUnsupported)
}

func TestComparison_Adoptable(t *testing.T) {
	rows := []struct {
		name         string
		edit         func(b *books, o *operation.ListedOrder, choice *reconcile.Choice)
		plan, amount string
		obstacle     string
	}{
		{"a renewal", func(*books, *operation.ListedOrder, *reconcile.Choice) {}, "BASIC-1", "199.00", ""},
		{"at the price of its time", func(b *books, o *operation.ListedOrder, _ *reconcile.Choice) {
			o.CarriedOutAt = noon.Add(25 * time.Hour)
		}, "BASIC-1", "249.00", ""},
		{"without add-on, while a combo has the component", func(_ *books, o *operation.ListedOrder, _ *reconcile.Choice) { o.Component = "TV-FAMILY" }, "", "0.00",
			"several plans fit: give the plan that was sold: --plan " + id(1) + "=COMBO-1 or --plan " + id(1) + "=FAMILY-1"},
		{"of a combo without its add-on that was repeated", func(b *books, o *operation.ListedOrder, _ *reconcile.Choice) {
			o.Component, b.owners = "TV-FAMILY", asked(*o, "COMBO-1")
		}, "COMBO-1", "499.00", ""},
		{"of a plan without add-on that was repeated", func(b *books, o *operation.ListedOrder, _ *reconcile.Choice) {
			o.Component, b.owners = "TV-FAMILY", asked(*o, "FAMILY-1")
		}, "FAMILY-1", "349.00", ""},
		{"repeated with another order's plan as well", func(b *books, o *operation.ListedOrder, _ *reconcile.Choice) {
			o.Component, b.owners = "TV-FAMILY", asked(*o, "BASIC-1", "COMBO-1")
		}, "COMBO-1", "499.00", ""},
		{"repeated with two plans that fit", func(b *books, o *operation.ListedOrder, _ *reconcile.Choice) {
			o.Component, b.owners = "TV-FAMILY", asked(*o, "COMBO-1", "FAMILY-1")
		}, "", "0.00", "several plans were asked for"},
		{"repeated with a plan that is not known", func(b *books, o *operation.ListedOrder, _ *reconcile.Choice) { b.owners = asked(*o, "BASIC-NEW") }, "", "0.00", "asks for plan BASIC-NEW"},
		{"repeated with one plan and given another", func(b *books, o *operation.ListedOrder, c *reconcile.Choice) {
			o.Component, b.owners, c.Plans = "TV-FAMILY", asked(*o, "FAMILY-1"), map[string]string{id(1): "COMBO-1"}
		}, "COMBO-1", "499.00", ""},
		{"given a plan that does not fit", func(_ *books, o *operation.ListedOrder, c *reconcile.Choice) {
			o.Component, c.Plans = "TV-FAMILY", map[string]string{id(1): "BASIC-1"}
		}, "", "0.00", "plan BASIC-1 was not made of TV-FAMILY"},
		{"of several plans", func(_ *books, o *operation.ListedOrder, _ *reconcile.Choice) { o.Component = "TV-TWIN" }, "", "0.00", "=TWIN-A or --plan " + id(1) + "=TWIN-B"},
		{"of several plans, one given for another order", func(_ *books, o *operation.ListedOrder, c *reconcile.Choice) {
			o.Component, c.Plans = "TV-TWIN", map[string]string{id(2): "TWIN-A"}
		}, "", "0.00", "several plans fit"},
		{"of the plan that was given", func(_ *books, o *operation.ListedOrder, c *reconcile.Choice) {
			o.Component, c.PlanID = "TV-TWIN", "TWIN-A"
		}, "TWIN-A", "10.00", ""},
		{"of the plan that was repeated, not the one that was given for all", func(b *books, o *operation.ListedOrder, c *reconcile.Choice) {
			o.Component, b.owners, c.PlanID = "TV-TWIN", asked(*o, "TWIN-B"), "TWIN-A"
		}, "TWIN-B", "20.00", ""},
		{"of no plan", func(_ *books, o *operation.ListedOrder, _ *reconcile.Choice) { o.Months = 7 }, "", "0.00", "no plan"},
		{"of another system", func(_ *books, o *operation.ListedOrder, _ *reconcile.Choice) { o.Reference = "ORDER-77" }, "", "0.00", "not one of Coax"},
		{"of a subscriber that is not there", func(b *books, _ *operation.ListedOrder, _ *reconcile.Choice) { b.subscribers = nil }, "", "0.00", "no subscriber 100001"},
		{"of a subscriber with another number", func(b *books, _ *operation.ListedOrder, _ *reconcile.Choice) {
			b.subscribers[0].Mobile = "9800000009"
		}, "", "0.00", "has the number"},
		{"while another is open", func(b *books, _ *operation.ListedOrder, _ *reconcile.Choice) {
			b.subscribers[0].OpenOperation = id(9)
		}, "", "0.00", "is open"},
		{"before later operations", func(b *books, _ *operation.ListedOrder, _ *reconcile.Choice) { b.subscribers[0].Expires = end }, "", "0.00", "later operations"},
		{"that was carried out again", func(b *books, _ *operation.ListedOrder, _ *reconcile.Choice) {
			again, _ := sold(1, noon)
			again.ID, again.CompletedAt = id(99), noon.Add(72*time.Hour)
			b.operations = append(b.operations, again)
		}, "", "0.00", "carried out again as " + id(99)},
		{"an activation of nobody's", func(_ *books, o *operation.ListedOrder, _ *reconcile.Choice) {
			o.Kind, o.SubscriberID, o.Mobile = operation.Activate, "100002", "9800000002"
		}, "BASIC-1", "199.00", "--lco"},
		{"an activation of the operator that was given", func(_ *books, o *operation.ListedOrder, c *reconcile.Choice) {
			o.Kind, o.SubscriberID, o.Mobile, c.OperatorID = operation.Activate, "100002", "9800000002", 3
		}, "BASIC-1", "199.00", ""},
		{"an activation of the operator that was given for it", func(_ *books, o *operation.ListedOrder, c *reconcile.Choice) {
			o.Kind, o.SubscriberID, o.Mobile, c.Operators = operation.Activate, "100002", "9800000002", map[string]int64{id(1): 3}
		}, "BASIC-1", "199.00", ""},
		{"an activation of nobody's and of several plans", func(_ *books, o *operation.ListedOrder, _ *reconcile.Choice) {
			o.Kind, o.SubscriberID, o.Mobile, o.Component = operation.Activate, "100002", "9800000002", "TV-TWIN"
		}, "", "0.00", "--lco " + id(1) + "=ID, or wait until its client repeats the request; several plans fit"},
		{"a renewal under another operator's key", func(b *books, o *operation.ListedOrder, _ *reconcile.Choice) {
			b.owners = asked(*o)
			b.subscribers[0].OperatorID = 8
		}, "", "0.00", "operator 7's"},
		{"an activation that was repeated", func(b *books, o *operation.ListedOrder, _ *reconcile.Choice) {
			o.Kind, o.SubscriberID, o.Mobile = operation.Activate, "100002", "9800000002"
			b.owners = asked(*o)
		}, "BASIC-1", "199.00", ""},
		{"an activation of a number that is taken", func(_ *books, o *operation.ListedOrder, _ *reconcile.Choice) {
			o.Kind, o.SubscriberID = operation.Activate, "100002"
		}, "", "0.00", "subscriber 100001's"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			b := newBooks()
			_, order := sold(1, noon)
			var choice reconcile.Choice
			row.edit(b, &order, &choice)
			_, report := compare(t, b, &list{orders: []operation.ListedOrder{order}}, since, choice)
			if len(report.Differences) != 1 || report.Differences[0].Kind != reconcile.TheirsOnly {
				t.Fatalf("found %+v; want one forgotten order", report.Differences)
			}
			if d := report.Differences[0]; d.PlanID != row.plan || d.Amount.String() != row.amount || !strings.Contains(d.Suggestion, row.obstacle) || d.Adoptable() != (row.obstacle == "") || d.Adoptable() != strings.HasPrefix(d.Suggestion, "Adopt it") {
				t.Errorf("it would be adopted as %q for %s, %q; want %q for %s, %q", d.PlanID, d.Amount, d.Suggestion, row.plan, row.amount, row.obstacle)
			}
		})
	}
}

// What has to be chosen is data, without the words of the command line; an obstacle is what no choice helps against.
func TestComparison_Missing(t *testing.T) {
	activation := func(o *operation.ListedOrder) {
		o.Kind, o.SubscriberID, o.Mobile = operation.Activate, "100002", "9800000002"
	}
	rows := []struct {
		name     string
		edit     func(b *books, o *operation.ListedOrder)
		operator bool
		plans    string
		asked    string
		obstacle string
		// choice makes it adoptable.
		choice reconcile.Choice
	}{
		{name: "nothing", edit: func(*books, *operation.ListedOrder) {}},
		{name: "the operator", edit: func(_ *books, o *operation.ListedOrder) { activation(o) }, operator: true,
			choice: reconcile.Choice{Operators: map[string]int64{id(1): 7}}},
		{name: "the plan", edit: func(_ *books, o *operation.ListedOrder) { o.Component = "TV-TWIN" }, plans: "TWIN-A 10.00 TWIN-B 20.00",
			choice: reconcile.Choice{Plans: map[string]string{id(1): "TWIN-B"}}},
		{name: "both", edit: func(_ *books, o *operation.ListedOrder) {
			activation(o)
			o.Component = "TV-TWIN"
		}, operator: true, plans: "TWIN-A 10.00 TWIN-B 20.00",
			choice: reconcile.Choice{Operators: map[string]int64{id(1): 7}, Plans: map[string]string{id(1): "TWIN-A"}}},
		{name: "the plan, as two that fit were asked for", edit: func(b *books, o *operation.ListedOrder) {
			o.Component, b.owners = "TV-TWIN", asked(*o, "TWIN-A", "TWIN-B")
		}, plans: "TWIN-A 10.00 TWIN-B 20.00", asked: "TWIN-A TWIN-B",
			choice: reconcile.Choice{Plans: map[string]string{id(1): "TWIN-A"}}},
		{name: "the plan, as another was asked for", edit: func(b *books, o *operation.ListedOrder) { b.owners = asked(*o, "BASIC-NEW") },
			plans: "BASIC-1 199.00", asked: "BASIC-NEW", choice: reconcile.Choice{Plans: map[string]string{id(1): "BASIC-1"}}},
		{name: "the plan at the price of its time", edit: func(b *books, o *operation.ListedOrder) {
			b.owners, o.CarriedOutAt = asked(*o, "BASIC-NEW"), noon.Add(25*time.Hour)
		}, plans: "BASIC-1 249.00", asked: "BASIC-NEW", choice: reconcile.Choice{Plans: map[string]string{id(1): "BASIC-1"}}},
		{name: "the operator, and no plan fits", edit: func(_ *books, o *operation.ListedOrder) {
			activation(o)
			o.Months = 7
		}, operator: true, obstacle: "no plan was made of TV-BASIC"},
		{name: "nothing that helps", edit: func(b *books, _ *operation.ListedOrder) { b.subscribers = nil }, obstacle: "no subscriber 100001"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			b := newBooks()
			_, order := sold(1, noon)
			row.edit(b, &order)
			l := &list{orders: []operation.ListedOrder{order}}
			c, report := compare(t, b, l, since, reconcile.Choice{})
			d := report.Differences[0]
			var plans []string
			for _, p := range d.Missing.Plans {
				plans = append(plans, p.ID, p.Price.String())
			}
			if d.Missing.Operator != row.operator || strings.Join(plans, " ") != row.plans || strings.Join(d.Missing.Asked, " ") != row.asked {
				t.Errorf("missing are operator %v, plans %q, asked %q; want %v, %q, %q", d.Missing.Operator, plans, d.Missing.Asked, row.operator, row.plans, row.asked)
			}
			if !strings.Contains(d.Obstacle, row.obstacle) || (d.Obstacle == "") != (row.obstacle == "") || strings.Contains(d.Obstacle, "--") {
				t.Errorf("the obstacle is %q; want %q, without flags", d.Obstacle, row.obstacle)
			}
			if d.Adoptable() {
				return
			}
			outcomes, err := c.Adopt(t.Context(), b, "a test", "")
			if err != nil || len(outcomes) != 1 || outcomes[0].Adopted || outcomes[0].Missing.Any() != d.Missing.Any() || outcomes[0].Obstacle != d.Obstacle || len(b.adopted) > 0 {
				t.Errorf("adopting it without a choice: %+v, %v; want that it says the same, and nothing adopted", outcomes, err)
			}
			if row.obstacle != "" {
				return
			}
			if _, report = compare(t, b, l, since, row.choice); !report.Differences[0].Adoptable() {
				t.Errorf("with %+v it is %+v; want that it can be adopted", row.choice, report.Differences[0])
			}
		})
	}
}

// The renewal of a forgotten subscriber waits for the activation, for which somebody has to choose first.
func TestComparison_ActivationMissesOperator(t *testing.T) {
	b := newBooks()
	_, activation := sold(1, noon)
	_, renewal := sold(2, noon.Add(time.Minute))
	activation.Kind, renewal.ExpiresAt = operation.Activate, end.Add(time.Hour)
	for _, o := range []*operation.ListedOrder{&activation, &renewal} {
		o.SubscriberID, o.Mobile = "100002", "9800000002"
	}
	l := &list{orders: []operation.ListedOrder{activation, renewal}}
	_, report := compare(t, b, l, since, reconcile.Choice{})
	if d := report.Differences[1]; d.Adoptable() || !strings.Contains(d.Obstacle, id(1)+" has to be adopted first") {
		t.Errorf("the renewal is %+v; want that its activation comes first", d)
	}
	c, _ := compare(t, b, l, since, reconcile.Choice{Operators: map[string]int64{id(1): 7}})
	if outcomes, err := c.Adopt(t.Context(), b, "a test", ""); err != nil || len(outcomes) != 2 || !outcomes[0].Adopted || !outcomes[1].Adopted {
		t.Errorf("adopted %+v, %v; want both", outcomes, err)
	}
}

func TestComparison_AdoptsInOrder(t *testing.T) {
	b := newBooks()
	var orders []operation.ListedOrder
	for n := range 6 {
		_, order := sold(n, noon.Add(time.Duration(n)*time.Minute))
		order.ExpiresAt = end.Add(time.Duration(n) * time.Hour)
		if n > 0 && n < 3 {
			order.SubscriberID, order.Mobile = "100002", "9800000002"
		}
		orders = append(orders, order)
	}
	orders[1].Kind = operation.Activate
	addon := orders[3]
	addon.Reference, addon.Component, addon.CarriedOutAt = id(3)+"-2", "OTT", addon.CarriedOutAt.Add(time.Second)
	orders[3].Component = "TV-FAMILY"
	slices.Reverse(orders)
	b.owners = map[string]reconcile.KeyOwner{orders[4].ClientKey: {OperatorID: 7, Channel: operation.API}}
	b.refuse = map[string]error{id(4): admin.Refuse("the wallet is empty")}
	c, report := compare(t, b, &list{orders: append(orders, addon)}, since, reconcile.Choice{})
	if len(report.Differences) != 6 || slices.ContainsFunc(report.Differences, func(d reconcile.Difference) bool { return !d.Adoptable() }) {
		t.Fatalf("found %+v; want six that can be adopted", report.Differences)
	}
	only, err := c.Adopt(t.Context(), b, "a test", id(3))
	if err != nil || len(only) != 1 || only[0].Adopted || !strings.Contains(only[0].Problem, id(0)) {
		t.Errorf("one before the subscriber's first: %+v, %v; want that %s comes first", only, err, id(0))
	}
	outcomes, err := c.Adopt(t.Context(), b, "a test", "")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{id(0) + " BASIC-1", id(1) + " BASIC-1", id(2) + " BASIC-1", id(3) + " COMBO-1"}
	if !slices.Equal(b.adopted, want) {
		t.Errorf("adopted %q; want %q", b.adopted, want)
	}
	if len(outcomes) != 6 || outcomes[4].Problem != "the wallet is empty" || !strings.Contains(outcomes[5].Problem, id(4)) {
		t.Errorf("the outcomes are %+v", outcomes)
	}
}

func TestReadFile(t *testing.T) {
	const head = "\uFEFFreference,kind,subscriber_id,mobile,component,carried_out_at,transaction_id"
	good := id(1) + ",renew,100001,9800000001,TV-BASIC,2027-03-01T12:00:00+05:30,P1"
	rows := []struct {
		name, text string
		want       []string // of the error
	}{
		{"one order", head + "\n" + good + "\n", nil},
		{"further columns", head + ",note,months,expires_at,client_key\n" + good + ",hello,1,,\n", nil},
		{"empty", "", []string{"is empty"}},
		{"a column is missing", "reference,kind\n", []string{"lacks the columns subscriber_id, mobile"}},
		{"a column is there twice", head + ",kind\n", []string{"kind is there twice"}},
		{"every bad row is named", head + "\n" + good + "\n,sell,1,98,TV,now,P\n" + good + "\nx,y\n", []string{
			"3 rows", "line 3", `reference "" has to be`, `kind "sell"`, `mobile "98"`, `carried_out_at "now"`, "line 4: it is the same as line 2", "line 5: it has 2 cells",
		}},
		{"a broken quote", head + "\n\"" + good, []string{"line 2"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			file, err := reconcile.ReadFile(strings.NewReader(row.text))
			if len(row.want) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				page, _ := file.ListOrders(t.Context(), noon.Add(-time.Minute), "")
				if len(page.Orders) != 1 || page.Orders[0].Reference != id(1) || !page.Orders[0].CarriedOutAt.Equal(noon) {
					t.Errorf("read %+v", page.Orders)
				}
				if strings.Contains(row.text, "note") != (len(file.Ignored) == 1) {
					t.Errorf("ignored %q", file.Ignored)
				}
				return
			}
			if err == nil {
				t.Fatal("it was read; want an error")
			}
			for _, part := range row.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error is %q; want it to mention %q", err, part)
				}
			}
		})
	}
}
