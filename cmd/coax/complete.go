package main

import (
	"slices"
	"strings"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/store/sqlstore"
	"github.com/spf13/cobra"
)

// completion returns the values that begin with a word. It prints nothing and fails silently:
// it runs while a person types.
type completion = func(command *cobra.Command, given []string, word string) ([]string, cobra.ShellCompDirective)

// completions are the flags with known values, by command and flag; a command's name stands
// for those of its commands, too. The longest name wins.
func (a *app) completions() map[string]map[string]completion {
	return map[string]map[string]completion{
		"coax": {"set": completeSet},
		"coax admin": {
			"lco": a.fromStore(sqlstore.Operators), "key-id": a.fromStore(sqlstore.APIKeys), "username": a.fromStore(sqlstore.Logins),
			"permission": words(permissions()...),
		},
		"coax admin lco":            {"status": words("active", "inactive"), "api": words("enabled", "disabled", "blocked"), "second-factor": words("required", "optional")},
		"coax admin lco undelete":   {"lco": a.fromStore(sqlstore.DeletedOperators)},
		"coax admin plan":           {"id": a.fromStore(sqlstore.Plans), "type": words("standard", "combo"), "component": a.fromStore(sqlstore.Components)},
		"coax admin login":          {"status": words("enabled", "disabled"), "role": words("owner", "counter", "readonly", "viewer", "support", "finance", "administrator")},
		"coax admin login create":   {"username": words()},
		"coax admin operation list": {"status": words("processing", "success", "failed", "needs_review")},
		"coax admin review settle":  {"transaction": a.fromStore(sqlstore.Reviews)},
	}
}

// addCompletions adds the completions to a command and those below it.
func addCompletions(command *cobra.Command, all map[string]map[string]completion, above map[string]completion) {
	known := map[string]completion{}
	for _, from := range []map[string]completion{above, all[command.CommandPath()]} {
		for flag, complete := range from {
			known[flag] = complete
		}
	}
	for flag, complete := range known {
		if command.LocalFlags().Lookup(flag) != nil {
			_ = command.RegisterFlagCompletionFunc(flag, complete)
		}
	}
	for _, inner := range command.Commands() {
		addCompletions(inner, all, known)
	}
}

func permissions() (names []string) {
	for _, p := range access.AllPermissions.List() {
		names = append(names, p.String())
	}
	return names
}

func words(all ...string) completion {
	return func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return beginning(all, word), cobra.ShellCompDirectiveNoFileComp
	}
}

func beginning(all []string, word string) (found []string) {
	for _, one := range all {
		if strings.HasPrefix(one, word) {
			found = append(found, one)
		}
	}
	return found
}

// fromStore completes what is in the store of --config.
func (a *app) fromStore(what sqlstore.Choosable) completion {
	return func(command *cobra.Command, _ []string, word string) (found []string, _ cobra.ShellCompDirective) {
		if a.configFile == "" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for _, c := range server.Choices(command.Context(), a.sources(), what) {
			if strings.HasPrefix(c.Value, word) {
				found = append(found, cobra.CompletionWithDesc(c.Value, escapeBreaks.Replace(c.Description)))
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeSet completes --set: the key, and then the value of a setting that has few.
func completeSet(_ *cobra.Command, _ []string, word string) (found []string, _ cobra.ShellCompDirective) {
	key, _, hasValue := strings.Cut(word, "=")
	if s := server.FindSetting(key); hasValue && s != nil {
		for _, choice := range s.Choices() {
			found = append(found, key+"="+choice)
		}
		return beginning(found, word), cobra.ShellCompDirectiveNoFileComp
	}
	for _, s := range server.Settings {
		if strings.HasPrefix(s.Key, word) {
			found = append(found, cobra.CompletionWithDesc(s.Key+"=", s.Doc))
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeSettings completes the name of a setting.
func completeSettings(_ *cobra.Command, given []string, word string) (found []string, _ cobra.ShellCompDirective) {
	for _, s := range server.Settings {
		if strings.HasPrefix(s.Key, word) && !slices.Contains(given, s.Key) {
			found = append(found, cobra.CompletionWithDesc(s.Key, s.Doc))
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}
