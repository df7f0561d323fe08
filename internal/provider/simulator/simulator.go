// Package simulator is a provider for tests and demos: it keeps its own records,
// carries out an order at most once, and reports its status later. It can simulate
// ten outcomes, which affect its replies but never its records: an order that it
// rejects was not carried out.
package simulator

import (
	"cmp"
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

// Config configures a simulator. The zero value works.
type Config struct {
	// Now is the clock of the listed calls and orders; nil leaves them without a time.
	Now func() time.Time
	// StateFile stores the records; empty keeps them in memory.
	StateFile string
	// SlowFor is how long a slow answer takes; zero means 2 s.
	SlowFor time.Duration
	// PageSize is how many orders a page of the list has; zero means 100.
	PageSize int
	// Token, if set, is the required bearer token.
	Token string
}

// Simulator is a simulated provider, as an http.Handler.
type Simulator struct {
	now      func() time.Time
	slowFor  time.Duration
	pageSize int
	token    string
	routes   map[string]route
	book     *book
	settings *settings
	server   *http.Server
	closing  chan struct{}
	close    func()
}

var _ http.Handler = (*Simulator)(nil)

// New returns a provider that is up, with the records of the state file, if there
// is one.
func New(config Config) (*Simulator, error) {
	book, err := openBook(config.StateFile)
	if err != nil {
		return nil, err
	}
	s := &Simulator{
		now:      config.Now,
		slowFor:  config.SlowFor,
		pageSize: cmp.Or(config.PageSize, 100),
		token:    config.Token,
		book:     book,
		settings: newSettings(),
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
		"/v1/reverse":         {http.MethodPost, s.reverse},
		"/v1/contact":         {http.MethodPost, s.updateContact},
		"/v1/void":            {http.MethodPost, s.void},
		"/v1/status":          {http.MethodGet, s.status},
		"/v1/orders":          {http.MethodGet, s.orders},
		"/v1/catalogue":       {http.MethodGet, s.catalogue},
		"/control/script":     {http.MethodPost, s.controlScript},
		"/control/status":     {http.MethodPost, s.controlStatus},
		"/control/components": {http.MethodPost, s.controlComponents},
		"/control/calls":      {http.MethodGet, s.controlCalls},
	}
	s.server = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		// Longer than clients keep idle connections, so that the server never
		// closes a connection that a call is about to use.
		IdleTimeout: 3 * time.Minute,
	}
	return s, nil
}

// Serve accepts connections on a listener until Shutdown.
func (s *Simulator) Serve(listener net.Listener) error {
	err := s.server.Serve(listener)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve the simulator: %w", err)
}

// Shutdown drops every call that is held or slow, waits for the others, and closes
// the records.
func (s *Simulator) Shutdown(ctx context.Context) error {
	s.close()
	// The other calls end quickly. Without the timeout, Shutdown would wait for
	// connections on which nothing was sent.
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

// Effects counts how often each reference was carried out, from the records. No
// count is ever above one, which tests check.
func (s *Simulator) Effects() map[string]int { return s.book.countEffects() }

// Calls lists the calls about a mobile, or all calls if it is empty, in order of
// arrival.
func (s *Simulator) Calls(mobile string) []Call { return s.book.listCalls(mobile) }

// Script sets the outcomes of the next orders for a mobile; none ends the script.
func (s *Simulator) Script(mobile string, outcomes ...Outcome) {
	s.settings.setScript(mobile, outcomes)
}

// route is one path with its method.
type route struct {
	method string
	handle http.HandlerFunc
}

// ServeHTTP serves the protocol below /v1/ and the control API below /control/.
func (s *Simulator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	control := strings.HasPrefix(r.URL.Path, "/control/")
	if s.isClosing() || !control && s.settings.currentMode() == ModeDown {
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
		if !control && s.settings.currentMode() == ModeSlow {
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

// hold sends no answer until the caller disconnects, then drops the connection.
func (s *Simulator) hold(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-s.closing:
	}
	drop()
}

// pause delays a call. The order continues even if the caller disconnects, as at a
// real provider.
func (s *Simulator) pause() {
	timer := time.NewTimer(s.slowFor)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.closing:
		drop()
	}
}
