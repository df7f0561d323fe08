// Package simulator is a provider: it keeps books of its own, carries an order
// out at most once, and answers for it later. It can be told to misbehave on the
// wire in ten ways, never in its books: what it denies it did not do.
package simulator

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/operation"
)

// Config is how a simulator differs from the usual one. The zero value works.
type Config struct {
	// Now dates the calls it lists; nil leaves them undated.
	Now func() time.Time
	// StateFile is where it keeps its books; empty keeps them in memory.
	StateFile string
	// SlowFor is how long a slow answer takes; zero means 2 s.
	SlowFor time.Duration
	// Token, if set, is the bearer token it wants to see.
	Token string
}

// Simulator is one provider, and an http.Handler.
type Simulator struct {
	now      func() time.Time
	slowFor  time.Duration
	token    string
	routes   map[string]route
	book     *book
	steering *steering
	server   *http.Server
	closing  chan struct{}
	close    func()
}

var _ http.Handler = (*Simulator)(nil)

// New returns a provider that is up. Its books are those of the state file, if
// there is one.
func New(config Config) (*Simulator, error) {
	books, err := openBook(config.StateFile)
	if err != nil {
		return nil, err
	}
	s := &Simulator{
		now:      config.Now,
		slowFor:  config.SlowFor,
		token:    config.Token,
		book:     books,
		steering: newSteering(),
		closing:  make(chan struct{}),
	}
	if s.now == nil {
		s.now = func() time.Time { return time.Time{} }
	}
	if s.slowFor == 0 {
		s.slowFor = 2 * time.Second
	}
	s.close = sync.OnceFunc(func() { close(s.closing) })
	s.routes = map[string]route{
		"/v1/activate":        {http.MethodPost, s.applying(operation.Activate)},
		"/v1/renew":           {http.MethodPost, s.applying(operation.Renew)},
		"/v1/advance-renew":   {http.MethodPost, s.applying(operation.AdvanceRenew)},
		"/v1/reset-password":  {http.MethodPost, s.resetPassword},
		"/v1/void":            {http.MethodPost, s.void},
		"/v1/status":          {http.MethodGet, s.status},
		"/v1/catalogue":       {http.MethodGet, s.catalogue},
		"/control/script":     {http.MethodPost, s.controlScript},
		"/control/status":     {http.MethodPost, s.controlStatus},
		"/control/components": {http.MethodPost, s.controlComponents},
		"/control/calls":      {http.MethodGet, s.controlCalls},
	}
	s.server = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		// Longer than clients keep idle connections, so that it is never the
		// one to close a connection that a call is about to use.
		IdleTimeout: 3 * time.Minute,
	}
	return s, nil
}

// Serve answers what comes in on a listener until Shutdown.
func (s *Simulator) Serve(listener net.Listener) error {
	err := s.server.Serve(listener)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve the simulator: %w", err)
}

// Shutdown drops every call that is held or slow, lets the others finish, and
// closes the books.
func (s *Simulator) Shutdown(ctx context.Context) error {
	s.close()
	// What is left after the held calls takes no time. A connection on which
	// nothing was ever sent would still be waited for.
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if s.server.Shutdown(ctx) != nil {
		_ = s.server.Close()
	}
	return s.book.close()
}

// Components lists everything the simulator can sell, withdrawn or not.
func Components() []catalogue.Component {
	return []catalogue.Component{
		{Code: "TV-BASIC", Name: "Basic television", Role: catalogue.Main},
		{Code: "TV-FAMILY", Name: "Family television", Role: catalogue.Main},
		{Code: "OTT-PLUS", Name: "Streaming pack", Role: catalogue.Addon},
	}
}

// Effects counts how often each reference was carried out, from the books. No
// count is ever above one; that is what tests hold it against.
func (s *Simulator) Effects() map[string]int { return s.book.countEffects() }

// Calls lists what the simulator was asked about a mobile, or altogether if none
// is given, in order of arrival.
func (s *Simulator) Calls(mobile string) []Call { return s.book.listCalls(mobile) }

// Script sets what the next orders for a mobile will meet, for whoever holds the
// simulator itself; none ends the script.
func (s *Simulator) Script(mobile string, outcomes ...Outcome) {
	s.steering.setScript(mobile, outcomes)
}

// route is one path with its method.
type route struct {
	method string
	handle http.HandlerFunc
}

// ServeHTTP answers the protocol below /v1/ and obeys below /control/.
func (s *Simulator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	control := strings.HasPrefix(r.URL.Path, "/control/")
	if s.isClosing() || !control && s.steering.currentMode() == ModeDown {
		drop()
	}
	route, known := s.routes[r.URL.Path]
	switch {
	case !known:
		refuse(w, http.StatusNotFound, "there is no %s here", r.URL.Path)
	case r.Method != route.method:
		w.Header().Set("Allow", route.method)
		refuse(w, http.StatusMethodNotAllowed, "%s wants %s", r.URL.Path, route.method)
	case !control && !s.knows(r.Header.Get("Authorization")):
		refuse(w, http.StatusUnauthorized, "the bearer token is missing or wrong")
	default:
		if !control && s.steering.currentMode() == ModeSlow {
			s.pause()
		}
		route.handle(w, r)
	}
}

func (s *Simulator) knows(authorization string) bool {
	return s.token == "" || subtle.ConstantTimeCompare([]byte(authorization), []byte("Bearer "+s.token)) == 1
}

func (s *Simulator) isClosing() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// drop ends the connection without an answer.
func drop() { panic(http.ErrAbortHandler) }

// hold gives no answer, for as long as anybody waits for one.
func (s *Simulator) hold(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-s.closing:
	}
	drop()
}

// pause takes its time. Whoever asked may leave; the work goes on, as a
// provider's would.
func (s *Simulator) pause() {
	timer := time.NewTimer(s.slowFor)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.closing:
		drop()
	}
}
