package subscription

import "fmt"

// FreeID is the first id from a given one on that nobody has, of as many digits.
// The taken ones are given in the order of their texts, from that id on; more says
// that others may follow them. It is empty if there is none as far as they go.
func FreeID(from string, taken []string, more bool) string {
	candidate := from
	for _, id := range taken {
		if id > candidate {
			return candidate
		}
		if id < candidate {
			continue // a longer one, which begins like one that was passed
		}
		next := fmt.Sprintf("%0*d", len(from), numberOf(candidate)+1)
		if len(next) > len(from) {
			return ""
		}
		candidate = next
	}
	if more {
		return ""
	}
	return candidate
}

func numberOf(digits string) (n int) {
	for _, digit := range digits {
		n = 10*n + int(digit-'0')
	}
	return n
}
