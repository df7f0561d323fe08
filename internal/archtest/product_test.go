package archtest

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The product binary holds no test, benchmark or PostgreSQL starter package, and no
// package testing.
func TestProduct_LinksNoTestOrBenchPackage(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./cmd/coax").Output()
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/coaxhq/coax/"
	linked := 0
	for _, path := range strings.Fields(string(out)) {
		folder, ours := strings.CutPrefix(path, module)
		if path == "testing" || strings.HasPrefix(path, "testing/") {
			t.Errorf("cmd/coax links %s", path)
		}
		// Only the tag manpages may link what renders man pages.
		if strings.Contains(path, "md2man") || strings.HasSuffix(path, "cobra/doc") {
			t.Errorf("cmd/coax links %s, which renders man pages", path)
		}
		if !ours || folder == "cmd/coax" {
			continue
		}
		linked++
		if rule, _, known := ruleOf(folder); !known || rule.testsOnly {
			t.Errorf("cmd/coax links %s, which is not for the product", folder)
		}
	}
	if linked == 0 {
		t.Fatal("go list names no package of this module")
	}
}

// The image's build gets every file that the product is built from.
func TestProduct_DockerContextIsComplete(t *testing.T) {
	var copied []string
	for _, line := range strings.Fields(read(t, "packaging/Dockerfile.dockerignore")) {
		if path, is := strings.CutPrefix(line, "!"); is {
			copied = append(copied, path)
		}
	}
	const module = "github.com/coaxhq/coax/"
	out, err := exec.Command("go", "list", "-deps", "-f", `{{$of := .ImportPath}}{{range .GoFiles}}{{$of}}/{{.}}{{"\n"}}{{end}}{{range .EmbedFiles}}{{$of}}/{{.}}{{"\n"}}{{end}}`, "./cmd/coax").Output()
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for _, path := range strings.Split(string(out), "\n") {
		file, ours := strings.CutPrefix(path, module)
		if !ours {
			continue
		}
		files++
		if !slices.ContainsFunc(copied, func(folder string) bool { return within(file, folder) }) {
			t.Errorf("packaging/Dockerfile.dockerignore leaves out %s", file)
		}
	}
	if files == 0 {
		t.Fatal("go list names no file of this module")
	}
}
