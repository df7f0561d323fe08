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

// factorRoutes are the pages on which people change their own second factors. None needs a
// step-up, because each asks for the password and a present second factor itself, however
// young the last step-up is.
func (s *Site) factorRoutes() []Route {
	enrolling := SignedIn.At(login.Whole, login.NeedsTOTP)
	const one = "/account/passkeys/{passkey}/remove"
	return []Route{
		{Method: http.MethodGet, Path: "/account/second-factor", Area: Door, Who: enrolling, Handle: s.askForTOTP},
		{Method: http.MethodPost, Path: "/account/second-factor/offer", Area: Door, Who: enrolling, Form: "/account/second-factor", Handle: s.offerTOTP},
		{Method: http.MethodPost, Path: "/account/second-factor", Area: Door, Who: enrolling, Handle: s.confirmTOTP},
		{Method: http.MethodGet, Path: "/account/second-factor/remove", Area: Door, Who: SignedIn, Handle: s.askToRemoveTOTP},
		{Method: http.MethodPost, Path: "/account/second-factor/remove", Area: Door, Who: SignedIn, Handle: s.removeTOTP},
		{Method: http.MethodGet, Path: "/account/recovery-codes", Area: Door, Who: SignedIn, Handle: s.askForRecoveryCodes},
		{Method: http.MethodPost, Path: "/account/recovery-codes", Area: Door, Who: SignedIn, Handle: s.replaceRecoveryCodes},
		{Method: http.MethodGet, Path: "/account/passkeys/new", Area: Door, Who: enrolling, Handle: s.askForPasskey},
		{Method: http.MethodPost, Path: "/account/passkeys/new", Area: Door, Who: enrolling, Handle: s.offerPasskey},
		{Method: http.MethodPost, Path: "/account/passkeys", Area: Door, Who: enrolling, Form: "/account/passkeys/new", Handle: s.addPasskey},
		{Method: http.MethodGet, Path: one, Area: Door, Who: SignedIn, Handle: s.askToRemovePasskey},
		{Method: http.MethodPost, Path: one, Area: Door, Who: SignedIn, Handle: s.removePasskey},
		{Method: http.MethodPost, Path: "/account/changes/seen", Area: Door, Who: SignedIn, Form: "/account/", Handle: s.takeNotice},
	}
}

// proofForm is what forms ask for to prove who somebody is.
type proofForm struct {
	Username string
	// Code: a second factor is set up, and asked for too. App: codes of an app are.
	Code, App bool
	// Passkey is the challenge for a passkey, if the person has any.
	Passkey login.PasskeyChallenge
}

// proof is the form for whoever visits, with a new challenge.
func (s *Site) proof(v *Visit) (form proofForm, err error) {
	p := v.Session.Person
	form = proofForm{Username: p.Username, Code: p.SecondFactor(), App: p.TOTP}
	if p.Passkeys > 0 {
		site, _ := s.siteOf(v) // without a site, no passkey is of it
		form.Passkey, err = s.login.ChallengePasskey(v.Context(), v.token, site)
	}
	return form, err
}

// siteOf is where the visitor reached the pages, as passkeys know it. A passkey is bound to
// the name that it was made at, so that a request which names another host finds none.
func (s *Site) siteOf(v *Visit) (login.Site, bool) {
	origin := s.origin
	if origin == "" {
		origin = "https://" + v.R.Host
	}
	return login.SiteOf(origin)
}

// given is what was filled into a proofForm.
func given(v *Visit) login.Credentials {
	return login.Credentials{Password: v.R.PostForm.Get("password"), Code: v.Field("code"), Passkey: passkeyAnswer(v)}
}

// passkeyAnswer is a passkey's answer in the form that was posted; nil if there is none.
func passkeyAnswer(v *Visit) []byte {
	if text := v.Field("passkey"); text != "" {
		return []byte(text)
	}
	return nil
}

// provePage is a form that asks who somebody is before their second factors change. The
// texts are English.
type provePage struct {
	Title, Lead, Action, Button, Kind string
	Proof                             proofForm
	Problem                           string
	// Named: a name is asked for. Name is what was filled in.
	Named bool
	Name  string
	// First: a second factor has to be set up before anything else can be done.
	First bool
	// Other is a way to another kind of second factor, and OtherText what it is called.
	Other, OtherText string
	To               string
}

var (
	totpForm = provePage{
		Title: look.Word("Set up codes from an app"), Lead: look.Word("Your other devices are signed out when it is done."),
		Action: "/account/second-factor/offer", Button: look.Word("Go on"), Kind: "primary",
	}
	removeTOTPForm = provePage{
		Title: look.Word("Remove codes from an app"), Lead: look.Word("Your other devices are signed out when it is done."),
		Action: "/account/second-factor/remove", Button: look.Word("Remove it"), Kind: "danger",
	}
	recoveryForm = provePage{
		Title: look.Word("Make new recovery codes"), Lead: look.Word("The codes that you have are worth nothing from then on, and your other devices are signed out."),
		Action: "/account/recovery-codes", Button: look.Word("Make new codes"), Kind: "primary",
	}
	passkeyForm = provePage{
		Title: look.Word("Add a passkey"), Lead: look.Word("A passkey is kept by your telephone, your computer or a security key. Your other devices are signed out when it is added."),
		Action: "/account/passkeys/new", Button: look.Word("Go on"), Kind: "primary", Named: true,
	}
	removePasskeyForm = provePage{
		Title: look.Word("Remove a passkey"), Lead: look.Word("Your other devices are signed out when it is done."),
		Button: look.Word("Remove it"), Kind: "danger",
	}
)

// ask shows a form, with what was wrong with it before.
func (s *Site) ask(v *Visit, page provePage, problem string) (err error) {
	if page.Proof, err = s.proof(v); err != nil {
		return v.again(err, "refused", func(why string) any { return why })
	}
	page.Problem, page.First = problem, v.Session.Stage == login.NeedsTOTP
	page.To = s.within(v.Query("to"))
	if v.R.Method == http.MethodPost {
		page.To = s.within(v.Field("to"))
	}
	return v.Show("prove", page)
}

// askAgain shows a form once more with what login had against it.
func (s *Site) askAgain(v *Visit, page provePage, refusal error) error {
	if refusalText(refusal) == "" {
		return v.again(refusal, "refused", func(why string) any { return why })
	}
	v.refusedStatus(refusal)
	return s.ask(v, page, v.T(refusalText(refusal)))
}

// proceedAs has the visit go on under the session's new token. Browsers that were known
// before a change of second factors are not known any more, but for this one.
func (v *Visit) proceedAs(token string, session login.Session) error {
	setSession(v.W, token)
	v.token, v.Session = token, session
	return v.site.remember(v, token)
}

func (s *Site) askForTOTP(v *Visit) error {
	page := totpForm
	page.Other, page.OtherText = "/account/passkeys/new", look.Word("Use a passkey instead")
	return s.ask(v, page, "")
}

func (s *Site) offerTOTP(v *Visit) error {
	offer, token, session, err := s.login.BeginTOTP(v.Context(), v.token, given(v), v.Address)
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
	// Offered is what the picture shows. It comes back with the code, so that a
	// mistyped code does not send the visitor scanning another picture.
	Offered string
	// Ticket comes back with the code. It is not in the cookie, so that a copied cookie
	// cannot go on from here.
	Ticket  string
	Problem string
	// First: it has to be set up before anything else can be done.
	First bool
	To    string
}

func (s *Site) showOffer(v *Visit, offer login.Offer, problem string) (err error) {
	page := secondFactorPage{
		Secret: spaced(offer.Secret), Offered: offer.URL, Ticket: offer.Ticket, Problem: problem,
		First: v.Session.Stage == login.NeedsTOTP, To: s.within(v.Field("to")),
	}
	if page.Picture, err = drawQR(offer.URL, v.T(look.Word("The code to scan"))); err != nil {
		return err
	}
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

func (s *Site) confirmTOTP(v *Visit) error {
	ticket, first := v.Field("ticket"), v.Session.Stage == login.NeedsTOTP
	codes, token, session, err := s.login.ConfirmTOTP(v.Context(), v.token, ticket, v.Field("code"), v.Address)
	if err != nil {
		before, known := offeredBefore(v.Field("offered"))
		if refusalText(err) == "" || !known || !wrongCode(err) {
			return v.again(err, "refused", func(why string) any { return why })
		}
		v.refusedStatus(err)
		return s.showOffer(v, login.Offer{Enrolment: before, Ticket: ticket}, v.T(refusalText(err)))
	}
	if err := v.proceedAs(token, session); err != nil {
		return err
	}
	return s.showCodes(v, codes, first)
}

// recoveryPage shows the recovery codes, which nobody can show again.
type recoveryPage struct {
	Codes []string
	// File is the codes as a file that the browser already has.
	File template.URL
	To   string
}

// showCodes leads on to where the visitor was going: to the account, unless it was the sign-in
// that asked for a first second factor.
func (s *Site) showCodes(v *Visit, codes []string, first bool) error {
	file := fmt.Sprintf("Coax: recovery codes of %s\nEach works once, instead of a code from the app or a passkey.\n\n%s\n",
		v.Session.Person.Username, strings.Join(codes, "\n"))
	to := s.within(v.Field("to"))
	if to == "/" && !first {
		to = "/account/"
	}
	return v.Show("recovery-codes", recoveryPage{Codes: codes, File: template.URL("data:text/plain;charset=utf-8," + url.PathEscape(file)), To: to})
}

func (s *Site) askToRemoveTOTP(v *Visit) error { return s.ask(v, removeTOTPForm, "") }

func (s *Site) removeTOTP(v *Visit) error {
	token, session, err := s.login.RemoveTOTP(v.Context(), v.token, given(v), v.Address)
	if err != nil {
		return s.askAgain(v, removeTOTPForm, err)
	}
	if err := v.proceedAs(token, session); err != nil {
		return err
	}
	return v.See("/account/", v.Good(look.Word("Codes from an app are removed, and your other devices are signed out.")))
}

func (s *Site) askForRecoveryCodes(v *Visit) error { return s.ask(v, recoveryForm, "") }

func (s *Site) replaceRecoveryCodes(v *Visit) error {
	codes, token, session, err := s.login.ReplaceRecoveryCodes(v.Context(), v.token, given(v), v.Address)
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
	// Here is a page of ours where it works; empty if we know none.
	Here  string
	First bool
}

func (s *Site) askForPasskey(v *Visit) error {
	if _, ok := s.siteOf(v); !ok {
		return v.Show("no-passkeys", noPasskeysPage{Here: byName(v.R.Host), First: v.Session.Stage == login.NeedsTOTP})
	}
	page := passkeyForm
	page.Name = v.Filled("name", deviceName(v.R.UserAgent()))
	if v.Session.Stage == login.NeedsTOTP {
		page.Other, page.OtherText = "/account/second-factor", look.Word("Use codes from an app instead")
	}
	return s.ask(v, page, "")
}

// byName is the address of the account's page under the name of this machine, for whoever
// reached it by its loopback address; else empty.
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
	offer, token, session, err := s.login.BeginPasskey(v.Context(), v.token, site, page.Name, given(v), v.Address)
	if err != nil {
		return s.askAgain(v, page, err)
	}
	if err := v.proceedAs(token, session); err != nil {
		return err
	}
	return v.Show("passkey-create", passkeyPage{
		Options: offer.Options, Ticket: offer.Ticket, Name: page.Name, First: session.Stage == login.NeedsTOTP, To: s.within(v.Field("to")),
	})
}

func (s *Site) addPasskey(v *Visit) error {
	first := v.Session.Stage == login.NeedsTOTP
	codes, token, session, err := s.login.FinishPasskey(v.Context(), v.token, v.Field("ticket"), []byte(v.Field("credential")), v.Address)
	if err != nil {
		return v.again(err, "refused", func(why string) any { return why })
	}
	if err := v.proceedAs(token, session); err != nil {
		return err
	}
	if codes != nil {
		return s.showCodes(v, codes, first)
	}
	return v.See("/account/", v.Good(look.Word("The passkey is added, and your other devices are signed out.")))
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
var errNoPasskey = problem(http.StatusNotFound, look.Word("You have no such passkey."))

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
	token, session, err := s.login.RemovePasskey(v.Context(), v.token, p.ID, given(v), v.Address)
	if err != nil {
		return s.askAgain(v, removePasskeyPage(p), err)
	}
	if err := v.proceedAs(token, session); err != nil {
		return err
	}
	return v.See("/account/", v.Good(look.Word("The passkey is removed, and your other devices are signed out.")))
}

func (s *Site) takeNotice(v *Visit) error {
	if err := s.login.TakeNotice(v.Context(), v.token); err != nil {
		return err
	}
	return v.See(s.within(v.Field("back")), nil)
}

// factorChanges are how people read what became of their second factors.
var factorChanges = map[login.FactorChanged]string{
	login.TOTPSet:              look.Word("Codes from an app were set up on %s."),
	login.TOTPReplaced:         look.Word("Codes from an app were set up anew on %s."),
	login.TOTPRemoved:          look.Word("Codes from an app were removed on %s."),
	login.PasskeyAdded:         look.Word("The passkey %s was added on %s."),
	login.PasskeyRemoved:       look.Word("The passkey %s was removed on %s."),
	login.RecoveryCodesChanged: look.Word("New recovery codes were made on %s."),
	login.FactorsReset:         look.Word("Your second factor was taken away on %s by %s."),
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
			texts = append(texts, v.T(form, when, change.By))
		default:
			texts = append(texts, v.T(form, when))
		}
	}
	return texts
}
