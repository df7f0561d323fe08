package docstest

import (
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A step is one command of a console block, with its output.
type step struct {
	command string
	want    []string
	exits   int
	line    int // of the command in its page
	end     int // the line after the last one of its output
}

var exitsPattern = regexp.MustCompile(`\s# exits (\d+)$`)

// steps reads a console block. A command begins with `$ ` and goes on while its
// lines end in a backslash; `# exits 1` says that it is meant to fail.
func steps(b block) []step {
	var all []step
	for i := 0; i < len(b.text); i++ {
		line := b.text[i]
		if command, is := strings.CutPrefix(line, "$ "); is {
			s := step{command: command, line: b.line + 1 + i}
			for strings.HasSuffix(s.command, `\`) && i+1 < len(b.text) {
				i++
				s.command += "\n" + b.text[i]
			}
			if match := exitsPattern.FindStringSubmatch(s.command); match != nil {
				s.exits, _ = strconv.Atoi(match[1])
			}
			s.end = b.line + 2 + i
			all = append(all, s)
			continue
		}
		if len(all) == 0 {
			all = append(all, step{line: b.line + 1 + i}) // output without a command: refused when it is run
		}
		last := &all[len(all)-1]
		last.want = append(last.want, line)
		last.end = b.line + 2 + i
	}
	return all
}

// What differs from run to run is compared by its form only.
var forms = []struct {
	pattern *regexp.Regexp
	form    string
}{
	{regexp.MustCompile(`\breq_[0-9a-f]{32}\b`), "req_ID"},
	{regexp.MustCompile(`\bCX[0-9A-Z]{26}\b`), "CX_ID"},
	{regexp.MustCompile(`\bcxk_[0-9a-f]{32}\b`), "cxk_KEY"},
	{regexp.MustCompile(`\bcxs_[0-9a-f]{64}\b`), "cxs_SECRET"},
	{regexp.MustCompile(`\bcxk_[0-9a-f]{8}\b`), "cxk_HINT"},
	// The number of orders in a demo's history depends on the hour.
	{regexp.MustCompile(`\bSIM-\d{8}\b`), "SIM_ID"},
	{regexp.MustCompile(`\b([Kk]ey) \d{5,10}\b`), "$1 ID"},
	{regexp.MustCompile(`\b\d+(\.\d)? [KM]B\b`), "N MB"},
	{regexp.MustCompile(`^sha256 [0-9a-f]{64}$`), "sha256 SUM"},
	{regexp.MustCompile(`"password": ?"[A-Za-z0-9]{12}"`), `"password": "PASSWORD"`},
	{regexp.MustCompile(`^(password +)[a-z2-9]{4}(-[a-z2-9]{4}){3}$`), "${1}PASSWORD"},
	{regexp.MustCompile(`(last action's (?:hash|MAC) +|"acts_head": ?")[0-9a-f]{64}`), "${1}HASH"},
	{regexp.MustCompile(`\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT`), "DATE"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?`), "TIME"},
	{regexp.MustCompile(`\b20\d\d-\d\d-\d\d\b`), "DAY"},
	{regexp.MustCompile(`(?i)(x-ratelimit-remaining|x-ratelimit-reset|retry-after): \d+`), "$1: N"},
	{regexp.MustCompile(`"(server_time|ms)": ?[0-9.]+`), `"$1": N`},
	{regexp.MustCompile(`\b127\.0\.0\.1:\d+\b`), "127.0.0.1:PORT"},
	{regexp.MustCompile(`\(process \d+\)`), "(process N)"},
	// The width of columns depends on their content.
	{regexp.MustCompile(`(\S) {2,}`), "$1  "},
	{regexp.MustCompile(` +$`), ""},
}

func normalise(line string) string {
	for _, f := range forms {
		line = f.pattern.ReplaceAllString(line, f.form)
	}
	return line
}

// anyLines, alone on a line, stands for any number of lines.
const anyLines = "…"

// match pairs the lines of a page with the printed lines. It returns the printed line for
// each line of the page, or false.
func match(want, got []string) (pairs map[int]int, ok bool) {
	if len(want) == 0 {
		return map[int]int{}, len(got) == 0
	}
	if strings.TrimSpace(want[0]) == anyLines {
		for skipped := 0; skipped <= len(got); skipped++ {
			if rest, ok := match(want[1:], got[skipped:]); ok {
				return shifted(rest, 1, skipped), true
			}
		}
		return nil, false
	}
	if len(got) == 0 || normalise(want[0]) != normalise(got[0]) {
		return nil, false
	}
	rest, ok := match(want[1:], got[1:])
	if !ok {
		return nil, false
	}
	pairs = shifted(rest, 1, 1)
	pairs[0] = 0
	return pairs, true
}

func shifted(pairs map[int]int, want, got int) map[int]int {
	moved := map[int]int{}
	for a, b := range pairs {
		moved[a+want] = b + got
	}
	return moved
}

// tokens are names that a page shows and uses again: a transaction id differs in each
// run, but is the same throughout the page.
var tokens = regexp.MustCompile(`\bCX[0-9A-Z]{26}\b|\bcx[ks]_[0-9a-f]{32,64}\b|\b127\.0\.0\.1:\d+\b|\bkey \d{5,10}\b`)

// learn records what the page's names stand for in this run. It returns an error if the
// page uses one name for two things, or two names for one.
func learn(known map[string]string, want, got string) error {
	shown, printed := tokens.FindAllString(want, -1), tokens.FindAllString(got, -1)
	for i := range min(len(shown), len(printed)) {
		// A port differs after each start, but is the same listener.
		isPort := strings.HasPrefix(shown[i], "127.0.0.1:")
		if before, is := known[shown[i]]; is && before != printed[i] && !isPort {
			return fmt.Errorf("the page shows %s here, which was %s before and is now %s: it is another one", shown[i], before, printed[i])
		}
		for name, actual := range known {
			if actual == printed[i] && name != shown[i] && !isPort {
				return fmt.Errorf("the page shows %s here and called the same thing %s before", shown[i], name)
			}
		}
		known[shown[i]] = printed[i]
	}
	return nil
}

// translate replaces the page's names by this run's.
func translate(known map[string]string, text string) string {
	return tokens.ReplaceAllStringFunc(text, func(token string) string {
		if actual, is := known[token]; is {
			return actual
		}
		return token
	})
}

// retranslate replaces this run's names by the page's.
func retranslate(known map[string]string, text string) string {
	return tokens.ReplaceAllStringFunc(text, func(token string) string {
		for name, actual := range known {
			if actual == token {
				return name
			}
		}
		return token
	})
}

var moments = regexp.MustCompile(`\b20\d\d-\d\d-\d\d([ T]\d\d:\d\d:\d\d)?`)

// retimed replaces the times in a page's line by those of the printed line.
func retimed(want, got string) string {
	printed := moments.FindAllString(got, -1)
	if len(printed) != len(moments.FindAllString(want, -1)) {
		return want
	}
	return moments.ReplaceAllStringFunc(want, func(string) string {
		next := printed[0]
		printed = printed[1:]
		return next
	})
}

func TestMatch_PrintedLines(t *testing.T) {
	const one, two = "CX06GXWCDV0ZVHHH14RFTCP3ZT5W", "CX06GXWCDV51D382JV353V2ETVN8"
	tests := []struct {
		name      string
		want, got string
		ok        bool
	}{
		{"the same", "a\nb", "a\nb", true},
		{"another word", "a\nb", "a\nc", false},
		{"a line too many", "a", "a\nb", false},
		{"a line too few", "a\nb", "a", false},
		{"another amount", `"amount": 199.00`, `"amount": 199.01`, false},
		{"another transaction", one, two, true},
		{"another time", "2026-11-15 13:22:43", "2027-01-01 00:00:00", true},
		{"a time where a day was", "2026-11-15 13:22:43", "2026-11-15", false},
		{"any lines", "a\n…\nz", "a\nb\nc\nz", true},
		{"any lines, even none", "a\n…\nz", "a\nz", true},
		{"any lines, but then the end", "a\n…\nz", "a\nz\nb", false},
		{"wider columns", "id   name", "id           name", true},
		{"columns run together", "id   name", "idname", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, got := match(strings.Split(tt.want, "\n"), strings.Split(tt.got, "\n")); got != tt.ok {
				t.Errorf("match(%q, %q) = %t; want %t", tt.want, tt.got, got, tt.ok)
			}
		})
	}

	if got := retimed("from 2026-11-15 13:22:43 to 2026-11-16 by "+one, "from 2027-01-01 00:00:00 to  2027-01-02 by "+two); got != "from 2027-01-01 00:00:00 to 2027-01-02 by "+one {
		t.Errorf("retimed: %q", got)
	}

	known := map[string]string{}
	if err := learn(known, "id "+one, "id "+two); err != nil {
		t.Fatal(err)
	}
	if got := translate(known, "show "+one); got != "show "+two {
		t.Errorf("translate(show ONE) = %q; want show TWO", got)
	}
	if got := retranslate(known, "show "+two); got != "show "+one {
		t.Errorf("retranslate(show TWO) = %q; want show ONE", got)
	}
	before := maps.Clone(known)
	if err := learn(known, one, one); err == nil || !maps.Equal(known, before) {
		t.Errorf("one name for two transactions was accepted: %v", known)
	}
	if err := learn(known, "CX06GXWEBZ082S22ZBV87ZP5XK48", two); err == nil || !maps.Equal(known, before) {
		t.Errorf("two names for one transaction were accepted: %v", known)
	}
}
