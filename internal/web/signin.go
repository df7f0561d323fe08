package web

import (
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/web/look"
)

// signInRoutes are the routes for signing in, stepping up and signing out.
func (s *Site) signInRoutes() []Route {
	return []Route{
		{Method: http.MethodGet, Path: "/", Area: Account, Allow: Anyone, Handle: s.root},
		{Method: http.MethodGet, Path: "/sign-in", Area: Account, Allow: Anyone, Handle: s.showSignIn},
		{Method: http.MethodPost, Path: "/sign-in", Area: Account, Allow: Anyone, Handle: s.signIn},
		{Method: http.MethodPost, Path: "/sign-in/language", Area: Account, Allow: Anyone, Form: "/sign-in", Handle: s.chooseLanguage},
		{Method: http.MethodGet, Path: "/sign-in/code", Area: Account, Allow: SignedIn.At(login.NeedsCode), Handle: s.showCode},
		{Method: http.MethodPost, Path: "/sign-in/code", Area: Account, Allow: SignedIn.At(login.NeedsCode), Handle: s.giveCode},
		{Method: http.MethodPost, Path: "/sign-out", Area: Account, Allow: Anyone, Form: "/", Handle: s.signOut},
		{Method: http.MethodGet, Path: "/step-up", Area: Account, Allow: SignedIn, Handle: s.showStepUp},
		{Method: http.MethodPost, Path: "/step-up", Area: Account, Allow: SignedIn, Handle: s.stepUp},
	}
}

// root redirects to the sign-in, or to the first page of the user's area.
func (s *Site) root(v *Visit) error {
	switch {
	case !v.SignedIn():
		return v.Redirect("/sign-in", nil)
	case v.Session.Stage != login.Complete:
		return v.Redirect(nextStep(v.Session.Stage), nil)
	case v.Session.Person.Realm == login.Staff:
		return v.Redirect(home[Console], nil)
	}
	return v.Redirect(home[Panel], nil)
}

// signInForm is the data of the sign-in, code and step-up forms.
type signInForm struct {
	// To is the page to go to afterwards.
	To       string
	Username string
	// Problem is why the form is shown again.
	Problem string
	// Proof is the part that asks for the second factor.
	Proof proofForm
	// Carried are the fields of a form that waits for a step-up.
	Carried []carried
}

func (s *Site) showSignIn(v *Visit) error {
	if v.SignedIn() {
		return s.root(v)
	}
	return v.Show("sign-in", signInForm{To: s.localPath(v.Query("to"))})
}

func (s *Site) signIn(v *Visit) error {
	form := signInForm{To: s.localPath(v.Field("to")), Username: v.Field("username")}
	token, session, err := s.login.SignIn(v.Context(), login.Attempt{
		Username: form.Username, Password: v.R.PostForm.Get("password"), Address: v.Address, Agent: v.R.UserAgent(),
		Browsers: cookie(v.R, browserCookie),
	})
	if err != nil {
		return v.showAgain(err, "sign-in", func(why string) any { form.Problem = why; return form })
	}
	// End the session that this browser had before.
	if v.token != "" {
		if err := s.login.SignOut(v.Context(), v.token); err != nil && !errors.Is(err, login.ErrSignedOut) {
			return err
		}
	}
	return s.proceed(v, token, session, form.To)
}

// proceed sets the new session cookie and redirects to the next step or to the page.
func (s *Site) proceed(v *Visit, token string, session login.Session, to string) error {
	setSession(v.W, token)
	if err := s.remember(v, token); err != nil {
		return err
	}
	if chosen := cookie(v.R, chosenLanguageCookie); slices.Contains(look.Languages, chosen) && session.Stage != login.NeedsCode {
		if err := s.storeLanguage(v, token, chosen); err != nil && !errors.Is(err, login.ErrSignedOut) {
			return err
		}
	}
	if session.Stage != login.Complete {
		return v.Redirect(withReturn(nextStep(session.Stage), to), nil)
	}
	return v.Redirect(s.localPath(to), nil)
}

// remember marks the browser as one that has signed in before.
func (s *Site) remember(v *Visit, token string) error {
	marks, err := s.login.RememberBrowser(v.Context(), token, cookie(v.R, browserCookie))
	if err != nil && !errors.Is(err, login.ErrSignedOut) {
		return err
	}
	if marks != "" {
		setCookie(v.W, browserCookie, marks, int(login.BrowserKnownFor.Seconds()))
	}
	return nil
}

// showAgain shows a form again with login's reason for refusing it. Any other error is
// returned.
func (v *Visit) showAgain(err error, page string, data func(why string) any) error {
	var refusal *login.Refusal
	switch {
	case errors.Is(err, login.ErrSignedOut): // since this request began
		dropCookie(v.W, sessionCookie)
		return v.Redirect("/sign-in", nil)
	case !errors.As(err, &refusal):
		return err
	case refusal.Reason == login.SessionOver:
		dropCookie(v.W, sessionCookie)
		return v.Redirect("/sign-in", v.Failure(refusal.Text))
	}
	v.refusedStatus(err)
	return v.Show(page, data(v.T(refusal.Text)))
}

// refusedStatus sets the status of a page that shows a refusal of login.
func (v *Visit) refusedStatus(err error) {
	var refusal *login.Refusal
	v.Status = http.StatusUnprocessableEntity
	if errors.As(err, &refusal) && refusal.Reason == login.Throttled {
		v.Status = http.StatusTooManyRequests
		v.W.Header().Set("Retry-After", strconv.Itoa(seconds(refusal.RetryAfter)))
	}
}

// wrongCode reports whether login refused a code.
func wrongCode(err error) bool {
	var refusal *login.Refusal
	return errors.As(err, &refusal) && refusal.Reason == login.WrongCode
}

// refusalText returns login's reason for the visitor to read; empty if the error is not a
// refusal, or if the session is over and there is no form to show.
func refusalText(err error) string {
	var refusal *login.Refusal
	if errors.As(err, &refusal) && refusal.Reason != login.SessionOver {
		return refusal.Text
	}
	return ""
}

func (s *Site) showCode(v *Visit) error { return s.askForCode(v, s.localPath(v.Query("to")), "") }

func (s *Site) askForCode(v *Visit, to, problem string) error {
	proof, err := s.proof(v)
	if err != nil {
		return v.showAgain(err, "refused", func(why string) any { return why })
	}
	return v.Show("code", signInForm{To: to, Problem: problem, Proof: proof})
}

func (s *Site) giveCode(v *Visit) error {
	to := s.localPath(v.Field("to"))
	var token string
	var session login.Session
	var err error
	if answer := passkeyResponse(v); answer != nil {
		token, session, err = s.login.VerifyPasskey(v.Context(), v.token, answer, v.Address, cookie(v.R, browserCookie))
	} else {
		token, session, err = s.login.VerifyCode(v.Context(), v.token, v.Field("code"), v.Address, cookie(v.R, browserCookie))
	}
	switch {
	case err == nil:
		return s.proceed(v, token, session, to)
	case refusalText(err) == "":
		return v.showAgain(err, "refused", func(why string) any { return why })
	}
	v.refusedStatus(err)
	return s.askForCode(v, to, v.T(refusalText(err)))
}

func (s *Site) signOut(v *Visit) error {
	if v.token != "" {
		if err := s.login.SignOut(v.Context(), v.token); err != nil && !errors.Is(err, login.ErrSignedOut) {
			return err
		}
	}
	dropCookie(v.W, sessionCookie)
	// Clear the visitor's pages from the browser's cache too.
	v.W.Header().Set("Clear-Site-Data", `"cache"`)
	return v.Redirect("/sign-in", v.Success(look.Text("You are signed out.")))
}

// chooseLanguage sets the language before sign-in and during it. As soon as the login is
// proven, the choice is stored with it.
func (s *Site) chooseLanguage(v *Visit) error {
	if chosen := v.Field("language"); slices.Contains(look.Languages, chosen) {
		if v.SignedIn() && v.Session.Stage != login.NeedsCode {
			if err := s.storeLanguage(v, v.token, chosen); err != nil {
				return err
			}
		} else {
			setCookie(v.W, languageCookie, chosen, oneYear)
			setCookie(v.W, chosenLanguageCookie, chosen, 0)
		}
	}
	return v.Redirect(withReturn("/sign-in", s.localPath(v.Field("to"))), nil)
}

// storeLanguage stores a language with the login of a session, and for the next sign-in at
// this browser.
func (s *Site) storeLanguage(v *Visit, token, language string) error {
	setCookie(v.W, languageCookie, language, oneYear)
	dropCookie(v.W, chosenLanguageCookie)
	return s.login.SetLanguage(v.Context(), token, language)
}

// askToStepUp asks for password and second factor before secrets are shown or money
// moves. A posted form is not carried out: its fields are kept in the step-up form, and
// shown again in their own form afterwards.
func (v *Visit) askToStepUp() error {
	if v.R.Method != http.MethodPost || v.ByHTMX() {
		return v.Redirect(withReturn("/step-up", v.returnPath()), nil)
	}
	v.Status = http.StatusForbidden
	return v.site.showStepUpForm(v, signInForm{To: v.returnPath(), Carried: carry(v.R.PostForm)})
}

func (s *Site) showStepUp(v *Visit) error {
	return s.showStepUpForm(v, signInForm{To: s.localPath(v.Query("to"))})
}

// showStepUpForm shows the step-up form, in the sign-in layout without navigation.
func (s *Site) showStepUpForm(v *Visit, form signInForm) (err error) {
	v.singleLayout = true
	if form.Proof, err = s.proof(v); err != nil {
		return v.showAgain(err, "refused", func(why string) any { return why })
	}
	return v.Show("step-up", form)
}

func (s *Site) stepUp(v *Visit) error {
	waiting := uncarry(v.R.PostForm)
	form := signInForm{To: s.localPath(v.Field("to")), Carried: carry(waiting)}
	var token string
	var session login.Session
	var err error
	if given := credentials(v); given.Passkey != nil {
		token, session, err = s.login.StepUpPasskey(v.Context(), v.token, given.Password, given.Passkey, v.Address)
	} else {
		token, session, err = s.login.StepUp(v.Context(), v.token, given.Password, given.Code, v.Address)
	}
	if err != nil {
		if refusalText(err) == "" {
			return v.showAgain(err, "refused", func(why string) any { return why })
		}
		v.refusedStatus(err)
		form.Problem = v.T(refusalText(err))
		return s.showStepUpForm(v, form)
	}
	setSession(v.W, token)
	if len(waiting) == 0 {
		return v.Redirect(form.To, nil)
	}
	v.token, v.Session = token, session
	return s.showFilled(v, form.To, waiting)
}

// showFilled shows a page with its form filled in. The page's rule is checked as for a
// request to it.
func (s *Site) showFilled(v *Visit, to string, filled map[string][]string) error {
	route, values, _ := s.table.find(http.MethodGet, to)
	if route == nil || route.Allow.check(v.session()) != permitted || v.suspended() && route.Changes() {
		return v.Redirect("/", nil)
	}
	v.route, v.path, v.filled = route, to, filled
	// A form may be just a button, which does not show that it still has to be pressed.
	v.notice = v.Info(look.Text("Confirmed. Nothing has been done yet: check your form and send it again."))
	v.R = v.R.Clone(v.Context())
	v.R.Method, v.R.URL.Path, v.R.URL.RawPath, v.R.URL.RawQuery = http.MethodGet, to, "", ""
	v.R.PostForm = nil
	for name, value := range values {
		v.R.SetPathValue(name, value)
	}
	return route.Handle(v)
}
