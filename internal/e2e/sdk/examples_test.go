package sdk

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

// programs are the commands that run a file of an SDK, and where its own tests are.
var programs = map[string]struct {
	run   []string
	end   string
	tests []string
}{
	"php":    {[]string{"php"}, ".php", []string{"php", "tests/run.php"}},
	"node":   {[]string{"node"}, ".js", []string{"node", "--test", "test/"}},
	"python": {[]string{"python3"}, ".py", []string{"python3", "-m", "unittest", "discover"}},
}

// scripted returns the languages other than Go, whose examples and tests are in package
// client.
func scripted() []language {
	return slices.DeleteFunc(slices.Clone(languages), func(l language) bool { return l.name == "go" })
}

// The examples that the SDKs' READMEs show run as they are, in a folder with a demo.
func TestExamples_OfReadme(t *testing.T) {
	forEachOf(t, scripted(), func(t *testing.T, l language) {
		with := programs[l.name]
		env := e2e.NewLiveEnv(t)
		folder := t.TempDir()
		text, err := json.Marshal(map[string]string{
			"base_url": env.Demo.BaseURL, "api_key": env.Demo.APIKey, "api_secret": env.Demo.APISecret, "ca_cert": filepath.Join(env.Folder, "ca.pem"),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(folder, ".demo"), 0o700); err != nil {
			t.Fatal(err)
		}
		e2e.WriteFile(t, filepath.Join(folder, ".demo", "demo.json"), string(text))
		run := func(name, input string) string {
			t.Helper()
			file, err := filepath.Abs(filepath.Join(root, "sdk", l.name, "examples", name+with.end))
			if err != nil {
				t.Fatal(err)
			}
			command := exec.Command(with.run[0], file)
			command.Dir, command.Stdin = folder, strings.NewReader(input)
			command.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
			output, err := command.CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v\n%s", file, err, output)
			}
			return string(output)
		}
		if got := run("first", ""); got != "10000.00\n100001\n" {
			t.Errorf("the first call prints %q", got)
		}
		e2e.CheckMentions(t, "an operation", run("operation", ""), "POST renew 1 200 OK", "Done: store CX", "It cost 349.00.")
		e2e.CheckMentions(t, "the same again", run("operation", ""), "It cost 349.00.")

		order := order{
			ID: "7", BaseURL: env.Demo.BaseURL, APIKey: env.Demo.APIKey, APISecret: env.Demo.APISecret, CACert: filepath.Join(env.Folder, "ca.pem"),
			Operation: "advance-renew", Key: "order-4712", Body: json.RawMessage(`{"subscriber_id":"100001","plan_id":"FAMILY-3"}`),
		}
		line, err := json.Marshal(order)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			ID, Outcome, Code string
			TransactionID     string `json:"transaction_id"`
		}
		printed := run("certify", string(line)+"\n")
		if err := json.Unmarshal([]byte(printed), &answer); err != nil || answer.ID != "7" || answer.Outcome != "success" || !strings.HasPrefix(answer.TransactionID, "CX") {
			t.Errorf("the line-by-line example prints %s: %v", printed, err)
		}
	})
}

// The SDKs' own tests pass.
func TestSDKs_OwnTests(t *testing.T) {
	forEachOf(t, scripted(), func(t *testing.T, l language) {
		with := programs[l.name]
		command := exec.Command(with.tests[0], with.tests[1:]...)
		command.Dir = filepath.Join(root, "sdk", l.name)
		command.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
		if output, err := command.CombinedOutput(); err != nil {
			t.Errorf("%q: %v\n%s", with.tests, err, output)
		}
	})
}
