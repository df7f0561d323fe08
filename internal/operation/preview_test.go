package operation_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// The quote equals the operation that Process then creates, and Preview changes nothing.
func TestPreview_AgreesWithProcess(t *testing.T) {
	s := newFixture(t)
	activate := s.request(operation.Activate, "activate-key", map[string]string{"full_name": "Asha", "mobile": "9800000001", "plan_id": "P-1", "subscriber_id": "123456"})
	renew := s.request(operation.Renew, "renew-key", map[string]string{"mobile": "9800000001", "plan_id": "P-1"})
	advance := s.request(operation.AdvanceRenew, "advance-key", map[string]string{"subscriber_id": "123456", "plan_id": "P-2"})
	s.addPlan(t, "P-2", 250_00)
	for _, r := range []operation.Request{activate, renew, advance} {
		before := s.balance(t)
		quote, err := s.Preview(t.Context(), r)
		if err != nil {
			t.Fatalf("%s: %v", r.Kind, err)
		}
		if after := s.balance(t); after != before || quote.TransactionID != "" {
			t.Errorf("%s: previewing moved the wallet from %s to %s, transaction %q", r.Kind, before, after, quote.TransactionID)
		}
		result, err := s.Process(t.Context(), r)
		if err != nil {
			t.Fatalf("%s: %v", r.Kind, err)
		}
		op := result.Operation
		got := fmt.Sprint(quote.Kind, quote.Subscriber.ID, quote.Subscriber.Name, quote.Subscriber.Mobile, quote.Plan.ID, quote.Plan.Name, quote.Plan.Months,
			quote.Amount, quote.WalletBefore, quote.WalletAfter, quote.ExpiryPrevious.UnixMilli(), quote.ExpiryNew.UnixMilli(), quote.StartDate.UnixMilli())
		want := fmt.Sprint(op.Kind, op.SubscriberID, op.CustomerName, op.Mobile, op.PlanID, op.PlanName, op.PlanMonths,
			op.Amount, op.WalletBefore, op.WalletAfter(), op.ExpiryPrevious.UnixMilli(), op.ExpiryPlanned.UnixMilli(), op.CycleStartsAt.UnixMilli())
		if got != want {
			t.Errorf("%s: the quote was\n%s\nand it came to\n%s", r.Kind, got, want)
		}
		// Afterwards the key is known.
		again, err := s.Preview(t.Context(), r)
		if err != nil || again.TransactionID != op.ID || again.WalletAfter != op.WalletAfter() || !again.ExpiryNew.Equal(op.ExpiryPlanned) {
			t.Errorf("%s: previewed again: %v, %+v; want transaction %s", r.Kind, err, again, op.ID)
		}
	}
	if applied := s.provider.applied.Load(); applied != 3 {
		t.Errorf("the provider carried out %d orders; want those of the three requests", applied)
	}
}

// Preview returns the same error as Process, also if there are several reasons.
func TestPreview_RefusesLikeProcess(t *testing.T) {
	s := newFixture(t)
	s.addPlan(t, "P-DEAR", 5000_00)
	s.addPlan(t, "P-2", 250_00)
	for _, mobile := range []string{"9800000001", "9800000002"} {
		if _, err := s.Process(t.Context(), s.request(operation.Activate, "activate-"+mobile, map[string]string{"full_name": "A", "mobile": mobile, "plan_id": "P-1"})); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Process(t.Context(), s.request(operation.Renew, "renewed-just-now", map[string]string{"mobile": "9800000001", "plan_id": "P-1"})); err != nil {
		t.Fatal(err)
	}
	s.provider.silent = true
	if _, err := s.Process(t.Context(), s.request(operation.Renew, "in-review", map[string]string{"mobile": "9800000002", "plan_id": "P-1"})); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name   string
		kind   operation.Kind
		key    string
		fields map[string]string
		want   fault.Code
	}{
		{"an invalid request", operation.Renew, "", map[string]string{"mobile": "98"}, fault.ValidationError},
		{"an invalid request under a known key", operation.Renew, "renewed-just-now", map[string]string{"mobile": "98"}, fault.IdempotencyKeyReused},
		{"a known key with another body", operation.Renew, "renewed-just-now", map[string]string{"mobile": "9800000001", "plan_id": "P-2"}, fault.IdempotencyKeyReused},
		{"unknown plan and customer", operation.Renew, "", map[string]string{"mobile": "9811111111", "plan_id": "P-9"}, fault.InvalidPlan},
		{"unknown customer, low balance", operation.Renew, "", map[string]string{"mobile": "9811111111", "plan_id": "P-DEAR"}, fault.SubscriberNotFound},
		{"open operation, low balance", operation.Renew, "", map[string]string{"mobile": "9800000002", "plan_id": "P-DEAR"}, fault.OperationInProgress},
		{"renewed a moment ago", operation.Renew, "", map[string]string{"mobile": "9800000001", "plan_id": "P-1"}, fault.DuplicateRequest},
		{"low balance", operation.Renew, "", map[string]string{"mobile": "9800000001", "plan_id": "P-DEAR"}, fault.InsufficientBalance},
		{"an existing customer", operation.Activate, "", map[string]string{"full_name": "A", "mobile": "9800000001", "plan_id": "P-1"}, fault.SubscriberExists},
	} {
		r := s.request(row.kind, row.key, row.fields)
		_, previewed := s.Preview(t.Context(), r)
		if row.key == "" {
			r.IdempotencyKey = "key-for-" + row.name
		}
		_, processed := s.Process(t.Context(), r)
		if fault.CodeOf(previewed) != row.want || fmt.Sprint(previewed) != fmt.Sprint(processed) {
			t.Errorf("%s: previewed as %v, processed as %v; want %s from both", row.name, previewed, processed, row.want)
		}
	}
}

// Where only money is missing, the quote says how much the request would cost and
// what it would bring.
func TestPreview_LowBalanceReturnsQuote(t *testing.T) {
	s := newFixture(t)
	s.addPlan(t, "P-DEAR", 5000_00)
	quote, err := s.Preview(t.Context(), s.request(operation.Activate, "", map[string]string{"full_name": "A", "mobile": "9800000001", "plan_id": "P-DEAR"}))
	if !fault.Is(err, fault.InsufficientBalance) || quote.Amount != money.Paise(5000_00) || quote.WalletAfter.String() != "-4000.00" || quote.ExpiryNew.IsZero() {
		t.Errorf("%v, %+v; want the price and what it would bring", err, quote)
	}
}

// A list that is renewed in bulk is charged for this subscriber too, once the other operation has
// ended: its total has to say so.
func TestPreview_OpenOperationReturnsPrice(t *testing.T) {
	s := newFixture(t)
	if _, err := s.Process(t.Context(), s.request(operation.Activate, "activate", map[string]string{"full_name": "A", "mobile": "9800000001", "plan_id": "P-1"})); err != nil {
		t.Fatal(err)
	}
	s.provider.silent = true
	if _, err := s.Process(t.Context(), s.request(operation.Renew, "open", map[string]string{"mobile": "9800000001", "plan_id": "P-1"})); err != nil {
		t.Fatal(err)
	}
	quote, err := s.Preview(t.Context(), s.request(operation.Renew, "", map[string]string{"mobile": "9800000001", "plan_id": "P-1"}))
	if !fault.Is(err, fault.OperationInProgress) || quote.Amount != money.Paise(199_00) || quote.Subscriber.Mobile != "9800000001" || !quote.ExpiryNew.IsZero() {
		t.Errorf("%v, %+v; want the price and the subscriber, without an expiry", err, quote)
	}
}

// A provider that is out is known before anything is asked of it.
func TestPreview_OpenBreakerReturnsQuote(t *testing.T) {
	s := newFixture(t)
	breaker := operation.NewBreaker(func(context.Context) error { return errors.New("nobody is there") })
	for range 3 {
		breaker.Record(operation.Reply{Outcome: operation.Rejected, NotSent: true})
	}
	now := func() time.Time { return noon }
	processor := operation.NewProcessor(s.store, catalogue.New(s.store.DB, nil, catalogue.Config{Now: now, Provider: "test", MaxAge: time.Hour}), s.provider, breaker,
		operation.Config{Now: now, Node: "node", ProviderName: "test", Timeout: time.Second, ActivationTerm: subscription.ThirtyDays,
			Fingerprints: operation.Fingerprints{Keys: map[uint32][]byte{1: []byte("key")}, Current: 1}})
	quote, err := processor.Preview(t.Context(), s.request(operation.Activate, "", map[string]string{"full_name": "A", "mobile": "9800000001", "plan_id": "P-1"}))
	if !fault.Is(err, fault.ServiceUnavailable) || quote.Amount != money.Paise(199_00) {
		t.Errorf("%v, %+v; want it refused, with the price", err, quote)
	}
}

func (s *fixture) addPlan(t *testing.T, id string, paise int64) {
	t.Helper()
	service := admin.NewService(s.store.DB, nil, "test", func() time.Time { return noon })
	_, err := service.SetPlan(t.Context(), subscription.Plan{ID: id, Name: id, Price: money.Paise(paise), Months: 1, Type: subscription.Standard, Main: "TV"})
	if err != nil {
		t.Fatal(err)
	}
}
