package httpapi

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// anyText generates strings: mostly ASCII, sometimes any script, rarely characters that
// JSON escapes.
var anyText = rapid.OneOf(
	rapid.StringMatching(`[ -~]{0,20}`), rapid.String(),
	rapid.SampledFrom([]string{"", "रमेश", `"`, `\`, "<&>", "\u2028\u2029", "\x00\x1f\x7f", "\xff\xc0", "\ufffd", "a\tb\nc\r\b\f", "😀"}),
)

var anyAmount = rapid.Custom(func(t *rapid.T) money.Amount { return money.Paise(rapid.Int64().Draw(t, "paise")) })

func textOrNull(t *rapid.T, label string) *string {
	if rapid.Bool().Draw(t, label+" is null") {
		return nil
	}
	text := anyText.Draw(t, label)
	return &text
}

func anyOperation(t *rapid.T) operationData {
	text := func(label string) string { return anyText.Draw(t, label) }
	return operationData{
		TransactionID: text("id"), IdempotencyKey: text("key"), Operation: operation.Kind(text("kind")), Status: operation.State(text("state")),
		Channel:  operation.Channel(text("channel")),
		Customer: customerData{SubscriberID: text("subscriber"), Name: text("name"), Mobile: text("mobile"), Password: text("password")},
		Provider: text("provider"), ProviderTransaction: textOrNull(t, "provider transaction"),
		Plan:   boughtPlanData{ID: text("plan"), Name: text("plan name"), Months: rapid.Int().Draw(t, "months")},
		Amount: anyAmount.Draw(t, "amount"), Currency: text("currency"),
		Expiry: expiryData{Previous: textOrNull(t, "previous"), New: textOrNull(t, "new"), StartDate: textOrNull(t, "start")},
		Wallet: walletData{
			Before: anyAmount.Draw(t, "before"), After: anyAmount.Draw(t, "after"), Charged: anyAmount.Draw(t, "charged"),
			Refunded: rapid.Bool().Draw(t, "refunded"), Held: rapid.Bool().Draw(t, "held"),
		},
		Warnings:  append([]string{}, rapid.SliceOfN(anyText, 0, 3).Draw(t, "warnings")...),
		CreatedAt: text("created"), CompletedAt: textOrNull(t, "completed"),
		ProviderMessage: textOrNull(t, "message"), Reason: textOrNull(t, "reason"),
	}
}

func anySubscription(t *rapid.T) subscriptionData {
	text := func(label string) string { return anyText.Draw(t, label) }
	data := subscriptionData{
		Provider: text("provider"), Plan: namedPlanData{text("plan"), text("plan name")}, Status: subscription.SubscriberStatus(text("status")),
		Active: rapid.Bool().Draw(t, "active"), ExpiryDate: textOrNull(t, "expiry"), DaysRemaining: rapid.Int().Draw(t, "days"),
		CreatedAt: textOrNull(t, "created"), RenewedAt: textOrNull(t, "renewed"), LastProviderTransaction: textOrNull(t, "last"),
		PendingOperations: []pendingData{},
	}
	data.Customer.SubscriberID, data.Customer.Name, data.Customer.Mobile = text("subscriber"), text("name"), text("mobile")
	data.Customer.Email, data.Customer.ConnectionType = text("email"), text("connection")
	for range rapid.IntRange(0, 3).Draw(t, "pending") {
		data.PendingOperations = append(data.PendingOperations, pendingData{
			TransactionID: text("id"), IdempotencyKey: text("key"), Operation: operation.Kind(text("kind")), Status: operation.State(text("state")),
			Plan: namedPlanData{text("pending plan"), text("its name")}, Amount: anyAmount.Draw(t, "amount"), CreatedAt: text("at"),
		})
	}
	return data
}

func anyPlans(t *rapid.T) plansData {
	text := func(label string) string { return anyText.Draw(t, label) }
	data := plansData{Provider: text("provider"), Currency: text("currency"), Plans: []planData{}}
	for range rapid.IntRange(0, 3).Draw(t, "plans") {
		data.Plans = append(data.Plans, planData{
			ID: text("id"), Name: text("name"), Description: text("description"), Price: anyAmount.Draw(t, "price"),
			Duration: rapid.Int().Draw(t, "duration"), Type: subscription.PlanType(text("type")),
		})
	}
	return data
}

// Byte for byte, because a client may compare responses.
func TestAppendJSON_MatchesEncodingJSON(t *testing.T) {
	for name, draw := range map[string]func(*rapid.T) jsonObject{
		"a balance": func(t *rapid.T) jsonObject {
			return balanceData{
				LCOID: rapid.Int64().Draw(t, "lco"), WalletBalance: anyAmount.Draw(t, "balance"), Currency: anyText.Draw(t, "currency"),
				LowBalance: rapid.Bool().Draw(t, "low"), AsOf: anyText.Draw(t, "as of"), Note: anyText.Draw(t, "note"),
			}
		},
		"an operation": func(t *rapid.T) jsonObject { return anyOperation(t) },
		"a transaction": func(t *rapid.T) jsonObject {
			return transactionData{operationData: anyOperation(t), ResultCode: fault.Code(anyText.Draw(t, "code")), ResultMessage: anyText.Draw(t, "result")}
		},
		"a subscription":  func(t *rapid.T) jsonObject { return anySubscription(t) },
		"a list of plans": func(t *rapid.T) jsonObject { return anyPlans(t) },
	} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			data := draw(t)
			want, err := marshal(data)
			if err != nil {
				t.Fatal(err)
			}
			if got := data.appendJSON(nil); string(got) != string(want) {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}))
	}
}

// envelope is every response's shape, in the contract's order.
type envelope struct {
	Success   bool            `json:"success"`
	RequestID string          `json:"request_id"`
	Code      fault.Code      `json:"code"`
	Message   string          `json:"message"`
	Data      json.RawMessage `json:"data"`
}

func TestEnvelope_MatchesEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		answer := response{
			requestID: anyText.Draw(t, "id"), status: rapid.SampledFrom([]int{200, 202, 402}).Draw(t, "status"),
			code: fault.Code(anyText.Draw(t, "code")), message: anyText.Draw(t, "message"),
		}
		switch rapid.IntRange(0, 2).Draw(t, "data") {
		case 0:
			answer.data = anyOperation(t)
		case 1:
			answer.data = rapid.MapOf(anyText, anyText).Draw(t, "fields")
		}
		data := json.RawMessage("{}")
		if answer.data != nil {
			encoded, err := marshal(answer.data)
			if err != nil {
				t.Fatal(err)
			}
			data = encoded
		}
		want, err := marshal(envelope{answer.status == http.StatusOK, answer.requestID, answer.code, answer.message, data})
		if err != nil {
			t.Fatal(err)
		}
		got, err := answer.encode()
		if err != nil || string(got) != string(want) {
			t.Errorf("got  %s, %v\nwant %s", got, err, want)
		}
	})
}

var anAnswer = response{
	requestID: "req_00112233445566778899aabbccddeeff", status: 200, code: fault.OK, message: "The wallet holds 1234.50 INR.",
	data: balanceData{LCOID: 7, WalletBalance: money.Paise(123_450), Currency: money.Currency, AsOf: "2027-03-01T12:00:00+05:30", Note: walletNote},
	rate: access.Rate{Limit: 1000, Remaining: 999, ResetAt: noon.Add(time.Minute)},
}

func BenchmarkEncode(b *testing.B) {
	done := dateTime(noon)
	bought := anAnswer
	bought.data = operationData{
		TransactionID: "CX20270301000001", IdempotencyKey: "order-4711", Operation: operation.Renew, Status: operation.Success, Channel: operation.API,
		Customer: customerData{SubscriberID: "100001", Name: "Ramesh Rao", Mobile: "9812345678"}, Provider: "Simulated Provider", ProviderTransaction: done,
		Plan: boughtPlanData{ID: "BASIC-1", Name: "Basic, 1 month", Months: 1}, Amount: money.Paise(19900), Currency: money.Currency,
		Expiry: expiryData{Previous: done, New: done}, Warnings: []string{}, CreatedAt: *done, CompletedAt: done,
	}
	subscriber, plans := anAnswer, anAnswer
	subscriber.data = subscriptionData{
		Provider: "Simulated Provider", Plan: namedPlanData{"BASIC-1", "Basic, 1 month"}, Status: subscription.SubscriberActive, Active: true,
		ExpiryDate: done, DaysRemaining: 12, CreatedAt: done, RenewedAt: done, LastProviderTransaction: done, PendingOperations: []pendingData{},
	}
	twelve := plansData{Provider: "Simulated Provider", Currency: money.Currency}
	for range 12 {
		twelve.Plans = append(twelve.Plans, planData{"BASIC-1", "Basic, 1 month", "Sixty channels.", money.Paise(19900), 1, subscription.Standard})
	}
	plans.data = twelve
	for name, answer := range map[string]response{"a balance": anAnswer, "an operation": bought, "a subscription": subscriber, "12 plans": plans} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				body, err := answer.encode()
				if err != nil {
					b.Fatal(err)
				}
				releaseBody(body)
			}
		})
		b.Run(name+" by encoding/json", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				data, err := marshal(answer.data)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := marshal(envelope{true, answer.requestID, answer.code, answer.message, data}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSetHeader(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		anAnswer.setHeader(http.Header{}, 400)
	}
}
