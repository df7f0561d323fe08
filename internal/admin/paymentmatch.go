package admin

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Match says that a bank line is of an open announcement.
type Match struct {
	Statement int64
	Number    int
	// Announcement is its id.
	Announcement int64
}

// maxMatched bounds the announcements and lines that are compared at once.
const maxMatched = 5000

// matchPayments compares announcements with the bank lines that have none yet.
func matchPayments(ctx context.Context, store AnnouncementStore, open []Announcement) error {
	lines, err := store.UnmatchedLines(ctx, maxMatched)
	if err != nil || len(lines) == 0 {
		return err
	}
	return store.MatchLines(ctx, MatchPayments(lines, open))
}

// How well a line fits an announcement. The reference counts more than the code, which a QR code
// that was used twice has brought into two lines.
const (
	fitsAmount = 1 << iota
	fitsUncredited
	fitsReference
)

// MatchPayments finds the announcement of each line: the one whose reference the line has, else
// the one whose code stands in it. Amounts are not compared here, so that a person sees where
// they differ; of several lines that fit, one with the right amount is preferred.
func MatchPayments(lines []BankLine, open []Announcement) []Match {
	byReference, byCode := map[string]Announcement{}, map[string]Announcement{}
	for _, a := range open {
		if a.Open() {
			byReference[NormaliseReference(a.Reference)] = a
			byCode[NormaliseReference(a.Code)] = a
		}
	}
	chosen := map[int64]Match{}
	best := map[int64]int{}
	for _, line := range lines {
		a, fit := announcementOf(line, byReference, byCode)
		if a.ID == 0 {
			continue
		}
		if line.CreditedTo == 0 {
			fit |= fitsUncredited
		}
		if line.Amount == a.Amount {
			fit |= fitsAmount
		}
		if _, taken := chosen[a.ID]; taken && best[a.ID] >= fit {
			continue
		}
		chosen[a.ID], best[a.ID] = Match{Statement: line.Statement, Number: line.Number, Announcement: a.ID}, fit
	}
	matches := make([]Match, 0, len(chosen))
	for _, match := range chosen {
		matches = append(matches, match)
	}
	slices.SortFunc(matches, func(a, b Match) int {
		return cmp.Or(cmp.Compare(a.Statement, b.Statement), cmp.Compare(a.Number, b.Number))
	})
	return matches
}

// announcementOf finds the announcement of a line; its ID is 0 if there is none. Words of the
// narration, which is other people's text, count as a reference only where the bank gives none,
// and only as one of UPI, IMPS, NEFT or RTGS: those of receipts and cheques are too short to be
// told from other words.
func announcementOf(line BankLine, byReference, byCode map[string]Announcement) (a Announcement, fit int) {
	if a, found := byReference[NormaliseReference(line.Reference)]; found {
		return a, fitsReference
	}
	words := lineWords(line.Narration)
	if strings.HasPrefix(line.Reference, generatedReferencePrefix) {
		for _, word := range words {
			if a, found := byReference[word]; found && a.Method != MethodOther {
				return a, fitsReference
			}
		}
	}
	for _, word := range words {
		if a, found := byCode[word]; found {
			return a, 0
		}
	}
	return Announcement{}, 0
}

// maxJoined is how many words of a narration are joined: banks break long lines, also within a
// reference.
const maxJoined = 3

// lineWords returns what could be a reference in a narration, normalised: each run of letters
// and digits, runs that only blanks separate joined together, and the digits of a run without the
// letters around them and without zeros in front, with which banks fill columns. The names of UPI
// ids are left out: many are phone numbers.
func lineWords(text string) (found []string) {
	add := func(word string) {
		found = append(found, word)
		if digits := strings.TrimFunc(word, unicode.IsLetter); digits != word && len(digits) >= 6 {
			found = append(found, digits)
		}
		if bare := strings.TrimLeft(word, "0"); bare != word && len(bare) >= 6 {
			found = append(found, bare)
		}
	}
	text = upiName.ReplaceAllString(text, "@")
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return !isReferenceRune(r) && !unicode.IsSpace(r) }) {
		words := strings.Fields(part)
		for i := range words {
			words[i] = NormaliseReference(words[i])
		}
		for i := range words {
			for n := 1; n <= maxJoined && i+n <= len(words); n++ {
				if word := strings.Join(words[i:i+n], ""); word != "" {
					add(word)
				}
			}
		}
	}
	return found
}

func isReferenceRune(r rune) bool { return unicode.In(r, unicode.L, unicode.N, unicode.M) }

// upiName is the name of a UPI id, up to its @.
var upiName = regexp.MustCompile(`[\p{L}\p{N}]+(?:[-._][0-9]{1,2})?\s*@`)
