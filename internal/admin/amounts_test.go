package admin

import (
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

func TestLimits_NeedsApproval(t *testing.T) {
	limits := Limits{ApprovalAbove: money.Paise(50_000_00), Window: 24 * time.Hour}
	for _, row := range []struct {
		name                        string
		amount, person, operator    int64
		wantApproval, wantPersonSum bool
	}{
		{"the limit itself", 50_000_00, 0, 0, false, false},
		{"a paisa more", 50_000_01, 0, 0, true, false},
		{"a negative amount above it", -50_000_01, 0, 0, true, false},
		{"a sum at the limit", 10_000_00, 40_000_00, 40_000_00, false, false},
		{"a person's sum above it", 10_000_00, 40_000_01, 40_000_01, true, true},
		{"an operator's sum above it", -10_000_00, 0, 40_000_01, true, false},
	} {
		why := limits.NeedsApproval("asha", 7, money.Paise(row.amount), MovedWithoutApproval{ByPerson: money.Paise(row.person), ForOperator: money.Paise(row.operator)})
		if (why != nil) != row.wantApproval {
			t.Errorf("%s: %+v; want approval needed: %v", row.name, why, row.wantApproval)
		}
		if why != nil && !why.Moved.IsZero() && (why.Person != "") != row.wantPersonSum {
			t.Errorf("%s: it names %q; want the person: %v", row.name, why.Person, row.wantPersonSum)
		}
	}
}

func TestPerson_IgnoresChannelAndCase(t *testing.T) {
	for _, actor := range []string{"web:asha", "cli:asha", "cli:Asha", "asha"} {
		if got := Person(actor); got != "asha" {
			t.Errorf("Person(%q) = %q; want asha", actor, got)
		}
	}
}

func TestLimits_PriceChange(t *testing.T) {
	at := func(paise int64, months int) subscription.Plan {
		return subscription.Plan{Price: money.Paise(paise), Months: months}
	}
	twenty, any := Limits{PriceChange: 20}, Limits{}
	for _, row := range []struct {
		name   string
		limits Limits
		to     int64
		want   bool
	}{
		{"a fifth more", twenty, 120, false}, {"more than a fifth more", twenty, 121, true},
		{"a fifth less", twenty, 80, false}, {"more than a fifth less", twenty, 79, true},
		{"nothing", any, 100, false}, {"a paisa, where any change counts", any, 101, true},
	} {
		if got := row.limits.differs(money.Paise(100), money.Paise(row.to)); got != row.want {
			t.Errorf("%s: %v; want %v", row.name, got, row.want)
		}
	}
	for _, row := range []struct {
		name string
		plan subscription.Plan
		want bool
	}{
		{"a year for four fifths of twelve months", at(960, 12), false}, {"a year for less", at(959, 12), true},
		{"the largest amount", at(money.Max, 120), false},
	} {
		if got := twenty.undercuts(row.plan, at(100, 1)); got != row.want {
			t.Errorf("%s: %v; want %v", row.name, got, row.want)
		}
	}
}
