package login

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// busyFor is what somebody is asked to wait who finds the line too long.
const busyFor = 5 * time.Second

// Attempt is somebody who wants to sign in.
type Attempt struct {
	Username, Password string
	Address            netip.Addr
	Agent              string
	// Browsers is what RememberBrowser gave the browser; empty if it brought nothing.
	Browsers string
}

// SignIn begins a session for whoever knows the password. What it answers to a wrong
// one does not tell, in words or in time, whether the username is anybody's.
func (d *Service) SignIn(ctx context.Context, a Attempt) (token string, s Session, err error) {
	seen := Event{Kind: SignInFailed, Factor: factorPassword, Address: a.Address, Agent: ShortenAgent(a.Agent)}
	token, s, err = d.signIn(ctx, a, &seen)
	switch {
	case err == nil && s.Stage == NeedsCode:
		seen.Kind, seen.Person, seen.SessionID = PasswordAccepted, s.Person, s.ID
	case err == nil:
		seen.Kind, seen.Person, seen.SessionID = SignedIn, s.Person, s.ID
	case seen.Reason == "":
		if seen.Reason = reasonOf(err); seen.Reason == "" {
			return token, s, err // it went wrong on our side
		}
	}
	d.observe(ctx, seen)
	return token, s, err
}

func (d *Service) signIn(ctx context.Context, a Attempt, seen *Event) (token string, s Session, err error) {
	now := d.config.Now()
	username, _ := FoldUsername(a.Username)
	// Also for what is no username at all: it must cost the same.
	account, found, err := d.store.AccountByUsername(ctx, username)
	if err != nil {
		return "", s, fmt.Errorf("look a login up: %w", err)
	}
	browser := d.browserOf(account, a.Browsers, now)
	// Strangers leave places in the line to known browsers and live sessions, and where
	// there is none for them, the store is not asked to count.
	if browser == "" && hashesInUse.Load() >= hashesAtOnce+hashesOfStrangers {
		return "", s, throttled(busyFor)
	}
	counters := d.signInCounters(username, a.Address, browser)
	try, err := d.beginTry(ctx, now, counters)
	if err != nil {
		return "", s, err
	}
	if err := d.delay(ctx, counters, try); err != nil {
		return "", s, err // whoever hangs up meanwhile has tried
	}
	if !found {
		account.PasswordHash = nobodys
	}
	same, old, err := matches(ctx, account.PasswordHash, a.Password)
	if err != nil {
		try.takeBack(ctx)
		return "", s, busy(err)
	}
	seen.Person = account.Person
	switch {
	case !found:
		seen.Reason = reasonUnknownName
		return "", s, refuse(Wrong, wrongText)
	case !same:
		seen.Reason = string(WrongPassword)
		return "", s, refuse(Wrong, wrongText)
	}
	try.takeBack(ctx)
	switch {
	case account.Disabled:
		return "", s, refuse(Disabled, disabledText)
	case account.OperatorDeleted:
		seen.Reason = reasonOperatorDeleted
		return "", s, refuse(Disabled, closedText)
	case account.MustChangePassword && !now.Before(account.PasswordEnds):
		return "", s, refuse(PasswordEnded, passwordEndedText)
	}

	opening := Opening{Record: Record{
		ID: newSessionID(), CreatedAt: now, SeenAt: now, Address: a.Address.Unmap().WithZone(""), Agent: ShortenAgent(a.Agent), Account: account,
	}}
	if !account.SecondFactor() {
		opening.Record.SteppedUpAt = now
	}
	if old {
		if opening.RenewedHash, err = HashPassword(ctx, a.Password); err != nil {
			return "", s, busy(err)
		}
	}
	token = newToken()
	opening.Token = HashToken(token)
	switch err := d.store.OpenSession(ctx, opening); {
	case errors.Is(err, ErrMoved):
		// Between the look-up and now the password was reset, or the login disabled.
		seen.Reason = reasonChanged
		return "", s, refuse(Wrong, wrongText)
	case err != nil:
		return "", s, fmt.Errorf("begin a session: %w", err)
	}
	return d.reread(ctx, token)
}

// GiveCode is the second half of signing in, for those who have set one up: a code of
// their app, or a recovery code. browsers is as in Attempt.
func (d *Service) GiveCode(ctx context.Context, token, code string, address netip.Addr, browsers string) (newToken string, s Session, err error) {
	return d.giveFactor(ctx, token, Credentials{Code: code}, address, browsers)
}

func (d *Service) giveFactor(ctx context.Context, token string, given Credentials, address netip.Addr, browsers string) (newToken string, s Session, err error) {
	now := d.config.Now()
	record, err := d.open(ctx, token, now)
	if err != nil {
		return "", s, err
	}
	if d.session(record).Stage != NeedsCode {
		return "", s, refuse(OutOfTurn, outOfTurnText)
	}
	factor := given.factor(record.Account)
	try, err := d.beginTry(ctx, now, d.factorCounters(record.Account, given, address, d.browserOf(record.Account, browsers, now)))
	if err != nil {
		d.observeProof(ctx, record, address, SignedIn, SignInFailed, factor, err)
		return "", s, err
	}
	newToken, s, err = d.raise(ctx, token, record, given, address, now, true)
	try.end(ctx, err)
	if err == nil {
		factor = factorPassword + ", " + factor
	}
	d.observeProof(ctx, record, address, SignedIn, SignInFailed, factor, err)
	return newToken, s, err
}

// StepUp has somebody who is signed in prove themselves again, by the password and, where
// there is a second factor, a code.
func (d *Service) StepUp(ctx context.Context, token, password, code string, address netip.Addr) (newToken string, s Session, err error) {
	return d.stepUp(ctx, token, Credentials{Password: password, Code: code}, address)
}

func (d *Service) stepUp(ctx context.Context, token string, given Credentials, address netip.Addr) (newToken string, s Session, err error) {
	now := d.config.Now()
	record, err := d.open(ctx, token, now)
	if err != nil {
		return "", s, err
	}
	if d.session(record).Stage == NeedsCode {
		return "", s, refuse(OutOfTurn, outOfTurnText)
	}
	err = d.counted(ctx, record, address, SteppedUp, StepUpFailed, provedBy(record.Account, given), func() error {
		if err := d.demandPassword(ctx, record.Account, given.Password); err != nil {
			return err
		}
		newToken, s, err = d.raise(ctx, token, record, given, address, now, false)
		return err
	})
	return newToken, s, err
}

// demandPassword refuses whoever is signed in and does not know the password.
func (d *Service) demandPassword(ctx context.Context, account Account, password string) error {
	same, _, err := matches(ctx, account.PasswordHash, password)
	if err != nil {
		return busy(err)
	}
	if !same {
		return refuse(WrongPassword, wrongPasswordText)
	}
	return nil
}

// raise uses a code up, if one is set up, and gives the session another token: one
// that was seen before the rise is worth nothing after it.
func (d *Service) raise(ctx context.Context, token string, record Record, given Credentials, address netip.Addr, now time.Time, signingIn bool) (string, Session, error) {
	proof, err := d.secondProof(ctx, record, given, address, now)
	if err != nil {
		return "", Session{}, err
	}
	next := newToken()
	err = d.store.RaiseSession(ctx, Rise{
		Old: HashToken(token), New: HashToken(next), PersonID: record.Account.ID, Version: record.Account.Version,
		Proof: proof, SteppedUpAt: now, SigningIn: signingIn,
	})
	switch {
	case errors.Is(err, ErrSpent):
		return "", Session{}, spent(proof)
	case err != nil:
		return "", Session{}, moved(err)
	}
	return d.reread(ctx, next)
}

// proofOf reads a code. Whether it was used before is the store's to say.
func (d *Service) proofOf(ctx context.Context, account Account, code string, now time.Time) (Proof, error) {
	if !account.SecondFactor() {
		return Proof{}, nil
	}
	typed := plain(code)
	switch {
	case typed == "" || looksLikeTOTP(typed) && !account.TOTP:
		return Proof{}, refuse(WrongCode, wrongCodeText)
	case !looksLikeTOTP(typed):
		return d.recoveryProof(ctx, account, typed)
	}
	secret, err := d.vault.OpenTOTP(account.SealedTOTP, account.ID)
	if err != nil {
		return Proof{}, fmt.Errorf("read the second factor of login %d: %w", account.ID, err)
	}
	step, found := stepOfCode(secret, typed, now, account.TOTPStep)
	if !found {
		return Proof{}, refuse(WrongCode, wrongCodeText)
	}
	return Proof{Step: step}, nil
}

// Resume says whose session a token opens. It reads the person's row each time: who
// was disabled a moment ago, on whatever node, is signed out.
func (d *Service) Resume(ctx context.Context, token string) (Session, error) {
	now := d.config.Now()
	record, err := d.open(ctx, token, now)
	if err != nil {
		return Session{}, err
	}
	if now.Sub(record.SeenAt) >= seenEvery {
		if err := d.store.TouchSession(ctx, HashToken(token), now); err != nil {
			return Session{}, fmt.Errorf("note that a session is in use: %w", err)
		}
		record.SeenAt = now
	}
	return d.session(record), nil
}

// SignOut ends the session of a token; there need not be one.
func (d *Service) SignOut(ctx context.Context, token string) error {
	record, err := d.open(ctx, token, d.config.Now())
	if err != nil && !errors.Is(err, ErrSignedOut) {
		return err
	}
	if err := d.store.CloseSession(ctx, HashToken(token)); err != nil {
		return fmt.Errorf("end a session: %w", err)
	}
	if record.ID != "" {
		d.observe(ctx, Event{Kind: SignedOut, Person: record.Account.Person, SessionID: record.ID, Address: record.Address, Agent: record.Agent})
	}
	return nil
}

// open reads the session of a token, if it is still one.
func (d *Service) open(ctx context.Context, token string, now time.Time) (Record, error) {
	if len(token) != tokenLen {
		return Record{}, ErrSignedOut
	}
	record, found, err := d.store.SessionByToken(ctx, HashToken(token))
	if err != nil {
		return Record{}, fmt.Errorf("read a session: %w", err)
	}
	if !found || !d.alive(record, now) {
		return Record{}, ErrSignedOut
	}
	return record, nil
}

// reread is a session as it is after it was changed.
func (d *Service) reread(ctx context.Context, token string) (string, Session, error) {
	record, err := d.open(ctx, token, d.config.Now())
	if err != nil {
		return "", Session{}, err
	}
	return token, d.session(record), nil
}

const tokenBytes = 32

var tokenLen = base64.RawURLEncoding.EncodedLen(tokenBytes)

func newToken() string {
	b := make([]byte, tokenBytes)
	rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

func newSessionID() string {
	b := make([]byte, 8)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// ShortenAgent is what a browser calls itself, fit to be kept and shown.
func ShortenAgent(agent string) string {
	agent = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, agent)
	if runes := []rune(agent); len(runes) > agentMost {
		agent = string(runes[:agentMost])
	}
	return agent
}

// busy tells a line that is too long from what went wrong.
func busy(err error) error {
	if errors.Is(err, errBusy) {
		return throttled(busyFor)
	}
	return err
}

// moved is what becomes of a session whose account has changed under it.
func moved(err error) error {
	if errors.Is(err, ErrMoved) {
		return ErrSignedOut
	}
	return fmt.Errorf("change a session: %w", err)
}
