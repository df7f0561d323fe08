package web

import (
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/web/look"
)

// accountRoutes are the pages on which people look after their own login.
func (s *Site) accountRoutes() []Route {
	choosing := SignedIn.At(login.Whole, login.NeedsPassword)
	enrolling := SignedIn.At(login.Whole, login.NeedsTOTP)
	return []Route{
		{Method: http.MethodGet, Path: "/account/", Area: Door, Who: SignedIn, Handle: s.showAccount},
		{Method: http.MethodPost, Path: "/account/language", Area: Door, Who: SignedIn, Form: "/account/", Handle: s.setLanguage},
		{Method: http.MethodPost, Path: "/account/theme", Area: Door, Who: SignedIn, Form: "/account/", Handle: s.setTheme},
		{Method: http.MethodPost, Path: "/account/sessions/{id}/end", Area: Door, Who: SignedIn, Form: "/account/", Handle: s.endSession},
		{Method: http.MethodGet, Path: "/account/password", Area: Door, Who: choosing, Handle: s.showPassword},
		{Method: http.MethodPost, Path: "/account/password", Area: Door, Who: choosing, Handle: s.changePassword},
		{Method: http.MethodGet, Path: "/account/second-factor", Area: Door, Who: enrolling, StepUp: true, Handle: s.showSecondFactor},
		{Method: http.MethodPost, Path: "/account/second-factor", Area: Door, Who: enrolling, StepUp: true, Handle: s.confirmSecondFactor},
		{Method: http.MethodPost, Path: "/account/second-factor/remove", Area: Door, Who: SignedIn, StepUp: true, Form: "/account/", Handle: s.removeSecondFactor},
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
	// Required: the second factor can be replaced and not removed.
	Required bool
}

func (s *Site) showAccount(v *Visit) error {
	sessions, err := s.login.Sessions(v.Context(), v.Session.Person.ID)
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

// secondFactorPage shows what an app for codes needs.
type secondFactorPage struct {
	Picture template.HTML
	Secret  string
	// Offered is what the picture shows. It comes back with the code, so that a
	// mistyped code does not send the visitor scanning another picture.
	Offered string
	Problem string
	// First: it has to be set up before anything else can be done.
	First bool
	To    string
}

func (s *Site) showSecondFactor(v *Visit) error {
	enrolment, err := s.login.BeginTOTP(v.Context(), v.token)
	if err != nil {
		return v.again(err, "refused", func(why string) any { return why })
	}
	return s.offerSecondFactor(v, enrolment, secondFactorPage{To: s.within(v.Query("to"))})
}

func (s *Site) offerSecondFactor(v *Visit, enrolment login.Enrolment, page secondFactorPage) (err error) {
	if page.Picture, err = drawQR(enrolment.URL, v.T(look.Word("The code to scan"))); err != nil {
		return err
	}
	page.Secret, page.Offered = spaced(enrolment.Secret), enrolment.URL
	page.First = v.Session.Stage == login.NeedsTOTP
	return v.Show("second-factor", page)
}

// offeredBefore reads what an earlier page showed. It is shown again and nothing
// else: what counts is the secret that login keeps.
func offeredBefore(text string) (login.Enrolment, bool) {
	at, err := url.Parse(text)
	if err != nil || at.Scheme != "otpauth" || len(text) > 500 {
		return login.Enrolment{}, false
	}
	secret := at.Query().Get("secret")
	return login.Enrolment{Secret: secret, URL: text}, secret != ""
}

// spaced writes a long secret in groups that a person can type.
func spaced(secret string) string {
	var groups []string
	for group := range slices.Chunk([]byte(secret), 4) {
		groups = append(groups, string(group))
	}
	return strings.Join(groups, " ")
}

// recoveryPage shows the recovery codes, which nobody can show again.
type recoveryPage struct {
	Codes []string
	// File is the codes as a file that the browser already has.
	File template.URL
	To   string
}

func (s *Site) confirmSecondFactor(v *Visit) error {
	to := s.within(v.Field("to"))
	codes, token, _, err := s.login.ConfirmTOTP(v.Context(), v.token, v.Field("code"))
	if err != nil {
		why := refusalText(err)
		before, known := offeredBefore(v.Field("offered"))
		if why == "" || !known {
			return v.again(err, "refused", func(why string) any { return why })
		}
		v.Status = http.StatusUnprocessableEntity
		return s.offerSecondFactor(v, before, secondFactorPage{Problem: v.T(why), To: to})
	}
	setSession(v.W, token)
	file := fmt.Sprintf("Coax: recovery codes of %s\nEach works once, instead of a code from the app.\n\n%s\n",
		v.Session.Person.Username, strings.Join(codes, "\n"))
	return v.Show("recovery-codes", recoveryPage{
		Codes: codes, File: template.URL("data:text/plain;charset=utf-8," + url.PathEscape(file)), To: to,
	})
}

func (s *Site) removeSecondFactor(v *Visit) error {
	if err := s.login.RemoveTOTP(v.Context(), v.token); err != nil {
		if why := refusalText(err); why != "" {
			return v.See("/account/", v.Bad(why))
		}
		return err
	}
	return v.See("/account/", v.Good(look.Word("The second factor is removed.")))
}
