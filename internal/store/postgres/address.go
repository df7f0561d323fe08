package postgres

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Redact removes the password from an address.
func Redact(address string) string {
	scheme, rest, found := strings.Cut(address, "://")
	if !found {
		return "postgres" // the text may be a password
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

// withoutPassword removes what is between the user's colon and the last @. An unescaped
// password may contain anything, so it removes too much rather than too little.
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

// secretParameter reports whether a part of the query is a password, or cannot be parsed.
func secretParameter(part string) bool {
	name, _, _ := strings.Cut(part, "=")
	name, err := url.QueryUnescape(name)
	return err != nil || strings.Contains(strings.ToLower(name), "password")
}

// addressError returns the error for an invalid address. The parser's message repeats the
// address; it is replaced by the redacted one.
func addressError(address string, err error) error {
	message := err.Error()
	if _, after, found := strings.Cut(message, "`: "); found {
		message = after
	}
	return fmt.Errorf("%s is not an address such as postgres://USER:PASSWORD@HOST/DATABASE "+
		"(in a password, write %%40 for @, %%2F for /, and so on): %s", Redact(address), message)
}

// checkHosts rejects a host that contains an @: part of it is an unescaped password, which
// must not be sent to a name server or printed.
func checkHosts(config *pgx.ConnConfig) error {
	hosts := []string{config.Host}
	for _, fallback := range config.Fallbacks {
		hosts = append(hosts, fallback.Host)
	}
	for _, host := range hosts {
		if strings.Contains(host, "@") {
			return errors.New("the host name contains an @")
		}
	}
	return nil
}

// oneLine joins an error message with one attempt per line into one line, without
// repetitions.
type oneLine struct{ error }

func inOneLine(err error) error { return oneLine{err} }

func (o oneLine) Error() string {
	var attempts []string
	seen := map[string]bool{}
	for line := range strings.Lines(o.error.Error()) {
		line = strings.TrimSpace(line)
		if line != "" && !seen[line] {
			seen[line] = true
			attempts = append(attempts, line)
		}
	}
	return strings.Replace(strings.Join(attempts, "; "), ":; ", ": ", 1)
}

func (o oneLine) Unwrap() error { return o.error }
