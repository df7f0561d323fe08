package web

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/coaxhq/coax/internal/web/look"
)

// The cookies of the site. The prefix makes a browser take them only over HTTPS,
// from this host and for all of it, so that no neighbour can plant one.
const (
	sessionCookie  = "__Host-coax"
	noticeCookie   = "__Host-coax-notice"
	languageCookie = "__Host-coax-language"
	// browserCookie says whose sign-in this browser has completed before, which opens
	// nothing: see login.RememberBrowser.
	browserCookie = "__Host-coax-browser"
	// themeCookie is also written by the pages' own script, and so has no prefix
	// and can be read: it only says light or dark.
	themeCookie = "theme"
)

// oneYear is how long a browser keeps a choice of language or theme.
const oneYear = 365 * 24 * 60 * 60

func setCookie(w http.ResponseWriter, name, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: maxAge, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

// setTheme keeps the choice of theme where the pages' script finds it too.
func setTheme(w http.ResponseWriter, theme string) {
	http.SetCookie(w, &http.Cookie{
		Name: themeCookie, Value: theme, Path: "/", MaxAge: oneYear, Secure: true, SameSite: http.SameSiteLaxMode,
	})
}

func dropCookie(w http.ResponseWriter, name string) { setCookie(w, name, "", -1) }

// cookie is a cookie's value; empty if it is not there, or there twice, which no
// browser of ours does.
func cookie(r *http.Request, name string) string {
	found := r.CookiesNamed(name)
	if len(found) != 1 {
		return ""
	}
	return found[0].Value
}

// setSession gives the browser its session. It lasts as long as the browser runs;
// when it ends is for the store to say.
func setSession(w http.ResponseWriter, token string) { setCookie(w, sessionCookie, token, 0) }

// keepNotice hands a notice to the page that comes next. Only the visitor's own
// browser can have written what is read back, and it is shown as text.
func keepNotice(w http.ResponseWriter, notice look.Notice) error {
	text, err := json.Marshal(notice)
	if err != nil {
		return err
	}
	setCookie(w, noticeCookie, base64.RawURLEncoding.EncodeToString(text), 60)
	return nil
}

// takeNotice returns the notice that the page before left, once.
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

// languages are those that pages can be read in; the first is for strangers whose
// browser asks for none of them.
var languages = look.Languages

// askedLanguage is the first language of ours that a browser asks for. Browsers
// list them in order, so the weights need no reading.
func askedLanguage(accept string) string {
	for part := range strings.SplitSeq(accept, ",") {
		tag, _, _ := strings.Cut(part, ";")
		primary, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(tag)), "-")
		for _, known := range languages {
			if primary == known {
				return known
			}
		}
	}
	return languages[0]
}

// themes are what a visitor can choose; auto follows the machine.
const auto = "auto"

var themes = []string{auto, "light", "dark"}
