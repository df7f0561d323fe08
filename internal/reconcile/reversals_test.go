package reconcile_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/reconcile"
)

// undone is the order of an operation that the provider has undone.
func undone(order operation.ListedOrder, by string) operation.ListedOrder {
	order.ReversedBy, order.TellsReversals = by, true
	return order
}

// addonOf is the order of an operation's add-on.
func addonOf(op operation.Operation, order operation.ListedOrder) operation.ListedOrder {
	order.Reference, order.Component, order.Transaction = op.AddonReference(), op.Addon, order.Transaction+"-2"
	return order
}

func TestComparison_ForgottenAndUndoneIsNotAdopted(t *testing.T) {
	b := newBooks()
	op, order := sold(1, noon)
	op.Addon = "OTT"
	l := &list{orders: []operation.ListedOrder{undone(order, "RV1"), undone(addonOf(op, order), "RV1")}}
	c, report := compare(t, b, l, since, reconcile.Choice{})
	if len(report.Differences) != 0 || len(report.Undone) != 1 || report.Undone[0].Reference != order.Reference || !strings.Contains(report.Undone[0].Detail, "RV1") {
		t.Errorf("found %+v and undone %+v; want no difference, and one order that was undone", report.Differences, report.Undone)
	}
	if outcomes, err := c.Adopt(t.Context(), b, "because", ""); err != nil || len(outcomes) != 0 || len(b.adopted) != 0 {
		t.Errorf("adopted %+v, %v; want nothing", outcomes, err)
	}

	l.orders[1].ReversedBy = ""
	_, report = compare(t, b, l, since, reconcile.Choice{})
	if len(report.Differences) != 1 || report.Differences[0].Adoptable() || !strings.Contains(report.Differences[0].Obstacle, "only a part") {
		t.Errorf("an order that was undone in part is %+v; want a difference that cannot be adopted", report.Differences)
	}
}

func TestComparison_Reversals(t *testing.T) {
	reversed := func(op *operation.Operation) { op.ReversedAt = op.CompletedAt.Add(time.Hour) }
	for _, row := range []struct {
		name       string
		edit       func(op *operation.Operation, o *operation.ListedOrder)
		want       string // empty for no difference
		reversible bool
	}{
		{"reversed on neither side", func(_ *operation.Operation, o *operation.ListedOrder) { *o = undone(*o, "") }, "", false},
		{"reversed on both sides", func(op *operation.Operation, o *operation.ListedOrder) { reversed(op); *o = undone(*o, "RV1") }, "", false},
		{"reversed there", func(_ *operation.Operation, o *operation.ListedOrder) { *o = undone(*o, "RV1") }, "undid it as RV1", true},
		{"undone there under a reference that is not ours", func(_ *operation.Operation, o *operation.ListedOrder) { *o = undone(*o, "X1") }, "undid it as X1", false},
		{"reversed here", func(op *operation.Operation, o *operation.ListedOrder) { reversed(op); *o = undone(*o, "") }, "it was reversed here", false},
		{"reversed here while the list was read", func(op *operation.Operation, o *operation.ListedOrder) {
			op.ReversedAt = noon.Add(48 * time.Hour)
			*o = undone(*o, "")
		}, "", false},
		{"reversed here, and the provider does not tell", func(op *operation.Operation, _ *operation.ListedOrder) { reversed(op) }, "", false},
		{"reversed here, and not listed", func(op *operation.Operation, o *operation.ListedOrder) {
			reversed(op)
			o.CarriedOutAt = noon.Add(-1000 * time.Hour)
		}, "", false},
		{"being reversed here", func(op *operation.Operation, o *operation.ListedOrder) {
			op.ID, o.Reference = id(77), id(77)
			*o = undone(*o, "RV1")
		}, "", false},
		{"refunded here and undone there", func(op *operation.Operation, o *operation.ListedOrder) {
			op.State = operation.Failed
			*o = undone(*o, "RV1")
		}, "", false},
		{"sold two days before the backup and undone since", func(op *operation.Operation, o *operation.ListedOrder) {
			op.CreatedAt, op.CompletedAt, o.CarriedOutAt = noon.Add(-48*time.Hour), noon.Add(-48*time.Hour), noon.Add(-48*time.Hour)
			*o = undone(*o, "RV1")
		}, "undid it as RV1", true},
		{"sold two days before the backup and refunded", func(op *operation.Operation, o *operation.ListedOrder) {
			op.State, op.CreatedAt, o.CarriedOutAt = operation.Failed, noon.Add(-48*time.Hour), noon.Add(-48*time.Hour)
		}, "", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := newBooks()
			b.reversing = id(77)
			op, order := sold(1, noon)
			row.edit(&op, &order)
			b.operations = []operation.Operation{op}
			_, report := compare(t, b, &list{orders: []operation.ListedOrder{order}}, since, reconcile.Choice{})
			if len(report.Undone) != 0 || (len(report.Differences) == 0) != (row.want == "") {
				t.Fatalf("found %+v; want: %s", report, row.want)
			}
			if row.want == "" {
				return
			}
			d := report.Differences[0]
			if len(report.Differences) > 1 || d.Kind != reconcile.Differs || !strings.Contains(d.Detail, row.want) || d.Suggestion == "" || d.Reversible() != row.reversible || d.Adoptable() != row.reversible {
				t.Errorf("found %+v; want one: %s; it can be carried out here: %v", report.Differences, row.want, row.reversible)
			}
		})
	}
}

func TestComparison_ReversalOfComboIsOneDifference(t *testing.T) {
	for _, ours := range []bool{true, false} {
		b := newBooks()
		op, order := sold(1, noon)
		op.Addon, op.AddonState = "OTT", operation.AddonSuccess
		by := "RV1"
		if ours {
			op.ReversedAt, by = noon.Add(time.Hour), ""
		}
		b.operations = []operation.Operation{op}
		main, addon := undone(order, by), undone(addonOf(op, order), by)
		_, report := compare(t, b, &list{orders: []operation.ListedOrder{main, addon}}, since, reconcile.Choice{})
		if len(report.Differences) != 1 || report.Differences[0].Reference != op.ID {
			t.Errorf("reversed here: %v: found %+v; want one difference, of the main component", ours, report.Differences)
		}
		main.ReversedBy, addon.ReversedBy = "", "RV1" // the add-on differs alone
		if ours {
			main.ReversedBy, addon.ReversedBy = "RV1", ""
		}
		_, report = compare(t, b, &list{orders: []operation.ListedOrder{main, addon}}, since, reconcile.Choice{})
		if len(report.Differences) != 1 || report.Differences[0].Reference != addon.Reference || report.Differences[0].Adoptable() {
			t.Errorf("reversed here: %v: found %+v; want that the add-on differs", ours, report.Differences)
		}
	}
}

// What was sold to the subscriber after a reversal waits until that is carried out here.
func TestComparison_AdoptsReversalBeforeLaterOrders(t *testing.T) {
	b := newBooks()
	op, order := sold(1, noon)
	_, later := sold(2, noon.Add(time.Hour))
	later.ExpiresAt = end.Add(time.Hour)
	b.operations = []operation.Operation{op}
	l := &list{orders: []operation.ListedOrder{undone(order, "RV1"), undone(later, "")}}
	c, report := compare(t, b, l, since, reconcile.Choice{})
	if len(report.Differences) != 2 || !report.Differences[0].Adoptable() || report.Differences[1].Adoptable() || !strings.Contains(report.Differences[1].Suggestion, "was undone before") {
		t.Fatalf("found %+v; want a reversal, and an order that waits for it", report.Differences)
	}
	if outcomes, err := c.Adopt(t.Context(), b, "because", later.Reference); err != nil || len(outcomes) != 1 || outcomes[0].Adopted {
		t.Errorf("the later order alone: %+v, %v; want it to wait", outcomes, err)
	}
	outcomes, err := c.Adopt(t.Context(), b, "because", "")
	if err != nil || len(outcomes) != 2 || !outcomes[0].Adopted || outcomes[1].Adopted || !slices.Equal(b.adopted, []string{op.ID + " RV1"}) {
		t.Errorf("adopted %+v, %v, %q; want the reversal alone", outcomes, err, b.adopted)
	}
	b.refuse = map[string]error{op.ID: admin.Refuse("what came later builds on it")}
	outcomes, err = c.Adopt(t.Context(), b, "because", op.ID)
	if err != nil || len(outcomes) != 1 || outcomes[0].Adopted || outcomes[0].Refused == nil {
		t.Errorf("refused: %+v, %v; want the refusal", outcomes, err)
	}
}
