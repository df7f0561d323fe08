package operation

import (
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

var noon = time.Date(2027, 3, 1, 12, 0, 0, 0, subscription.IST)

// If two business checks fail, the earlier one is reported.
func TestCheckCustomer_Order(t *testing.T) {
	active := &Subscriber{ID: "100001", OperatorID: 7, Expires: noon.Add(time.Hour)}
	busy, pending, expired := *active, *active, *active
	busy.OpenOperation = "CX2"
	pending.Expires, pending.OpenOperation = time.Time{}, "CX2"
	expired.Expires = noon
	onP := []subscription.Cycle{{PlanID: "P", StartsAt: noon.Add(-time.Hour)}}
	onQ := []subscription.Cycle{{PlanID: "Q", StartsAt: noon.Add(-time.Hour)}}
	rows := []struct {
		name     string
		kind     Kind
		snapshot Snapshot
		want     fault.Code
	}{
		{"an activation of a free number", Activate, Snapshot{}, fault.OK},
		{"of a number being activated", Activate, Snapshot{Subscriber: &pending}, fault.OperationInProgress},
		{"of a known number", Activate, Snapshot{Subscriber: active}, fault.SubscriberExists},
		{"of a known number that is being renewed", Activate, Snapshot{Subscriber: &busy}, fault.SubscriberExists},

		{"a renewal", Renew, Snapshot{Subscriber: active}, fault.OK},
		{"of an unknown subscriber", Renew, Snapshot{}, fault.SubscriberNotFound},
		{"with an open operation, and a duplicate", Renew, Snapshot{Subscriber: &busy, Duplicate: "CX1"}, fault.OperationInProgress},
		{"while the activation is open", Renew, Snapshot{Subscriber: &pending}, fault.OperationInProgress},
		{"a duplicate", Renew, Snapshot{Subscriber: active, Duplicate: "CX1"}, fault.DuplicateRequest},
		{"with the active plan", Renew, Snapshot{Subscriber: active, Cycles: onP}, fault.OK},

		{"an advance renewal onto the active plan", AdvanceRenew, Snapshot{Subscriber: active, Cycles: onP}, fault.PlanAlreadyActive},
		{"onto another plan", AdvanceRenew, Snapshot{Subscriber: active, Cycles: onQ}, fault.OK},
		{"onto the active plan, and a duplicate", AdvanceRenew, Snapshot{Subscriber: active, Cycles: onP, Duplicate: "CX1"}, fault.DuplicateRequest},
		{"of an expired subscriber onto the last plan", AdvanceRenew, Snapshot{Subscriber: &expired, Cycles: onP}, fault.OK},
		{"of an unknown subscriber, in advance", AdvanceRenew, Snapshot{}, fault.SubscriberNotFound},
	}
	for _, row := range rows {
		err := checkCustomer(7, row.kind, subscription.Plan{ID: "P"}, row.snapshot, noon)
		if got := fault.CodeOf(err); got != row.want {
			t.Errorf("%s: %s; want %s", row.name, got, row.want)
		}
		if row.want == fault.DuplicateRequest && fault.From(err).Data["previous_transaction_id"] != "CX1" {
			t.Errorf("%s: data %v; want the earlier transaction", row.name, fault.From(err).Data)
		}
		if row.want == fault.OperationInProgress && fault.From(err).Data["transaction_id"] != "CX2" {
			t.Errorf("%s: data %v; want the open transaction", row.name, fault.From(err).Data)
		}
	}
	// Another operator's open activation is not named.
	err := checkCustomer(8, Activate, subscription.Plan{ID: "P"}, Snapshot{Subscriber: &pending}, noon)
	if f := fault.From(err); f.Code != fault.OperationInProgress || len(f.Data) != 0 || strings.Contains(f.Message, "CX2") {
		t.Errorf("a number that another operator is activating: %s %q %v; want no transaction id", f.Code, f.Message, f.Data)
	}
}

func TestCheckBalance(t *testing.T) {
	price := money.Paise(19900)
	for balance, want := range map[int64]fault.Code{0: fault.InsufficientBalance, 19899: fault.InsufficientBalance, 19900: fault.OK, 19901: fault.OK} {
		err := checkBalance(money.Paise(balance), price)
		if got := fault.CodeOf(err); got != want {
			t.Errorf("%d paise: %s; want %s", balance, got, want)
		}
		if want == fault.OK {
			continue
		}
		data := fault.From(err).Data
		if data["wallet_balance"] != money.Paise(balance) || data["required_amount"] != price ||
			data["shortfall"] != money.Paise(19900-balance) || data["currency"] != "INR" {
			t.Errorf("%d paise: data %v", balance, data)
		}
	}
}

func TestDraft_Fields(t *testing.T) {
	p := NewProcessor(nil, nil, nil, nil, Config{
		Node: "node-1", ProviderName: "provider", Timeout: 20 * time.Second, ActivationTerm: subscription.ThirtyDays,
		Fingerprints: Fingerprints{Keys: map[uint32][]byte{1: []byte("key")}, Current: 1},
	})
	plan := subscription.Plan{ID: "P", Name: "Plan", Price: money.Paise(99900), Months: 3, Main: "TV", Version: 4}
	combo := plan
	combo.Addon = "OTT"
	customer := &Subscriber{ID: "100001", Name: "Asha", Mobile: "9876543210", Version: 7, Expires: noon.AddDate(0, 0, 9)}
	in := input{name: "Ravi", mobile: "9800000001"}
	rows := []struct {
		name          string
		kind          Kind
		plan          subscription.Plan
		who, mobile   string
		previous      time.Time
		starts, until time.Time
		addon         AddonState
	}{
		{"an activation lasts thirty days from now", Activate, plan, "Ravi", "9800000001", time.Time{}, noon, noon.AddDate(0, 0, 30), ""},
		{"a renewal begins now and adds to the expiry", Renew, plan, "Asha", "9876543210", customer.Expires, noon, noon.AddDate(0, 0, 99), ""},
		{"an advance renewal begins the day after the expiry", AdvanceRenew, combo, "Asha", "9876543210", customer.Expires,
			time.Date(2027, 3, 11, 0, 0, 0, 0, subscription.IST), time.Date(2027, 6, 9, 0, 0, 0, 0, subscription.IST), AddonWaiting},
	}
	for _, row := range rows {
		d, err := p.draft("CX1", Request{OperatorID: 7, Kind: row.kind, Channel: API, IdempotencyKey: "key-0001"}, in, row.plan, Snapshot{Subscriber: customer, FreeID: "100002"}, noon)
		if err != nil {
			t.Fatalf("%s: %v", row.name, err)
		}
		if d.CustomerName != row.who || d.Mobile != row.mobile || !d.ExpiryPrevious.Equal(row.previous) || !d.CycleStartsAt.Equal(row.starts) || !d.ExpiryPlanned.Equal(row.until) || d.AddonState != row.addon {
			t.Errorf("%s: %s %s, from %s, starts %s, until %s, add-on %q", row.name, d.CustomerName, d.Mobile, d.ExpiryPrevious, d.CycleStartsAt, d.ExpiryPlanned, d.AddonState)
		}
		if d.State != Processing || d.Epoch != 1 || d.Amount != plan.Price || d.PlanVersion != 4 || !d.LeaseUntil.Equal(noon.Add(25*time.Second)) {
			t.Errorf("%s: %s, epoch %d, %s, plan version %d, leased until %s", row.name, d.State, d.Epoch, d.Amount, d.PlanVersion, d.LeaseUntil)
		}
	}
	p.config.Fingerprints = Fingerprints{Current: 2}
	if _, err := p.draft("CX1", Request{Kind: Activate}, in, plan, Snapshot{}, noon); err == nil {
		t.Error("a draft was made without a key for its fingerprint")
	}
}

func TestFingerprint_DependsOnBodyKindAndKey(t *testing.T) {
	prints := Fingerprints{Keys: map[uint32][]byte{1: []byte("one"), 2: []byte("two")}, Current: 2}
	request := Request{Kind: Renew, Content: []byte(`{"a":"1"}`)}
	known, err := fingerprint(prints, request, 1)
	if err != nil {
		t.Fatal(err)
	}
	rows := []struct {
		name    string
		request Request
		want    bool
	}{
		{"the same", request, true},
		{"another body", Request{Kind: Renew, Content: []byte(`{"a":"2"}`)}, false},
		{"another endpoint", Request{Kind: AdvanceRenew, Content: []byte(`{"a":"1"}`)}, false},
	}
	for _, row := range rows {
		if got, err := matches(prints, row.request, known); err != nil || got != row.want {
			t.Errorf("%s: %v, %v; want %v", row.name, got, err, row.want)
		}
	}
	if current, err := fingerprint(prints, request, 2); err != nil || string(current.Sum) == string(known.Sum) {
		t.Errorf("two keys make one fingerprint, %v", err)
	}
	if _, err := matches(prints, request, Fingerprint{KeyID: 3}); err == nil {
		t.Error("a fingerprint whose key is gone was compared")
	}
}

func TestNewID_SortsByTime_NewPassword_NoLookAlikes(t *testing.T) {
	seen := map[string]bool{}
	last := ""
	for i := range 1000 {
		id := newID(noon.Add(time.Duration(i) * time.Millisecond))
		if seen[id] || id <= last || !strings.HasPrefix(id, "CX") || len(id) != 28 {
			t.Fatalf("id %q after %q", id, last)
		}
		seen[id], last = true, id
		password := newPassword()
		if seen[password] || len(password) != 12 || strings.ContainsAny(password, "0O1lI") {
			t.Fatalf("password %q", password)
		}
		seen[password] = true
	}
}

// A random byte modulo the number of letters would make some of them 25 % likelier. With this
// many passwords chance alone stays within 10 %.
func TestNewPassword_LettersAreUniform(t *testing.T) {
	const passwords = 20_000
	seen := map[byte]int{}
	for range passwords {
		for _, letter := range []byte(newPassword()) {
			seen[letter]++
		}
	}
	fair := float64(passwords*12) / float64(len(passwordLetters))
	for _, letter := range []byte(passwordLetters) {
		if share := float64(seen[letter]) / fair; share < 0.9 || share > 1.1 {
			t.Errorf("%c came %d times; want about %.0f", letter, seen[letter], fair)
		}
	}
	if len(seen) != len(passwordLetters) {
		t.Errorf("%d letters came; there are %d", len(seen), len(passwordLetters))
	}
}

func TestLedgerText_NamesChannel(t *testing.T) {
	op := Operation{Kind: AdvanceRenew, SubscriberID: "100001", PlanName: "Family", Channel: API}
	if got := op.LedgerText(); got != "Advance renewal of 100001, Family [API]" {
		t.Errorf("%q", got)
	}
	op.Channel = Web
	if got := op.LedgerText(); strings.Contains(got, "[API]") {
		t.Errorf("%q", got)
	}
}
