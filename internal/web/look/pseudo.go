package look

import "strings"

// Pseudo is the code of a language for tests: the texts of the message files in brackets, with an accent on
// every letter. On a page in this language, letters without accents are data, or a text that no message file has.
const Pseudo = "qps"

// UsePseudo adds the language Pseudo. A test calls it before it loads pages.
func UsePseudo() { Languages = append(Languages, Pseudo) }

// unaccented and accented are letters in the same order.
const (
	unaccented = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	accented   = "áƀçðéƒĝĥíĵķļɱñóþɋŕšţúṽŵẋýžÁƁÇÐÉƑĜĤÍĴĶĻṀÑÓÞɊŔŠŢÛṼŴẊÝŽ"
)

// pseudo translates an English text; its formatting verbs stay.
func pseudo(english string) string {
	letters := []rune(accented)
	accent := func(text string) string {
		return strings.Map(func(r rune) rune {
			if i := strings.IndexRune(unaccented, r); i >= 0 {
				return letters[i]
			}
			return r
		}, text)
	}
	var out strings.Builder
	end := 0
	for _, at := range verb.FindAllStringIndex(english, -1) {
		out.WriteString(accent(english[end:at[0]]) + english[at[0]:at[1]])
		end = at[1]
	}
	return "⟦" + out.String() + accent(english[end:]) + "⟧"
}
