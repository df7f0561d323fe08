package server

import (
	"errors"
	"fmt"
	"strings"
)

// unknownKey returns the error for an unknown key, with the keys that were probably meant.
func unknownKey(key string) error {
	if near := similarKeys(key); len(near) > 0 {
		return fmt.Errorf("there is no such key; is %s meant?", strings.Join(near, " or "))
	}
	return errors.New("there is no such key; `coax config explain` lists them")
}

// unknownVariable is unknownKey for an environment variable.
func unknownVariable(name string) error {
	if near := similarVariables(name); len(near) > 0 {
		return fmt.Errorf("there is no such setting; is %s meant?", strings.Join(near, " or "))
	}
	return errors.New("there is no such setting; `coax config explain` lists them")
}

const (
	// maxEdits is how many letters of a mistyped section, and of a mistyped name, may differ.
	maxEdits = 2
	// A name that another begins with, and a right name in a wrong section, are farther away
	// than any mistyping.
	shortenedCost, movedCost = maxEdits + 1, 10
	// maxSuggestions bounds a suggestion; more keys than that are no help.
	maxSuggestions = 3
)

// similarKeys returns the keys that are nearest to an unknown one. Whole paths are compared,
// the section first: several sections have names such as url.
func similarKeys(key string) []string {
	key = strings.ToLower(key)
	section, name := setting{Key: key}.parts()
	return nearest(func(s setting) int {
		ownSection, ownName := s.parts()
		names := similarity(name, ownName)
		if distance(key, s.Key) == 1 { // a dot that was left out, or a letter of a short name
			return 1
		}
		switch sections := distance(section, ownSection); {
		case names < 0:
			return -1
		case section == ownSection:
			return names
		case section != "" && ownSection != "" && sections <= maxEdits && sections < len(ownSection):
			return sections + names
		case names == 0 || section == "" && names <= maxEdits:
			return movedCost + names
		}
		return -1
	}, func(s setting) string { return s.Key })
}

// similarity returns how far a name is from a setting's, or -1 if they have nothing in common.
func similarity(name, own string) int {
	switch edits := distance(name, own); {
	case edits <= maxEdits && edits < min(len(name), len(own)):
		return edits
	case len(name) >= 3 && (strings.HasPrefix(own, name) || strings.HasPrefix(name, own)):
		return shortenedCost
	}
	return -1
}

func similarVariables(name string) []string {
	return nearest(func(s setting) int {
		if edits := distance(name, EnvironmentName(s.Key)); edits <= maxEdits {
			return edits
		}
		return -1
	}, func(s setting) string { return EnvironmentName(s.Key) })
}

// nearest returns the names of the settings with the lowest cost; those below 0 do not count.
func nearest(cost func(setting) int, name func(setting) string) []string {
	best := -1
	var found []string
	for _, s := range Settings {
		switch at := cost(s); {
		case at < 0 || best >= 0 && at > best:
		case at == best:
			found = append(found, name(s))
		default:
			best, found = at, []string{name(s)}
		}
	}
	if len(found) > maxSuggestions {
		return nil
	}
	return found
}

// distance returns the edit distance between two texts.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diagonal, row[j] = row[j], min(row[j]+1, row[j-1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
