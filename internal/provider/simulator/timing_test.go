package simulator

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestSlow_PendingForTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulator(t, Config{})
		began := time.Now()
		done := make(chan reply)
		go func() { done <- renew(s, "CX1", "9000071234") }()
		synctest.Wait()
		ask(s, "GET", "/v1/status?reference=CX1", "").check(t, 200, `"pending"`)
		renew(s, "CX1", "9000071234").check(t, 200, `"pending"`)
		if n := s.Effects()["CX1"]; n != 0 {
			t.Errorf("carried out %d times before the delay ended", n)
		}
		(<-done).check(t, 200, `"applied"`)
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("it took %s; want 2s", took)
		}
	})
}

func TestVoid_StopsPendingOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulator(t, Config{})
		done := make(chan reply)
		go func() { done <- renew(s, "CX1", "9000071234") }()
		synctest.Wait()
		ask(s, "POST", "/v1/void", `{"reference":"CX1"}`).check(t, 200, `"voided"`)
		(<-done).check(t, 200, `"rejected"`, "cancelled")
		if effects := s.Effects(); len(effects) != 0 {
			t.Errorf("a voided order had effects: %v", effects)
		}
		if calls := s.Calls("9000071234"); calls[0].Applied || calls[0].Answer != "rejected" {
			t.Errorf("the call is listed as %+v; want it rejected", calls[0])
		}
	})
}

func TestOrder_ContinuesWithoutCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulator(t, Config{})
		ctx, leave := context.WithCancel(t.Context())
		request, err := http.NewRequestWithContext(ctx, "POST", "/v1/renew", strings.NewReader(orderFor("CX1", "9000071234", "TV-BASIC")))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		done := make(chan reply)
		go func() { done <- serve(s, request) }()
		synctest.Wait()
		leave()
		<-done
		if n := s.Effects()["CX1"]; n != 1 {
			t.Errorf("carried out %d times; want once", n)
		}
	})
}

func TestModeSlow_DelaysEveryAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulator(t, Config{SlowFor: time.Minute})
		ask(s, "POST", "/control/status", `{"mode":"slow"}`).check(t, 200)
		for _, question := range []func() reply{
			func() reply { return renew(s, "CX1", "9812345678") },
			func() reply { return ask(s, "GET", "/v1/status?reference=CX1", "") },
			func() reply { return ask(s, "POST", "/v1/void", `{"reference":"CX1"}`) },
			func() reply { return ask(s, "GET", "/v1/catalogue", "") },
		} {
			began := time.Now()
			question().check(t, 200)
			if took := time.Since(began); took != time.Minute {
				t.Errorf("an answer took %s; want 1m", took)
			}
		}
	})
}

// startHeldCalls starts calls that are never answered, and waits until they have
// arrived.
func startHeldCalls(t *testing.T, s *Simulator, url string) chan error {
	ended := make(chan error)
	for reference, mobile := range map[string]string{"CX2": "9000021234", "CX3": "9000031234", "CX7": "9000071234", "CX8": "9000081234"} {
		go func() {
			response, err := http.Post(url+"/v1/renew", "application/json", strings.NewReader(orderFor(reference, mobile, "TV-BASIC")))
			if err == nil {
				response.Body.Close()
				err = errors.New("it was answered with " + response.Status)
			} else {
				err = nil
			}
			ended <- err
		}()
	}
	for arrived := 0; arrived < 4; {
		<-time.After(time.Millisecond)
		arrived = 0
		for _, call := range s.Calls("") {
			if call.Outcome != "" {
				arrived++
			}
		}
	}
	return ended
}

func TestShutdown_DropsHeldCalls(t *testing.T) {
	s, url := start(t, Config{SlowFor: time.Hour})
	ended := startHeldCalls(t, s, url)
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("a second Shutdown: %v", err)
	}
	if got := renew(s, "CX9", "9812345678"); !got.dropped {
		t.Errorf("an order after Shutdown = %+v; want no answer", got)
	}
}

func TestHeldCall_EndsWithCaller(t *testing.T) {
	s := newSimulator(t, Config{})
	for _, mobile := range []string{"9000021234", "9000031234", "9000081234"} {
		ctx, leave := context.WithCancel(t.Context())
		leave()
		request, err := http.NewRequestWithContext(ctx, "POST", "/v1/renew", strings.NewReader(orderFor("CX"+mobile, mobile, "TV-BASIC")))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		if got := serve(s, request); !got.dropped {
			t.Errorf("%s = %+v; want no answer", mobile, got)
		}
	}
}
