package login

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// The length of a password in characters.
const (
	MinPasswordLength = 12
	MaxPasswordLength = 128
)

// What a password must have besides names and common words. Less is found by trying what
// people usually append to them.
const (
	minBesideNames = 8
	minDifferent   = 5
	// maxDecoration is how many digits and signs around a common password still leave it
	// common.
	maxDecoration = 6
	// fewRuns: a password of at most so many runs of repeated or adjacent characters is
	// too simple.
	fewRuns = 3
	// minNameLength is how long a name must be to count, because initials occur in many words.
	minNameLength = 3
)

// CheckPassword refuses a weak password. names are the login's username, its person's name
// and its operator's name.
func CheckPassword(password string, names ...string) error {
	switch n := utf8.RuneCountInString(password); {
	case !utf8.ValidString(password):
		return refuse(WeakPassword, "The password is not valid text.")
	case n < MinPasswordLength:
		return refuse(WeakPassword, "The password is too short. Choose one of at least 12 characters.")
	case n > MaxPasswordLength:
		return refuse(WeakPassword, "The password is too long. Choose one of at most 128 characters.")
	}
	folded := foldPassword(password)
	switch {
	case simple([]rune(folded)):
		return refuse(WeakPassword, "The password is a simple sequence or repeats itself. Choose a few random words.")
	case common(folded):
		return refuse(WeakPassword, "The password is one of the most common ones. Choose a few random words.")
	case madeOf(folded, names):
		return refuse(WeakPassword, "The password is made of your name, your username, your operator's name or “coax”. Add words that have nothing to do with them.")
	}
	return nil
}

// names are what a password must not be made of.
func (a Account) names() []string { return []string{a.Username, a.Name, a.OperatorName} }

// foldPassword normalises a password for comparison: NFKC and lower case.
func foldPassword(password string) string { return strings.ToLower(norm.NFKC.String(password)) }

//go:embed common-passwords.txt
var commonPasswords string

var commonSet = sync.OnceValue(func() map[string]bool {
	set := make(map[string]bool, 11_000)
	for line := range strings.Lines(commonPasswords) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			set[line] = true
		}
	}
	return set
})

// common reports whether a folded password is a common one, also with a few digits and
// signs around it or with letters written as digits.
func common(folded string) bool {
	set := commonSet()
	if set[folded] {
		return true
	}
	for _, spelled := range []string{folded, plainLetters.Replace(folded), otherLetters.Replace(folded)} {
		for _, text := range []string{spelled, lettersAndDigits(spelled)} {
			core := strings.TrimFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) })
			before, after, _ := strings.Cut(text, core)
			around := []rune(before + after)
			if set[text] || set[core] && (len(around) <= maxDecoration || simple(around)) {
				return true
			}
		}
	}
	return false
}

// plainLetters replaces digits and signs by the letters that they stand for.
var plainLetters = strings.NewReplacer("0", "o", "1", "l", "3", "e", "4", "a", "5", "s", "7", "t", "@", "a", "$", "s", "!", "i")

// otherLetters is plainLetters with the other reading of 1 and !.
var otherLetters = strings.NewReplacer("0", "o", "1", "i", "3", "e", "4", "a", "5", "s", "7", "t", "@", "a", "$", "s", "!", "l")

func lettersAndDigits(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, text)
}

// madeOf reports whether too little is left of a folded password without the names.
func madeOf(folded string, names []string) bool {
	return without(lettersAndDigits(folded), names) || without(lettersAndDigits(plainLetters.Replace(folded)), names)
}

func without(left string, names []string) bool {
	found := false
	for _, name := range append(nameParts(names), "coax") {
		if strings.Contains(left, name) {
			found = true
			left = strings.ReplaceAll(left, name, " ") // the parts must not join into a name
		}
	}
	if !found {
		return false
	}
	left = strings.ReplaceAll(left, " ", "")
	return utf8.RuneCountInString(left) < minBesideNames || simple([]rune(left)) || common(left)
}

// nameParts returns the names and their words, the longest first, so that no shorter one
// breaks up a longer one.
func nameParts(names []string) (parts []string) {
	for _, name := range names {
		parts = append(parts, lettersAndDigits(foldPassword(name)))
	}
	for _, name := range names {
		parts = append(parts, strings.FieldsFunc(foldPassword(name), func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r)
		})...)
	}
	parts = slices.DeleteFunc(parts, func(part string) bool { return utf8.RuneCountInString(part) < minNameLength })
	slices.SortStableFunc(parts, func(a, b string) int { return utf8.RuneCountInString(b) - utf8.RuneCountInString(a) })
	return parts
}

// keyboardRows are the rows of a keyboard.
var keyboardRows = []string{"1234567890", "qwertyuiop", "asdfghjkl", "zxcvbnm"}

// simple reports whether a text has few different characters, repeats a short piece, or
// consists of a few runs of repeated or adjacent characters.
func simple(text []rune) bool {
	different := map[rune]bool{}
	for _, r := range text {
		different[r] = true
	}
	return len(different) < minDifferent || repeats(text) || runs(text) <= fewRuns
}

// repeats reports whether a text repeats a piece that would be too short by itself.
func repeats(text []rune) bool {
	for period := 1; period <= len(text)/2 && period < MinPasswordLength; period++ {
		same := true
		for i := period; i < len(text) && same; i++ {
			same = text[i] == text[i-period]
		}
		if same {
			return true
		}
	}
	return false
}

// runs counts the runs of a text in which each character equals the one before, or is
// adjacent to it in one direction.
func runs(text []rune) (count int) {
	var direction int
	inside := false
	for i := range text {
		if i > 0 {
			if step, are := adjacent(text[i-1], text[i]); are && (!inside || step == direction) {
				direction, inside = step, true
				continue
			}
		}
		count++
		inside = false
	}
	return count
}

// adjacent returns the direction from one character to the next, if they are the same or
// adjacent in the alphabet, among the digits or on the keyboard.
func adjacent(from, to rune) (direction int, are bool) {
	switch to - from {
	case 0:
		return 0, true
	case 1:
		return 1, true
	case -1:
		return -1, true
	}
	for _, row := range keyboardRows {
		i, j := strings.IndexRune(row, from), strings.IndexRune(row, to)
		switch {
		case i < 0 || j < 0:
		case j == i+1 || i == len(row)-1 && j == 0:
			return 1, true
		case j == i-1 || i == 0 && j == len(row)-1:
			return -1, true
		}
	}
	return 0, false
}
