package login

import "strings"

// The length of a username.
const (
	minUsername = 3
	maxUsername = 64
)

// FoldUsername returns a username as it is stored, and whether it is valid: 3 to 64 of
// a-z, 0-9 and . _ - @. Upper case, which telephones insert, becomes lower case, and
// surrounding blanks are dropped.
func FoldUsername(typed string) (username string, ok bool) {
	username = strings.ToLower(strings.TrimSpace(typed))
	if len(username) < minUsername || len(username) > maxUsername {
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
