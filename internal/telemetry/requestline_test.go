package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var aLine = RequestLine{
	RequestID: "req_00112233445566778899aabbccddeeff", Operator: 7, Key: "cxk_1a2b3c4d", Method: "GET",
	Path: "/api/v1/balance", Code: "OK", Status: 200, Took: 412 * time.Microsecond, Address: netip.MustParseAddr("192.0.2.1"),
}

// withoutTime is a log without what differs from one moment to the next.
func withoutTime(text string) string {
	_, rest, found := strings.Cut(text, `"level"`)
	if !found {
		return text
	}
	return rest
}

// Whatever is in a line, it reads as if slog had written its attributes through
// the redaction.
func TestLogRequest_MatchesSlog(t *testing.T) {
	text := rapid.OneOf(
		rapid.StringMatching(`[ -~]{0,12}`), rapid.String(),
		rapid.SampledFrom([]string{"cxk_1a2b3c4d", "cxk_", "cxk_1a2b3c4d5e6f", "cxs_0011", "cxk_cxs_00", "a\"b", `\`, "\x00", "\xff", "\u2028"}),
	)
	address := rapid.SampledFrom([]netip.Addr{
		{}, netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("fe80::1%eth\"0"), netip.MustParseAddr("::ffff:192.0.2.1"),
	})
	rapid.Check(t, func(t *rapid.T) {
		line := RequestLine{
			RequestID: text.Draw(t, "id"), Operator: rapid.Int64().Draw(t, "operator"), Key: text.Draw(t, "key"),
			Method: text.Draw(t, "method"), Path: text.Draw(t, "path"), Code: text.Draw(t, "code"),
			Status: rapid.Int().Draw(t, "status"), Took: time.Duration(rapid.Int64().Draw(t, "took")), Address: address.Draw(t, "address"),
			TraceID: text.Draw(t, "trace id"),
		}
		var want, got bytes.Buffer
		slog.New(slog.NewJSONHandler(&want, &slog.HandlerOptions{ReplaceAttr: redact})).
			LogAttrs(context.Background(), slog.LevelInfo, "request", line.attrs()...)
		log := NewLogger(&got, slog.LevelInfo, "json")
		LogRequest(log, line)
		Flush(log)
		if withoutTime(got.String()) != withoutTime(want.String()) {
			t.Errorf("got  %s\nwant %s", got.String(), want.String())
		}
	})
}

func TestLogRequest_TimeMatchesSlog(t *testing.T) {
	for _, at := range []time.Time{
		time.Date(2027, 3, 1, 6, 30, 0, 987_654_321, time.UTC),
		time.Date(2027, 3, 1, 6, 30, 0, 0, time.FixedZone("IST", 19800)),
	} {
		var want bytes.Buffer
		record := slog.NewRecord(at, slog.LevelInfo, "request", 0)
		record.AddAttrs(aLine.attrs()...)
		if err := slog.NewJSONHandler(&want, nil).Handle(context.Background(), record); err != nil {
			t.Fatal(err)
		}
		if got := aLine.appendJSON(nil, at); string(got) != want.String() {
			t.Errorf("got  %swant %s", got, want.String())
		}
	}
}

func TestLogRequest_LevelAndFormat(t *testing.T) {
	var out bytes.Buffer
	LogRequest(NewLogger(&out, slog.LevelWarn, "json"), aLine)
	if out.Len() > 0 {
		t.Errorf("logged %q at level warn", out.String())
	}
	LogRequest(NewLogger(&out, slog.LevelInfo, "text"), aLine)
	if !strings.Contains(out.String(), "level=INFO msg=request request_id=req_00112233445566778899aabbccddeeff operator=7 key=cxk_1a2b3c4d") {
		t.Errorf("logged %q", out.String())
	}
	out.Reset()
	LogFailure(NewLogger(&out, slog.LevelWarn, "json"), aLine, slog.String("error", "disk on fire"))
	if !strings.Contains(out.String(), `"level":"ERROR","msg":"request"`) || !strings.Contains(out.String(), `"error":"disk on fire"}`) {
		t.Errorf("logged %q", out.String())
	}
}

// gate is a writer that lets nothing through until it is opened.
type gate struct {
	entered chan struct{}
	opened  chan struct{}

	mu   sync.Mutex
	text bytes.Buffer
}

func newGate() *gate { return &gate{entered: make(chan struct{}, 1000), opened: make(chan struct{})} }

func (g *gate) Write(p []byte) (int, error) {
	g.entered <- struct{}{}
	<-g.opened
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.Write(p)
}

func TestLogRequest_DoesNotWaitForWriter(t *testing.T) {
	out := newGate()
	log := NewLogger(out, slog.LevelInfo, "json")
	for range 3 {
		LogRequest(log, aLine) // returns although nothing can be written
	}
	<-out.entered
	told := make(chan struct{})
	go func() {
		log.Error("trouble")
		close(told)
	}()
	select {
	case <-told:
		t.Error("the line of trouble was not waited for")
	default:
	}
	close(out.opened)
	<-told
	out.mu.Lock()
	defer out.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(out.text.String()), "\n")
	if len(lines) != 4 || !strings.Contains(lines[3], "trouble") {
		t.Errorf("logged %q; want three requests and then the trouble", lines)
	}
}

func TestLineWriter_FullQueueBlocks(t *testing.T) {
	out := newGate()
	lines := newLineWriter(out)
	line := append(bytes.Repeat([]byte{'x'}, 64<<10-1), '\n')
	const sent = 40
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range sent {
			lines.queue(line)
		}
	}()
	<-out.entered
	close(out.opened)
	<-done
	lines.flush()
	if got := bytes.Count(out.text.Bytes(), []byte("\n")); got != sent {
		t.Errorf("%d lines were written; want %d", got, sent)
	}
	if room := cap(lines.waiting); room > 2*queueBytes {
		t.Errorf("the queue grew to %d bytes; want it bounded", room)
	}
}

func TestFlush_WaitsAndKeepsOrder(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	log := NewLogger(file, slog.LevelInfo, "json")
	for n := range 500 {
		line := aLine
		line.Operator = int64(n)
		LogRequest(log, line)
		if n%100 == 0 {
			log.Info("between", "n", n)
		}
	}
	Flush(log)
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for n := range 500 {
		next := strings.Index(string(text[at:]), fmt.Sprintf(`"operator":%d,`, n))
		if next < 0 {
			t.Fatalf("line %d is missing or out of order", n)
		}
		at += next
	}
}

func TestLineWriter_ReturnsWriteError(t *testing.T) {
	lines := newLineWriter(brokenPipe{})
	if n, err := lines.Write([]byte("x\n")); n != 0 || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Write = %d, %v", n, err)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func BenchmarkLogRequest(b *testing.B) {
	file, err := os.Create(b.TempDir() + "/log")
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	log := NewLogger(file, slog.LevelInfo, "json")
	b.Run("as a line", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			LogRequest(log, aLine)
		}
		Flush(log)
	})
	b.Run("as attributes", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			log.LogAttrs(context.Background(), slog.LevelInfo, requestMessage, aLine.attrs()...)
		}
	})
}

func BenchmarkRequestAnswered(b *testing.B) {
	m := NewMetrics()
	b.ReportAllocs()
	for b.Loop() {
		m.RequestAnswered("/api/v1/balance", "OK", time.Millisecond)
	}
}

func BenchmarkNewRequestID(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		NewRequestID()
	}
}
