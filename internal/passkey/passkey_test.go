package passkey_test

import (
	"testing"

	"github.com/coaxhq/coax/internal/passkey"
	"github.com/coaxhq/coax/internal/passkey/passkeytest"
)

func TestSiteOf(t *testing.T) {
	for origin, want := range map[string]passkey.Site{
		"https://panel.example.com":      {ID: "panel.example.com", Origin: "https://panel.example.com"},
		"https://Panel.Example.com:443/": {ID: "panel.example.com", Origin: "https://panel.example.com"},
		"https://localhost:8443":         {ID: "localhost", Origin: "https://localhost:8443"},
		"https://127.0.0.1:8443":         {}, "https://[::1]:8443": {}, "http://panel.example.com": {}, "https://": {}, "panel.example.com": {},
		"https://panel.example.com/x": {}, "https://a@panel.example.com": {}, "https://intranet": {},
	} {
		if got, ok := passkey.SiteOf(origin); got != want || ok != (want.ID != "") {
			t.Errorf("%s is the site %+v, %v; want %+v", origin, got, ok, want)
		}
	}
}

func TestPasskey_AnswersAreChecked(t *testing.T) {
	site, _ := passkey.SiteOf("https://panel.example.com")
	asha := passkey.User{ID: 7, Username: "asha", Name: "Asha"}
	add := func(prepare func(*passkeytest.Authenticator)) (*passkeytest.Authenticator, passkey.Key, error) {
		t.Helper()
		device := passkeytest.New(t, site.Origin)
		prepare(device)
		options, state, err := passkey.BeginAdding(site, asha, nil)
		if err != nil {
			t.Fatal(err)
		}
		key, err := passkey.FinishAdding(asha, state, device.Create(string(options)))
		return device, key, err
	}
	for what, prepare := range map[string]func(*passkeytest.Authenticator){
		"another origin": func(a *passkeytest.Authenticator) { a.Origin = "https://panel.example.org" },
		"another port":   func(a *passkeytest.Authenticator) { a.Origin += ":8443" },
		"nobody present": func(a *passkeytest.Authenticator) { a.Absent = true },
	} {
		if _, key, err := add(prepare); err == nil {
			t.Errorf("%s: a passkey was added: %+v", what, key)
		}
	}
	device, key, err := add(func(*passkeytest.Authenticator) {})
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, _ := passkey.SiteOf("https://evil.example")
	use := func(at passkey.Site, user passkey.User, prepare func(*passkeytest.Authenticator)) (passkey.Use, error) {
		t.Helper()
		copied := *device
		prepare(&copied)
		options, state, err := passkey.BeginUsing(at, asha, []passkey.Key{key})
		if err != nil {
			t.Fatal(err)
		}
		got, err := passkey.FinishUsing(user, []passkey.Key{key}, state, copied.Use(string(options)))
		return got, err
	}
	right := func(*passkeytest.Authenticator) {}
	got, err := use(site, asha, right)
	if err != nil || got.CounterWentBack || got.SignCount != 2 || string(got.CredentialID) != string(key.CredentialID) {
		t.Errorf("the use is %+v, %v", got, err)
	}
	if got, err := use(site, asha, func(a *passkeytest.Authenticator) { a.Count = 1 }); err != nil || !got.CounterWentBack {
		t.Errorf("a counter that did not grow: %+v, %v; want it noticed", got, err)
	}
	for what, attempt := range map[string]func() (passkey.Use, error){
		"another origin": func() (passkey.Use, error) {
			return use(site, asha, func(a *passkeytest.Authenticator) { a.Origin = elsewhere.Origin })
		},
		"relayed by another site": func() (passkey.Use, error) { return use(elsewhere, asha, right) },
		"nobody present": func() (passkey.Use, error) {
			return use(site, asha, func(a *passkeytest.Authenticator) { a.Absent = true })
		},
		"another device": func() (passkey.Use, error) {
			return use(site, asha, func(a *passkeytest.Authenticator) { *a = *passkeytest.New(t, site.Origin) })
		},
		"somebody else": func() (passkey.Use, error) { return use(site, passkey.User{ID: 8}, right) },
	} {
		if got, err := attempt(); err == nil {
			t.Errorf("%s: accepted as %+v", what, got)
		}
	}
	if _, err := passkey.FinishUsing(asha, []passkey.Key{key}, []byte("{}"), []byte("{}")); err == nil {
		t.Error("an answer to no challenge was accepted")
	}
}
