package admin

import (
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/coaxhq/coax/internal/money"
)

// NormaliseReference returns the form that references are compared by. Two texts that
// differ only in case, spaces, punctuation, symbols, invisible characters or compatibility
// forms (such as full-width letters) have the same normalised form.
//
// What is left are letters, numbers, and the marks that stand on them, such as the vowel
// signs of Indian scripts, after NFKC and full case folding. Dropped are separators,
// punctuation, symbols, control, format, private and unassigned characters, enclosing
// marks, default ignorable characters (joiners, variation selectors, fillers), and a mark
// that stands on a dropped space or symbol. Accents stay: "é" is not "e". Digits of other
// scripts stay what they are: "१" is not "1".
func NormaliseReference(text string) string {
	// Dropping characters can bring others together that compose, and folding can undo a
	// composition, so the steps run until nothing changes: twice, or a third time.
	for range normaliseRounds {
		kept := norm.NFKC.String(keepReadable(norm.NFKD.String(text)))
		// ToLower, because cases.Fold exchanges Cherokee's two cases instead of folding them.
		folded := norm.NFKC.String(strings.ToLower(cases.Fold().String(kept)))
		if folded == text {
			break
		}
		text = folded
	}
	return text
}

// normaliseRounds is more than any text needs.
const normaliseRounds = 8

// keepReadable drops what does not count in a decomposed reference.
func keepReadable(text string) string {
	orphan := true // a mark that comes next has nothing to stand on
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, unicode.Me):
			return -1 // and a mark behind it still stands on what came before
		case unicode.In(r, unicode.Mn, unicode.Mc):
			if orphan {
				return -1
			}
			return r
		case unicode.In(r, unicode.L, unicode.N):
			orphan = false
			return r
		}
		orphan = true
		return -1
	}, text)
}

// checkReference refuses an invalid reference of a payment or an adjustment.
func checkReference(reference string) error {
	if err := checkText("reference", reference, 1, 200); err != nil {
		return err
	}
	if NormaliseReference(reference) == "" {
		return Refuse("reference %s has no letter and no digit: give the payment's own reference", reference)
	}
	return nil
}

// ReferenceKind is what a reference was given for. The two kinds are separate.
type ReferenceKind string

// The kinds of references.
const (
	ReferenceTopUp      ReferenceKind = "topup"
	ReferenceAdjustment ReferenceKind = "adjust"
)

// Credit is what a reference was used for.
type Credit struct {
	OperatorID int64
	Amount     money.Amount
	Reference  string // as typed then
	At         time.Time
}

// SameCredit reports whether a reference that was used before is given for the same credit
// again, which changes nothing. It refuses a reference that was used for another credit.
func SameCredit(before, now Credit, way ReferenceKind) (bool, error) {
	if before.OperatorID == now.OperatorID && before.Amount == now.Amount && NormaliseReference(before.Reference) == NormaliseReference(now.Reference) {
		return true, nil
	}
	if way == ReferenceAdjustment {
		return false, Refuse("reference %s was used before, as %s, for an adjustment of %s of operator %s's wallet on %s: give this adjustment its own reference",
			now.Reference, before.Reference, before.Amount, OperatorID(before.OperatorID), Moment(before.At))
	}
	if NormaliseReference(before.Reference) != NormaliseReference(now.Reference) {
		return false, RefuseCreditedAs(now.Reference, before)
	}
	return false, Refuse("reference %s was used before, as %s, for %s credited to operator %s on %s: give this payment its own reference",
		now.Reference, before.Reference, before.Amount, OperatorID(before.OperatorID), Moment(before.At))
}

// RefuseCreditedAs refuses a payment that was credited under its other reference: that of the
// bank's line, or the one that the operator announced.
func RefuseCreditedAs(reference string, before Credit) *Refusal {
	return Refuse("the payment with reference %s was credited already, as %s: %s to operator %s on %s", reference, before.Reference, before.Amount, OperatorID(before.OperatorID), Moment(before.At))
}
