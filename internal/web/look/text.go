package look

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
)

// Text marks an English text that is translated later, where the language is known. It
// returns its argument; a test requires a Hindi translation for every call.
func Text(english string) string { return english }

// T translates an English text and formats it as fmt.Sprintf does. A text without a
// translation stays English.
func (l *Look) T(lang, english string, args ...any) string {
	text := english
	if translated, ok := l.words[lang][english]; ok {
		text = translated
	}
	if len(args) == 0 {
		return text
	}
	return fmt.Sprintf(text, args...)
}

// plural translates one for a count of 1 and many for any other; the count is the texts'
// argument, where they name it: "the last call", "the last 3 calls".
func (l *Look) plural(lang string, count any, one, many string) (string, error) {
	n, err := wholeNumber(count)
	if err != nil {
		return "", err
	}
	text := many
	if n == 1 {
		text = one
	}
	if len(verbs(text)) == 0 {
		return l.T(lang, text), nil
	}
	return l.T(lang, text, Count(n)), nil
}

// loadTranslations reads words/LANG.json of every file system. English needs none: its
// texts are the keys, from which Pseudo is made, too.
func loadTranslations(lang string, trees []fs.FS) (map[string]string, error) {
	all := map[string]string{}
	if lang == English {
		return all, nil
	}
	file := "words/" + lang + ".json"
	if lang == Pseudo {
		file = "words/" + Hindi + ".json"
	}
	for _, tree := range trees {
		text, err := fs.ReadFile(tree, file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var words map[string]string
		if err := json.Unmarshal(text, &words); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		for english, translated := range words {
			if lang == Pseudo {
				translated = pseudo(english)
			}
			if other, there := all[english]; there && other != translated {
				return nil, fmt.Errorf("%q is both %q and %q in %s", english, other, translated, lang)
			}
			if got, want := verbs(translated), verbs(english); !slices.Equal(got, want) {
				return nil, fmt.Errorf("%q has the verbs %v, its %s has %v", english, want, lang, got)
			}
			all[english] = translated
		}
	}
	return all, nil
}

var verb = regexp.MustCompile(`%(\[\d+\])?[a-z%]`)

// verbs lists the formatting verbs of a text. A translation may reorder them only by
// numbering them: %[2]s of %[1]s.
func verbs(text string) []string {
	var found []string
	for i, v := range verb.FindAllString(text, -1) {
		if v[1] != '[' {
			v = fmt.Sprintf("%%[%d]%s", i+1, v[1:])
		}
		found = append(found, v)
	}
	slices.Sort(found)
	return found
}
