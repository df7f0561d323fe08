package storetest

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/login"
)

var sessionTests = []test{
	{"a session survives a restart, with its login", sessionRoundTrip},
	{"a session's last use is never set back", sessionTouched},
	{"a code is accepted once under concurrency", codeOnce},
	{"a recovery code is accepted once under concurrency", recoveryOnce},
	{"a proof for a changed account is refused", staleProof},
	{"a new password ends other sessions and renews this one", passwordEndsOthers},
	{"a session is ended by its token, or by its id and login", sessionsEnd},
	{"unused sessions are purged in batches", sessionsPurged},
}

func sessionRoundTrip(h *harness) {
	asha := h.account(newAccount("asha"))
	opening := newOpening(asha, noon)
	opening.RenewedHash = "$dearer"
	h.must(h.OpenSession(h.Context(), opening))
	h.reopen()
	record, found := h.session(opening.Token)
	want := opening.Record
	want.Account.PasswordHash, want.Account.LastSignIn = "$dearer", noon
	got := record
	if !found || got.Account.Person != want.Account.Person || got.Account.PasswordHash != "$dearer" || got.Account.Version != 1 {
		h.Errorf("found %v: the person is %+v; want %+v", found, got.Account, want.Account)
	}
	if got.ID != want.ID || !got.CreatedAt.Equal(noon) || !got.SeenAt.Equal(noon) || !got.SteppedUpAt.Equal(noon) || got.CodeVerified ||
		got.Address != want.Address || got.Agent != want.Agent {
		h.Errorf("the session is %+v; want %+v", got, want)
	}
	if _, found := h.session(login.HashToken("another")); found {
		h.Error("a token that was never given opens a session")
	}
}

func sessionTouched(h *harness) {
	token := h.signIn(h.account(newAccount("asha")), noon)
	h.must(h.TouchSession(h.Context(), token, noon.Add(2*time.Minute)))
	h.must(h.TouchSession(h.Context(), token, noon.Add(time.Minute)))
	if record, _ := h.session(token); !record.SeenAt.Equal(noon.Add(2 * time.Minute)) {
		h.Errorf("it was last seen at %s; want two minutes past", record.SeenAt)
	}
}

// rise returns a proof of a login in a session.
func rise(account login.Account, old login.TokenHash, fresh string, proof login.Proof) login.SessionUpgrade {
	return login.SessionUpgrade{
		Old: old, New: login.HashToken(fresh), PersonID: account.ID, Version: account.Version, Proof: proof,
		SteppedUpAt: noon.Add(time.Minute), SigningIn: true,
	}
}

// shownTogether has eight sessions of one login show the same proof concurrently.
func shownTogether(h *harness, proof login.Proof) {
	h.Helper()
	first := h.signIn(h.account(newAccount("asha")), noon)
	h.setUpTOTP("asha", first, "set up", 41, "one", "two")
	asha := h.known("asha")
	var tokens []login.TokenHash
	for i := range 8 {
		tokens = append(tokens, h.signIn(asha, noon.Add(time.Duration(i+1))))
	}
	var raised, spent atomic.Int32
	concurrently(8, func(i int) {
		switch err := h.UpgradeSession(h.Context(), rise(asha, tokens[i], name("fresh", i), proof)); {
		case err == nil:
			raised.Add(1)
		case errors.Is(err, login.ErrUsed):
			spent.Add(1)
		default:
			h.Errorf("raise: %v", err)
		}
	})
	if raised.Load() != 1 || spent.Load() != 7 {
		h.Errorf("it was good %d times, spent %d; want 1 and 7", raised.Load(), spent.Load())
	}
	fresh := 0
	for i, token := range tokens {
		record, found := h.session(login.HashToken(name("fresh", i)))
		if _, old := h.session(token); old == found {
			h.Errorf("session %d: the old token opens it: %v, the new one: %v", i, old, found)
		}
		if found {
			fresh++
			if !record.CodeVerified || !record.SteppedUpAt.Equal(noon.Add(time.Minute)) || !record.Account.LastSignIn.Equal(noon.Add(time.Minute)) {
				h.Errorf("the session that rose is %+v", record)
			}
		}
	}
	if fresh != 1 {
		h.Errorf("%d sessions have risen; want 1", fresh)
	}
}

func codeOnce(h *harness) {
	shownTogether(h, login.Proof{Step: 42})
	asha := h.known("asha")
	if asha.TOTPStep != 42 {
		h.Errorf("the last step is %d; want 42", asha.TOTPStep)
	}
	for _, step := range []int64{41, 42} {
		err := h.UpgradeSession(h.Context(), rise(asha, login.HashToken("set up"), "again", login.Proof{Step: step}))
		if !errors.Is(err, login.ErrUsed) {
			h.Errorf("step %d: %v; want ErrUsed", step, err)
		}
	}
}

func recoveryOnce(h *harness) {
	shownTogether(h, login.Proof{Recovery: []byte("one")})
	asha := h.known("asha")
	for code, want := range map[string]error{"one": login.ErrUsed, "nonsense": login.ErrUsed} {
		if err := h.UpgradeSession(h.Context(), rise(asha, login.HashToken("set up"), "again", login.Proof{Recovery: []byte(code)})); !errors.Is(err, want) {
			h.Errorf("%s: %v; want %v", code, err, want)
		}
	}
	h.must(h.UpgradeSession(h.Context(), rise(asha, login.HashToken("set up"), "again", login.Proof{Recovery: []byte("two")})))
	// A new second factor has codes of its own.
	h.setUpTOTP("asha", login.HashToken("again"), "anew", 50, "three")
	asha = h.known("asha")
	if err := h.UpgradeSession(h.Context(), rise(asha, login.HashToken("anew"), "x", login.Proof{Recovery: []byte("two")})); !errors.Is(err, login.ErrUsed) {
		h.Errorf("an old code: %v; want ErrUsed", err)
	}
	h.must(h.UpgradeSession(h.Context(), rise(asha, login.HashToken("anew"), "x", login.Proof{Recovery: []byte("three")})))
}

func staleProof(h *harness) {
	asha := h.account(newAccount("asha"))
	token := h.signIn(asha, noon)
	stale := asha
	stale.Version--
	for what, err := range map[string]error{
		"a rise":     h.UpgradeSession(h.Context(), rise(stale, token, "fresh", login.Proof{})),
		"no session": h.UpgradeSession(h.Context(), rise(asha, login.HashToken("nobody's"), "fresh", login.Proof{})),
		"a password": h.ChangePassword(h.Context(), ownAction("password change"), login.PasswordChange{
			PersonID: asha.ID, Version: stale.Version, Hash: "$stolen", Old: token, New: login.HashToken("fresh")}),
		"a password without a session": h.ChangePassword(h.Context(), ownAction("password change"), login.PasswordChange{
			PersonID: asha.ID, Version: asha.Version, Hash: "$stolen", Old: login.HashToken("nobody's"), New: login.HashToken("fresh")}),
		"a factor": h.ChangeFactors(h.Context(), ownAction("totp remove"), login.FactorChange{
			PersonID: asha.ID, Version: stale.Version, DropTOTP: true, Old: token, New: login.HashToken("fresh"), At: noon}),
		"a factor without a session": h.ChangeFactors(h.Context(), ownAction("totp set"), login.FactorChange{
			PersonID: asha.ID, Version: asha.Version, SetTOTP: &login.NewTOTP{Sealed: []byte("sealed")}, Old: login.HashToken("nobody's"), New: login.HashToken("fresh"), At: noon}),
		"a challenge of no session": h.SaveChallenge(h.Context(), challengeOf("nobody's", login.ChallengeUse, "x")),
	} {
		if !errors.Is(err, login.ErrChanged) {
			h.Errorf("%s: %v; want ErrMoved", what, err)
		}
	}
	if got := h.known("asha"); got.PasswordHash != asha.PasswordHash || got.Version != asha.Version || got.TOTP {
		h.Errorf("the login has become %+v", got)
	}
	if auditEntries := h.auditEntries(); len(auditEntries) != 1 {
		h.Errorf("%d audit entries are written; want the one that made the login", len(auditEntries))
	}
	if _, found := h.session(token); !found {
		h.Error("the session is gone")
	}
}

func passwordEndsOthers(h *harness) {
	asha, other := h.account(newAccount("asha")), h.account(newAccount("other"))
	here, there, others := h.signIn(asha, noon), h.signIn(asha, noon.Add(time.Second)), h.signIn(other, noon)
	h.must(h.ChangePassword(h.Context(), ownAction("password change"), login.PasswordChange{
		PersonID: asha.ID, Version: 1, Hash: "$new", Old: here, New: login.HashToken("fresh"), SteppedUpAt: noon.Add(time.Minute),
	}))
	for what, row := range map[string]struct {
		token login.TokenHash
		want  bool
	}{
		"the old token": {here, false}, "the other session": {there, false}, "the new token": {login.HashToken("fresh"), true}, "another login": {others, true},
	} {
		if _, found := h.session(row.token); found != row.want {
			h.Errorf("%s opens a session: %v; want %v", what, found, row.want)
		}
	}
	record, _ := h.session(login.HashToken("fresh"))
	if got := record.Account; got.PasswordHash != "$new" || got.MustChangePassword || got.Version != 2 || !record.SteppedUpAt.Equal(noon.Add(time.Minute)) {
		h.Errorf("the session is %+v", record)
	}
}

func sessionsEnd(h *harness) {
	asha, other := h.account(newAccount("asha")), h.account(newAccount("other"))
	first, second, third := h.signIn(asha, noon), h.signIn(asha, noon.Add(time.Second)), h.signIn(asha, noon.Add(2*time.Second))
	listed, err := h.SessionsOf(h.Context(), asha.ID)
	h.must(err)
	if len(listed) != 3 || !listed[0].SeenAt.Equal(noon.Add(2*time.Second)) || listed[2].Account.Username != "asha" {
		h.Fatalf("the sessions are %+v; want three, the last used first", listed)
	}
	h.must(h.CloseSessionOf(h.Context(), other.ID, listed[0].ID)) // not theirs
	h.must(h.CloseSessionOf(h.Context(), asha.ID, listed[1].ID))
	h.must(h.CloseSession(h.Context(), first))
	h.must(h.CloseSession(h.Context(), first))
	for i, row := range []struct {
		token login.TokenHash
		want  bool
	}{{first, false}, {second, false}, {third, true}} {
		if _, found := h.session(row.token); found != row.want {
			h.Errorf("session %d is there: %v; want %v", i, found, row.want)
		}
	}
}

func sessionsPurged(h *harness) {
	asha := h.account(newAccount("asha"))
	var tokens []login.TokenHash
	for i := range 5 {
		tokens = append(tokens, h.signIn(asha, noon.Add(time.Duration(i)*time.Minute)))
	}
	for _, want := range []int{2, 1, 0} {
		removed, err := h.PurgeSessions(h.Context(), noon.Add(2*time.Minute), 2)
		h.must(err)
		if removed != want {
			h.Errorf("%d were removed; want %d", removed, want)
		}
	}
	for i, token := range tokens {
		if _, found := h.session(token); found != (i > 2) {
			h.Errorf("session %d is there: %v", i, found)
		}
	}
}
