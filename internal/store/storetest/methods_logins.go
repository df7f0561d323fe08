package storetest

import (
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/login"
)

// loginCalls are the methods of sign-in and sessions.
var loginCalls = []methodCall{
	{"AccountByUsername", (*methodCaller).sessionCalls},
	{"OpenSession", (*methodCaller).sessionCalls},
	{"SessionByToken", func(w *methodCaller) { w.must(second(w.SessionByToken(w.Context(), login.TokenHash{}))) }},
	{"TouchSession", func(w *methodCaller) { w.must(w.TouchSession(w.Context(), login.TokenHash{}, w.filled.Now)) }},
	{"UpgradeSession", (*methodCaller).factorCalls},
	{"ChangeFactors", (*methodCaller).factorCalls},
	{"SaveChallenge", (*methodCaller).factorCalls},
	{"ChallengeOf", func(w *methodCaller) { w.must(second(w.ChallengeOf(w.Context(), "nobody's", login.ChallengeUse))) }},
	{"Passkeys", func(w *methodCaller) { w.must(first(w.Passkeys(w.Context(), 1))) }},
	{"RecoverySalt", func(w *methodCaller) { w.must(first(w.RecoverySalt(w.Context(), 1))) }},
	{"ReplaceFactorNotice", func(w *methodCaller) { w.must(w.ReplaceFactorNotice(w.Context(), 1, "", "")) }},
	{"ChangePassword", (*methodCaller).factorCalls},
	{"CloseSession", func(w *methodCaller) { w.must(w.CloseSession(w.Context(), login.TokenHash{})) }},
	{"RecoveryCodesLeft", func(w *methodCaller) { w.must(first(w.RecoveryCodesLeft(w.Context(), 1))) }},
	{"SetLanguage", func(w *methodCaller) { w.must(w.SetLanguage(w.Context(), 0, login.Hindi)) }},
	{"SessionsOf", func(w *methodCaller) { w.must(first(w.SessionsOf(w.Context(), w.newSession().Account.ID))) }},
	{"CloseSessionOf", func(w *methodCaller) { w.must(w.CloseSessionOf(w.Context(), 0, "nobody's")) }},
	{"CountTries", (*methodCaller).tryCalls},
	{"UncountTries", (*methodCaller).tryCalls},
	{"PurgeTries", func(w *methodCaller) { w.must(first(w.PurgeTries(w.Context(), w.filled.Now.Add(-time.Hour), 10))) }},
	{"PurgeSessions", func(w *methodCaller) { w.must(first(w.PurgeSessions(w.Context(), w.filled.Now.Add(-time.Hour), 10))) }},
}

// tryCalls counts a wrong password, takes it back, and counts two more.
func (w *methodCaller) tryCalls() {
	w.Helper()
	counters := []login.TryCounter{counter("walker", 1)}
	counts, _, err := w.CountTries(w.Context(), w.filled.Now, time.Minute, counters)
	w.must(err)
	w.must(w.UncountTries(w.Context(), counts))
	for range 2 {
		w.must(second(w.CountTries(w.Context(), w.filled.Now, time.Minute, counters)))
	}
}

func (w *methodCaller) sessionCalls() { w.newSession() }

// newSession creates a login with a session.
func (w *methodCaller) newSession() login.Record {
	w.Helper()
	w.logins++
	account := newAccount(fmt.Sprintf("walker-%d", w.logins))
	account.CreatedAt = w.filled.Now
	_, err := w.CreateLogin(w.Context(), staffAction("login create"), account)
	w.must(err)
	known, _, err := w.AccountByUsername(w.Context(), account.Username)
	w.must(err)
	opening := newOpening(known, w.filled.Now)
	w.must(w.OpenSession(w.Context(), opening))
	record, found, err := w.SessionByToken(w.Context(), opening.Token)
	if w.must(err); !found {
		w.Fatal("a new session is not found")
	}
	return record
}

// factorCalls sets up codes and a passkey, uses a code, a recovery code and the
// passkey, changes the password and removes all factors again.
func (w *methodCaller) factorCalls() {
	w.Helper()
	record := w.newSession()
	p, version := record.Account.ID, record.Account.Version
	tokens := 0
	token := func(n int) login.TokenHash {
		if n == 0 {
			return login.HashToken(record.ID)
		}
		return login.HashToken(fmt.Sprintf("%s-%d", record.ID, n))
	}
	own := login.OwnAction{Actor: "web:walker", Action: "walk", At: w.filled.Now}
	change := func(c login.FactorChange) {
		w.Helper()
		c.PersonID, c.Version, c.Old, c.New, c.At = p, version, token(tokens), token(tokens+1), w.filled.Now
		w.must(w.ChangeFactors(w.Context(), own, c))
		tokens, version = tokens+1, version+1
	}
	raise := func(proof login.Proof, begins *login.Challenge) {
		w.Helper()
		w.must(w.UpgradeSession(w.Context(), login.SessionUpgrade{
			Old: token(tokens), New: token(tokens + 1), PersonID: p, Version: version, Proof: proof, SteppedUpAt: w.filled.Now, SigningIn: true, Begins: begins,
		}))
		tokens++
	}
	begun := challengeOf(record.ID, login.ChallengeTOTP, record.ID)
	raise(login.Proof{}, &begun)
	change(login.FactorChange{
		Challenge: &begun.ChallengeRef, SetTOTP: &login.NewTOTP{Sealed: []byte("sealed"), Step: 1},
		RecoveryCodes: &login.RecoveryCodes{Salt: "salt", Hashes: [][]byte{[]byte("one"), []byte("two")}},
	})
	added := newPasskey("of " + record.ID)
	change(login.FactorChange{Proof: login.Proof{Step: 2}, AddPasskey: &added})
	raise(login.Proof{Step: 3}, nil)
	raise(login.Proof{Recovery: []byte("one")}, nil)
	keys, err := w.Passkeys(w.Context(), p)
	w.must(err)
	shown := challengeOf(record.ID, login.ChallengeUse, record.ID)
	w.must(w.SaveChallenge(w.Context(), shown))
	raise(login.Proof{Passkey: &login.PasskeyProof{ID: keys[0].ID, SignCount: 9, Challenge: shown.ChallengeRef}}, nil)
	w.must(w.ChangePassword(w.Context(), own, login.PasswordChange{
		PersonID: p, Version: version, Hash: "another", Old: token(tokens), New: token(tokens + 1), SteppedUpAt: w.filled.Now,
	}))
	tokens, version = tokens+1, version+1
	change(login.FactorChange{DropTOTP: true, DropPasskey: keys[0].ID, RecoveryCodes: &login.RecoveryCodes{}})
}
