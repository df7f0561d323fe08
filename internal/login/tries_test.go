package login_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
)

const wrong = "wrong horse battery"

// elsewhere is an address in a network of its own.
func elsewhere(n int) netip.Addr { return netip.AddrFrom4([4]byte{198, 51, byte(n), 9}) }

// at is a try from an address, by a browser that sent something along.
func (env *testEnv) at(address netip.Addr, username, password, browsers string) (string, error) {
	token, _, err := env.service.SignIn(env.Context(), login.Attempt{Username: username, Password: password, Address: address, Browsers: browsers})
	return token, err
}

// remembered is what a browser keeps that signs in with a session's token.
func (env *testEnv) remembered(token, sent string) string {
	env.Helper()
	marks, err := env.service.RememberBrowser(env.Context(), token, sent)
	env.must(err)
	return marks
}

func (env *testEnv) known(username string) (browsers string) {
	env.Helper()
	token, err := env.at(here, username, password, "")
	env.must(err)
	return env.remembered(token, "")
}

func TestSignIn_TriesElsewhereDoNotLockOut(t *testing.T) {
	env := newEnv(t, login.Config{})
	env.person("asha", login.Viewer, 0)
	browser := env.known("asha")
	for n := range 3 {
		for i := range 11 {
			_, err := env.at(elsewhere(n), "asha", wrong, "")
			env.refused(fmt.Sprintf("try %d from network %d", i, n), err, map[bool]login.Reason{true: login.Wrong, false: login.Throttled}[i < 10])
		}
	}
	if slowest := slices.Max(env.pauses); slowest != 4*time.Second || len(env.pauses) != 20 {
		t.Errorf("the answers were delayed by %v; want all but the first ten, by up to 4 s", env.pauses)
	}
	env.pauses = nil
	_, err := env.at(here, "asha", password, "")
	env.must(err)
	if !slices.Equal(env.pauses, []time.Duration{4 * time.Second}) {
		t.Errorf("from an unknown browser the right password was delayed by %v; want as long as a wrong one", env.pauses)
	}

	// Somebody in the same network locks out browsers there that are not known.
	for range 10 {
		_, err := env.at(netip.MustParseAddr("192.0.2.250"), "asha", wrong, "")
		env.refused("from the same network", err, login.Wrong)
	}
	_, err = env.at(here, "asha", password, "")
	env.refused("from an unknown browser of that network", err, login.Throttled)
	env.pauses = nil
	_, err = env.at(here, "asha", password, browser)
	env.must(err)
	if len(env.pauses) != 0 {
		t.Errorf("a known browser was delayed by %v", env.pauses)
	}
}

func TestSignIn_FiftyTriesPerAddress(t *testing.T) {
	env := newEnv(t, login.Config{})
	env.person("asha", login.Viewer, 0)
	browser := env.known("asha")
	for i := range 50 {
		_, err := env.at(here, []string{fmt.Sprintf("name-%d", i), "no name"}[i%2], wrong, "")
		env.refused("a try", err, login.Wrong)
	}
	_, err := env.at(here, "asha", password, "")
	env.refused("the next name", err, login.Throttled)
	_, err = env.at(netip.MustParseAddr("192.0.2.8"), "asha", password, "")
	env.must(err)
	_, err = env.at(here, "asha", password, browser)
	env.must(err)
}

func TestSignIn_KnownBrowserHasItsOwnCounter(t *testing.T) {
	env := newEnv(t, login.Config{})
	env.person("asha", login.Viewer, 0)
	env.person("ravi", login.Viewer, 0)
	browser, other := env.known("asha"), env.known("asha")
	for range 10 {
		_, err := env.at(here, "asha", wrong, browser)
		env.refused("a try", err, login.Wrong)
	}
	_, err := env.at(here, "asha", password, browser)
	env.refused("the eleventh", err, login.Throttled)
	for what, try := range map[string]func() (string, error){
		"another known browser":     func() (string, error) { return env.at(here, "asha", password, other) },
		"an unknown browser":        func() (string, error) { return env.at(here, "asha", password, "") },
		"another login at the same": func() (string, error) { return env.at(here, "ravi", password, browser) },
	} {
		if _, err := try(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	// Signing in again does not give it another counter.
	env.now = env.now.Add(15 * time.Minute)
	token, err := env.at(here, "asha", password, browser)
	env.must(err)
	for range 10 {
		_, err = env.at(here, "asha", wrong, browser)
		env.refused("a try", err, login.Wrong)
	}
	_, err = env.at(here, "asha", password, env.remembered(token, browser))
	env.refused("with the mark of the last sign-in", err, login.Throttled)
}

func TestKnownBrowser_EndsWithPasswordOrDisabling(t *testing.T) {
	env := newEnv(t, login.Config{})
	asha := env.person("asha", login.Viewer, 0)
	env.person("ravi", login.Viewer, 0)
	// knows reports whether a browser is known: the network's counter is used up.
	for range 10 {
		_, err := env.at(elsewhere(1), "asha", wrong, "")
		env.refused("a try", err, login.Wrong)
	}
	secret := password
	knows := func(what, browsers string, want bool) {
		t.Helper()
		_, err := env.at(elsewhere(1), "asha", secret, browsers)
		if known := err == nil; known != want {
			t.Errorf("%s: known %v, %v; want %v", what, known, err, want)
		}
	}
	browser := env.known("asha")
	knows("a browser that has signed in", browser, true)
	knows("another login's", env.known("ravi"), false)
	for _, i := range []int{5, 40, 80} { // its login, its name and its MAC
		other := byte('b')
		if browser[i] == other {
			other = 'c'
		}
		knows("one that was changed", browser[:i]+string(other)+browser[i+1:], false)
	}
	knows("text", "not a mark", false)

	token, err := env.at(here, "ravi", password, browser)
	env.must(err)
	shared := env.remembered(token, browser)
	knows("one that another login has signed in at meanwhile", shared, true)

	token, _ = env.signIn("asha", password)
	secret = "nine tall kites"
	token, _, err = env.service.ChangePassword(t.Context(), token, password, secret, here)
	env.must(err)
	knows("from before the password was changed", browser, false)
	browser = env.remembered(token, browser)
	knows("the one that it was changed at", browser, true)

	yes, no := true, false
	for _, disabled := range []*bool{&yes, &no} {
		_, err := env.staff.ChangeLogin(t.Context(), asha.ID, admin.LoginChange{Disabled: disabled})
		env.must(err)
	}
	knows("from before the login was disabled", browser, false)
	token, err = env.at(here, "asha", secret, "")
	env.must(err)
	browser = env.remembered(token, "")
	_, secret, err = env.staff.ResetPassword(t.Context(), asha.ID)
	env.must(err)
	knows("from before the password was reset", browser, false)
}

func TestKnownBrowser_NeedsSecondFactorLastsAYear(t *testing.T) {
	env := newEnv(t, login.Config{})
	env.person("asha", login.Viewer, 0)
	token, _ := env.signIn("asha", password)
	codeOf, _, _ := env.enrol(token)
	env.now = env.now.Add(time.Minute)
	half, _ := env.signIn("asha", password)
	if marks := env.remembered(half, ""); marks != "" {
		t.Errorf("with the password alone the browser gets %q", marks)
	}
	whole, _, err := env.service.VerifyCode(t.Context(), half, codeOf(), here, "")
	env.must(err)
	browser := env.remembered(whole, "")

	// Codes from many networks are refused after thirty; the known browser goes on.
	for n := range 30 {
		half, err := env.at(elsewhere(n), "asha", password, "")
		env.must(err)
		_, _, err = env.service.VerifyCode(t.Context(), half, "000000", elsewhere(n), "")
		env.refused("a guess", err, login.WrongCode)
	}
	env.now = env.now.Add(time.Minute)
	half, err = env.at(elsewhere(40), "asha", password, "")
	env.must(err)
	_, _, err = env.service.VerifyCode(t.Context(), half, codeOf(), elsewhere(40), "")
	env.refused("the next network", err, login.Throttled)
	_, _, err = env.service.VerifyCode(t.Context(), half, codeOf(), elsewhere(40), browser)
	env.must(err)

	for days, want := range map[int]bool{364: true, 366: false} {
		env.now = noon.Add(time.Duration(days) * 24 * time.Hour)
		for range 10 {
			_, err := env.at(here, "asha", wrong, "")
			env.refused("a try", err, login.Wrong)
		}
		if _, err := env.at(here, "asha", password, browser); (err == nil) != want {
			t.Errorf("after %d days: %v; want it known: %v", days, err, want)
		}
	}
}

// A browser that was known by the password alone gets no guesses of codes of its own.
func TestKnownBrowser_EndsWithFactorChange(t *testing.T) {
	env := newEnv(t, login.Config{})
	env.person("asha", login.Viewer, 0)
	before := env.known("asha")
	token, _ := env.signIn("asha", password)
	codeOf, _, token := env.enrol(token)
	browser := env.remembered(token, before)
	env.now = env.now.Add(time.Minute)
	half, _ := env.signIn("asha", password)
	for range 10 {
		_, _, err := env.service.VerifyCode(t.Context(), half, "000000", here, "")
		env.refused("a guess", err, login.WrongCode)
	}
	_, _, err := env.service.VerifyCode(t.Context(), half, codeOf(), here, before)
	env.refused("from a browser that was known before", err, login.Throttled)
	_, _, err = env.service.VerifyCode(t.Context(), half, codeOf(), here, browser)
	env.must(err)
}

func TestStepUp_WrongTriesEndSession(t *testing.T) {
	env := newEnv(t, login.Config{})
	env.person("asha", login.Viewer, 0)
	token, _ := env.signIn("asha", password)
	other, _ := env.signIn("asha", password)
	for range 11 { // somebody who knows the name
		_, _ = env.at(here, "asha", wrong, "")
	}
	fresh, _, err := env.service.StepUp(t.Context(), token, password, "", here)
	env.must(err)
	for range 9 {
		_, _, err := env.service.StepUp(t.Context(), fresh, wrong, "", here)
		env.refused("a guess", err, login.WrongPassword)
	}
	_, _, err = env.service.ChangePassword(t.Context(), fresh, password, "short", here)
	env.refused("a weak password is no guess", err, login.WeakPassword)
	_, _, err = env.service.ChangePassword(t.Context(), fresh, wrong, "nine tall kites", here)
	env.refused("the tenth", err, login.SessionOver)
	env.signedOut("after ten guesses", fresh)
	env.stage(other, login.Complete)
	if _, _, err := env.service.StepUp(t.Context(), other, password, "", here); err != nil {
		t.Errorf("in another session: %v", err)
	}
}

func TestTries_AreSharedByNodesAndPurged(t *testing.T) {
	env := newEnv(t, login.Config{})
	second := login.New(env.store, env.vault, login.Config{Now: func() time.Time { return env.now }})
	for i := range 10 {
		service := []*login.Service{env.service, second}[i%2]
		_, _, err := service.SignIn(t.Context(), login.Attempt{Username: "asha", Password: wrong, Address: here})
		env.refused("a try", err, login.Wrong)
	}
	for _, service := range []*login.Service{env.service, second} {
		_, _, err := service.SignIn(t.Context(), login.Attempt{Username: "asha", Password: wrong, Address: here})
		env.refused("the next on either node", err, login.Throttled)
	}
	env.now = env.now.Add(30 * time.Minute)
	if removed, err := env.service.Purge(t.Context(), env.now); err != nil || removed != 3 {
		t.Errorf("%d rows were purged, %v; want the three counters", removed, err)
	}
}

// countingStore counts what is asked of a store.
type countingStore struct {
	login.Store
	calls []string
}

func (s *countingStore) AccountByUsername(ctx context.Context, username string) (login.Account, bool, error) {
	s.calls = append(s.calls, "AccountByUsername")
	return s.Store.AccountByUsername(ctx, username)
}

func (s *countingStore) CountTries(ctx context.Context, at time.Time, window time.Duration, counters []login.TryCounter) ([]login.TryCount, bool, error) {
	s.calls = append(s.calls, fmt.Sprintf("CountTries %d", len(counters)))
	return s.Store.CountTries(ctx, at, window, counters)
}

func (s *countingStore) UncountTries(ctx context.Context, counts []login.TryCount) error {
	s.calls = append(s.calls, "UncountTries")
	return s.Store.UncountTries(ctx, counts)
}

// The time that an answer takes is made of hashes, delays and calls of the store.
func TestSignIn_UnknownNameCostsTheSame(t *testing.T) {
	env := newEnv(t, login.Config{})
	asha := env.person("asha", login.Viewer, 0)
	off := env.person("off", login.Viewer, 0)
	yes := true
	_, err := env.staff.ChangeLogin(t.Context(), off.ID, admin.LoginChange{Disabled: &yes})
	env.must(err)
	_, _, err = env.staff.CreateLogin(t.Context(), admin.NewLogin{Username: "new", Name: "New", Role: login.Viewer})
	env.must(err)
	env.now = env.now.Add(100 * time.Hour) // the temporary password has ended
	browser := env.known("asha")

	counting := &countingStore{Store: env.store}
	service := login.New(counting, env.vault, login.Config{Now: func() time.Time { return env.now }, Pause: func(_ context.Context, d time.Duration) error {
		env.pauses = append(env.pauses, d)
		return nil
	}})
	hashes := login.CountHashes(t)
	type work struct {
		Hashes, Calls []string
		Pauses        []time.Duration
		Text          string
	}
	workOf := func(username string, address netip.Addr) work {
		*hashes, counting.calls, env.pauses = nil, nil, nil
		_, _, err := service.SignIn(t.Context(), login.Attempt{Username: username, Password: wrong, Address: address, Browsers: browser[:len(browser)-1]})
		var refusal *login.Refusal
		if !errors.As(err, &refusal) {
			t.Fatalf("%s: %v", username, err)
		}
		return work{*hashes, counting.calls, env.pauses, refusal.Text}
	}
	for try := range 13 {
		// The first ten from here, so that the eleventh is refused; then from elsewhere,
		// where they are delayed.
		address := here
		if try > 10 {
			address = elsewhere(try)
		}
		want := workOf("nobody", address)
		if (try == 10) != (len(want.Hashes) == 0) || (try > 10) != (len(want.Pauses) == 1) {
			t.Errorf("try %d of an unknown name: %+v", try, want)
		}
		for _, username := range []string{asha.Username, off.Username, "new"} {
			if got := workOf(username, address); !reflect.DeepEqual(got, want) {
				t.Errorf("try %d of %s takes %+v; want what an unknown name takes, %+v", try, username, got, want)
			}
		}
		if try == 10 {
			env.now = env.now.Add(time.Second)
		}
	}
}

func TestTemporaryPassword_EndsAfter72Hours(t *testing.T) {
	env := newEnv(t, login.Config{})
	person, made, err := env.staff.CreateLogin(t.Context(), admin.NewLogin{Username: "asha", Name: "Asha", Role: login.Viewer})
	env.must(err)
	if !person.PasswordEnds.Equal(noon.Add(72 * time.Hour)) {
		t.Errorf("it ends at %s", person.PasswordEnds)
	}
	env.now = noon.Add(72*time.Hour - time.Millisecond)
	env.signIn("asha", made)
	env.now = noon.Add(72 * time.Hour)
	_, _, err = env.try("asha", made)
	env.refused("the right one, too late", err, login.PasswordEnded)
	_, _, err = env.try("asha", wrong)
	env.refused("a wrong one", err, login.Wrong)

	person, made, err = env.staff.ResetPassword(t.Context(), person.ID)
	env.must(err)
	if !person.PasswordEnds.Equal(env.now.Add(72 * time.Hour)) {
		t.Errorf("the next ends at %s", person.PasswordEnds)
	}
	token, _ := env.signIn("asha", made)
	_, s, err := env.service.ChangePassword(t.Context(), token, made, password, here)
	env.must(err)
	if !s.Person.PasswordEnds.IsZero() {
		t.Errorf("one of her own ends at %s", s.Person.PasswordEnds)
	}
	env.now = env.now.Add(1000 * time.Hour)
	env.signIn("asha", password)
}
