package subscription

import "strings"

// mobileDigits is the length of an Indian mobile number.
const mobileDigits = 10

// ReadMobile returns the ten digits of a mobile number as people write it: with +91 or 0 in
// front, and with blanks, hyphens, dots or brackets in it.
func ReadMobile(text string) (mobile string, ok bool) {
	mobile = strings.Map(func(r rune) rune {
		if strings.ContainsRune(" \t\u00a0\u202f-\u2010\u2011\u2013.()", r) {
			return -1
		}
		return r
	}, text)
	for _, prefix := range []string{"+91", "0091", "91", "0"} {
		// Behind a prefix, no mobile number in India begins with 0 to 5.
		if rest, has := strings.CutPrefix(mobile, prefix); has && len(rest) == mobileDigits && rest[0] >= '6' {
			mobile = rest
			break
		}
	}
	return mobile, len(mobile) == mobileDigits && strings.Trim(mobile, "0123456789") == ""
}
