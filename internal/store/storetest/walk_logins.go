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
	{"RaiseSession", (*walk).someoneHasATelephone},
	{"OfferTOTP", (*walk).someoneHasATelephone},
	{"AdoptTOTP", (*walk).someoneHasATelephone},
	{"DropTOTP", (*walk).someoneHasATelephone},
	{"ChangePassword", (*walk).someoneHasATelephone},
	{"CloseSession", func(w *walk) { w.must(w.CloseSession(w.Context(), login.TokenHash{})) }},
	{"RecoveryCodesLeft", func(w *walk) { w.must(first(w.RecoveryCodesLeft(w.Context(), 1))) }},
	{"SetLanguage", func(w *walk) { w.must(w.SetLanguage(w.Context(), 0, login.Hindi)) }},
	{"SessionsOf", func(w *walk) { w.must(first(w.SessionsOf(w.Context(), w.someoneSignsInAgain().Account.ID))) }},
	{"CloseSessionOf", func(w *walk) { w.must(w.CloseSessionOf(w.Context(), 0, "nobody's")) }},
	{"CountTries", (*walk).someoneTries},
	{"TakeBackTries", (*walk).someoneTries},
	{"PurgeTries", func(w *walk) { w.must(first(w.PurgeTries(w.Context(), w.on.Now.Add(-time.Hour), 10))) }},
	{"PurgeSessions", func(w *walk) { w.must(first(w.PurgeSessions(w.Context(), w.on.Now.Add(-time.Hour), 10))) }},
}

// someoneTries gets a password wrong and then right, and wrong once more.
func (w *walk) someoneTries() {
	w.Helper()
	counters := []login.TryCounter{counter("walker", 1)}
	counts, _, err := w.CountTries(w.Context(), w.on.Now, time.Minute, counters)
	w.must(err)
	w.must(w.TakeBackTries(w.Context(), counts))
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

// someoneHasATelephone sets a second factor up, uses a code and a recovery code, changes
// the password and takes the second factor away again.
func (w *walk) someoneHasATelephone() {
	w.Helper()
	record := w.someoneSignsInAgain()
	p, version := record.Account.ID, record.Account.Version
	token := func(n int) login.TokenHash { return login.HashToken(fmt.Sprintf("%s-%d", record.ID, n)) }
	deed := login.Deed{Actor: "web:walker", Action: "walk", At: w.on.Now}
	w.must(w.OfferTOTP(w.Context(), p, version, []byte("sealed")))
	w.must(w.AdoptTOTP(w.Context(), deed, login.Adoption{
		PersonID: p, Version: version, Sealed: []byte("sealed"), Step: 1, RecoveryCodes: [][]byte{[]byte("one"), []byte("two")},
		Old: login.HashToken(record.ID), New: token(1), At: w.on.Now,
	}))
	rise := login.Rise{Old: token(1), New: token(2), PersonID: p, Version: version + 1, Proof: login.Proof{Step: 2}, SteppedUpAt: w.on.Now, SigningIn: true}
	w.must(w.RaiseSession(w.Context(), rise))
	rise.Old, rise.New, rise.Proof = token(2), token(3), login.Proof{Recovery: []byte("one")}
	w.must(w.RaiseSession(w.Context(), rise))
	w.must(w.ChangePassword(w.Context(), deed, login.PasswordChange{
		PersonID: p, Version: version + 1, Hash: "another", Old: token(3), New: token(4), SteppedUpAt: w.on.Now,
	}))
	w.must(w.DropTOTP(w.Context(), deed, p, version+2))
}
