package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"regexp"
	"strings"
	"testing"
)

const (
	wholeKey = "cxk_1a2b3c4d5e6f70819203a4b5c6d7e8f9"
	secret   = "cxs_00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
)

func TestLogger_RedactsSecrets(t *testing.T) {
	type login struct {
		User     string
		Password string
		Note     string
	}
	tests := []struct {
		name string
		log  func(*slog.Logger)
		want string // part of the line
	}{
		{"by name", func(l *slog.Logger) { l.Info("m", "password", "hunter2") }, `"password":"[redacted]"`},
		{"by another spelling", func(l *slog.Logger) { l.Info("m", "X-API-Key", "hunter2") }, `"X-API-Key":"[redacted]"`},
		{"by a part of the name", func(l *slog.Logger) { l.Info("m", "apiSecretOld", "hunter2") }, `"apiSecretOld":"[redacted]"`},
		{"whatever their type", func(l *slog.Logger) { l.Info("m", "token", 271828) }, `"token":"[redacted]"`},
		{"in a group", func(l *slog.Logger) { l.Info("m", slog.Group("g", "signature", "hunter2")) }, `"g":{"signature":"[redacted]"}`},
		{"in a secret group", func(l *slog.Logger) { l.WithGroup("authorization").Info("m", "basic", "hunter2") }, `"authorization":{"basic":"[redacted]"}`},
		{"given beforehand", func(l *slog.Logger) { l.With("cookie", "hunter2").Info("m") }, `"cookie":"[redacted]"`},
		{"a customer's number", func(l *slog.Logger) { l.Info("m", "mobile", "hunter2") }, `"mobile":"[redacted]"`},
		{"an API secret in a text", func(l *slog.Logger) { l.Info("m", "note", "it was "+secret+".") }, `"note":"it was cxs_[redacted]."`},
		{"a key in a text keeps its beginning", func(l *slog.Logger) { l.Info("m", "note", "("+wholeKey+")") }, `"note":"(cxk_1a2b3c4d…)"`},
		{"both in the message", func(l *slog.Logger) { l.Info(wholeKey + secret) }, `"msg":"cxk_1a2b3c4d…cxs_[redacted]"`},
		{"in an error", func(l *slog.Logger) { l.Info("m", "error", fmt.Errorf("open: %w", errors.New(secret))) }, `"error":"open: cxs_[redacted]"`},
		{"in bytes", func(l *slog.Logger) { l.Info("m", "raw", []byte(secret)) }, `"raw":"cxs_[redacted]"`},
		{"in what prints itself", func(l *slog.Logger) { l.Info("m", "addr", netip.MustParseAddr("192.0.2.1")) }, `"addr":"192.0.2.1"`},
		{
			"in a struct", func(l *slog.Logger) { l.Info("m", "login", login{"rao", "hunter2", secret}) },
			`"login":{"Note":"cxs_[redacted]","Password":"[redacted]","User":"rao"}`,
		},
		{"in a list", func(l *slog.Logger) { l.Info("m", "list", []any{secret, map[string]any{"secret": "hunter2"}}) }, `"list":["cxs_[redacted]",{"secret":"[redacted]"}]`},
		{"what does not encode is named only", func(l *slog.Logger) { l.Info("m", "f", func() {}) }, `"f":"[func() that does not encode]"`},
		{"a hint may pass", func(l *slog.Logger) { l.Info("m", "key", "cxk_1a2b3c4d") }, `"key":"cxk_1a2b3c4d"`},
		{"and so may what is nobody's secret", func(l *slog.Logger) { l.Info("m", "status", 200, "path", "/api/v1/plans") }, `"status":200,"path":"/api/v1/plans"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			tt.log(NewLogger(&out, slog.LevelInfo, "json"))
			line := out.String()
			if !strings.Contains(line, tt.want) {
				t.Errorf("logged %swant %s in it", line, tt.want)
			}
			for _, hidden := range []string{"hunter2", "5e6f70", "001122", "271828"} {
				if strings.Contains(line, hidden) {
					t.Errorf("logged %s%q is in it", line, hidden)
				}
			}
			if !json.Valid(out.Bytes()) || strings.Count(line, "\n") != 1 {
				t.Errorf("logged %q; want one line of JSON", line)
			}
		})
	}
}

func TestLogger_LevelAndFormat(t *testing.T) {
	var out bytes.Buffer
	log := NewLogger(&out, slog.LevelWarn, "text")
	log.Info("not this")
	log.Warn("this", "secret", "hunter2")
	if got := out.String(); strings.Contains(got, "not this") || !strings.Contains(got, `level=WARN msg=this secret=[redacted]`) {
		t.Errorf("logged %q", got)
	}
}

func TestLogger_EscapesLineBreaks(t *testing.T) {
	var out bytes.Buffer
	NewLogger(&out, slog.LevelInfo, "json").Info("m", "note", "a\n{\"level\":\"ERROR\"}\r\x1b[0m")
	if strings.Count(out.String(), "\n") != 1 || strings.ContainsAny(out.String(), "\r\x1b") {
		t.Errorf("logged %q; want one line", out.String())
	}
}

// FuzzScrub hides a secret anywhere in any text. What is no secret
// stays as it was, and what was scrubbed has nothing left to scrub.
func FuzzScrub(f *testing.F) {
	f.Add("", "")
	f.Add("cxs_", "00")
	f.Add("cxk_1a2b3c4d5e6f7081", "cxs_cxk_")
	f.Add("cxk_1a2b3c4d…", "cxs_[redacted]")
	f.Fuzz(func(t *testing.T, before, after string) {
		for _, hidden := range []string{wholeKey, secret, "cxs_" + strings.ToUpper(secret[4:])} {
			got := Scrub(before + hidden + after)
			if strings.Contains(got, hidden[4:]) {
				t.Errorf("Scrub(%q + %s + %q) = %q", before, hidden, after, got)
			}
			if secretForm.MatchString(got) {
				t.Errorf("Scrub(%q + %s + %q) = %q; a secret's form is left in it", before, hidden, after, got)
			}
			if again := Scrub(got); again != got {
				t.Errorf("Scrub(%q) = %q; it was scrubbed before", got, again)
			}
		}
		if text := before + after; !strings.Contains(text, "cxs_") && !strings.Contains(text, "cxk_") && Scrub(text) != text {
			t.Errorf("Scrub(%q) = %q; want it as it was", text, Scrub(text))
		}
	})
}

// secretForm is what no scrubbed text has: digits of a secret, or more of a key
// than tells it from others. One more than that may be the c of the next.
var secretForm = regexp.MustCompile(`cxs_[0-9A-Fa-f]{2}|cxk_[0-9A-Fa-f]{10}`)

func BenchmarkLogger_Request(b *testing.B) {
	log := NewLogger(discard{}, slog.LevelInfo, "json")
	for b.Loop() {
		log.Info("request", "request_id", "req_00112233445566778899aabbccddeeff", "operator", 7, "key", "cxk_1a2b3c4d",
			"method", "GET", "path", "/api/v1/balance", "code", "OK", "status", 200, "ms", 0.412, "ip", "192.0.2.1")
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func BenchmarkLogger_RequestBare(b *testing.B) {
	log := slog.New(slog.NewJSONHandler(discard{}, nil))
	for b.Loop() {
		log.Info("request", "request_id", "req_00112233445566778899aabbccddeeff", "operator", 7, "key", "cxk_1a2b3c4d",
			"method", "GET", "path", "/api/v1/balance", "code", "OK", "status", 200, "ms", 0.412, "ip", "192.0.2.1")
	}
}
