package web

import (
	"net/http"
	"slices"

	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/web/look"
)

// accountRoutes are the pages on which people look after their own login.
func (s *Site) accountRoutes() []Route {
	choosing := SignedIn.At(login.Whole, login.NeedsPassword)
	return []Route{
		{Method: http.MethodGet, Path: "/account/", Area: Door, Who: SignedIn, Handle: s.showAccount},
		{Method: http.MethodPost, Path: "/account/language", Area: Door, Who: SignedIn, Form: "/account/", Handle: s.setLanguage},
		{Method: http.MethodPost, Path: "/account/theme", Area: Door, Who: SignedIn, Form: "/account/", Handle: s.setTheme},
		{Method: http.MethodPost, Path: "/account/sessions/{id}/end", Area: Door, Who: SignedIn, Form: "/account/", Handle: s.endSession},
		{Method: http.MethodGet, Path: "/account/password", Area: Door, Who: choosing, Handle: s.showPassword},
		{Method: http.MethodPost, Path: "/account/password", Area: Door, Who: choosing, Handle: s.changePassword},
	}
}

// accountPage is what the account page shows.
type accountPage struct {
	Person   login.Person
	Language string
	Theme    string
	Role     string
	Sessions []accountSession
	// Current is the session that is looking.
	Current string
	// Required: the last second factor can be replaced and not removed.
	Required bool
	Passkeys []login.Passkey
	// More: another passkey can be added.
	More bool
	// CodesLeft is how many recovery codes were not used.
	CodesLeft int
}

// Only reports whether this is the only second factor, and one is required.
func (p accountPage) Only() bool {
	factors := len(p.Passkeys)
	if p.Person.TOTP {
		factors++
	}
	return p.Required && factors == 1
}

func (s *Site) showAccount(v *Visit) error {
	sessions, err := s.login.Sessions(v.Context(), v.Session.Person.ID)
	if err != nil {
		return err
	}
	passkeys, err := s.login.Passkeys(v.Context(), v.Session.Person.ID)
	if err != nil {
		return err
	}
	left, err := s.login.RecoveryCodesLeft(v.Context(), v.Session.Person.ID)
	if err != nil {
		return err
	}
	devices := make([]accountSession, len(sessions))
	for i, session := range sessions {
		devices[i] = accountSession{session, deviceName(session.Agent)}
	}
	return v.Show("account", accountPage{
		Person: v.Session.Person, Language: v.Language(), Theme: v.theme(), Role: RoleName(v.Session.Person.Role),
		Sessions: devices, Current: v.Session.ID,
		Required: s.login.Requires(v.Session.Person),
		Passkeys: passkeys, More: len(passkeys) < login.PasskeysMost, CodesLeft: left,
	})
}

// accountSession is a session as its person knows it again.
type accountSession struct {
	login.Session
	Device string
}

// roleNames are how people call the roles.
var roleNames = map[login.Role]string{
	login.Owner:         look.Word("Owner"),
	login.Counter:       look.Word("Counter"),
	login.ReadOnly:      look.Word("Read only"),
	login.Viewer:        look.Word("Viewer"),
	login.Support:       look.Word("Support"),
	login.Finance:       look.Word("Finance"),
	login.Administrator: look.Word("Administrator"),
}

// RoleName is how people call a role, in English.
func RoleName(role login.Role) string { return roleNames[role] }

func (s *Site) setLanguage(v *Visit) error {
	chosen := v.Field("language")
	if !slices.Contains(languages, chosen) {
		return problem(http.StatusUnprocessableEntity, look.Word("The pages do not speak that language."))
	}
	if err := s.login.SetLanguage(v.Context(), v.token, chosen); err != nil {
		return err
	}
	setCookie(v.W, languageCookie, chosen, oneYear) // for the next sign-in at this browser
	v.Session.Person.Language = chosen
	// Every page has the switch, and comes back as it was.
	back := s.within(v.Field("back"))
	if back == "/" {
		back = "/account/"
	}
	return v.See(back, nil)
}

func (s *Site) setTheme(v *Visit) error {
	chosen := v.Field("theme")
	if !slices.Contains(themes, chosen) {
		return problem(http.StatusUnprocessableEntity, look.Word("There is no such appearance."))
	}
	setTheme(v.W, chosen)
	return v.See("/account/", nil)
}

func (s *Site) endSession(v *Visit) error {
	id := v.R.PathValue("id")
	if err := s.login.EndSession(v.Context(), v.Session.Person.ID, id); err != nil {
		return err
	}
	if id == v.Session.ID {
		dropCookie(v.W, sessionCookie)
		return v.See("/sign-in", v.Good(look.Word("You are signed out.")))
	}
	return v.See("/account/", v.Good(look.Word("That device is signed out.")))
}

// passwordPage is the form for a new password.
type passwordPage struct {
	Username string
	Problem  string
	// First: the present one was chosen by somebody else, and has to be replaced.
	First bool
	To    string
}

func (s *Site) showPassword(v *Visit) error {
	return v.Show("password", passwordPage{
		Username: v.Session.Person.Username, First: v.Session.Stage == login.NeedsPassword, To: s.within(v.Query("to")),
	})
}

func (s *Site) changePassword(v *Visit) error {
	page := passwordPage{Username: v.Session.Person.Username, First: v.Session.Stage == login.NeedsPassword, To: s.within(v.Field("to"))}
	form := v.R.PostForm
	if form.Get("new_password") != form.Get("repeated_password") {
		page.Problem = v.T(look.Word("The two new passwords are not the same."))
		v.Status = http.StatusUnprocessableEntity
		return v.Show("password", page)
	}
	token, session, err := s.login.ChangePassword(v.Context(), v.token, form.Get("password"), form.Get("new_password"), v.Address)
	if err != nil {
		return v.again(err, "password", func(why string) any { page.Problem = why; return page })
	}
	if page.First {
		return s.proceed(v, token, session, page.To)
	}
	setSession(v.W, token)
	if err := s.remember(v, token); err != nil {
		return err
	}
	return v.See("/account/", v.Good(look.Word("Your password is changed, and your other devices are signed out.")))
}
