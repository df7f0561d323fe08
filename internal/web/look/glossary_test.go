package look

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// glossary is testdata/glossary.json: the words of the pages in both languages.
type glossary struct {
	// Terms are patterns of English terms, with the Hindi of which a translation has one.
	Terms map[string][]string `json:"terms"`
	// AvoidEnglish and AvoidHindi are patterns of words with what to write instead.
	AvoidEnglish map[string]string `json:"avoid_english"`
	AvoidHindi   map[string]string `json:"avoid_hindi"`
	// Literal are beginnings of English texts that name values of settings, not terms.
	Literal []string `json:"literal"`
	// Latin are the words that Hindi texts may have in Latin letters.
	Latin []string `json:"latin"`
}

// Every text of a page is a key of a message file (see TestTexts_MatchTranslations), so
// this holds the pages to the glossary, too.
func TestGlossary_HoldsForMessageFiles(t *testing.T) {
	g, files := readGlossary(t), 0
	err := fs.WalkDir(os.DirFS(module), "internal/web", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Base(file) != "hi.json" || strings.Contains(file, "testdata") {
			return err
		}
		text, err := fs.ReadFile(os.DirFS(module), file)
		if err != nil {
			return err
		}
		var words map[string]string
		if err := json.Unmarshal(text, &words); err != nil {
			return err
		}
		files++
		for _, english := range slices.Sorted(maps.Keys(words)) {
			for _, complaint := range g.check(english, words[english]) {
				t.Errorf("%s: %q, %q: %s", file, english, words[english], complaint)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 4 {
		t.Errorf("found %d message files: the search looks in the wrong place", files)
	}
}

// Each rule is broken once and must be found.
func TestGlossary_FindsEachKind(t *testing.T) {
	g := readGlossary(t)
	for name, tt := range map[string]struct{ english, hindi, want string }{
		"an English word to avoid":   {"Put it away", "हटा दें", "discard"},
		"a Hindi word to avoid":      {"Renew", "नवीनीकरण", "रिन्यू"},
		"a term by another word":     {"The wallet", "बटुआ", "वॉलेट"},
		"a Hindi text in English":    {"Sum", "Sum", "Latin"},
		"a verb is no English":       {"Give %q and %[1]s", "%[1]q और %[1]s दें", ""},
		"a command":                  {"Run coax audit", "coax audit चलाएँ", ""},
		"an accepted pair":           {"Bulk renewals", "बल्क रिन्यूअल", ""},
		"values of settings, listed": {`role %q is not known: give administrator`, "भूमिका %q", ""},
	} {
		got := strings.Join(g.check(tt.english, tt.hindi), "; ")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q; want %q", name, got, tt.want)
		}
	}
}

func readGlossary(t *testing.T) (g glossary) {
	t.Helper()
	text, err := os.ReadFile("testdata/glossary.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

var (
	command   = regexp.MustCompile(`coax [a-z].*$`)
	latinWord = regexp.MustCompile(`[A-Za-z][A-Za-z0-9_.-]*`)
)

// check holds a text and its Hindi to the glossary.
func (g glossary) check(english, hindi string) (complaints []string) {
	for pattern, instead := range g.AvoidEnglish {
		if word := regexp.MustCompile(`(?i)\b(` + pattern + `)\b`).FindString(english); word != "" {
			complaints = append(complaints, fmt.Sprintf("write %s instead of %q", instead, word))
		}
	}
	for pattern, instead := range g.AvoidHindi {
		if strings.Contains(hindi, pattern) {
			complaints = append(complaints, fmt.Sprintf("write %s instead of %s", instead, pattern))
		}
	}
	literal := slices.ContainsFunc(g.Literal, func(begin string) bool { return strings.HasPrefix(english, begin) })
	plain := verb.ReplaceAllString(command.ReplaceAllString(english, ""), "")
	for pattern, terms := range g.Terms {
		word := regexp.MustCompile(`(?i)\b(` + pattern + `)\b`).FindString(plain)
		if word != "" && !literal && !slices.ContainsFunc(terms, func(term string) bool { return strings.Contains(hindi, term) }) {
			complaints = append(complaints, fmt.Sprintf("%q is %s in Hindi", word, strings.Join(terms, " or ")))
		}
	}
	for _, word := range latinWord.FindAllString(verb.ReplaceAllString(command.ReplaceAllString(hindi, ""), " "), -1) {
		if word = strings.Trim(word, ".-"); !literal && !slices.Contains(g.Latin, word) {
			complaints = append(complaints, fmt.Sprintf("the Hindi has %q in Latin letters", word))
		}
	}
	return complaints
}
