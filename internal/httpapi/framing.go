package httpapi

import (
	"bytes"
	"sync/atomic"
)

// framing scans the bytes read from a connection for requests whose end is ambiguous:
// those with both a Content-Length and a Transfer-Encoding, and those with a header
// folded over two lines. A proxy in front that reads such a request differently would
// take the rest of it for another client's request (request smuggling). net/http
// accepts both kinds without a sign.
//
// It scans from header to header, so it has to know the length of bodies. It does not
// parse chunks: Server closes the connection after a chunked request, so no header
// follows. Wherever it is not sure, it stops scanning and flags nothing; net/http
// refuses what is malformed.
type framing struct {
	stopped bool   // scanning has ended for this connection
	inHead  bool   // the request line has been read
	line    []byte // the first bytes of the current line
	long    bool   // the current line is longer than line
	skip    int64  // bytes of a body still to skip

	hasEncoding bool
	hasLength   bool
	length      int64
	badLength   bool // net/http may refuse the length

	heads     int64        // complete headers so far
	ambiguous atomic.Int64 // which of them is ambiguous, counted from 1; 0: none
}

// lineLimit is how much of a line is kept: enough for the two header names and any
// valid length.
const lineLimit = 64

// scan takes the bytes read next. Only one goroutine reads a connection at a time.
func (f *framing) scan(p []byte) {
	for len(p) > 0 && !f.stopped {
		if f.skip > 0 {
			n := min(f.skip, int64(len(p)))
			f.skip -= n
			p = p[n:]
			continue
		}
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			f.add(p)
			return
		}
		f.add(p[:end])
		f.endLine(bytes.TrimSuffix(f.line, []byte("\r")))
		f.line, f.long = f.line[:0], false
		p = p[end+1:]
	}
}

// add appends to the current line, which may arrive in pieces.
func (f *framing) add(p []byte) {
	free := lineLimit - len(f.line)
	if len(p) > free {
		p, f.long = p[:free], true
	}
	f.line = append(f.line, p...)
}

func (f *framing) endLine(line []byte) {
	switch {
	case !f.inHead:
		// net/http skips empty lines between requests.
		f.inHead = len(line) > 0
	case len(line) == 0:
		f.endHead()
	case line[0] == ' ' || line[0] == '\t':
		f.ambiguous.Store(f.heads + 1)
		f.stopped = true
	case hasName(line, "transfer-encoding:"):
		f.hasEncoding = true
	case hasName(line, "content-length:"):
		length, ok := parseLength(line[len("content-length:"):])
		f.hasLength, f.length = true, length
		f.badLength = f.badLength || !ok || f.long
	}
}

func (f *framing) endHead() {
	f.heads++
	switch {
	case f.hasEncoding && f.hasLength:
		f.ambiguous.Store(f.heads)
		f.stopped = true
	case f.hasEncoding || f.badLength:
		f.stopped = true
	case f.hasLength:
		f.skip = f.length
	}
	f.inHead, f.hasEncoding, f.hasLength, f.badLength = false, false, false, false
}

// hasName reports whether a line begins with a header's name, given in lower
// case and with its colon.
func hasName(line []byte, name string) bool {
	return len(line) >= len(name) && bytes.EqualFold(line[:len(name)], []byte(name))
}

// parseLength parses a Content-Length as net/http does; ok is false for what net/http
// refuses.
func parseLength(value []byte) (length int64, ok bool) {
	value = bytes.Trim(value, " \t")
	if len(value) == 0 || len(value) > 18 { // 18 digits cannot overflow an int64
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
