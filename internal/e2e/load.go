package e2e

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/internal/fault"
)

// loadAnswer is the code of one request, and when the request began (before its first
// byte) and ended.
type loadAnswer struct {
	Began, Ended time.Time
	Code         fault.Code
}

// load sends 200 requests a second until it is stopped.
type load struct {
	mu   sync.Mutex
	All  []loadAnswer
	Stop func()
}

// StartLoad starts a load of balance requests.
func (e *Env) StartLoad(as Caller) *load {
	l := &load{}
	done := make(chan struct{})
	var group sync.WaitGroup
	ticks := make(chan struct{}, 64)
	group.Go(func() {
		ticker := time.NewTicker(time.Second / 200)
		defer ticker.Stop()
		defer close(ticks)
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				select {
				case ticks <- struct{}{}:
				default:
				}
			}
		}
	})
	for range 16 {
		group.Go(func() {
			for range ticks {
				began := time.Now()
				got := e.Send(Call{As: as, Path: Balance})
				l.mu.Lock()
				l.All = append(l.All, loadAnswer{began, time.Now(), got.Code})
				l.mu.Unlock()
			}
		})
	}
	l.Stop = sync.OnceFunc(func() { close(done); group.Wait() })
	return l
}

// Await waits until n requests that began after this call have been answered.
func (l *load) Await(t *testing.T, n int) {
	t.Helper()
	began, timeout := time.Now(), time.After(Timeout)
	for {
		l.mu.Lock()
		count := 0
		for _, s := range l.All {
			if s.Began.After(began) {
				count++
			}
		}
		l.mu.Unlock()
		if count >= n {
			return
		}
		select {
		case <-timeout:
			t.Fatal("the load has stopped making progress")
		case <-time.After(time.Millisecond):
		}
	}
}

// activationLoad is a load of activations by eight clients, each sending one at a time.
type activationLoad struct {
	e    *Env
	mu   sync.Mutex
	done map[string]string // transaction ids by idempotency key
	Stop func()
}

// StartActivations starts a load of activations.
func (e *Env) StartActivations(as Caller) *activationLoad {
	l := &activationLoad{e: e, done: map[string]string{}}
	end := make(chan struct{})
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-end:
					return
				default:
				}
				mobile := fmt.Sprintf("98%02d%06d", worker, i)
				got := e.Operate(as, "activate", "load-"+mobile, Activation(mobile))
				l.mu.Lock()
				l.done["load-"+mobile] = got.Text("transaction_id")
				l.mu.Unlock()
			}
		})
	}
	l.Stop = sync.OnceFunc(func() { close(end); group.Wait() })
	e.TB.Cleanup(l.Stop)
	return l
}

// Answered returns the transactions answered so far.
func (l *activationLoad) Answered() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.done)
}

// Await waits for this many more answers.
func (l *activationLoad) Await(more int) {
	l.e.TB.Helper()
	before := len(l.Answered())
	l.e.WaitUntil("more activations are answered", func() bool { return len(l.Answered()) >= before+more })
}

// Client returns the public client with a caller's key.
func (e *Env) Client(as Caller, config client.Config) *client.Client {
	e.TB.Helper()
	config.Key, config.Secret, config.Now = as.Key, client.Secret(as.Secret), e.Now
	if config.BaseURL == "" {
		config.BaseURL = e.Demo.BaseURL
	}
	if config.HTTP == nil {
		config.HTTP = &http.Client{Transport: contractTransport{e}}
	}
	c, err := client.New(config)
	if err != nil {
		e.TB.Fatal(err)
	}
	return c
}

// contractTransport checks every response against the contract before the client sees it.
type contractTransport struct{ e *Env }

func (c contractTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.e.HTTP.Do(request)
	if err != nil {
		return nil, err
	}
	got, err := c.e.Receive(request, request.URL.RequestURI(), response)
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(got.Raw))
	return response, nil
}
