package server

import (
	"fmt"
	"strings"
)

// Explanation is what a setting means and has. Passwords are hidden.
type Explanation struct {
	Key      string   `json:"key"`
	Meaning  string   `json:"meaning"`
	Default  string   `json:"default"`
	Value    string   `json:"value"`
	Choices  []string `json:"choices,omitempty"`
	Variable string   `json:"variable"`
	// Source is default, file, environment or set; Where is the file with its line, the
	// variable or the flag.
	Source string `json:"source"`
	Where  string `json:"where,omitempty"`
	// Problem says why the value is refused.
	Problem string `json:"problem,omitempty"`
	Note    string `json:"note,omitempty"`
}

// ExplainConfig explains settings: those that are named, by key or section, or all. A
// configuration with mistakes is explained, too; only a file that cannot be read is an error.
func ExplainConfig(from Sources, names []string) ([]Explanation, error) {
	chosen, err := chooseSettings(names)
	if err != nil {
		return nil, err
	}
	l := load(from)
	if l.unread {
		return nil, l.problems[0]
	}
	var all []Explanation
	for _, s := range chosen {
		e := Explanation{Key: s.Key, Meaning: s.Doc, Default: s.Default, Choices: s.Choices(), Variable: s.Variable(), Value: s.Default, Source: "default"}
		if o, given := l.given[s.Key]; given {
			e.Value, e.Where = s.Shown(o.value), o.where.String()
			switch {
			case o.where.File != "":
				e.Source = "file"
			case strings.HasPrefix(o.where.Name, "--"):
				e.Source = "set"
			default:
				e.Source = "environment"
			}
		}
		if err := l.invalid[s.Key]; err != nil {
			e.Problem = err.Error()
		}
		if s.Key == "secrets.master_key_file" && hasMasterKey(from.Environ) {
			e.Note = MasterKeyVariable + " is set and wins over the file"
		}
		all = append(all, e)
	}
	return all, nil
}

func hasMasterKey(environ []string) bool {
	for _, entry := range environ {
		if text, found := strings.CutPrefix(entry, MasterKeyVariable+"="); found && text != "" {
			return true
		}
	}
	return false
}

func chooseSettings(names []string) ([]setting, error) {
	if len(names) == 0 {
		return Settings, nil
	}
	var chosen []setting
	for _, name := range names {
		before := len(chosen)
		for _, s := range Settings {
			if section, _ := s.parts(); s.Key == name || section == name && name != "" {
				chosen = append(chosen, s)
			}
		}
		if len(chosen) == before {
			return nil, fmt.Errorf("%s: %w", name, unknownKey(name))
		}
	}
	return chosen, nil
}
