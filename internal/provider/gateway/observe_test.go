package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/operation"
)

func TestObserve_Cause(t *testing.T) {
	tests := []struct {
		name string
		url  string
		want Cause
	}{
		{"rejected", answering(t, 200, `{"reference":"CX1-2.3","status":"rejected","message":"no"}`).URL, Answered},
		{"pending", answering(t, 200, `{"reference":"CX1-2.3","status":"pending"}`).URL, Undecided},
		{"nonsense", answering(t, 200, `{}`).URL, Violation},
		{"down", answering(t, 503, `{}`).URL, Unavailable},
		{"cut off", serving(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }).URL, Interrupted},
		{"refused", "http://127.77.1.9:9", Unreachable},
		{"an untrusted certificate", httptestTLS(t).URL, Certificate},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var mu sync.Mutex
			var got []Observation
			g := open(t, Config{URL: tt.url, Observe: func(o Observation) {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, o)
			}})
			answer := g.Apply(context.Background(), order)
			g.Status(context.Background(), order)
			for i := range got {
				if got[i].Took <= 0 || !slices.Contains(Causes, got[i].Cause) {
					t.Errorf("observed %+v; want a listed cause, and a duration", got[i])
				}
				got[i].Took = 0
			}
			if len(got) != 2 || got[0] != (Observation{What: "activate", Cause: tt.want, Outcome: answer.Outcome}) || got[1].What != "status" || got[1].Cause != tt.want {
				t.Errorf("observed %v; want %s twice, with the outcome %s", got, tt.want, answer.Outcome)
			}
		})
	}
}

func httptestTLS(t testing.TB) *httptest.Server {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

func TestObserve_Timeout(t *testing.T) {
	server := serving(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	var got Observation
	g := open(t, Config{URL: server.URL, Timeout: time.Second, Observe: func(o Observation) { got = o }})
	if answer := g.Void(context.Background(), order); answer.Outcome != operation.Unknown || got.Cause != TimedOut || got.Took < time.Second {
		t.Errorf("Void = %+v, observed %+v; want it to time out", answer, got)
	}
}

func TestToken_IsRedacted(t *testing.T) {
	config := Config{URL: "https://provider.example", Timeout: time.Second, Token: "hunter2"}
	var logged strings.Builder
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "token", config.Token, "config", config)
	text, err := json.Marshal(config.Token)
	if err != nil {
		t.Fatal(err)
	}
	shown := fmt.Sprintf("%v %+v %#v %s %q %x %d", config, config, config, config.Token, config.Token, config.Token, config.Token) +
		logged.String() + string(text)
	if strings.Contains(shown, "hunter2") || strings.Contains(shown, "68756e74657232") {
		t.Errorf("the token shows in %s", shown)
	}
}

func TestMessage_IsSanitized(t *testing.T) {
	long := strings.Repeat("ठ", 600)
	tests := []struct{ name, message, want string }{
		{"as it is", "No such line: नहीं", "No such line: नहीं"},
		{"trimmed", "  no \n", "no"},
		{"controls and overrides", "a\x00b\tc\u202Ed\uFFFEe\u0085f", "a b c d e f"},
		{"joiners stay", "क्\u200dष", "क्\u200dष"},
		{"too long", long, long[:3*499] + "…"},
		{"repeats the password", "the password hunter2 <&> is weak", "The provider's message is not shown, because it repeats a secret."},
		{"repeats the token", "Bearer t0ken is unknown", "The provider's message is not shown, because it repeats a secret."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body, err := json.Marshal(map[string]string{"reference": order.Reference, "status": "rejected", "message": tt.message})
			if err != nil {
				t.Fatal(err)
			}
			got := open(t, Config{URL: answering(t, 422, string(body)).URL, Token: "t0ken"}).Apply(context.Background(), order)
			if got.Outcome != operation.Rejected || got.Message != tt.want {
				t.Errorf("Apply = %+v; want it rejected with %q", got, tt.want)
			}
		})
	}
}
