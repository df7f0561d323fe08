package load

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/cmd/coaxbench/internal/latency"
)

// serving is a server that answers everything with one handler, over TLS, and a
// client of it.
func serving(t *testing.T, handler http.HandlerFunc) *client.Client {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	c, err := client.New(client.Config{BaseURL: server.URL + "/api/v1", Key: "cxk_k", Secret: "cxs_s", HTTP: server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// some gives so many balance reads.
type some struct {
	client   *client.Client
	left     int
	answered []Answer
}

func (s *some) Next(time.Time) (Request, bool) {
	s.left--
	return Request{Client: s.client, Kind: Balance, Method: "GET", Path: "/api/v1/balance"}, s.left >= 0
}

func (s *some) Answered(_ time.Time, answer Answer) { s.answered = append(s.answered, answer) }

func TestLoad_CountsAnswersByCode(t *testing.T) {
	var turn atomic.Int64
	c := serving(t, func(w http.ResponseWriter, r *http.Request) {
		switch turn.Add(1) % 5 {
		case 0:
			w.WriteHeader(429)
			fmt.Fprint(w, `{"code":"RATE_LIMITED"}`)
		case 1:
			w.WriteHeader(202)
			fmt.Fprint(w, `{"code":"PENDING_REVIEW"}`)
		case 2:
			w.Header().Set("Idempotent-Replayed", "true")
			fmt.Fprint(w, `{"code":"OK"}`)
		case 3:
			panic(http.ErrAbortHandler) // cuts the connection
		default:
			fmt.Fprint(w, `{"code":"OK"}`)
		}
	})
	source := &some{client: c, left: 50}
	phase, err := Load{Duration: time.Minute}.Run(t.Context(), "reads", []Source{source})
	if err != nil {
		t.Fatal(err)
	}
	// A GET whose connection was cut before an answer is sent again by net/http,
	// so not all of them are counted as cut.
	if phase.Requests != 50 || len(source.answered) != 50 || phase.Kinds[Balance] != 50 || phase.EndedEarly != exhausted {
		t.Errorf("%d requests, %d answers told, %v, ended early: %q; want 50 of each, until nothing was left", phase.Requests, len(source.answered), phase.Kinds, phase.EndedEarly)
	}
	var all uint64
	for _, n := range phase.Answers {
		all += n
	}
	for _, want := range []string{"200 OK", "202 PENDING_REVIEW", "200 REPLAYED", "429 RATE_LIMITED"} {
		if phase.Answers[want] == 0 {
			t.Errorf("no %s among %v", want, phase.Answers)
		}
	}
	unexpected := phase.Unexpected()
	if all != 50 || unexpected["429 RATE_LIMITED"] == 0 || unexpected["200 REPLAYED"] == 0 || unexpected["200 OK"]+unexpected["202 PENDING_REVIEW"] != 0 {
		t.Errorf("%d answers, of which unexpected: %v", all, unexpected)
	}
	tally := phase.Tally
	if tally.Done != phase.Answers["200 OK"] || tally.Pending != phase.Answers["202 PENDING_REVIEW"] || tally.Done+tally.Pending+tally.Unknown+tally.Refused != 50 {
		t.Errorf("the tally is %+v for %v", tally, phase.Answers)
	}
}

func TestLoad_WarmUpIsCountedNotMeasured(t *testing.T) {
	c := serving(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"code":"OK"}`) })
	phase, err := Load{Warmup: time.Hour, Duration: time.Hour}.Run(t.Context(), "reads", []Source{&some{client: c, left: 7}, &some{client: c, left: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	if phase.Requests != 0 || phase.Latency != (latency.Summary{}) || phase.Tally.Done < 7 || phase.Answers["200 OK"] != phase.Tally.Done {
		t.Errorf("%+v; want nothing measured and all of the warm-up counted", phase)
	}
}

func TestLoad_EndsWithTimeOrContext(t *testing.T) {
	c := serving(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"code":"OK"}`) })
	phase, err := Load{Duration: 50 * time.Millisecond}.Run(t.Context(), "reads", []Source{&some{client: c, left: 1 << 40}, &some{client: c, left: 1 << 40}})
	if err != nil || phase.EndedEarly != "" || phase.Requests == 0 || phase.PerSecond <= 0 || phase.Latency.Max < phase.Latency.P50 {
		t.Errorf("%+v, %v; want some requests and no complaint", phase, err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	hanging := make(chan struct{}, 1)
	slow := serving(t, func(_ http.ResponseWriter, r *http.Request) {
		hanging <- struct{}{}
		<-r.Context().Done()
	})
	go func() {
		<-hanging
		cancel()
	}()
	phase, err = Load{Duration: time.Hour}.Run(ctx, "reads", []Source{&some{client: slow, left: 1}})
	if err == nil || len(phase.Answers) != 0 {
		t.Errorf("%+v, %v; want the context's error, and a request that we gave up not counted", phase, err)
	}
}

func TestLoad_StopsIfServerIsDown(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	c, err := client.New(client.Config{BaseURL: server.URL + "/api/v1", Key: "cxk_k", Secret: "cxs_s", HTTP: server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	phase, err := Load{Duration: time.Hour}.Run(t.Context(), "reads", []Source{&some{client: c, left: 1 << 40}})
	if err != nil || !strings.Contains(phase.EndedEarly, "no longer answers (connection refused)") || phase.Answers["no answer (connection refused)"] != lostAfter {
		t.Errorf("%+v, %v; want it to give up after %d", phase, err, lostAfter)
	}
}

func TestLoad_ReportsProgress(t *testing.T) {
	c := serving(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"code":"OK"}`) })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told := make(chan Progress, 100)
	_, err := Load{Duration: time.Hour, Progress: func(p Progress) {
		told <- p
		cancel()
	}}.Run(ctx, "reads", []Source{&some{client: c, left: 1 << 40}})
	if err == nil {
		t.Error("it ended without being told to")
	}
	if p := <-told; p.Phase != "reads" || p.Warming || p.Requests == 0 || p.Elapsed <= 0 || p.Unexpected != 0 {
		t.Errorf("%+v; want the requests of a second or so", p)
	}
}
