package login

import "strings"

// What a username has to be.
const (
	usernameLeast = 3
	usernameMost  = 64
)

// FoldUsername returns a username as it is kept, and whether it is one: 3 to 64 of
// a-z, 0-9 and . _ - @. Upper case is taken for lower, as telephones write it, and
// blanks around it do not count.
func FoldUsername(typed string) (username string, ok bool) {
	username = strings.ToLower(strings.TrimSpace(typed))
	if len(username) < usernameLeast || len(username) > usernameMost {
		return "", false
	}
	for i := range len(username) {
		c := username[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && strings.IndexByte("._-@", c) < 0 {
			return "", false
		}
	}
	return username, true
}
