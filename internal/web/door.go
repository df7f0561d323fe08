package web

import (
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/web/look"
)

// doorRoutes are the pages by which people come in and go out.
func (s *Site) doorRoutes() []Route {
	return []Route{
		{Method: http.MethodGet, Path: "/", Area: Door, Who: Anyone, Handle: s.root},
		{Method: http.MethodGet, Path: "/sign-in", Area: Door, Who: Anyone, Handle: s.showSignIn},
		{Method: http.MethodPost, Path: "/sign-in", Area: Door, Who: Anyone, Handle: s.signIn},
		{Method: http.MethodPost, Path: "/sign-in/language", Area: Door, Who: Anyone, Form: "/sign-in", Handle: s.chooseLanguage},
		{Method: http.MethodGet, Path: "/sign-in/code", Area: Door, Who: SignedIn.At(login.NeedsCode), Handle: s.showCode},
		{Method: http.MethodPost, Path: "/sign-in/code", Area: Door, Who: SignedIn.At(login.NeedsCode), Handle: s.giveCode},
		{Method: http.MethodPost, Path: "/sign-out", Area: Door, Who: Anyone, Form: "/", Handle: s.signOut},
		{Method: http.MethodGet, Path: "/step-up", Area: Door, Who: SignedIn, Handle: s.showStepUp},
		{Method: http.MethodPost, Path: "/step-up", Area: Door, Who: SignedIn, Handle: s.stepUp},
	}
}

// root sends everybody to where their day begins.
func (s *Site) root(v *Visit) error {
	switch {
	case !v.SignedIn():
		return v.See("/sign-in", nil)
	case v.Session.Stage != login.Whole:
		return v.See(nextStep(v.Session.Stage), nil)
	case v.Session.Person.Realm == login.Staff:
		return v.See(home[Console], nil)
	}
	return v.See(home[Panel], nil)
}

// doorForm is what the forms of the door show.
type doorForm struct {
	// To is where the visitor was going.
	To       string
	Username string
	// Problem is why the form is shown again.
	Problem string
	// Proof asks for the second factor.
	Proof proofForm
	// Carried is what was filled into a form that waits for a step-up.
	Carried []carried
}

func (s *Site) showSignIn(v *Visit) error {
	if v.SignedIn() {
		return s.root(v)
	}
	return v.Show("sign-in", doorForm{To: s.within(v.Query("to"))})
}

func (s *Site) signIn(v *Visit) error {
	form := doorForm{To: s.within(v.Field("to")), Username: v.Field("username")}
	token, session, err := s.login.SignIn(v.Context(), login.Attempt{
		Username: form.Username, Password: v.R.PostForm.Get("password"), Address: v.Address, Agent: v.R.UserAgent(),
		Browsers: cookie(v.R, browserCookie),
	})
	if err != nil {
		return v.again(err, "sign-in", func(why string) any { form.Problem = why; return form })
	}
	// Whoever was signed in at this browser before is not any more.
	if v.token != "" {
		if err := s.login.SignOut(v.Context(), v.token); err != nil && !errors.Is(err, login.ErrSignedOut) {
			return err
		}
	}
	return s.proceed(v, token, session, form.To)
}

// proceed gives the browser its new token and sends the visitor on.
func (s *Site) proceed(v *Visit, token string, session login.Session, to string) error {
	setSession(v.W, token)
	if err := s.remember(v, token); err != nil {
		return err
	}
	if session.Stage != login.Whole {
		return v.See(returning(nextStep(session.Stage), to), nil)
	}
	return v.See(s.within(to), nil)
}

// remember has the browser be known as one that has signed in before.
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

// again shows a form once more with what login had against it. Any other error is
// not the visitor's.
func (v *Visit) again(err error, page string, data func(why string) any) error {
	var refusal *login.Refusal
	switch {
	case errors.Is(err, login.ErrSignedOut): // since this visit began
		dropCookie(v.W, sessionCookie)
		return v.See("/sign-in", nil)
	case !errors.As(err, &refusal):
		return err
	case refusal.Reason == login.SessionOver:
		dropCookie(v.W, sessionCookie)
		return v.See("/sign-in", v.Bad(refusal.Text))
	}
	v.refusedStatus(err)
	return v.Show(page, data(v.T(refusal.Text)))
}

// refusedStatus sets the status of a page that says what login had against something.
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

// refusalText is what login had against something, for the visitor to read; empty
// where the error is no such thing, or the session is over and there is no form to show.
func refusalText(err error) string {
	var refusal *login.Refusal
	if errors.As(err, &refusal) && refusal.Reason != login.SessionOver {
		return refusal.Text
	}
	return ""
}

func (s *Site) showCode(v *Visit) error { return s.askForCode(v, s.within(v.Query("to")), "") }

func (s *Site) askForCode(v *Visit, to, problem string) error {
	proof, err := s.proof(v)
	if err != nil {
		return v.again(err, "refused", func(why string) any { return why })
	}
	return v.Show("code", doorForm{To: to, Problem: problem, Proof: proof})
}

func (s *Site) giveCode(v *Visit) error {
	to := s.within(v.Field("to"))
	var token string
	var session login.Session
	var err error
	if answer := passkeyAnswer(v); answer != nil {
		token, session, err = s.login.GivePasskey(v.Context(), v.token, answer, v.Address, cookie(v.R, browserCookie))
	} else {
		token, session, err = s.login.GiveCode(v.Context(), v.token, v.Field("code"), v.Address, cookie(v.R, browserCookie))
	}
	switch {
	case err == nil:
		return s.proceed(v, token, session, to)
	case refusalText(err) == "":
		return v.again(err, "refused", func(why string) any { return why })
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
	// What the browser still holds of the visitor's pages goes too.
	v.W.Header().Set("Clear-Site-Data", `"cache"`)
	return v.See("/sign-in", v.Good(look.Word("You are signed out.")))
}

// chooseLanguage is for strangers; a person's language is kept with the person.
func (s *Site) chooseLanguage(v *Visit) error {
	if chosen := v.Field("language"); slices.Contains(languages, chosen) {
		setCookie(v.W, languageCookie, chosen, oneYear)
	}
	return v.See(returning("/sign-in", s.within(v.Field("to"))), nil)
}

// askToStepUp has the visitor prove who they are before a page with secrets is
// shown or money moves. What was posted is not done; it waits in the form that
// asks, and comes back into its own form afterwards.
func (v *Visit) askToStepUp() error {
	if v.R.Method != http.MethodPost || v.ByHTMX() {
		return v.See(returning("/step-up", v.comeback()), nil)
	}
	v.Status = http.StatusForbidden
	return v.site.showStepUpForm(v, doorForm{To: v.comeback(), Carried: carry(v.R.PostForm)})
}

func (s *Site) showStepUp(v *Visit) error {
	return s.showStepUpForm(v, doorForm{To: s.within(v.Query("to"))})
}

// showStepUpForm shows the step-up's form. It stands at the door, whatever page it keeps
// the visitor from: there is nothing else to do.
func (s *Site) showStepUpForm(v *Visit, form doorForm) (err error) {
	v.atDoor = true
	if form.Proof, err = s.proof(v); err != nil {
		return v.again(err, "refused", func(why string) any { return why })
	}
	return v.Show("step-up", form)
}

func (s *Site) stepUp(v *Visit) error {
	waiting := uncarry(v.R.PostForm)
	form := doorForm{To: s.within(v.Field("to")), Carried: carry(waiting)}
	var token string
	var session login.Session
	var err error
	if given := given(v); given.Passkey != nil {
		token, session, err = s.login.StepUpPasskey(v.Context(), v.token, given.Password, given.Passkey, v.Address)
	} else {
		token, session, err = s.login.StepUp(v.Context(), v.token, given.Password, given.Code, v.Address)
	}
	if err != nil {
		if refusalText(err) == "" {
			return v.again(err, "refused", func(why string) any { return why })
		}
		v.refusedStatus(err)
		form.Problem = v.T(refusalText(err))
		return s.showStepUpForm(v, form)
	}
	setSession(v.W, token)
	if len(waiting) == 0 {
		return v.See(form.To, nil)
	}
	v.token, v.Session = token, session
	return s.showFilled(v, form.To, waiting)
}

// showFilled shows the page at an address with a form filled in. The page's rule
// is asked as if the visitor had come by the front.
func (s *Site) showFilled(v *Visit, to string, filled map[string][]string) error {
	route, values, _ := s.table.find(http.MethodGet, to)
	if route == nil || route.Who.judge(v.session()) != permitted || v.suspended() && route.Changes() {
		return v.See("/", nil)
	}
	v.route, v.path, v.filled = route, to, filled
	// A form can be a mere button, which does not show that it waits to be pressed.
	v.notice = v.Info(look.Word("Thank you. Nothing has been done yet: look at what you wanted to do, and send it again."))
	v.R = v.R.Clone(v.Context())
	v.R.Method, v.R.URL.Path, v.R.URL.RawPath, v.R.URL.RawQuery = http.MethodGet, to, "", ""
	v.R.PostForm = nil
	for name, value := range values {
		v.R.SetPathValue(name, value)
	}
	return route.Handle(v)
}
