package certify

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/certify/line"
	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/telemetry"
)

// service is a real service with a simulated provider, in this process and in a folder that
// is removed at the end.
type service struct {
	folder    string
	url       string // without /api/v1
	node      *server.Node
	simulator *demo.RunningSimulator
	admin     *admin.Service
	http      *http.Client
	stop      func() error

	mu    sync.Mutex // of the counter
	count int

	// silent counts the stories of this run in which the program gave no outcome.
	silent atomic.Int32
}

// The provider's silence becomes a 202 after a second, and is settled some three seconds
// later.
var serviceSettings = []string{
	"provider.timeout=1s", "review.first_check=3s", "review.max_interval=1s", "review.refund_after=3s", "log.level=error",
}

// prices are plans whose amounts binary fractions get wrong.
var prices = map[string]int64{"PRICE-1": 1234567_10, "PRICE-2": 4_35, "PRICE-3": 19_99, "PRICE-4": 1_15}

func startService(ctx context.Context) (*service, error) {
	folder, err := os.MkdirTemp("", "coax-certify-")
	if err != nil {
		return nil, err
	}
	s := &service{folder: folder}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start the service: %w", err), os.RemoveAll(folder))
	}
	return s, nil
}

func (s *service) start(ctx context.Context) (err error) {
	if s.simulator, err = demo.StartSimulator("127.0.0.1:0", ""); err != nil {
		return err
	}
	config, err := demo.Prepare(demo.Folder{Path: s.folder, Sets: serviceSettings}, "127.0.0.1:0", s.simulator.URL)
	if err != nil {
		s.simulator.Stop()
		return err
	}
	var log bytes.Buffer
	logger, err := server.NewLogger(&log, config, "text")
	if err != nil {
		s.simulator.Stop()
		return err
	}
	if s.node, err = server.Open(ctx, config, nil, logger, time.Now); err != nil {
		s.simulator.Stop()
		return err
	}
	if err := s.setUp(ctx); err != nil {
		s.simulator.Stop()
		return errors.Join(err, s.node.Close())
	}
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- s.node.Serve(serving) }()
	s.stop = func() error {
		cancel()
		err := <-served
		telemetry.Flush(logger)
		if err != nil {
			err = fmt.Errorf("the service ended: %w\n%s", err, log.String())
		}
		s.http.CloseIdleConnections()
		err = errors.Join(err, s.node.Close())
		s.simulator.Stop()
		return errors.Join(err, os.RemoveAll(s.folder))
	}
	return nil
}

func (s *service) setUp(ctx context.Context) error {
	if _, err := demo.Setup(ctx, s.node, filepath.Join(s.folder, "demo.json")); err != nil {
		return err
	}
	s.admin = admin.NewService(s.node.Store, s.node.Vault, "certify", time.Now)
	for id, paise := range prices {
		plan := subscription.Plan{ID: id, Name: id, Price: money.Paise(paise), Months: 1, Type: subscription.Standard, Main: "TV-BASIC"}
		if _, err := s.admin.SetPlan(ctx, plan); err != nil {
			return err
		}
	}
	text, err := os.ReadFile(s.ca())
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	s.http = &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots}, MaxIdleConnsPerHost: 32,
		// The service closes a connection that was idle for five seconds.
		IdleConnTimeout: 2 * time.Second,
	}}
	if err := s.node.Listen(); err != nil {
		return err
	}
	s.url = "https://" + server.Reachable(s.node.APIAddr)
	return nil
}

func (s *service) ca() string { return filepath.Join(s.folder, "ca.pem") }

// account is an operator of one story.
type account struct {
	service *service
	id      int64
	// watcher has a key of the operator's own, with which the truth is looked up.
	watcher *client.Client

	mu      sync.Mutex
	current admin.IssuedKey   // what the program is given
	given   map[string]string // secrets by key, of all that it was given
	paid    int               // top-ups so far
	added   int64             // paise that were added in the middle of the story
}

// newAccount makes an operator with a wallet, and a key for the program.
func (s *service) newAccount(ctx context.Context, wallet string) (*account, error) {
	s.mu.Lock()
	s.count++
	n := s.count
	s.mu.Unlock()
	operator, err := s.admin.CreateOperator(ctx, fmt.Sprintf("Story %d", n), admin.OperatorChange{RateLimit: new(1_000_000)})
	if err != nil {
		return nil, err
	}
	a := &account{service: s, id: operator.ID, given: map[string]string{}}
	if _, err := s.admin.AllowAddress(ctx, a.id, "127.0.0.1"); err != nil {
		return nil, err
	}
	if wallet != "0.00" {
		if err := a.topUp(ctx, wallet); err != nil {
			return nil, err
		}
	}
	watching, err := s.admin.IssueKey(ctx, a.id, access.AllPermissions)
	if err != nil {
		return nil, err
	}
	a.watcher, err = client.New(client.Config{BaseURL: s.url + "/api/v1", Key: watching.Key, Secret: client.Secret(watching.Secret.Reveal()), HTTP: s.http})
	if err != nil {
		return nil, err
	}
	return a, a.issue(ctx)
}

func (a *account) topUp(ctx context.Context, amount string) error {
	rupees, err := money.Parse(amount)
	if err != nil {
		return err
	}
	a.paid++
	_, _, err = a.service.admin.TopUp(ctx, admin.TopUp{OperatorID: a.id, Amount: rupees, Reference: fmt.Sprintf("story %d, payment %d", a.id, a.paid)})
	return err
}

// issue gives the program a new key.
func (a *account) issue(ctx context.Context) error {
	issued, err := a.service.admin.IssueKey(ctx, a.id, access.AllPermissions)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.replaceKey(issued)
	return nil
}

func (a *account) replaceKey(issued admin.IssuedKey) {
	a.current = issued
	a.given[issued.Key] = issued.Secret.Reveal()
}

// key is what the program is given now.
func (a *account) key() (key, secret string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.current.Key, a.current.Secret.Reveal()
}

// secretOf returns the secret of a key that the program was given; "" if it was not.
func (a *account) secretOf(key string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.given[key]
}

// secrets lists all that the program was given.
func (a *account) secrets() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Values(a.given))
}

// change does something to the account in the middle of a story.
func (a *account) change(ctx context.Context, what string) error {
	switch what {
	case "":
		return nil
	case "rotate the key":
		a.mu.Lock()
		defer a.mu.Unlock()
		issued, err := a.service.admin.RotateKey(ctx, a.current.ID, 0)
		if err != nil {
			return err
		}
		a.replaceKey(issued)
		return nil
	case "revoke the key":
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.service.admin.RevokeKey(ctx, a.current.ID)
	case "forbid renewals":
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.service.admin.PermitKey(ctx, a.current.ID, access.PermissionsOf(access.CheckBalance, access.CheckTransaction))
	case "top up":
		a.added += 1000_00
		return a.topUp(ctx, "1000.00")
	}
	return fmt.Errorf("a story cannot %q", what)
}

// forward takes a request to the service.
func (s *service) forward(r line.Request) (line.Answer, error) {
	outgoing, err := http.NewRequest(r.Method, s.url+r.Target, bytes.NewReader(r.Body))
	if err != nil {
		return line.Answer{}, err
	}
	outgoing.Header = r.Header.Clone()
	outgoing.Header.Del("Accept-Encoding")
	response, err := s.http.Do(outgoing)
	if err != nil {
		return line.Answer{}, fmt.Errorf("ask the service: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return line.Answer{}, fmt.Errorf("ask the service: %w", err)
	}
	return line.Answer{Status: response.StatusCode, Header: response.Header, Body: body}, nil
}

// settled looks an operation up once it is settled, or when the context ends; nil if there
// is none.
func (a *account) settled(ctx context.Context, key string) (*client.Operation, error) {
	for {
		got, err := a.watcher.TransactionByKey(context.WithoutCancel(ctx), client.IdempotencyKey(key))
		switch {
		case errors.Is(err, client.TransactionNotFound):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("look up %s: %w", key, err)
		case got.Status.Settled():
			return got, nil
		}
		pause := time.NewTimer(200 * time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return got, nil
		}
	}
}

// setBalance books what is missing or too much, so that the wallet holds an amount.
func (a *account) setBalance(ctx context.Context, amount string) error {
	want, err := money.Parse(amount)
	if err != nil {
		return err
	}
	held, err := a.balance(ctx)
	if err != nil || held == want.Paise() {
		return err
	}
	_, err = a.service.admin.Adjust(ctx, a.id, money.Paise(want.Paise()-held), "what the story has in the wallet")
	return err
}

// balance is what the wallet holds, in paise.
func (a *account) balance(ctx context.Context) (int64, error) {
	wallet, err := a.service.admin.Wallet(ctx, a.id)
	return wallet.Balance.Paise(), err
}
