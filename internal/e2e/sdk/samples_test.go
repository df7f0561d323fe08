package sdk

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coaxhq/coax/contract"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/e2e/program"
)

// sampleOrder are the endpoints in an order in which each finds what it needs, with what
// its sample prints.
var sampleOrder = []struct{ endpoint, want string }{
	{"plans", "BASIC-1"},
	{"activate", "success"},
	{"renew", "349.00"},
	{"advance-renew", "999.00"},
	{"balance", "8453.00"},
	{"subscription", "active"},
	{"transaction", "199.00"},
}

// The samples of the reference run as they are shown, in every language.
func TestSamples_Run(t *testing.T) {
	for _, l := range append(languages, language{name: "curl", tool: "curl"}) {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			l.requireTool(t)
			env := e2e.NewLiveEnv(t)
			ca := filepath.Join(env.Folder, "ca.pem")
			run := sampleRunner(t, l)
			for _, sample := range sampleOrder {
				command := run(sample.endpoint)
				command.Env = append(os.Environ(), "COAX_BASE_URL="+env.Demo.BaseURL, "COAX_API_KEY="+env.Demo.APIKey,
					"COAX_API_SECRET="+env.Demo.APISecret, "COAX_CA_CERT="+ca,
					"PYTHONPATH="+pythonPath(t), "PYTHONDONTWRITEBYTECODE=1")
				output, err := command.CombinedOutput()
				if err != nil || !strings.Contains(string(output), sample.want) {
					t.Errorf("the sample of %s ended with %v, and printed %q; want %q in it", sample.endpoint, err, output, sample.want)
				}
			}
		})
	}
}

func sampleRunner(t *testing.T, l language) func(endpoint string) *exec.Cmd {
	t.Helper()
	folder, err := filepath.Abs(root + "/contract/samples")
	if err != nil {
		t.Fatal(err)
	}
	switch l.name {
	case "go":
		return func(endpoint string) *exec.Cmd {
			path, err := program.BuildPackage("sample-"+endpoint, "github.com/coaxhq/coax/contract/samples/"+endpoint)
			if err != nil {
				t.Fatal(err)
			}
			return exec.Command(path)
		}
	case "node":
		// A program finds the SDK as an installed package.
		installed := t.TempDir()
		sdk, err := filepath.Abs(root + "/sdk/node")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(installed, "node_modules"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(sdk, filepath.Join(installed, "node_modules", "coax")); err != nil {
			t.Fatal(err)
		}
		return func(endpoint string) *exec.Cmd {
			text, err := os.ReadFile(filepath.Join(folder, endpoint+".js"))
			if err != nil {
				t.Fatal(err)
			}
			copied := filepath.Join(installed, endpoint+".mjs")
			if err := os.WriteFile(copied, text, 0o600); err != nil {
				t.Fatal(err)
			}
			return exec.Command("node", copied)
		}
	}
	with := map[string][2]string{"php": {"php", ".php"}, "python": {"python3", ".py"}, "curl": {"bash", ".sh"}}[l.name]
	return func(endpoint string) *exec.Cmd {
		command := exec.Command(with[0], filepath.Join(folder, endpoint+with[1]))
		command.Dir = root // PHP's sample names the SDK from there
		return command
	}
}

// Every endpoint has a sample in every language, and no other file lies there.
func TestSamples_Complete(t *testing.T) {
	want := map[string]bool{}
	for _, sample := range sampleOrder {
		for _, end := range []string{".sh", ".php", ".js", ".py", "/main.go"} {
			want["samples/"+sample.endpoint+end] = true
		}
	}
	err := fs.WalkDir(contract.Samples, "samples", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !want[name] {
			t.Errorf("%s is the sample of no endpoint", name)
		}
		delete(want, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range want {
		t.Errorf("%s is missing", name)
	}
}

func pythonPath(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(root + "/sdk/python")
	if err != nil {
		t.Fatal(err)
	}
	return path
}
