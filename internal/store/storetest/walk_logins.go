package storetest

import (
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/login"
)

// loginWays are those of the pages' people.
var loginWays = []way{
	{"AccountByUsername", (*walk).someoneSignsIn},
	{"OpenSession", (*walk).someoneSignsIn},
	{"SessionByToken", func(w *walk) { w.must(second(w.SessionByToken(w.Context(), login.TokenHash{}))) }},
	{"TouchSession", func(w *walk) { w.must(w.TouchSession(w.Context(), login.TokenHash{}, w.on.Now)) }},
	{"UpgradeSession", (*walk).someoneHasATelephone},
	{"ChangeFactors", (*walk).someoneHasATelephone},
	{"SaveChallenge", (*walk).someoneHasATelephone},
	{"ChallengeOf", func(w *walk) { w.must(second(w.ChallengeOf(w.Context(), "nobody's", login.ChallengeUse))) }},
	{"Passkeys", func(w *walk) { w.must(first(w.Passkeys(w.Context(), 1))) }},
	{"RecoverySalt", func(w *walk) { w.must(first(w.RecoverySalt(w.Context(), 1))) }},
	{"ReplaceFactorNotice", func(w *walk) { w.must(w.ReplaceFactorNotice(w.Context(), 1, "", "")) }},
	{"ChangePassword", (*walk).someoneHasATelephone},
	{"CloseSession", func(w *walk) { w.must(w.CloseSession(w.Context(), login.TokenHash{})) }},
	{"RecoveryCodesLeft", func(w *walk) { w.must(first(w.RecoveryCodesLeft(w.Context(), 1))) }},
	{"SetLanguage", func(w *walk) { w.must(w.SetLanguage(w.Context(), 0, login.Hindi)) }},
	{"SessionsOf", func(w *walk) { w.must(first(w.SessionsOf(w.Context(), w.someoneSignsInAgain().Account.ID))) }},
	{"CloseSessionOf", func(w *walk) { w.must(w.CloseSessionOf(w.Context(), 0, "nobody's")) }},
	{"CountTries", (*walk).someoneTries},
	{"UncountTries", (*walk).someoneTries},
	{"PurgeTries", func(w *walk) { w.must(first(w.PurgeTries(w.Context(), w.on.Now.Add(-time.Hour), 10))) }},
	{"PurgeSessions", func(w *walk) { w.must(first(w.PurgeSessions(w.Context(), w.on.Now.Add(-time.Hour), 10))) }},
}

// someoneTries gets a password wrong and then right, and wrong once more.
func (w *walk) someoneTries() {
	w.Helper()
	counters := []login.TryCounter{counter("walker", 1)}
	counts, _, err := w.CountTries(w.Context(), w.on.Now, time.Minute, counters)
	w.must(err)
	w.must(w.UncountTries(w.Context(), counts))
	for range 2 {
		w.must(second(w.CountTries(w.Context(), w.on.Now, time.Minute, counters)))
	}
}

func (w *walk) someoneSignsIn() { w.someoneSignsInAgain() }

// someoneSignsInAgain is a person of their own with a session, by its token's hash.
func (w *walk) someoneSignsInAgain() login.Record {
	w.Helper()
	w.people++
	account := newAccount(fmt.Sprintf("walker-%d", w.people))
	account.CreatedAt = w.on.Now
	_, err := w.CreateLogin(w.Context(), act("login create"), account)
	w.must(err)
	known, _, err := w.AccountByUsername(w.Context(), account.Username)
	w.must(err)
	opening := newOpening(known, w.on.Now)
	w.must(w.OpenSession(w.Context(), opening))
	record, found, err := w.SessionByToken(w.Context(), opening.Token)
	if w.must(err); !found {
		w.Fatal("a session that was begun is not there")
	}
	return record
}

// someoneHasATelephone sets codes and a passkey up, uses a code, a recovery code and the
// passkey, changes the password and takes all of it away again.
func (w *walk) someoneHasATelephone() {
	w.Helper()
	record := w.someoneSignsInAgain()
	p, version := record.Account.ID, record.Account.Version
	tokens := 0
	token := func(n int) login.TokenHash {
		if n == 0 {
			return login.HashToken(record.ID)
		}
		return login.HashToken(fmt.Sprintf("%s-%d", record.ID, n))
	}
	deed := login.OwnAction{Actor: "web:walker", Action: "walk", At: w.on.Now}
	change := func(c login.FactorChange) {
		w.Helper()
		c.PersonID, c.Version, c.Old, c.New, c.At = p, version, token(tokens), token(tokens+1), w.on.Now
		w.must(w.ChangeFactors(w.Context(), deed, c))
		tokens, version = tokens+1, version+1
	}
	raise := func(proof login.Proof, begins *login.Challenge) {
		w.Helper()
		w.must(w.UpgradeSession(w.Context(), login.SessionUpgrade{
			Old: token(tokens), New: token(tokens + 1), PersonID: p, Version: version, Proof: proof, SteppedUpAt: w.on.Now, SigningIn: true, Begins: begins,
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
	w.must(w.ChangePassword(w.Context(), deed, login.PasswordChange{
		PersonID: p, Version: version, Hash: "another", Old: token(tokens), New: token(tokens + 1), SteppedUpAt: w.on.Now,
	}))
	tokens, version = tokens+1, version+1
	change(login.FactorChange{DropTOTP: true, DropPasskey: keys[0].ID, RecoveryCodes: &login.RecoveryCodes{}})
}
