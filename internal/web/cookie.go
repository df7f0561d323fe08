package web

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/coaxhq/coax/internal/web/look"
)

// The cookies of the site. The prefix makes browsers accept them only over HTTPS, from
// this host and for all paths, so that no other host of the domain can set one.
const (
	sessionCookie  = "__Host-coax"
	noticeCookie   = "__Host-coax-notice"
	languageCookie = "__Host-coax-language"
	// chosenLanguageCookie is the language chosen on the sign-in page, until the sign-in
	// stores it with the login.
	chosenLanguageCookie = "__Host-coax-chosen-language"
	// browserCookie marks the logins that have signed in with this browser before. It
	// grants no access: see login.RememberBrowser.
	browserCookie = "__Host-coax-browser"
	// paperCookie is the paper that receipts were last printed on: it belongs to the printer
	// beside this browser, not to the person.
	paperCookie = "__Host-coax-paper"
	// offerCookie holds what Visit.Offer has offered to this browser.
	offerCookie = "__Host-coax-offer"
	// themeCookie is also written by the pages' script, so it has no prefix and is not
	// HttpOnly: it only says light or dark.
	themeCookie = "theme"
)

// oneYear is how long a choice of language, theme or paper lasts.
const oneYear = 365 * 24 * 60 * 60

func setCookie(w http.ResponseWriter, name, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: maxAge, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

// Offer returns the value that was offered to the operator's people in this browser before, if it is
// still valid, or else a new one, and offers it for a week. It is stable until TakeOffer.
func (v *Visit) Offer(valid func(string) bool, fresh func() string) string {
	mark := strconv.FormatInt(v.Operator(), 10) + "-"
	if before, own := strings.CutPrefix(cookie(v.R, offerCookie), mark); own && valid(before) {
		return before
	}
	const oneWeek = 7 * 24 * 60 * 60
	value := fresh()
	setCookie(v.W, offerCookie, mark+value, oneWeek)
	return value
}

// TakeOffer ends an offer, because it was used.
func (v *Visit) TakeOffer() { dropCookie(v.W, offerCookie) }

// setTheme sets the theme cookie, which the pages' script reads too.
func setTheme(w http.ResponseWriter, theme string) {
	http.SetCookie(w, &http.Cookie{
		Name: themeCookie, Value: theme, Path: "/", MaxAge: oneYear, Secure: true, SameSite: http.SameSiteLaxMode,
	})
}

// Paper returns the paper that was last printed on in this browser; empty if there was none.
func (v *Visit) Paper() string { return cookie(v.R, paperCookie) }

// RememberPaper makes this browser bring the paper again.
func (v *Visit) RememberPaper(paper string) { setCookie(v.W, paperCookie, paper, oneYear) }

func dropCookie(w http.ResponseWriter, name string) { setCookie(w, name, "", -1) }

// cookie returns a cookie's value; empty if it is missing or sent twice.
func cookie(r *http.Request, name string) string {
	found := r.CookiesNamed(name)
	if len(found) != 1 {
		return ""
	}
	return found[0].Value
}

// setSession sets the session cookie, which lasts until the browser is closed. The store
// decides when the session ends.
func setSession(w http.ResponseWriter, token string) { setCookie(w, sessionCookie, token, 0) }

// setNotice passes a notice to the next page in a cookie. Only the visitor's own browser
// can change it, and it is shown as text.
func setNotice(w http.ResponseWriter, notice look.Notice) error {
	text, err := json.Marshal(notice)
	if err != nil {
		return err
	}
	setCookie(w, noticeCookie, base64.RawURLEncoding.EncodeToString(text), 60)
	return nil
}

// takeNotice returns the notice of the previous page and removes it.
func takeNotice(w http.ResponseWriter, r *http.Request) *look.Notice {
	value := cookie(r, noticeCookie)
	if value == "" {
		return nil
	}
	dropCookie(w, noticeCookie)
	text, err := base64.RawURLEncoding.DecodeString(value)
	var notice look.Notice
	if err != nil || json.Unmarshal(text, &notice) != nil || len(notice.Text) > 1000 {
		return nil
	}
	return &notice
}

// askedLanguage returns the first supported language of an Accept-Language header.
// Browsers list languages in order, so the weights are ignored.
func askedLanguage(accept string) string {
	for part := range strings.SplitSeq(accept, ",") {
		tag, _, _ := strings.Cut(part, ";")
		primary, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(tag)), "-")
		for _, known := range look.Languages {
			if primary == known {
				return known
			}
		}
	}
	return look.English
}

// themes are the choices of theme; auto follows the system's setting.
const auto = "auto"

var themes = []string{auto, "light", "dark"}
