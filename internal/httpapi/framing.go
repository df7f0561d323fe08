package httpapi

import (
	"bytes"
	"sync/atomic"
)

// framing watches the bytes a connection reads and finds requests whose end two
// readers could see in two places: those with both a Content-Length and a
// Transfer-Encoding, and those with a header folded over two lines. A proxy in
// front of us that reads such a request in the other way would take the rest of
// it for somebody else's. net/http accepts both kinds and does not say so.
//
// It follows the stream from head to head, so it has to know how long bodies are.
// For a Content-Length that is easy. Chunks it does not follow: the front door
// makes a chunked request the last one on its connection, and so there is no next
// head to find. Wherever it cannot be sure, it stops looking and judges nothing;
// what net/http refuses by itself needs no second opinion.
type framing struct {
	blind  bool   // it looks no more
	inHead bool   // the request line has been seen
	line   []byte // the beginning of the line that is being read
	long   bool   // that line is longer than is kept of it
	skip   int64  // bytes of a body still to pass

	hasEncoding bool
	hasLength   bool
	length      int64
	doubtful    bool // the length is not one that net/http would surely take

	heads     int64        // heads seen to their end
	ambiguous atomic.Int64 // which of them is ambiguous, counted from 1; 0: none
}

// lineKept is how much of a line is looked at: the two names and any length that
// a body may have fit in easily.
const lineKept = 64

// see takes what was read next. Only one goroutine reads a connection at a time.
func (f *framing) see(p []byte) {
	for len(p) > 0 && !f.blind {
		if f.skip > 0 {
			n := min(f.skip, int64(len(p)))
			f.skip -= n
			p = p[n:]
			continue
		}
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			f.keep(p)
			return
		}
		f.keep(p[:end])
		f.endLine(bytes.TrimSuffix(f.line, []byte("\r")))
		f.line, f.long = f.line[:0], false
		p = p[end+1:]
	}
}

// keep remembers the beginning of a line, which may come in pieces.
func (f *framing) keep(p []byte) {
	room := lineKept - len(f.line)
	if len(p) > room {
		p, f.long = p[:room], true
	}
	f.line = append(f.line, p...)
}

func (f *framing) endLine(line []byte) {
	switch {
	case !f.inHead:
		// net/http lets an old client's stray line ends pass between requests.
		f.inHead = len(line) > 0
	case len(line) == 0:
		f.endHead()
	case line[0] == ' ' || line[0] == '\t':
		f.ambiguous.Store(f.heads + 1)
		f.blind = true
	case hasName(line, "transfer-encoding:"):
		f.hasEncoding = true
	case hasName(line, "content-length:"):
		length, ok := parseLength(line[len("content-length:"):])
		f.hasLength, f.length = true, length
		f.doubtful = f.doubtful || !ok || f.long
	}
}

func (f *framing) endHead() {
	f.heads++
	switch {
	case f.hasEncoding && f.hasLength:
		f.ambiguous.Store(f.heads)
		f.blind = true
	case f.hasEncoding || f.doubtful:
		f.blind = true
	case f.hasLength:
		f.skip = f.length
	}
	f.inHead, f.hasEncoding, f.hasLength, f.doubtful = false, false, false, false
}

// hasName reports whether a line begins with a header's name, given in lower
// case and with its colon.
func hasName(line []byte, name string) bool {
	return len(line) >= len(name) && bytes.EqualFold(line[:len(name)], []byte(name))
}

// parseLength reads a Content-Length the way net/http does, and leaves what that
// refuses unread.
func parseLength(value []byte) (length int64, ok bool) {
	value = bytes.Trim(value, " \t")
	if len(value) == 0 || len(value) > 18 { // no 18 digits overflow an int64
		return 0, false
	}
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}
		length = length*10 + int64(c-'0')
	}
	return length, true
}
