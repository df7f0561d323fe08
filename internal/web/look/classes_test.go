package look

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A class that the stylesheet does not have is a typo, or a page with a look of its own.
func TestClasses_AllStyled(t *testing.T) {
	styled := map[string]bool{}
	for _, class := range regexp.MustCompile(`\.([a-z][a-z0-9-]*)`).FindAllStringSubmatch(string(assets()["style.css"].plain), -1) {
		styled[class[1]] = true
	}
	used := map[string]string{}
	err := filepath.WalkDir("..", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(file) != ".html" {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, class := range classesOf(string(text)) {
			used[class] = file
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(used) < 50 {
		t.Fatalf("found only %d classes: the search looks in the wrong place", len(used))
	}
	for class, file := range used {
		if !styled[class] {
			t.Errorf("%s: class %q is not in the stylesheet", file, class)
		}
	}
}

func TestClassesOf_BetweenActions(t *testing.T) {
	got := strings.Join(classesOf(`<p class="a b-{{.Kind}}{{if .X}} c{{end}} d"><i class="{{.Y}}">`), " ")
	if want := "a c d"; got != want {
		t.Errorf("found %q; want %q", got, want)
	}
}

var (
	classAttribute = regexp.MustCompile(`class="((?:[^"{]|\{\{.*?\}\})*)"`)
	branchAction   = regexp.MustCompile(`\{\{-? ?(?:if|else|end|with|range)[^}]*\}\}`)
	otherAction    = regexp.MustCompile(`\{\{.*?\}\}`)
)

// classesOf lists the literal classes; those completed by a template action are unknown.
func classesOf(html string) (classes []string) {
	for _, found := range classAttribute.FindAllStringSubmatch(html, -1) {
		written := otherAction.ReplaceAllString(branchAction.ReplaceAllString(found[1], " "), "{}")
		for _, class := range strings.Fields(written) {
			if !strings.Contains(class, "{}") && !strings.HasSuffix(class, "-") {
				classes = append(classes, class)
			}
		}
	}
	return classes
}
