package planted

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// patch is a planted bug of testdata: a description and a diff.
type patch struct {
	name  string
	words string
	files []string // below the module's root
	text  []byte
}

func readPatch(name string) (patch, error) {
	text, err := os.ReadFile(filepath.Join("testdata", name+".patch"))
	if err != nil {
		return patch{}, err
	}
	p := patch{name: name, text: text}
	words, diff, found := strings.Cut(string(text), "\ndiff --git ")
	if !found {
		return p, fmt.Errorf("%s changes nothing", name)
	}
	p.words = strings.TrimSpace(words)
	for line := range strings.Lines(diff) {
		if file, is := strings.CutPrefix(line, "+++ b/"); is {
			p.files = append(p.files, strings.TrimSpace(file))
		}
	}
	return p, nil
}

// packages are the Go packages it changes.
func (p patch) packages() []string {
	var all []string
	for _, file := range p.files {
		folder := path.Dir(file)
		if path.Ext(file) == ".go" && !slices.Contains(all, "./"+folder) {
			all = append(all, "./"+folder)
		}
	}
	return all
}

// overlay writes the patched files into folder, and an overlay file for the go command. The tree
// itself is not changed, and unpatched packages come from the build cache.
func (p patch) overlay(root, folder string) (list string, err error) {
	replace := map[string]string{}
	for _, file := range p.files {
		from, to := filepath.Join(root, file), filepath.Join(folder, file)
		text, err := os.ReadFile(from)
		if err != nil {
			return "", fmt.Errorf("%s is stale: %w", p.name, err)
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return "", err
		}
		if err := os.WriteFile(to, text, 0o600); err != nil {
			return "", err
		}
		replace[from] = to
	}
	apply := exec.Command("git", "apply", "--whitespace=nowarn", "-")
	apply.Dir, apply.Stdin = folder, strings.NewReader(string(p.text))
	apply.Env = outsideRepositories(folder)
	if out, err := apply.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s is stale, it no longer applies: %w\n%s", p.name, err, out)
	}
	for from, to := range replace {
		if same, err := sameText(from, to); err != nil || same {
			return "", fmt.Errorf("%s left %s as it was: %w", p.name, from, err)
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list = filepath.Join(folder, "overlay.json")
	return list, os.WriteFile(list, text, 0o600)
}

// outsideRepositories keeps git from looking for a repository above folder.
func outsideRepositories(folder string) []string {
	env := slices.DeleteFunc(os.Environ(), func(one string) bool { return strings.HasPrefix(one, "GIT_") })
	return append(env, "GIT_CEILING_DIRECTORIES="+filepath.Dir(folder))
}

func sameText(one, other string) (bool, error) {
	a, err := os.ReadFile(one)
	if err != nil {
		return false, err
	}
	b, err := os.ReadFile(other)
	return string(a) == string(b), err
}
