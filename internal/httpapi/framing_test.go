package httpapi

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

func TestFraming_FindsAmbiguousRequest(t *testing.T) {
	const (
		get     = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
		post    = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 43\r\n\r\nTransfer-Encoding: x\r\nContent-Length: 1\r\n\r\n"
		bare    = "POST / HTTP/1.1\nhost:a\ncontent-length:\t3 \n\nabc"
		chunks  = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
		both    = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n"
		bothToo = "POST / HTTP/1.1\r\ncOnTeNt-LeNgTh: 4\r\nHost: a\r\ntRaNsFeR-eNcOdInG: x\r\n\r\n"
		folded  = "GET / HTTP/1.1\r\nHost: a\r\nX-Nonce: a\r\n\tb\r\n\r\n"
		badLen  = "POST / HTTP/1.1\r\nContent-Length: +4\r\n\r\n"
	)
	tests := []struct {
		name   string
		stream string
		want   int64
	}{
		{"none", get + post + get, 0},
		{"the first", both, 1},
		{"the first, in the other order", bothToo, 1},
		{"the fourth, after bodies", get + bare + get + both, 4},
		{"a folded header", get + folded, 2},
		{"a stray line end between two requests", "\r\n" + get + "\r\n\n" + both, 2},
		{"after chunks nothing is scanned", chunks + both, 0},
		{"after a bad length nothing is scanned", badLen + both, 0},
		{"a name that only begins alike", "GET / HTTP/1.1\r\nContent-Length-Too: 3\r\nX-Transfer-Encoding: a\r\nContent-Length: 0\r\n\r\n" + both, 2},
		{"a long line before it", "GET /" + strings.Repeat("a", 300) + " HTTP/1.1\r\nA: " + strings.Repeat("b", 300) + "\r\n\r\n" + both, 2},
		{"a length behind a screen of blanks is not believed", "POST / HTTP/1.1\r\nContent-Length:" + strings.Repeat(" ", 80) + "4\r\n\r\n" + both, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, size := range []int{1, 2, 7, 4096} {
				f := &framing{}
				for piece := range chop(tt.stream, size) {
					f.scan([]byte(piece))
				}
				if got := f.ambiguous.Load(); got != tt.want {
					t.Errorf("in pieces of %d: ambiguous = %d; want %d", size, got, tt.want)
				}
			}
		})
	}
}

func chop(text string, size int) func(func(string) bool) {
	return func(yield func(string) bool) {
		for len(text) > 0 {
			n := min(size, len(text))
			if !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
	}
}

// As long as net/http reads a stream as requests of known length, framing must find the
// same headers: it may neither miss an ambiguous one nor take a part of a body for one.
// The oracle looks at the bytes that net/http consumed.
func FuzzFraming_MatchesNetHTTP(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n"), byte(3))
	f.Add([]byte("POST / HTTP/1.1\nHost: a\nContent-Length: 3\nTransfer-Encoding: chunked\n\n0\r\n\r\n"), byte(0))
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n 3\r\n\r\nabcGET / HTTP/1.1\r\n\r\n"), byte(9))
	f.Add([]byte("POST / HTTP/1.1\r\nA:\r\n\t\r\nContent-Length: 0003\r\nContent-Length: 0003\r\n\r\nabc\r\n"), byte(9))
	f.Fuzz(func(t *testing.T, stream []byte, size byte) { agree(t, stream, int(size)%64+1) })
}

func TestFraming_MatchesNetHTTP(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	parts := []string{
		"GET / HTTP/1.1", "POST /x HTTP/1.1", "Host: a", "Content-Length: 5", "Content-Length: 0", "content-length:12",
		"Transfer-Encoding: chunked", "X: y", " folded", "\t", "", "", "", "hello", "0", "Connection: close", "Content-Length : 5",
	}
	for range 5_000 {
		var stream bytes.Buffer
		stream.WriteString(parts[random.IntN(2)] + "\r\nHost: a")
		for range random.IntN(14) {
			fmt.Fprint(&stream, []string{"\r\n", "\n", "\r\n", "\r\r\n"}[random.IntN(4)], parts[random.IntN(len(parts))])
		}
		stream.WriteString("\r\n\r\n")
		agree(t, stream.Bytes(), random.IntN(40)+1)
	}
}

var (
	hasLength   = regexp.MustCompile(`(?i)\ncontent-length:`)
	hasEncoding = regexp.MustCompile(`(?i)\ntransfer-encoding:`)
	hasFold     = regexp.MustCompile(`\n[ \t]`)
)

func agree(t *testing.T, stream []byte, size int) {
	t.Helper()
	watch := &framing{}
	for piece := range chop(string(stream), size) {
		watch.scan([]byte(piece))
	}

	source := bytes.NewReader(stream)
	reader := bufio.NewReader(source)
	consumed := func() int { return len(stream) - source.Len() - reader.Buffered() }
	for i := int64(1); ; i++ {
		begin := consumed()
		request, err := http.ReadRequest(reader)
		if err != nil {
			return // net/http refuses it by itself
		}
		head := stream[begin:consumed()]
		encoded := hasEncoding.Match(head)
		ambiguous := encoded && hasLength.Match(head) || hasFold.Match(head)
		if got := watch.ambiguous.Load(); (got == i) != ambiguous {
			// A length that framing does not trust ends its scan: nothing after it is
			// flagged.
			if !(got == 0 && watch.stopped && len(stream) > 0 && untrusted(stream[:begin], head)) {
				t.Fatalf("request %d is ambiguous: %v, but framing says %d\nstream %q", i, ambiguous, got, stream)
			}
		}
		if ambiguous || encoded || request.ProtoMajor != 1 || request.ProtoMinor != 1 {
			return // Server ends the connection here
		}
		for name := range request.Header {
			if strings.Contains(name, " ") {
				return // refused by net/http's server, not by its reader
			}
		}
		if n, _ := io.Copy(io.Discard, request.Body); n != max(0, request.ContentLength) {
			return // the stream ends in this body
		}
	}
}

// untrusted reports whether a header so far has a length that framing ignores: one so
// long, or so far from its name, that no client writes it.
func untrusted(parts ...[]byte) bool {
	for _, part := range parts {
		for line := range bytes.Lines(part) {
			if hasLength.Match(append([]byte("\n"), line...)) {
				value := bytes.Trim(line[len("content-length:"):], " \t\r\n")
				if len(value) > 18 || len(line) > lineLimit || bytes.ContainsAny(value, "\r") {
					return true
				}
			}
		}
	}
	return false
}
