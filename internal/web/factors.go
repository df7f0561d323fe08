package web

import (
	"fmt"
	"html/template"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/web/look"
)

// factorRoutes are the pages on which users change their own second factors. None has
// StepUp, because each asks for the password and a present second factor itself, even
// right after a step-up.
func (s *Site) factorRoutes() []Route {
	enrolling := SignedIn.At(login.Complete, login.NeedsTOTP)
	const one = "/account/passkeys/{passkey}/remove"
	return []Route{
		{Method: http.MethodGet, Path: "/account/second-factor", Area: Account, Allow: enrolling, Handle: s.askForTOTP},
		{Method: http.MethodPost, Path: "/account/second-factor/offer", Area: Account, Allow: enrolling, Form: "/account/second-factor", Handle: s.offerTOTP},
		{Method: http.MethodPost, Path: "/account/second-factor", Area: Account, Allow: enrolling, Handle: s.confirmTOTP},
		{Method: http.MethodGet, Path: "/account/second-factor/remove", Area: Account, Allow: SignedIn, Handle: s.askToRemoveTOTP},
		{Method: http.MethodPost, Path: "/account/second-factor/remove", Area: Account, Allow: SignedIn, Handle: s.removeTOTP},
		{Method: http.MethodGet, Path: "/account/recovery-codes", Area: Account, Allow: SignedIn, Handle: s.askForRecoveryCodes},
		{Method: http.MethodPost, Path: "/account/recovery-codes", Area: Account, Allow: SignedIn, Handle: s.replaceRecoveryCodes},
		{Method: http.MethodGet, Path: "/account/passkeys/new", Area: Account, Allow: enrolling, Handle: s.askForPasskey},
		{Method: http.MethodPost, Path: "/account/passkeys/new", Area: Account, Allow: enrolling, Handle: s.offerPasskey},
		{Method: http.MethodPost, Path: "/account/passkeys", Area: Account, Allow: enrolling, Form: "/account/passkeys/new", Handle: s.addPasskey},
		{Method: http.MethodGet, Path: one, Area: Account, Allow: SignedIn, Handle: s.askToRemovePasskey},
		{Method: http.MethodPost, Path: one, Area: Account, Allow: SignedIn, Handle: s.removePasskey},
		{Method: http.MethodPost, Path: "/account/changes/seen", Area: Account, Allow: SignedIn, Form: "/account/", Handle: s.takeNotice},
	}
}

// proofForm is the part of a form that asks for password and second factor.
type proofForm struct {
	Username string
	// Code: a second factor is set up and required. App: codes of an app are set up.
	Code, App bool
	// Passkey is the challenge for a passkey, if the user has one.
	Passkey login.PasskeyChallenge
}

// proof returns the proofForm of the visitor, with a new challenge.
func (s *Site) proof(v *Visit) (form proofForm, err error) {
	p := v.Session.Person
	form = proofForm{Username: p.Username, Code: p.SecondFactor(), App: p.TOTP}
	if p.Passkeys > 0 {
		site, _ := s.siteOf(v) // without a site there is no passkey
		form.Passkey, err = s.login.ChallengePasskey(v.Context(), v.token, site)
	}
	return form, err
}

// siteOf returns the site that the visitor's passkeys are bound to: the configured origin,
// else the request's host.
func (s *Site) siteOf(v *Visit) (login.Site, bool) {
	return login.SiteOf(v.Origin())
}

// credentials returns what was entered into a proofForm.
func credentials(v *Visit) login.Credentials {
	return login.Credentials{Password: v.R.PostForm.Get("password"), Code: v.Field("code"), Passkey: passkeyResponse(v)}
}

// passkeyResponse returns the passkey's response in the posted form; nil if there is none.
func passkeyResponse(v *Visit) []byte {
	if text := v.Field("passkey"); text != "" {
		return []byte(text)
	}
	return nil
}

// provePage is a form that asks for password and second factor before a second factor
// changes. The texts are English.
type provePage struct {
	Title, Lead, Action, Button, Kind string
	Proof                             proofForm
	Problem                           string
	// Named: the form asks for a name. Name is what was entered.
	Named bool
	Name  string
	// First: a second factor has to be set up before anything else can be done.
	First bool
	// Other is the URL of another kind of second factor, OtherText its name.
	Other, OtherText string
	To               string
}

var (
	totpForm = provePage{
		Title: look.Text("Set up an authenticator app"), Lead: look.Text("This signs out your other devices."),
		Action: "/account/second-factor/offer", Button: look.Text("Continue"), Kind: "primary",
	}
	removeTOTPForm = provePage{
		Title: look.Text("Remove the authenticator app"), Lead: look.Text("This signs out your other devices."),
		Action: "/account/second-factor/remove", Button: look.Text("Remove"), Kind: "danger",
	}
	recoveryForm = provePage{
		Title: look.Text("Create new recovery codes"), Lead: look.Text("Your current codes stop working, and your other devices are signed out."),
		Action: "/account/recovery-codes", Button: look.Text("Create new codes"), Kind: "primary",
	}
	passkeyForm = provePage{
		Title: look.Text("Add a passkey"), Lead: look.Text("A passkey is stored on your phone, computer or security key. Adding one signs out your other devices."),
		Action: "/account/passkeys/new", Button: look.Text("Continue"), Kind: "primary", Named: true,
	}
	removePasskeyForm = provePage{
		Title: look.Text("Remove a passkey"), Lead: look.Text("This signs out your other devices."),
		Button: look.Text("Remove"), Kind: "danger",
	}
)

// ask shows a form, with what was wrong with it.
func (s *Site) ask(v *Visit, page provePage, problem string) (err error) {
	if page.Proof, err = s.proof(v); err != nil {
		return v.showAgain(err, "refused", func(why string) any { return why })
	}
	page.Problem, page.First = problem, v.Session.Stage == login.NeedsTOTP
	page.To = s.localPath(v.Query("to"))
	if v.R.Method == http.MethodPost {
		page.To = s.localPath(v.Field("to"))
	}
	return v.Show("prove", page)
}

// askAgain shows a form again with login's reason for refusing it.
func (s *Site) askAgain(v *Visit, page provePage, refusal error) error {
	if refusalText(refusal) == "" {
		return v.showAgain(refusal, "refused", func(why string) any { return why })
	}
	v.refusedStatus(refusal)
	return s.ask(v, page, v.T(refusalText(refusal)))
}

// proceedAs continues the visit under the session's new token. A change of second factors
// forgets all known browsers, so this one is remembered again.
func (v *Visit) proceedAs(token string, session login.Session) error {
	setSession(v.W, token)
	v.token, v.Session = token, session
	return v.site.remember(v, token)
}

func (s *Site) askForTOTP(v *Visit) error {
	page := totpForm
	page.Other, page.OtherText = "/account/passkeys/new", look.Text("Use a passkey instead")
	return s.ask(v, page, "")
}

func (s *Site) offerTOTP(v *Visit) error {
	offer, token, session, err := s.login.BeginTOTP(v.Context(), v.token, credentials(v), v.Address)
	if err != nil {
		return s.askAgain(v, totpForm, err)
	}
	if err := v.proceedAs(token, session); err != nil {
		return err
	}
	return s.showOffer(v, offer, "")
}

// secondFactorPage shows what an app for codes needs.
type secondFactorPage struct {
	Picture template.HTML
	Secret  string
	// Offered is the content of the picture. It is posted with the code, so that after a
	// mistyped code the same picture is shown.
	Offered string
	// Ticket is posted with the code. It is not in the cookie, so a stolen cookie is not
	// enough to continue here.
	Ticket  string
	Problem string
	// First: it has to be set up before anything else can be done.
	First bool
	To    string
}

func (s *Site) showOffer(v *Visit, offer login.TOTPOffer, problem string) (err error) {
	page := secondFactorPage{
		Secret: spaced(offer.Secret), Offered: offer.URL, Ticket: offer.Ticket, Problem: problem,
		First: v.Session.Stage == login.NeedsTOTP, To: s.localPath(v.Field("to")),
	}
	if page.Picture, err = DrawQR(offer.URL, v.T(look.Text("QR code"))); err != nil {
		return err
	}
	return v.Show("second-factor", page)
}

// offeredBefore parses the offer of an earlier page. It is only shown again: login checks
// against the secret that it stored.
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

func (s *Site) confirmTOTP(v *Visit) error {
	ticket, first := v.Field("ticket"), v.Session.Stage == login.NeedsTOTP
	codes, token, session, err := s.login.ConfirmTOTP(v.Context(), v.token, ticket, v.Field("code"), v.Address)
	if err != nil {
		before, known := offeredBefore(v.Field("offered"))
		if refusalText(err) == "" || !known || !wrongCode(err) {
			return v.showAgain(err, "refused", func(why string) any { return why })
		}
		v.refusedStatus(err)
		return s.showOffer(v, login.TOTPOffer{Enrolment: before, Ticket: ticket}, v.T(refusalText(err)))
	}
	if err := v.proceedAs(token, session); err != nil {
		return err
	}
	return s.showCodes(v, codes, first)
}

// recoveryPage shows the recovery codes, once.
type recoveryPage struct {
	Codes []string
	// File is the codes as a data: URL to download.
	File template.URL
	To   string
}

// showCodes shows recovery codes. The page leads on to the account page, or to the
// requested page if the sign-in required a first second factor.
func (s *Site) showCodes(v *Visit, codes []string, first bool) error {
	file := fmt.Sprintf("Coax: recovery codes of %s\nEach works once, instead of a code from the app or a passkey.\n\n%s\n",
		v.Session.Person.Username, strings.Join(codes, "\n"))
	to := s.localPath(v.Field("to"))
	if to == "/" && !first {
		to = "/account/"
	}
	return v.Show("recovery-codes", recoveryPage{Codes: codes, File: template.URL("data:text/plain;charset=utf-8," + url.PathEscape(file)), To: to})
}

func (s *Site) askToRemoveTOTP(v *Visit) error { return s.ask(v, removeTOTPForm, "") }

func (s *Site) removeTOTP(v *Visit) error {
	token, session, err := s.login.RemoveTOTP(v.Context(), v.token, credentials(v), v.Address)
	if err != nil {
		return s.askAgain(v, removeTOTPForm, err)
	}
	if err := v.proceedAs(token, session); err != nil {
		return err
	}
	return v.Redirect("/account/", v.Success(look.Text("The authenticator app was removed. Your other devices were signed out.")))
}

func (s *Site) askForRecoveryCodes(v *Visit) error { return s.ask(v, recoveryForm, "") }

func (s *Site) replaceRecoveryCodes(v *Visit) error {
	codes, token, session, err := s.login.ReplaceRecoveryCodes(v.Context(), v.token, credentials(v), v.Address)
	if err != nil {
		return s.askAgain(v, recoveryForm, err)
	}
	if err := v.proceedAs(token, session); err != nil {
		return err
	}
	return s.showCodes(v, codes, false)
}

// noPasskeysPage says why no passkey can be made here.
type noPasskeysPage struct {
	// Here is a URL of ours where it works; empty if none is known.
	Here  string
	First bool
}

func (s *Site) askForPasskey(v *Visit) error {
	if _, ok := s.siteOf(v); !ok {
		return v.Show("no-passkeys", noPasskeysPage{Here: byName(v.R.Host), First: v.Session.Stage == login.NeedsTOTP})
	}
	page := passkeyForm
	page.Name = v.FormValue("name", deviceName(v.R.UserAgent()))
	if v.Session.Stage == login.NeedsTOTP {
		page.Other, page.OtherText = "/account/second-factor", look.Text("Use an authenticator app instead")
	}
	return s.ask(v, page, "")
}

// byName returns the account page's URL on localhost if the host is a loopback address,
// else "". Passkeys work with names only.
func byName(host string) string {
	at, err := netip.ParseAddrPort(host)
	if err != nil || !at.Addr().IsLoopback() {
		return ""
	}
	return "https://localhost:" + strconv.Itoa(int(at.Port())) + "/account/"
}

// passkeyPage has the browser make a passkey.
type passkeyPage struct {
	Options, Ticket, Name string
	First                 bool
	To                    string
}

func (s *Site) offerPasskey(v *Visit) error {
	site, _ := s.siteOf(v)
	page := passkeyForm
	page.Name = v.Field("name")
	offer, token, session, err := s.login.BeginPasskey(v.Context(), v.token, site, page.Name, credentials(v), v.Address)
	if err != nil {
		return s.askAgain(v, page, err)
	}
	if err := v.proceedAs(token, session); err != nil {
		return err
	}
	return v.Show("passkey-create", passkeyPage{
		Options: offer.Options, Ticket: offer.Ticket, Name: page.Name, First: session.Stage == login.NeedsTOTP, To: s.localPath(v.Field("to")),
	})
}

func (s *Site) addPasskey(v *Visit) error {
	first := v.Session.Stage == login.NeedsTOTP
	codes, token, session, err := s.login.FinishPasskey(v.Context(), v.token, v.Field("ticket"), []byte(v.Field("credential")), v.Address)
	if err != nil {
		return v.showAgain(err, "refused", func(why string) any { return why })
	}
	if err := v.proceedAs(token, session); err != nil {
		return err
	}
	if codes != nil {
		return s.showCodes(v, codes, first)
	}
	return v.Redirect("/account/", v.Success(look.Text("Passkey added. Your other devices were signed out.")))
}

// passkeyOf is the passkey of the address, if it is the visitor's.
func (s *Site) passkeyOf(v *Visit) (p login.Passkey, found bool, err error) {
	all, err := s.login.Passkeys(v.Context(), v.Session.Person.ID)
	for _, p := range all {
		if strconv.FormatInt(p.ID, 10) == v.R.PathValue("passkey") {
			return p, true, err
		}
	}
	return login.Passkey{}, false, err
}

// errNoPasskey is of a passkey that the visitor does not have, most often because it was
// removed in another window.
var errNoPasskey = problem(http.StatusNotFound, look.Text("You have no such passkey."))

func removePasskeyPage(p login.Passkey) provePage {
	page := removePasskeyForm
	page.Action, page.Name = fmt.Sprintf("/account/passkeys/%d/remove", p.ID), p.Name
	return page
}

func (s *Site) askToRemovePasskey(v *Visit) error {
	p, found, err := s.passkeyOf(v)
	if err != nil {
		return err
	}
	if !found {
		return errNoPasskey
	}
	return s.ask(v, removePasskeyPage(p), "")
}

func (s *Site) removePasskey(v *Visit) error {
	p, found, err := s.passkeyOf(v)
	if err != nil {
		return err
	}
	if !found {
		return errNoPasskey
	}
	token, session, err := s.login.RemovePasskey(v.Context(), v.token, p.ID, credentials(v), v.Address)
	if err != nil {
		return s.askAgain(v, removePasskeyPage(p), err)
	}
	if err := v.proceedAs(token, session); err != nil {
		return err
	}
	return v.Redirect("/account/", v.Success(look.Text("Passkey removed. Your other devices were signed out.")))
}

func (s *Site) takeNotice(v *Visit) error {
	if err := s.login.AcknowledgeNotices(v.Context(), v.token); err != nil {
		return err
	}
	return v.Redirect(s.localPath(v.Field("back")), nil)
}

// factorChanges are how people read what became of their second factors.
var factorChanges = map[login.FactorChanged]string{
	login.TOTPSet:              look.Text("An authenticator app was set up on %s."),
	login.TOTPReplaced:         look.Text("The authenticator app was set up again on %s."),
	login.TOTPRemoved:          look.Text("The authenticator app was removed on %s."),
	login.PasskeyAdded:         look.Text("The passkey %s was added on %s."),
	login.PasskeyRemoved:       look.Text("The passkey %s was removed on %s."),
	login.RecoveryCodesChanged: look.Text("New recovery codes were created on %s."),
	login.FactorsReset:         look.Text("Your second factor was removed on %s by %s."),
}

// changesText is what a session has to tell of its person's second factors.
func (v *Visit) changesText() (texts []string) {
	for _, change := range v.Session.Changes {
		form, when := factorChanges[change.What], v.Look.When(v.Language(), change.At)
		switch {
		case form == "":
		case change.Name != "":
			texts = append(texts, v.T(form, change.Name, when))
		case change.By != "":
			texts = append(texts, v.T(form, when, v.Who(change.By)))
		default:
			texts = append(texts, v.T(form, when))
		}
	}
	return texts
}
