package web

import (
	"net/http"
	"slices"

	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/web/look"
)

// accountRoutes are the pages on which users manage their own login.
func (s *Site) accountRoutes() []Route {
	choosing := SignedIn.At(login.Complete, login.NeedsPassword)
	return []Route{
		{Method: http.MethodGet, Path: "/account/", Area: Account, Allow: SignedIn, Handle: s.showAccount},
		{Method: http.MethodPost, Path: "/account/language", Area: Account, Allow: SignedIn, Form: "/account/", Handle: s.setLanguage},
		{Method: http.MethodPost, Path: "/account/theme", Area: Account, Allow: SignedIn, Form: "/account/", Handle: s.setTheme},
		{Method: http.MethodPost, Path: "/account/sessions/{id}/end", Area: Account, Allow: SignedIn, Form: "/account/", Handle: s.endSession},
		{Method: http.MethodGet, Path: "/account/password", Area: Account, Allow: choosing, Handle: s.showPassword},
		{Method: http.MethodPost, Path: "/account/password", Area: Account, Allow: choosing, Handle: s.changePassword},
	}
}

// accountPage is the data of the account page.
type accountPage struct {
	Person   login.Person
	Language string
	Theme    string
	Role     string
	Sessions []accountSession
	// Current is the id of this session.
	Current string
	// Required: a second factor is required, so the last one can only be replaced.
	Required bool
	Passkeys []login.Passkey
	// More: another passkey can be added.
	More bool
	// CodesLeft is the number of unused recovery codes.
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
		Required: s.login.RequiresSecondFactor(v.Session.Person),
		Passkeys: passkeys, More: len(passkeys) < login.MaxPasskeys, CodesLeft: left,
	})
}

// accountSession is a session with the name of its device.
type accountSession struct {
	login.Session
	Device string
}

// roleNames are the roles' names on pages.
var roleNames = map[login.Role]string{
	login.Owner:         look.Text("Owner"),
	login.Counter:       look.Text("Counter"),
	login.ReadOnly:      look.Text("Read only"),
	login.Viewer:        look.Text("Viewer"),
	login.Support:       look.Text("Support"),
	login.Finance:       look.Text("Finance"),
	login.Administrator: look.Text("Administrator"),
}

// RoleName returns a role's name in English.
func RoleName(role login.Role) string { return roleNames[role] }

func (s *Site) setLanguage(v *Visit) error {
	chosen := v.Field("language")
	if !slices.Contains(look.Languages, chosen) {
		return problem(http.StatusUnprocessableEntity, look.Text("That language is not available."))
	}
	if err := s.storeLanguage(v, v.token, chosen); err != nil {
		return err
	}
	v.Session.Person.Language = chosen
	// The switch is on every page; return to that page.
	back := s.localPath(v.Field("back"))
	if back == "/" {
		back = "/account/"
	}
	return v.Redirect(back, nil)
}

func (s *Site) setTheme(v *Visit) error {
	chosen := v.Field("theme")
	if !slices.Contains(themes, chosen) {
		return problem(http.StatusUnprocessableEntity, look.Text("That theme is not available."))
	}
	setTheme(v.W, chosen)
	return v.Redirect("/account/", nil)
}

func (s *Site) endSession(v *Visit) error {
	id := v.R.PathValue("id")
	if err := s.login.EndSession(v.Context(), v.Session.Person.ID, id); err != nil {
		return err
	}
	if id == v.Session.ID {
		dropCookie(v.W, sessionCookie)
		return v.Redirect("/sign-in", v.Success(look.Text("You are signed out.")))
	}
	return v.Redirect("/account/", v.Success(look.Text("That device is signed out.")))
}

// passwordPage is the form for a new password.
type passwordPage struct {
	Username string
	Problem  string
	// First: the present password was set by someone else and has to be replaced.
	First bool
	To    string
}

func (s *Site) showPassword(v *Visit) error {
	return v.Show("password", passwordPage{
		Username: v.Session.Person.Username, First: v.Session.Stage == login.NeedsPassword, To: s.localPath(v.Query("to")),
	})
}

func (s *Site) changePassword(v *Visit) error {
	page := passwordPage{Username: v.Session.Person.Username, First: v.Session.Stage == login.NeedsPassword, To: s.localPath(v.Field("to"))}
	form := v.R.PostForm
	if form.Get("new_password") != form.Get("repeated_password") {
		page.Problem = v.T(look.Text("The two new passwords do not match."))
		v.Status = http.StatusUnprocessableEntity
		return v.Show("password", page)
	}
	token, session, err := s.login.ChangePassword(v.Context(), v.token, form.Get("password"), form.Get("new_password"), v.Address)
	if err != nil {
		return v.showAgain(err, "password", func(why string) any { page.Problem = why; return page })
	}
	if page.First {
		return s.proceed(v, token, session, page.To)
	}
	setSession(v.W, token)
	if err := s.remember(v, token); err != nil {
		return err
	}
	return v.Redirect("/account/", v.Success(look.Text("Password changed. Your other devices were signed out.")))
}
