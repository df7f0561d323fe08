package postgres

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Redact takes the password out of an address.
func Redact(address string) string {
	scheme, rest, found := strings.Cut(address, "://")
	if !found {
		return "postgres" // whatever it is, it is not shown
	}
	rest, query, has := strings.Cut(withoutPassword(rest), "?")
	if has {
		kept := []string{}
		for part := range strings.SplitSeq(query, "&") {
			if !secretParameter(part) {
				kept = append(kept, part)
			}
		}
		rest += "?" + strings.Join(kept, "&")
	}
	return scheme + "://" + rest
}

// withoutPassword leaves out what stands between the user's colon and the last @.
// A password that should have been escaped may hold anything, so that too much
// goes rather than too little.
func withoutPassword(rest string) string {
	first, last := strings.Index(rest, "@"), strings.LastIndex(rest, "@")
	if first < 0 {
		return rest
	}
	user, _, given := strings.Cut(rest[:first], ":")
	if !given {
		return rest
	}
	return user + rest[last:]
}

// secretParameter reports whether a part of the query holds a password. What
// cannot be read may be one.
func secretParameter(part string) bool {
	name, _, _ := strings.Cut(part, "=")
	name, err := url.QueryUnescape(name)
	return err != nil || strings.Contains(strings.ToLower(name), "password")
}

// addressProblem says what is wrong with an address. The parser's own message
// repeats the address, as well as it can without the password; here it is shown
// as everywhere else.
func addressProblem(address string, err error) error {
	said := err.Error()
	if _, after, found := strings.Cut(said, "`: "); found {
		said = after
	}
	return fmt.Errorf("%s is not an address such as postgres://USER:PASSWORD@HOST/DATABASE "+
		"(in a password, write %%40 for @, %%2F for /, and so on): %s", Redact(address), said)
}

// checkHosts refuses what is no host but the end of a password with an @ in it:
// nobody is to be asked, or told, where that is.
func checkHosts(config *pgx.ConnConfig) error {
	hosts := []string{config.Host}
	for _, fallback := range config.Fallbacks {
		hosts = append(hosts, fallback.Host)
	}
	for _, host := range hosts {
		if strings.Contains(host, "@") {
			return errors.New("there is an @ in the host's name")
		}
	}
	return nil
}

// oneLine is an error whose message, which lists one attempt a line, is told in
// one, each attempt once.
type oneLine struct{ error }

func inOneLine(err error) error { return oneLine{err} }

func (o oneLine) Error() string {
	var told []string
	known := map[string]bool{}
	for line := range strings.Lines(o.error.Error()) {
		line = strings.TrimSpace(line)
		if line != "" && !known[line] {
			known[line] = true
			told = append(told, line)
		}
	}
	return strings.Replace(strings.Join(told, "; "), ":; ", ": ", 1)
}

func (o oneLine) Unwrap() error { return o.error }
