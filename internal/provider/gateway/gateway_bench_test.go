package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/strictjson"
)

// BenchmarkApply is a whole call, with a provider on loopback that confirms every
// order.
func BenchmarkApply(b *testing.B) {
	body := confirmation(order)
	provider := serving(b, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	})
	g := open(b, Config{URL: provider.URL})
	b.SetParallelism(16)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if answer := g.Apply(context.Background(), order); answer.Outcome != operation.Confirmed {
				b.Errorf("answered %+v", answer)
			}
		}
	})
}

func confirmation(order operation.Order) string {
	return fmt.Sprintf(`{"reference":%q,"status":"applied","subscriber_id":%q,"mobile":%q,"component":%q,"transaction_id":"SIM-00000001"}`,
		order.Reference, order.SubscriberID, order.Mobile, order.Component)
}

func BenchmarkClassify(b *testing.B) {
	g := open(b, Config{URL: "https://provider.example"})
	fields, err := strictjson.Parse([]byte(confirmation(order)))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if got := g.classify(reply{http.StatusOK, fields}, order, applyAnswers); got.cause != Answered {
			b.Fatalf("%+v", got)
		}
	}
}

func BenchmarkApplyBody(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		applyBody(order)
	}
}
