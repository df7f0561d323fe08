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

// busyFor is the Refusal.RetryAfter when too many passwords are being hashed.
const busyFor = 5 * time.Second

// Attempt is an attempt to sign in.
type Attempt struct {
	Username, Password string
	Address            netip.Addr
	Agent              string
	// Browsers is what RememberBrowser returned, as the browser sent it; may be empty.
	Browsers string
}

// SignIn creates a session if the password is correct. Neither the text nor the duration
// of a refusal reveals whether the username exists.
func (svc *Service) SignIn(ctx context.Context, a Attempt) (token string, s Session, err error) {
	seen := Event{Kind: SignInFailed, Factor: factorPassword, Address: a.Address, Agent: ShortenAgent(a.Agent)}
	token, s, err = svc.signIn(ctx, a, &seen)
	switch {
	case err == nil && s.Stage == NeedsCode:
		seen.Kind, seen.Person, seen.SessionID = PasswordAccepted, s.Person, s.ID
	case err == nil:
		seen.Kind, seen.Person, seen.SessionID = SignedIn, s.Person, s.ID
	case seen.Reason == "":
		if seen.Reason = reasonOf(err); seen.Reason == "" {
			return token, s, err // an internal error
		}
	}
	svc.observe(ctx, seen)
	return token, s, err
}

// Named returns the person with that username, disabled ones included.
func (svc *Service) Named(ctx context.Context, username string) (Person, bool, error) {
	account, found, err := svc.store.AccountByUsername(ctx, username)
	if err != nil {
		return Person{}, false, fmt.Errorf("look a login up: %w", err)
	}
	return account.Person, found, nil
}

func (svc *Service) signIn(ctx context.Context, a Attempt, seen *Event) (token string, s Session, err error) {
	now := svc.config.Now()
	username, _ := FoldUsername(a.Username)
	// Also for an invalid username: it must cost the same.
	account, found, err := svc.store.AccountByUsername(ctx, username)
	if err != nil {
		return "", s, fmt.Errorf("look a login up: %w", err)
	}
	browser := svc.browserOf(account, a.Browsers, now)
	// Some hash slots are reserved for known browsers and live sessions. Without a free
	// one, the try is not counted in the store.
	if browser == "" && hashesInUse.Load() >= maxConcurrentHashes+maxUnknownBrowserHashes {
		return "", s, throttled(busyFor)
	}
	counters := svc.signInCounters(username, a.Address, browser)
	try, err := svc.beginTry(ctx, now, counters)
	if err != nil {
		return "", s, err
	}
	if err := svc.delay(ctx, counters, try); err != nil {
		return "", s, err // a client that disconnects meanwhile stays counted
	}
	if !found {
		account.PasswordHash = dummyHash
	}
	same, old, err := matches(ctx, account.PasswordHash, a.Password)
	if err != nil {
		try.uncount(ctx)
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
	try.uncount(ctx)
	switch {
	case account.Disabled:
		return "", s, refuse(Disabled, disabledText)
	case account.OperatorDeleted:
		seen.Reason = reasonOperatorDeleted
		return "", s, refuse(Disabled, closedText)
	case account.MustChangePassword && !now.Before(account.PasswordEnds):
		return "", s, refuse(PasswordEnded, passwordEndedText)
	}

	session := NewSession{Record: Record{
		ID: newSessionID(), CreatedAt: now, SeenAt: now, Address: a.Address.Unmap().WithZone(""), Agent: ShortenAgent(a.Agent), Account: account,
	}}
	if !account.SecondFactor() {
		session.Record.SteppedUpAt = now
	}
	if old {
		if session.RenewedHash, err = HashPassword(ctx, a.Password); err != nil {
			return "", s, busy(err)
		}
	}
	token = newToken()
	session.Token = HashToken(token)
	switch err := svc.store.OpenSession(ctx, session); {
	case errors.Is(err, ErrChanged):
		// The password was reset, or the login disabled, since it was read.
		seen.Reason = reasonChanged
		return "", s, refuse(Wrong, wrongText)
	case err != nil:
		return "", s, fmt.Errorf("create a session: %w", err)
	}
	return svc.reread(ctx, token)
}

// VerifyCode is the second step of signing in, by a code of the authenticator app or a
// recovery code. browsers is as in Attempt.
func (svc *Service) VerifyCode(ctx context.Context, token, code string, address netip.Addr, browsers string) (newToken string, s Session, err error) {
	return svc.verifyFactor(ctx, token, Credentials{Code: code}, address, browsers)
}

func (svc *Service) verifyFactor(ctx context.Context, token string, given Credentials, address netip.Addr, browsers string) (newToken string, s Session, err error) {
	now := svc.config.Now()
	record, err := svc.open(ctx, token, now)
	if err != nil {
		return "", s, err
	}
	if svc.session(record).Stage != NeedsCode {
		return "", s, refuse(WrongStage, wrongStageText)
	}
	factor := given.factor(record.Account)
	try, err := svc.beginTry(ctx, now, svc.factorCounters(record.Account, given, address, svc.browserOf(record.Account, browsers, now)))
	if err != nil {
		svc.observeProof(ctx, record, address, SignedIn, SignInFailed, factor, err)
		return "", s, err
	}
	newToken, s, err = svc.upgrade(ctx, token, record, given, address, now, true)
	try.end(ctx, err)
	if err == nil {
		factor = factorPassword + ", " + factor
	}
	svc.observeProof(ctx, record, address, SignedIn, SignInFailed, factor, err)
	return newToken, s, err
}

// StepUp verifies the password of a signed-in person again and, if a second factor is set
// up, a code.
func (svc *Service) StepUp(ctx context.Context, token, password, code string, address netip.Addr) (newToken string, s Session, err error) {
	return svc.stepUp(ctx, token, Credentials{Password: password, Code: code}, address)
}

func (svc *Service) stepUp(ctx context.Context, token string, given Credentials, address netip.Addr) (newToken string, s Session, err error) {
	now := svc.config.Now()
	record, err := svc.open(ctx, token, now)
	if err != nil {
		return "", s, err
	}
	if svc.session(record).Stage == NeedsCode {
		return "", s, refuse(WrongStage, wrongStageText)
	}
	err = svc.counted(ctx, record, address, SteppedUp, StepUpFailed, provedBy(record.Account, given), func() error {
		if err := svc.verifyPassword(ctx, record.Account, given.Password); err != nil {
			return err
		}
		newToken, s, err = svc.upgrade(ctx, token, record, given, address, now, false)
		return err
	})
	return newToken, s, err
}

// verifyPassword refuses a wrong password of a signed-in person.
func (svc *Service) verifyPassword(ctx context.Context, account Account, password string) error {
	same, _, err := matches(ctx, account.PasswordHash, password)
	if err != nil {
		return busy(err)
	}
	if !same {
		return refuse(WrongPassword, wrongPasswordText)
	}
	return nil
}

// upgrade uses the second factor, if one is set up, and gives the session a new token: a
// token that leaked before is invalid afterwards.
func (svc *Service) upgrade(ctx context.Context, token string, record Record, given Credentials, address netip.Addr, now time.Time, signingIn bool) (string, Session, error) {
	proof, err := svc.secondProof(ctx, record, given, address, now)
	if err != nil {
		return "", Session{}, err
	}
	next := newToken()
	err = svc.store.UpgradeSession(ctx, SessionUpgrade{
		Old: HashToken(token), New: HashToken(next), PersonID: record.Account.ID, Version: record.Account.Version,
		Proof: proof, SteppedUpAt: now, SigningIn: signingIn,
	})
	switch {
	case errors.Is(err, ErrUsed):
		return "", Session{}, refuseUsed(proof)
	case err != nil:
		return "", Session{}, signedOutIfChanged(err)
	}
	return svc.reread(ctx, next)
}

// proofOf verifies a code. The store checks whether it was used before.
func (svc *Service) proofOf(ctx context.Context, account Account, code string, now time.Time) (Proof, error) {
	if !account.SecondFactor() {
		return Proof{}, nil
	}
	typed := plain(code)
	switch {
	case typed == "" || looksLikeTOTP(typed) && !account.TOTP:
		return Proof{}, refuse(WrongCode, wrongCodeText)
	case !looksLikeTOTP(typed):
		return svc.recoveryProof(ctx, account, typed)
	}
	secret, err := svc.vault.OpenTOTP(account.SealedTOTP, account.ID)
	if err != nil {
		return Proof{}, fmt.Errorf("read the second factor of login %d: %w", account.ID, err)
	}
	step, found := stepOfCode(secret, typed, now, account.TOTPStep)
	if !found {
		return Proof{}, refuse(WrongCode, wrongCodeText)
	}
	return Proof{Step: step}, nil
}

// Resume returns the session of a token. It reads the person's row each time, so that a
// login that was disabled on any node is signed out immediately.
func (svc *Service) Resume(ctx context.Context, token string) (Session, error) {
	now := svc.config.Now()
	record, err := svc.open(ctx, token, now)
	if err != nil {
		return Session{}, err
	}
	if now.Sub(record.SeenAt) >= seenEvery {
		if err := svc.store.TouchSession(ctx, HashToken(token), now); err != nil {
			return Session{}, fmt.Errorf("record the use of a session: %w", err)
		}
		record.SeenAt = now
	}
	return svc.session(record), nil
}

// SignOut ends the session of a token, if there is one.
func (svc *Service) SignOut(ctx context.Context, token string) error {
	record, err := svc.open(ctx, token, svc.config.Now())
	if err != nil && !errors.Is(err, ErrSignedOut) {
		return err
	}
	if err := svc.store.CloseSession(ctx, HashToken(token)); err != nil {
		return fmt.Errorf("end a session: %w", err)
	}
	if record.ID != "" {
		svc.observe(ctx, Event{Kind: SignedOut, Person: record.Account.Person, SessionID: record.ID, Address: record.Address, Agent: record.Agent})
	}
	return nil
}

// open reads the session of a token, if it is still valid.
func (svc *Service) open(ctx context.Context, token string, now time.Time) (Record, error) {
	if len(token) != tokenLen {
		return Record{}, ErrSignedOut
	}
	record, found, err := svc.store.SessionByToken(ctx, HashToken(token))
	if err != nil {
		return Record{}, fmt.Errorf("read a session: %w", err)
	}
	if !found || !svc.alive(record, now) {
		return Record{}, ErrSignedOut
	}
	return record, nil
}

// reread reads a session after a change.
func (svc *Service) reread(ctx context.Context, token string) (string, Session, error) {
	record, err := svc.open(ctx, token, svc.config.Now())
	if err != nil {
		return "", Session{}, err
	}
	return token, svc.session(record), nil
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

// ShortenAgent shortens a User-Agent and drops what cannot be printed.
func ShortenAgent(agent string) string {
	agent = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, agent)
	if runes := []rune(agent); len(runes) > maxAgentLength {
		agent = string(runes[:maxAgentLength])
	}
	return agent
}

// busy converts errBusy into a refusal.
func busy(err error) error {
	if errors.Is(err, errBusy) {
		return throttled(busyFor)
	}
	return err
}

// signedOutIfChanged converts ErrChanged: the session has ended because the account was
// changed meanwhile.
func signedOutIfChanged(err error) error {
	if errors.Is(err, ErrChanged) {
		return ErrSignedOut
	}
	return fmt.Errorf("change a session: %w", err)
}
