package sdk

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/coaxhq/coax/internal/e2e/program"
)

// root is the module's root, as seen from this package.
const root = "../../.."

// language is an SDK and the program that drives it.
type language struct {
	name    string
	command []string // nil: built from Go source
	// tool is the command that has to be installed.
	tool string
}

var languages = []language{
	{name: "go"},
	{name: "php", tool: "php", command: []string{"php", "-d", "display_errors=stderr", "-d", "error_reporting=-1", root + "/sdk/php/tests/driver.php"}},
	{name: "node", tool: "node", command: []string{"node", "--trace-warnings", root + "/sdk/node/test/driver.js"}},
	{name: "python", tool: "python3", command: []string{"python3", "-X", "dev", root + "/sdk/python/tests/driver.py"}},
}

// forEach runs a test for every SDK whose language is installed. In CI all have to be.
func forEach(t *testing.T, test func(t *testing.T, l language)) { forEachOf(t, languages, test) }

func forEachOf(t *testing.T, of []language, test func(t *testing.T, l language)) {
	for _, l := range of {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			l.requireTool(t)
			test(t, l)
		})
	}
}

// requireTool skips a test if its tool is not installed, which in CI is a failure.
func (l language) requireTool(t *testing.T) {
	t.Helper()
	if l.tool == "" {
		return
	}
	if _, err := exec.LookPath(l.tool); err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("CI needs %s: %v", l.tool, err)
	} else if err != nil {
		t.Skipf("%s is not installed", l.tool)
	}
}

var goDriver = sync.OnceValues(func() (string, error) {
	return program.BuildPackage("go-driver", "github.com/coaxhq/coax/internal/e2e/sdk/godriver")
})

// driver is a running program that makes one call per line of input. See README.md of
// this folder.
type driver struct {
	input  io.WriteCloser
	output *bufio.Reader
	errors *bytes.Buffer
}

func (l language) start(t *testing.T) *driver {
	t.Helper()
	command := l.command
	if command == nil {
		path, err := goDriver()
		if err != nil {
			t.Fatal(err)
		}
		command = []string{path}
	}
	process := exec.Command(command[0], command[1:]...)
	process.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	d := &driver{errors: &bytes.Buffer{}}
	process.Stderr = d.errors
	input, err := process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	d.input, d.output = input, bufio.NewReaderSize(output, 1<<20)
	t.Cleanup(func() {
		_ = input.Close()
		_, _ = io.Copy(io.Discard, d.output)
		if err := process.Wait(); err != nil {
			t.Errorf("the %s driver ended with %v", filepath.Base(command[0]), err)
		}
		if d.errors.Len() > 0 {
			t.Errorf("the driver wrote to its standard error:\n%s", d.errors)
		}
	})
	return d
}

// order is a line of input.
type order struct {
	ID        string          `json:"id"`
	BaseURL   string          `json:"base_url,omitempty"`
	CACert    string          `json:"ca_cert,omitempty"`
	APIKey    string          `json:"api_key,omitempty"`
	APISecret string          `json:"api_secret,omitempty"`
	Operation string          `json:"operation"`
	Key       string          `json:"idempotency_key,omitempty"`
	Body      json.RawMessage `json:"body,omitempty"`
	Options   map[string]any  `json:"options,omitempty"`
	// Arguments are those of a look-up: subscriber_id, mobile, transaction_id.
	Arguments map[string]string `json:"arguments,omitempty"`

	// Of the operation sign.
	Method    string `json:"method,omitempty"`
	Path      string `json:"path,omitempty"`
	Query     string `json:"query,omitempty"`
	Bytes     string `json:"body_base64,omitempty"`
	Timestamp string `json:"timestamp,omitempty"`
	Nonce     string `json:"nonce,omitempty"`
}

// outcome is a line of output.
type outcome struct {
	ID            string `json:"id"`
	Outcome       string `json:"outcome"`
	TransactionID string `json:"transaction_id"`
	Code          string `json:"code"`

	Status     int               `json:"status"`
	Class      string            `json:"class"` // empty in Go, which has one type of error
	Message    string            `json:"message"`
	RequestID  string            `json:"request_id"`
	Undecided  bool              `json:"undecided"`
	RetryAfter float64           `json:"retry_after"`
	Fields     map[string]string `json:"fields"`
	// Data is the result, or the operation of the error, with amounts as text.
	Data     map[string]any `json:"data"`
	Replayed bool           `json:"replayed"`
	Attempts []seenAttempt  `json:"attempts"`
	// Shown is all that the program can print of client, result, error and attempts.
	Shown     string `json:"shown"`
	Signature string `json:"signature"`
}

// seenAttempt is what the hook was given.
type seenAttempt struct {
	Call      string   `json:"call"`
	Number    int      `json:"number"`
	Status    int      `json:"status"`
	Code      string   `json:"code"`
	RequestID string   `json:"request_id"`
	Duration  float64  `json:"duration"`
	Pause     *float64 `json:"pause"` // seconds; null after the last attempt
	Error     string   `json:"error"`
}

func (d *driver) do(t *testing.T, o order) outcome {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.input.Write(append(text, '\n')); err != nil {
		t.Fatalf("the driver takes no order: %v\n%s", err, d.errors)
	}
	answer, err := d.output.ReadBytes('\n')
	if err != nil {
		t.Fatalf("the driver did not answer: %v\n%s", err, d.errors)
	}
	var got outcome
	if err := json.Unmarshal(answer, &got); err != nil {
		t.Fatalf("the driver answered %s: %v", answer, err)
	}
	if got.ID != o.ID {
		t.Fatalf("the driver answered order %q; want %q", got.ID, o.ID)
	}
	return got
}
