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

// at is a try from an address, by a browser that brought something along.
func (o *office) at(address netip.Addr, username, password, browsers string) (string, error) {
	token, _, err := o.service.SignIn(o.Context(), login.Attempt{Username: username, Password: password, Address: address, Browsers: browsers})
	return token, err
}

// remembered is what a browser keeps that signs in with a session's token.
func (o *office) remembered(token, brought string) string {
	o.Helper()
	marks, err := o.service.RememberBrowser(o.Context(), token, brought)
	o.must(err)
	return marks
}

func (o *office) known(username string) (browsers string) {
	o.Helper()
	token, err := o.at(here, username, password, "")
	o.must(err)
	return o.remembered(token, "")
}

func TestSignIn_WrongTriesElsewhereDoNotLockOut(t *testing.T) {
	o := newOffice(t, login.Config{})
	o.person("asha", login.Viewer, 0)
	browser := o.known("asha")
	for n := range 3 {
		for i := range 11 {
			_, err := o.at(elsewhere(n), "asha", wrong, "")
			o.refused(fmt.Sprintf("try %d from network %d", i, n), err, map[bool]login.Reason{true: login.Wrong, false: login.Throttled}[i < 10])
		}
	}
	if slowest := slices.Max(o.pauses); slowest != 4*time.Second || len(o.pauses) != 20 {
		t.Errorf("the answers were delayed by %v; want all but the first ten, by up to 4 s", o.pauses)
	}
	o.pauses = nil
	_, err := o.at(here, "asha", password, "")
	o.must(err)
	if !slices.Equal(o.pauses, []time.Duration{4 * time.Second}) {
		t.Errorf("from an unknown browser the right password was delayed by %v; want as long as a wrong one", o.pauses)
	}

	// Somebody in the same network locks out browsers there that are not known.
	for range 10 {
		_, err := o.at(netip.MustParseAddr("192.0.2.250"), "asha", wrong, "")
		o.refused("from the same network", err, login.Wrong)
	}
	_, err = o.at(here, "asha", password, "")
	o.refused("from an unknown browser of that network", err, login.Throttled)
	o.pauses = nil
	_, err = o.at(here, "asha", password, browser)
	o.must(err)
	if len(o.pauses) != 0 {
		t.Errorf("a known browser was delayed by %v", o.pauses)
	}
}

func TestSignIn_AddressIsRefusedAfterFiftyTriesWhateverTheNames(t *testing.T) {
	o := newOffice(t, login.Config{})
	o.person("asha", login.Viewer, 0)
	browser := o.known("asha")
	for i := range 50 {
		_, err := o.at(here, []string{fmt.Sprintf("name-%d", i), "no name"}[i%2], wrong, "")
		o.refused("a try", err, login.Wrong)
	}
	_, err := o.at(here, "asha", password, "")
	o.refused("the next name", err, login.Throttled)
	_, err = o.at(netip.MustParseAddr("192.0.2.8"), "asha", password, "")
	o.must(err)
	_, err = o.at(here, "asha", password, browser)
	o.must(err)
}

func TestSignIn_KnownBrowserHasItsOwnCounter(t *testing.T) {
	o := newOffice(t, login.Config{})
	o.person("asha", login.Viewer, 0)
	o.person("ravi", login.Viewer, 0)
	browser, other := o.known("asha"), o.known("asha")
	for range 10 {
		_, err := o.at(here, "asha", wrong, browser)
		o.refused("a try", err, login.Wrong)
	}
	_, err := o.at(here, "asha", password, browser)
	o.refused("the eleventh", err, login.Throttled)
	for what, try := range map[string]func() (string, error){
		"another known browser":     func() (string, error) { return o.at(here, "asha", password, other) },
		"an unknown browser":        func() (string, error) { return o.at(here, "asha", password, "") },
		"another login at the same": func() (string, error) { return o.at(here, "ravi", password, browser) },
	} {
		if _, err := try(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	// Signing in again does not give it another counter.
	o.now = o.now.Add(15 * time.Minute)
	token, err := o.at(here, "asha", password, browser)
	o.must(err)
	for range 10 {
		_, err = o.at(here, "asha", wrong, browser)
		o.refused("a try", err, login.Wrong)
	}
	_, err = o.at(here, "asha", password, o.remembered(token, browser))
	o.refused("with the mark of the last sign-in", err, login.Throttled)
}

func TestKnownBrowser_EndsWithThePasswordAndWhenDisabled(t *testing.T) {
	o := newOffice(t, login.Config{})
	asha := o.person("asha", login.Viewer, 0)
	o.person("ravi", login.Viewer, 0)
	// knows reports whether a browser is known: the network's counter is used up.
	for range 10 {
		_, err := o.at(elsewhere(1), "asha", wrong, "")
		o.refused("a try", err, login.Wrong)
	}
	secret := password
	knows := func(what, browsers string, want bool) {
		t.Helper()
		_, err := o.at(elsewhere(1), "asha", secret, browsers)
		if known := err == nil; known != want {
			t.Errorf("%s: known %v, %v; want %v", what, known, err, want)
		}
	}
	browser := o.known("asha")
	knows("a browser that has signed in", browser, true)
	knows("somebody else's", o.known("ravi"), false)
	for _, i := range []int{5, 40, 80} { // its login, its name and its MAC
		other := byte('b')
		if browser[i] == other {
			other = 'c'
		}
		knows("one that was changed", browser[:i]+string(other)+browser[i+1:], false)
	}
	knows("text", "not a mark", false)

	token, err := o.at(here, "ravi", password, browser)
	o.must(err)
	shared := o.remembered(token, browser)
	knows("one that somebody else has signed in at meanwhile", shared, true)

	token, _ = o.signIn("asha", password)
	secret = "nine tall kites"
	token, _, err = o.service.ChangePassword(t.Context(), token, password, secret, here)
	o.must(err)
	knows("from before the password was changed", browser, false)
	browser = o.remembered(token, browser)
	knows("the one that it was changed at", browser, true)

	yes, no := true, false
	for _, disabled := range []*bool{&yes, &no} {
		_, err := o.staff.ChangeLogin(t.Context(), asha.ID, admin.LoginChange{Disabled: disabled})
		o.must(err)
	}
	knows("from before the login was disabled", browser, false)
	token, err = o.at(here, "asha", secret, "")
	o.must(err)
	browser = o.remembered(token, "")
	_, secret, err = o.staff.ResetPassword(t.Context(), asha.ID)
	o.must(err)
	knows("from before the password was reset", browser, false)
}

func TestKnownBrowser_AfterTheSecondFactorAndForAYear(t *testing.T) {
	o := newOffice(t, login.Config{})
	o.person("asha", login.Viewer, 0)
	token, _ := o.signIn("asha", password)
	codeOf, _, _ := o.enrol(token)
	o.now = o.now.Add(time.Minute)
	half, _ := o.signIn("asha", password)
	if marks := o.remembered(half, ""); marks != "" {
		t.Errorf("whoever has only the password gets %q", marks)
	}
	whole, _, err := o.service.GiveCode(t.Context(), half, codeOf(), here, "")
	o.must(err)
	browser := o.remembered(whole, "")

	// Codes from many networks are refused after thirty; the known browser goes on.
	for n := range 30 {
		half, err := o.at(elsewhere(n), "asha", password, "")
		o.must(err)
		_, _, err = o.service.GiveCode(t.Context(), half, "000000", elsewhere(n), "")
		o.refused("a guess", err, login.WrongCode)
	}
	o.now = o.now.Add(time.Minute)
	half, err = o.at(elsewhere(40), "asha", password, "")
	o.must(err)
	_, _, err = o.service.GiveCode(t.Context(), half, codeOf(), elsewhere(40), "")
	o.refused("the next network", err, login.Throttled)
	_, _, err = o.service.GiveCode(t.Context(), half, codeOf(), elsewhere(40), browser)
	o.must(err)

	for days, want := range map[int]bool{364: true, 366: false} {
		o.now = noon.Add(time.Duration(days) * 24 * time.Hour)
		for range 10 {
			_, err := o.at(here, "asha", wrong, "")
			o.refused("a try", err, login.Wrong)
		}
		if _, err := o.at(here, "asha", password, browser); (err == nil) != want {
			t.Errorf("after %d days: %v; want it known: %v", days, err, want)
		}
	}
}

// A browser that was known by the password alone gets no guesses of codes of its own.
func TestKnownBrowser_EndsWithAChangeOfFactors(t *testing.T) {
	o := newOffice(t, login.Config{})
	o.person("asha", login.Viewer, 0)
	before := o.known("asha")
	token, _ := o.signIn("asha", password)
	codeOf, _, token := o.enrol(token)
	browser := o.remembered(token, before)
	o.now = o.now.Add(time.Minute)
	half, _ := o.signIn("asha", password)
	for range 10 {
		_, _, err := o.service.GiveCode(t.Context(), half, "000000", here, "")
		o.refused("a guess", err, login.WrongCode)
	}
	_, _, err := o.service.GiveCode(t.Context(), half, codeOf(), here, before)
	o.refused("from a browser that was known before", err, login.Throttled)
	_, _, err = o.service.GiveCode(t.Context(), half, codeOf(), here, browser)
	o.must(err)
}

func TestStepUp_CountsWrongTriesPerSessionAndEndsIt(t *testing.T) {
	o := newOffice(t, login.Config{})
	o.person("asha", login.Viewer, 0)
	token, _ := o.signIn("asha", password)
	other, _ := o.signIn("asha", password)
	for range 11 { // somebody who knows the name
		_, _ = o.at(here, "asha", wrong, "")
	}
	fresh, _, err := o.service.StepUp(t.Context(), token, password, "", here)
	o.must(err)
	for range 9 {
		_, _, err := o.service.StepUp(t.Context(), fresh, wrong, "", here)
		o.refused("a guess", err, login.WrongPassword)
	}
	_, _, err = o.service.ChangePassword(t.Context(), fresh, password, "short", here)
	o.refused("a weak password is no guess", err, login.WeakPassword)
	_, _, err = o.service.ChangePassword(t.Context(), fresh, wrong, "nine tall kites", here)
	o.refused("the tenth", err, login.SessionOver)
	o.signedOut("after ten guesses", fresh)
	o.stage(other, login.Whole)
	if _, _, err := o.service.StepUp(t.Context(), other, password, "", here); err != nil {
		t.Errorf("in another session: %v", err)
	}
}

func TestTries_HoldOnAllNodesAndAreRemovedWhenOld(t *testing.T) {
	o := newOffice(t, login.Config{})
	second := login.New(o.store, o.vault, login.Config{Now: func() time.Time { return o.now }})
	for i := range 10 {
		service := []*login.Service{o.service, second}[i%2]
		_, _, err := service.SignIn(t.Context(), login.Attempt{Username: "asha", Password: wrong, Address: here})
		o.refused("a try", err, login.Wrong)
	}
	for _, service := range []*login.Service{o.service, second} {
		_, _, err := service.SignIn(t.Context(), login.Attempt{Username: "asha", Password: wrong, Address: here})
		o.refused("the next on either node", err, login.Throttled)
	}
	o.now = o.now.Add(30 * time.Minute)
	if removed, err := o.service.Purge(t.Context(), o.now); err != nil || removed != 3 {
		t.Errorf("%d rows were purged, %v; want the three counters", removed, err)
	}
}

// countingStore counts what is asked of a store.
type countingStore struct {
	login.Store
	asked []string
}

func (s *countingStore) AccountByUsername(ctx context.Context, username string) (login.Account, bool, error) {
	s.asked = append(s.asked, "AccountByUsername")
	return s.Store.AccountByUsername(ctx, username)
}

func (s *countingStore) CountTries(ctx context.Context, at time.Time, window time.Duration, counters []login.TryCounter) ([]login.TryCount, bool, error) {
	s.asked = append(s.asked, fmt.Sprintf("CountTries %d", len(counters)))
	return s.Store.CountTries(ctx, at, window, counters)
}

func (s *countingStore) TakeBackTries(ctx context.Context, counts []login.TryCount) error {
	s.asked = append(s.asked, "TakeBackTries")
	return s.Store.TakeBackTries(ctx, counts)
}

// The time that an answer takes is made of hashes, delays and calls of the store.
func TestSignIn_KnownAndUnknownNamesTakeTheSameWork(t *testing.T) {
	o := newOffice(t, login.Config{})
	asha := o.person("asha", login.Viewer, 0)
	off := o.person("off", login.Viewer, 0)
	yes := true
	_, err := o.staff.ChangeLogin(t.Context(), off.ID, admin.LoginChange{Disabled: &yes})
	o.must(err)
	_, _, err = o.staff.CreateLogin(t.Context(), admin.NewLogin{Username: "new", Name: "New", Role: login.Viewer})
	o.must(err)
	o.now = o.now.Add(100 * time.Hour) // the temporary password has ended
	browser := o.known("asha")

	counting := &countingStore{Store: o.store}
	service := login.New(counting, o.vault, login.Config{Now: func() time.Time { return o.now }, Pause: func(_ context.Context, d time.Duration) error {
		o.pauses = append(o.pauses, d)
		return nil
	}})
	hashes := login.CountHashes(t)
	type work struct {
		Hashes, Asked []string
		Pauses        []time.Duration
		Text          string
	}
	workOf := func(username string, address netip.Addr) work {
		*hashes, counting.asked, o.pauses = nil, nil, nil
		_, _, err := service.SignIn(t.Context(), login.Attempt{Username: username, Password: wrong, Address: address, Browsers: browser[:len(browser)-1]})
		var refusal *login.Refusal
		if !errors.As(err, &refusal) {
			t.Fatalf("%s: %v", username, err)
		}
		return work{*hashes, counting.asked, o.pauses, refusal.Text}
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
			o.now = o.now.Add(time.Second)
		}
	}
}

func TestTemporaryPassword_EndsAfter72Hours(t *testing.T) {
	o := newOffice(t, login.Config{})
	person, made, err := o.staff.CreateLogin(t.Context(), admin.NewLogin{Username: "asha", Name: "Asha", Role: login.Viewer})
	o.must(err)
	if !person.PasswordEnds.Equal(noon.Add(72 * time.Hour)) {
		t.Errorf("it ends at %s", person.PasswordEnds)
	}
	o.now = noon.Add(72*time.Hour - time.Millisecond)
	o.signIn("asha", made)
	o.now = noon.Add(72 * time.Hour)
	_, _, err = o.try("asha", made)
	o.refused("the right one, too late", err, login.PasswordEnded)
	_, _, err = o.try("asha", wrong)
	o.refused("a wrong one", err, login.Wrong)

	person, made, err = o.staff.ResetPassword(t.Context(), person.ID)
	o.must(err)
	if !person.PasswordEnds.Equal(o.now.Add(72 * time.Hour)) {
		t.Errorf("the next ends at %s", person.PasswordEnds)
	}
	token, _ := o.signIn("asha", made)
	_, s, err := o.service.ChangePassword(t.Context(), token, made, password, here)
	o.must(err)
	if !s.Person.PasswordEnds.IsZero() {
		t.Errorf("one of her own ends at %s", s.Person.PasswordEnds)
	}
	o.now = o.now.Add(1000 * time.Hour)
	o.signIn("asha", password)
}
