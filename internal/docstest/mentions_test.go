package docstest

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	mentionPattern = regexp.MustCompile("`((?:make|coax|bin/coax) [^`]+)`")
	wordPattern    = regexp.MustCompile(`^[a-z-]+$`)
	flagPattern    = regexp.MustCompile(`--[a-z][a-z-]*`)
)

// mentionedCommandsExist checks the commands in sentences and tables. They are not run,
// but their target, command and flags must exist. clone is a folder with a built program.
func mentionedCommandsExist(t *testing.T, all []*page, clone string) {
	seen := map[string]error{}
	try := func(program string, args ...string) (string, error) {
		command := exec.CommandContext(t.Context(), program, args...)
		command.Dir, command.Env = clone, cleanEnvironment()
		out, err := command.CombinedOutput()
		return string(out), err
	}
	for _, p := range all {
		for n, line := range p.prose() {
			for _, found := range mentionPattern.FindAllStringSubmatch(line, -1) {
				mention := found[1]
				words := strings.Fields(mention)
				if words[0] == "make" {
					if _, known := seen[mention]; !known {
						_, seen[mention] = try("make", append([]string{"--dry-run"}, words[1:]...)...)
					}
					if seen[mention] != nil {
						t.Errorf("%s:%d: `%s`: there is no such target", p.name, n, mention)
					}
					continue
				}
				names := words[1:]
				if end := slices.IndexFunc(names, func(word string) bool { return !wordPattern.MatchString(word) || word[0] == '-' }); end >= 0 {
					names = names[:end]
				}
				help, err := try(filepath.Join(clone, "bin", "coax"), append(slices.Clone(names), "--help")...)
				path := strings.Join(append([]string{"coax"}, names...), " ")
				if err != nil || !regexp.MustCompile(`(?m)^  `+regexp.QuoteMeta(path)+`( |$)`).MatchString(help) {
					t.Errorf("%s:%d: `%s`: there is no command `%s`", p.name, n, mention, path)
					continue
				}
				for _, flag := range flagPattern.FindAllString(mention, -1) {
					if flag != "--help" && !strings.Contains(help, flag+" ") {
						t.Errorf("%s:%d: `%s`: `%s` has no %s", p.name, n, mention, path, flag)
					}
				}
			}
		}
	}
	if len(seen) == 0 {
		t.Error("found no mention of make: the search looks in the wrong place")
	}
}
