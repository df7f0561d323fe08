package bankstatement

import (
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/coaxhq/coax/internal/subscription"
)

// dateForms are how banks write days. The day comes first where the month is a number.
var dateForms = []string{"2/1/2006", "2/1/06", "2-1-2006", "2-1-06", "2.1.2006", "2.1.06", "2-Jan-2006", "2-Jan-06", "2 Jan 2006", "2 Jan 06", "2/Jan/2006", "2006-1-2", "2006/1/2", "2 January 2006", "Jan 2, 2006"}

// timeOfDay is what may stand behind a day.
var timeOfDay = regexp.MustCompile(`[ T]+[0-9]{1,2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?( *[AaPp][Mm])?$`)

// parseDate reads a day, as its midnight in IST.
func parseDate(text string) (time.Time, bool) {
	text = strings.TrimSpace(timeOfDay.ReplaceAllString(oneLine(text), ""))
	text = titleMonth(text)
	for _, form := range dateForms {
		if day, err := time.ParseInLocation(form, text, subscription.IST); err == nil && day.Year() >= 2000 && day.Year() < 2100 {
			return day, true
		}
	}
	return time.Time{}, false
}

// titleMonth writes a month's name as time.Parse expects it: APR and apr are Apr.
func titleMonth(text string) string {
	letters := []rune(strings.ToLower(text))
	for i := range letters {
		if unicode.IsLetter(letters[i]) && (i == 0 || !unicode.IsLetter(letters[i-1])) {
			letters[i] = unicode.ToUpper(letters[i])
		}
	}
	return strings.Replace(string(letters), "Sept", "Sep", 1)
}

var (
	// utr is a reference of NEFT or RTGS: the bank's four letters, then letters and digits; HDFC has an N
	// and digits.
	utr = regexp.MustCompile(`^([A-Z]{4}[A-Z0-9]{12,18}|N[0-9]{15})$`)
	// rrn is a reference of UPI or IMPS; banks fill it with zeros to 16 digits.
	rrn = regexp.MustCompile(`^(?:0000)?([0-9]{12})$`)
	// instant is in the narration of a UPI or IMPS payment. In others, twelve digits are
	// likely to be an account's number.
	instant = regexp.MustCompile(`(?i)\b(UPI|IMPS|MMT|P2A|P2M|RRN)\b`)
)

// upiName is the name of a UPI id, up to its @. Many are phone numbers: twelve digits with the 91
// in front.
var upiName = regexp.MustCompile(`[A-Z0-9]+([-._][0-9]{1,2})?[ ]*@`)

// findReference returns the reference of a payment, from the column of references if one stands
// there, else from the narration; empty if none can be told from account numbers and the like.
func findReference(column, narration string) string {
	texts := []string{column, narration}
	for _, text := range texts {
		for _, word := range referenceWords(text) {
			if utr.MatchString(word) && countDigits(word) >= 6 {
				return word
			}
		}
	}
	if !instant.MatchString(column + " / " + narration) {
		return ""
	}
	for _, text := range texts {
		if reference := onlyRRN(referenceWords(text)); reference != "" {
			return reference
		}
	}
	return ""
}

// onlyRRN returns the words' reference of UPI or IMPS; empty if there are several.
func onlyRRN(words []string) (reference string) {
	for _, word := range words {
		part := rrn.FindStringSubmatch(strings.TrimPrefix(strings.TrimPrefix(word, "UPI"), "IMPS"))
		switch {
		case part == nil:
		case reference != "" && reference != part[1]:
			return ""
		default:
			reference = part[1]
		}
	}
	return reference
}

// referenceWords splits a text into words, without the names of UPI ids.
func referenceWords(text string) []string {
	text = upiName.ReplaceAllString(strings.ToUpper(text), "@")
	return strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

func countDigits(word string) (n int) {
	for _, r := range word {
		if r >= '0' && r <= '9' {
			n++
		}
	}
	return n
}
