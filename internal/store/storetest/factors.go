package storetest

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
)

var factorTests = []test{
	{"passkeys and challenges survive a restart", passkeyRoundTrip},
	{"a factor change ends other sessions and leaves a notice", factorsEndOthers},
	{"a factor change uses up its proof and challenge", factorsUseUp},
	{"a passkey assertion is accepted once under concurrency", passkeyOnce},
	{"a passkey belongs to one login", passkeyUnique},
	{"a reset removes all second factors and leaves a notice", resetTakesAll},
	{"recovery codes of an older release have no salt", oldRecoveryCodes},
}

// newPasskey returns a passkey as the login service would store it.
func newPasskey(credential string) login.Passkey {
	p := login.Passkey{Name: "Key " + credential, CreatedAt: noon, SiteID: "panel.example.com"}
	p.Key.CredentialID, p.Key.PublicKey = []byte(credential), []byte("public key of "+credential)
	p.Key.SignCount, p.Key.BackupEligible, p.Key.Transports = 7, true, "internal,hybrid"
	return p
}

// challengeOf returns a challenge of a session.
func challengeOf(sessionID string, kind login.ChallengeKind, ticket string) login.Challenge {
	return login.Challenge{
		ChallengeRef: login.ChallengeRef{SessionID: sessionID, Kind: kind, Ticket: login.HashToken(ticket)},
		State:        []byte("state of " + ticket), ExpiresAt: noon.Add(10 * time.Minute),
	}
}

// change changes a login's second factors in the session of a token.
func (h *harness) change(username string, old login.TokenHash, fresh string, c login.FactorChange) error {
	h.Helper()
	account := h.known(username)
	c.PersonID, c.Version, c.Old, c.New, c.At = account.ID, account.Version, old, login.HashToken(fresh), noon
	return h.ChangeFactors(h.Context(), ownAction("a change"), c)
}

func (h *harness) passkeys(personID int64) []login.Passkey {
	h.Helper()
	all, err := h.Passkeys(h.Context(), personID)
	h.must(err)
	return all
}

func passkeyRoundTrip(h *harness) {
	token := h.signIn(h.account(newAccount("asha")), noon)
	record, _ := h.session(token)
	first, second := newPasskey("one"), newPasskey("two")
	second.Key.SignCount, second.Key.BackupEligible, second.Key.Transports = 0, false, ""
	h.must(h.change("asha", token, "a", login.FactorChange{AddPasskey: &first}))
	h.must(h.change("asha", login.HashToken("a"), "b", login.FactorChange{AddPasskey: &second}))
	kept := challengeOf(record.ID, login.ChallengeUse, "second")
	h.must(h.SaveChallenge(h.Context(), challengeOf(record.ID, login.ChallengeUse, "first")))
	h.must(h.SaveChallenge(h.Context(), kept))
	h.must(h.SaveChallenge(h.Context(), challengeOf(record.ID, login.ChallengeAdd, "other")))
	h.reopen()
	asha := h.known("asha")
	if asha.Passkeys != 2 || asha.TOTP || !asha.SecondFactor() {
		h.Errorf("the login is %+v; want it to have two passkeys", asha.Person)
	}
	got := h.passkeys(asha.ID)
	for i, want := range []login.Passkey{first, second} {
		k := got[i]
		if k.Name != want.Name || !k.CreatedAt.Equal(noon) || !k.LastUsedAt.IsZero() || k.SiteID != want.SiteID || !bytes.Equal(k.Key.CredentialID, want.Key.CredentialID) ||
			!bytes.Equal(k.Key.PublicKey, want.Key.PublicKey) || k.Key.SignCount != want.Key.SignCount || k.Key.BackupEligible != want.Key.BackupEligible ||
			k.Key.Transports != want.Key.Transports {
			h.Errorf("passkey %d is %+v; want %+v", i, k, want)
		}
	}
	challenge, found, err := h.ChallengeOf(h.Context(), record.ID, login.ChallengeUse)
	h.must(err)
	if !found || challenge.ChallengeRef != kept.ChallengeRef || string(challenge.State) != "state of second" || !challenge.ExpiresAt.Equal(kept.ExpiresAt) {
		h.Errorf("found %v: the challenge is %+v; want the later one, %+v", found, challenge, kept)
	}
	h.must(h.change("asha", login.HashToken("b"), "c", login.FactorChange{DropPasskey: got[0].ID}))
	if left := h.passkeys(asha.ID); len(left) != 1 || left[0].ID != got[1].ID {
		h.Errorf("left are %+v; want the second", left)
	}
	if err := h.change("asha", login.HashToken("c"), "d", login.FactorChange{DropPasskey: got[0].ID}); !errors.Is(err, login.ErrChanged) {
		h.Errorf("a passkey that is gone: %v; want ErrMoved", err)
	}
	// A session's challenges end with it.
	h.must(h.CloseSession(h.Context(), login.HashToken("c")))
	if _, found, err := h.ChallengeOf(h.Context(), record.ID, login.ChallengeUse); err != nil || found {
		h.Errorf("after the session, the challenge is there: %v, %v", found, err)
	}
}

func factorsEndOthers(h *harness) {
	asha, other := h.account(newAccount("asha")), h.account(newAccount("other"))
	here, there, others := h.signIn(asha, noon), h.signIn(asha, noon.Add(time.Second)), h.signIn(other, noon)
	key := newPasskey("one")
	h.must(h.change("asha", here, "fresh", login.FactorChange{AddPasskey: &key, Notice: `[{"what":"passkey added"}]`, RecoveryCodes: &login.RecoveryCodes{Salt: "s", Hashes: [][]byte{[]byte("x")}}}))
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
	if got := h.known("asha"); got.FactorNotice != `[{"what":"passkey added"}]` || got.Version != 2 || got.BrowserEpoch != asha.BrowserEpoch+1 {
		h.Errorf("the login is %+v", got)
	}
	if left, err := h.RecoveryCodesLeft(h.Context(), asha.ID); err != nil || left != 1 {
		h.Errorf("%d recovery codes, %v; want 1", left, err)
	}
	h.must(h.ReplaceFactorNotice(h.Context(), asha.ID, "of before", ""))
	if got := h.known("asha"); got.FactorNotice == "" {
		h.Error("a notice is gone that was not the one that was read")
	}
	h.must(h.ReplaceFactorNotice(h.Context(), asha.ID, `[{"what":"passkey added"}]`, ""))
	if got := h.known("asha"); got.FactorNotice != "" || got.Version != 2 {
		h.Errorf("after it was read, the login is %+v", got)
	}
	auditEntries := h.auditEntries()
	if last := auditEntries[len(auditEntries)-1]; last.Actor != "web:asha" || !strings.Contains(last.Before, `"passkeys":0`) || !strings.Contains(last.After, `"passkeys":1`) {
		h.Errorf("the last audit entry is %+v", last)
	}
}

func factorsUseUp(h *harness) {
	token := h.signIn(h.account(newAccount("asha")), noon)
	h.setUpTOTP("asha", token, "a", 41, "one")
	record, _ := h.session(login.HashToken("a"))
	key := newPasskey("one")
	for what, c := range map[string]login.FactorChange{
		"a used code":          {Proof: login.Proof{Step: 41}, AddPasskey: &key},
		"an unknown recovery":  {Proof: login.Proof{Recovery: []byte("two")}, AddPasskey: &key},
		"no such challenge":    {Proof: login.Proof{Step: 42}, Challenge: &login.ChallengeRef{SessionID: record.ID, Kind: login.ChallengeAdd}, AddPasskey: &key},
		"a challenge used up":  {Challenge: &login.ChallengeRef{SessionID: record.ID, Kind: login.ChallengeTOTP, Ticket: login.HashToken("a")}, DropTOTP: true},
		"an unknown passkey's": {Proof: login.Proof{Passkey: &login.PasskeyProof{ID: 4711, SignCount: 1}}, DropTOTP: true},
	} {
		if err := h.change("asha", login.HashToken("a"), "b", c); !errors.Is(err, login.ErrUsed) {
			h.Errorf("%s: %v; want ErrUsed", what, err)
		}
	}
	if got := h.known("asha"); !got.TOTP || got.Passkeys != 0 || got.TOTPStep != 41 || got.Version != 2 {
		h.Errorf("the login has become %+v", got)
	}
	h.must(h.change("asha", login.HashToken("a"), "b", login.FactorChange{Proof: login.Proof{Recovery: []byte("one")}, AddPasskey: &key}))
	h.must(h.change("asha", login.HashToken("b"), "c", login.FactorChange{Proof: login.Proof{Step: 42}, DropTOTP: true}))
	if got := h.known("asha"); got.TOTP || got.Passkeys != 1 {
		h.Errorf("the login is %+v; want its passkey alone", got)
	}
}

func passkeyOnce(h *harness) {
	token := h.signIn(h.account(newAccount("asha")), noon)
	key := newPasskey("one")
	h.must(h.change("asha", token, "set up", login.FactorChange{AddPasskey: &key}))
	asha := h.known("asha")
	id := h.passkeys(asha.ID)[0].ID
	opened := h.signIn(asha, noon.Add(time.Second))
	record, _ := h.session(opened)
	proofOf := func(ticket string, count uint32) login.Proof {
		challenge := challengeOf(record.ID, login.ChallengeUse, ticket)
		h.must(h.SaveChallenge(h.Context(), challenge))
		return login.Proof{Passkey: &login.PasskeyProof{ID: id, SignCount: count, Challenge: challenge.ChallengeRef}}
	}
	proof := proofOf("x", 8)
	var raised, refused atomic.Int32
	concurrently(8, func(i int) {
		switch err := h.UpgradeSession(h.Context(), rise(asha, opened, name("fresh", i), proof)); {
		case err == nil:
			raised.Add(1)
		case errors.Is(err, login.ErrUsed), errors.Is(err, login.ErrChanged):
			refused.Add(1)
		default:
			h.Errorf("raise: %v", err)
		}
	})
	if raised.Load() != 1 || refused.Load() != 7 {
		h.Errorf("it was good %d times, refused %d; want 1 and 7", raised.Load(), refused.Load())
	}
	used := h.passkeys(asha.ID)[0]
	if used.Key.SignCount != 8 || !used.LastUsedAt.Equal(noon.Add(time.Minute)) {
		h.Errorf("the passkey is %+v; want its count and its use noted", used)
	}
	at := slices.IndexFunc([]int{0, 1, 2, 3, 4, 5, 6, 7}, func(i int) bool { _, found := h.session(login.HashToken(name("fresh", i))); return found })
	now := login.HashToken(name("fresh", at))
	if record, _ := h.session(now); !record.CodeVerified {
		h.Error("the session that rose owes its second factor still")
	}
	for _, count := range []uint32{8, 7, 0} {
		if err := h.UpgradeSession(h.Context(), rise(asha, now, "again", proofOf(name("y", int(count)), count))); !errors.Is(err, login.ErrUsed) {
			h.Errorf("count %d after 8: %v; want ErrUsed", count, err)
		}
	}
	h.must(h.UpgradeSession(h.Context(), rise(asha, now, "again", proofOf("z", 9))))
}

func passkeyUnique(h *harness) {
	ashas, others := h.signIn(h.account(newAccount("asha")), noon), h.signIn(h.account(newAccount("other")), noon)
	key := newPasskey("one")
	h.must(h.change("asha", ashas, "a", login.FactorChange{AddPasskey: &key}))
	if err := h.change("other", others, "b", login.FactorChange{AddPasskey: &key}); !errors.Is(err, login.ErrPasskeyExists) {
		h.Errorf("another login's passkey: %v; want ErrKnown", err)
	}
	mine := h.passkeys(h.known("asha").ID)[0].ID
	if err := h.change("other", others, "b", login.FactorChange{DropPasskey: mine}); !errors.Is(err, login.ErrChanged) {
		h.Errorf("removing another login's: %v; want ErrMoved", err)
	}
}

func resetTakesAll(h *harness) {
	token := h.signIn(h.account(newAccount("asha")), noon)
	key := newPasskey("one")
	h.must(h.change("asha", token, "a", login.FactorChange{AddPasskey: &key, RecoveryCodes: &login.RecoveryCodes{Salt: "s", Hashes: [][]byte{[]byte("x")}}}))
	asha := h.known("asha")
	person, err := h.ResetTOTP(h.Context(), staffAction("login reset-totp"), asha.ID)
	h.must(err)
	left, err := h.RecoveryCodesLeft(h.Context(), asha.ID)
	h.must(err)
	if person.SecondFactor() || len(h.passkeys(asha.ID)) != 0 || left != 0 {
		h.Errorf("after the reset: %+v, %d recovery codes", person, left)
	}
	if _, found := h.session(login.HashToken("a")); found {
		h.Error("after the reset the session goes on")
	}
	if notice := h.known("asha").FactorNotice; !strings.Contains(notice, `"reset"`) || !strings.Contains(notice, `"test:asha"`) {
		h.Errorf("the notice is %s; want the reset and who did it", notice)
	}
	_, err = h.ResetTOTP(h.Context(), staffAction("login reset-totp"), asha.ID)
	h.refused("once more", err)
	err = admin.Proposal{Kind: admin.ProposedTOTP, Subject: "login 1", Change: "{}"}.CheckLogin(h.known("asha").Person)
	h.refused("a proposal to reset nothing", err)
}

func oldRecoveryCodes(h *harness) {
	token := h.signIn(h.account(newAccount("asha")), noon)
	asha := h.known("asha")
	key := newPasskey("one")
	for i, want := range []string{"", "a salt"} {
		fresh := name("fresh", i)
		h.must(h.change("asha", token, fresh, login.FactorChange{AddPasskey: &key, RecoveryCodes: &login.RecoveryCodes{Salt: want, Hashes: [][]byte{[]byte("x")}}}))
		token = login.HashToken(fresh)
		if got, err := h.RecoverySalt(h.Context(), asha.ID); err != nil || got != want {
			h.Errorf("the salt is %q, %v; want %q", got, err, want)
		}
		key = newPasskey("another")
	}
	if got, err := h.RecoverySalt(h.Context(), 4711); err != nil || got != "" {
		h.Errorf("of nobody, the salt is %q, %v", got, err)
	}
}
