package subscription

import (
	"strings"
	"unicode"
)

// GSTINLength is the number of characters of a GSTIN.
const GSTINLength = 15

// ReadGSTIN returns what somebody typed as a GSTIN is written: without blanks, in capital letters.
func ReadGSTIN(text string) string {
	return strings.ToUpper(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text))
}

// gstinDigits are the digits of a GSTIN's check character, in base 36.
const gstinDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// IsGSTIN reports whether a text is a GSTIN, the tax number of an Indian business, with the right
// check character.
func IsGSTIN(text string) bool {
	return HasGSTINForm(text) && text[14] == gstinCheck(text[:14])
}

// HasGSTINForm reports whether a text has the form of a GSTIN, whatever its check character is: 15
// characters, which are the state in two digits, the PAN (five letters, four digits, a letter),
// a digit or letter, Z, and the check character, all in capital letters.
func HasGSTINForm(text string) bool {
	if len(text) != GSTINLength || text[:2] == "00" || text[12] == '0' || text[13] != 'Z' {
		return false
	}
	for i, c := range []byte(text) {
		digit, letter := c >= '0' && c <= '9', c >= 'A' && c <= 'Z'
		switch {
		case i < 2 || i >= 7 && i < 11:
			letter = false
		case i < 7 || i == 11:
			digit = false
		}
		if !digit && !letter {
			return false
		}
	}
	return true
}

// gstinCheck computes the check character: the digits in base 36, every second one doubled and
// reduced to the sum of its digits.
func gstinCheck(text string) byte {
	sum := 0
	for i := range len(text) {
		product := strings.IndexByte(gstinDigits, text[i]) * (1 + i%2)
		sum += product/36 + product%36
	}
	return gstinDigits[(36-sum%36)%36]
}
