package gateway

import (
	"context"
	"net/http"
	"reflect"
	"testing"

	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/operation"
)

func TestCatalogue_AllOrNothing(t *testing.T) {
	good := answering(t, 200, `{"as_of":"today","components":[
		{"code":"TV-BASIC","name":" Basic\ttelevision ","role":"main","since":2019},{"code":"OTT","name":"OTT","role":"addon"}]}`)
	got, err := open(t, Config{URL: good.URL}).Catalogue(context.Background())
	want := []catalogue.Component{
		{Code: "TV-BASIC", Name: "Basic television", Role: catalogue.Main},
		{Code: "OTT", Name: "OTT", Role: catalogue.Addon},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Catalogue = %v, %v; want %v", got, err, want)
	}
	if got, err := open(t, Config{URL: answering(t, 200, `{"components":[]}`).URL}).Catalogue(context.Background()); err != nil || len(got) != 0 {
		t.Errorf("an empty catalogue = %v, %v; want it accepted", got, err)
	}

	tests := []struct {
		name string
		code int
		body string
	}{
		{"down", 503, `{"components":[]}`},
		{"not found", 404, `{"components":[]}`},
		{"a list", 200, `[]`},
		{"no components", 200, `{}`},
		{"components null", 200, `{"components":null}`},
		{"a component that is a text", 200, `{"components":["TV-BASIC"]}`},
		{"no code", 200, `{"components":[{"name":"A","role":"main"}]}`},
		{"a code with a space", 200, `{"components":[{"code":"A B","name":"A","role":"main"}]}`},
		{"a code that is a number", 200, `{"components":[{"code":1,"name":"A","role":"main"}]}`},
		{"no name", 200, `{"components":[{"code":"A","role":"main"}]}`},
		{"an empty name", 200, `{"components":[{"code":"A","name":" \u0000","role":"main"}]}`},
		{"no role", 200, `{"components":[{"code":"A","name":"A"}]}`},
		{"another role", 200, `{"components":[{"code":"A","name":"A","role":"extra"}]}`},
		{"the same code twice", 200, `{"components":[{"code":"A","name":"A","role":"main"},{"code":"A","name":"B","role":"addon"}]}`},
		{"a name twice", 200, `{"components":[{"code":"A","code":"B","name":"A","role":"main"}]}`},
		{"cut off", 200, `{"components":[{"code":"A","name":"A","role":"main"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := open(t, Config{URL: answering(t, tt.code, tt.body).URL}).Catalogue(context.Background())
			if err == nil || got != nil {
				t.Errorf("Catalogue = %v, %v; want nothing and an error", got, err)
			}
		})
	}
}

func TestProbe_NeedsValidReply(t *testing.T) {
	tests := []struct {
		name string
		code int
		body string
		up   bool
	}{
		{"does not know the reference", 200, `{"reference":"probe","status":"unknown_reference"}`, true},
		{"does not know it, with 404", 404, `{"reference":"probe","status":"unknown_reference"}`, true},
		{"is down", 503, `{}`, false},
		{"refuses the token", 401, `{"error":"token"}`, false},
		{"has no such path", 404, `{"error":"path"}`, false},
		{"answers about something else", 200, `{"reference":"other","status":"unknown_reference"}`, false},
		{"is another service", 200, `{"hello":"world"}`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := open(t, Config{URL: answering(t, tt.code, tt.body).URL}).Probe(context.Background())
			if (err == nil) != tt.up {
				t.Errorf("Probe = %v; want up: %v", err, tt.up)
			}
		})
	}
	if err := open(t, Config{URL: "http://127.77.1.9:9"}).Probe(context.Background()); err == nil {
		t.Error("Probe of a closed port = nil")
	}
}

// Review treats a rejection with a message as the provider's rejection, and stops.
// A void is not one, even with a message.
func TestVoid_MessageIsNoRejection(t *testing.T) {
	g := open(t, Config{URL: answering(t, 200, `{"reference":"`+order.Reference+`","status":"voided","message":"Cancelled."}`).URL})
	for name, ask := range map[string]func(context.Context, operation.Order) operation.Reply{"status": g.Status, "void": g.Void} {
		if got := ask(t.Context(), order); got.Outcome != operation.Rejected || got.Message != "" || got.Detail == "" {
			t.Errorf("%s = %+v; want it rejected, with the message only in the detail for staff", name, got)
		}
	}
}

func TestReads_EndWithCaller(t *testing.T) {
	arrived := make(chan struct{})
	server := serving(t, func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	g := open(t, Config{URL: server.URL})
	for name, ask := range map[string]func(context.Context) error{
		"Catalogue":  func(ctx context.Context) error { _, err := g.Catalogue(ctx); return err },
		"ListOrders": func(ctx context.Context) error { _, err := g.ListOrders(ctx, since, ""); return err },
		"Probe":      g.Probe,
	} {
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			<-arrived
			cancel()
		}()
		if err := ask(ctx); err == nil {
			t.Errorf("%s = nil with a canceled context", name)
		}
	}
}
