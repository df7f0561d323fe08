// Package backup is the file of a backup: one complete SQLite file of a store, compressed,
// with a manifest and checksums, and encrypted if that is wanted. It also has the names of
// such files and the rule by which old ones are deleted. It reads no store.
//
// A file consists of
//
//	"coax backup\n"    the magic
//	{…}"\n"            the header, as one line of JSON
//	the body           encrypted with age if the header says so:
//	  4 bytes          length of the manifest, big-endian
//	  {…}              the manifest, as JSON
//	  frames           each 4 bytes of length and as many of a DEFLATE stream; a length of 0 ends them
//	  32 bytes         SHA-256 of the SQLite file
//	  32 bytes         SHA-256 of everything before: magic, header and body in plain text
//
// The last checksum covers the header too, so that no byte can change unnoticed.
package backup

import (
	"bufio"
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"filippo.io/age"
)

const (
	magic = "coax backup\n"
	// Format is the version of the file's layout.
	Format = 1

	maxHeader   = 64 << 10
	maxManifest = 1 << 20
	maxFrame    = 1 << 18
	// level was chosen by measuring a store of a million operations: level 4 takes one and a
	// half times and level 6 five times the processor time, for a file 3 or 4 % smaller.
	level = flate.BestSpeed
)

// Header is what can be read without the key of an encrypted backup.
type Header struct {
	Format int `json:"format"`
	// Store identifies the store, as Manifest.Store does.
	Store     string    `json:"store"`
	TakenAt   time.Time `json:"taken_at"`
	Release   string    `json:"release"`
	Encrypted bool      `json:"encrypted"`
}

// Manifest describes the store in a backup.
type Manifest struct {
	// Store identifies the store: backups of the same store have the same one.
	Store string `json:"store"`
	// TakenAt is the moment whose rows the backup has.
	TakenAt time.Time `json:"taken_at"`
	Release string    `json:"release"`
	// Kind is that of the source: sqlite or postgres.
	Kind string `json:"kind"`
	// Bytes is the size of the SQLite file.
	Bytes int64 `json:"bytes"`
	// Migration is the newest one of SQLite's schema, and Generation the oldest one of a
	// binary that can work with it.
	Migration  int64 `json:"migration"`
	Generation int   `json:"generation"`
	// Actions is the number of the last staff action and ActionHash its hash.
	Actions    int64  `json:"actions"`
	ActionHash string `json:"action_hash,omitempty"`
	// MarkID and Mark are the store's mark, which grows while nodes write.
	MarkID string `json:"mark_id,omitempty"`
	Mark   int64  `json:"mark,omitempty"`
	// Rows and Digest are those of the copy from PostgreSQL; see transfer.Result.
	Rows   int64  `json:"rows,omitempty"`
	Digest string `json:"digest,omitempty"`
	// SecurityFile is where the security log was, if it had a file.
	SecurityFile string `json:"security_file,omitempty"`
	// ClockOffset is how far the clock of a demo was moved.
	ClockOffset time.Duration `json:"clock_offset,omitempty"`
	// Settings are those of the source that a restored installation takes over.
	Settings map[string]string `json:"settings,omitempty"`
}

// Errors about a file. Each is wrapped with what is known about it.
var (
	ErrNotABackup = errors.New("it is not a backup that `coax backup` made")
	ErrTruncated  = errors.New("the backup ends early: it was not written or copied to its end")
	ErrDamaged    = errors.New("the backup is damaged")
	ErrNewer      = errors.New("the backup was made by a newer release: restore it with that release or a later one")
	ErrEncrypted  = errors.New("the backup is encrypted: give the file with the age identity of one of its recipients, as --identity FILE")
	ErrIdentity   = errors.New("the backup is encrypted for other recipients: none of the identities given opens it")
)

// Write writes a backup. content writes the SQLite file, which has m.Bytes bytes.
func Write(to io.Writer, m Manifest, recipients []age.Recipient, content func(io.Writer) error) error {
	sum := sha256.New()
	head, err := json.Marshal(Header{Format, m.Store, m.TakenAt, m.Release, len(recipients) > 0})
	if err != nil {
		return err
	}
	if _, err := io.WriteString(io.MultiWriter(to, sum), magic+string(head)+"\n"); err != nil {
		return err
	}
	end := func() error { return nil }
	if len(recipients) > 0 {
		sealed, err := age.Encrypt(to, recipients...)
		if err != nil {
			return fmt.Errorf("encrypt: %w", err)
		}
		to, end = sealed, sealed.Close
	}
	to = io.MultiWriter(to, sum)
	manifest, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := writeFrame(to, manifest); err != nil {
		return err
	}
	frames := bufio.NewWriterSize(frameWriter{to}, maxFrame)
	packed, err := flate.NewWriter(frames, level)
	if err != nil {
		return err
	}
	counted := &countingWriter{to: packed, sum: sha256.New()}
	if err := errors.Join(content(counted), packed.Close(), frames.Flush()); err != nil {
		return err
	}
	if counted.n != m.Bytes {
		return fmt.Errorf("the store's file has %d bytes; expected %d", counted.n, m.Bytes)
	}
	if err := writeFrame(to, nil); err != nil {
		return err
	}
	if _, err := to.Write(counted.sum.Sum(nil)); err != nil {
		return err
	}
	if _, err := to.Write(sum.Sum(nil)); err != nil {
		return err
	}
	return end()
}

// writeFrame writes a length and as many bytes.
func writeFrame(to io.Writer, text []byte) error {
	_, err := to.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

// frameWriter writes frames of what a buffer of maxFrame bytes gives it.
type frameWriter struct{ to io.Writer }

func (w frameWriter) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		part := p[:min(len(p), maxFrame)]
		if err := writeFrame(w.to, part); err != nil {
			return n, err
		}
		n, p = n+len(part), p[len(part):]
	}
	return n, nil
}

type countingWriter struct {
	to  io.Writer
	sum hash.Hash
	n   int64
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	w.n += int64(n)
	w.sum.Write(p[:n])
	return n, err
}

// ReadHeader reads only the header.
func ReadHeader(from io.Reader) (Header, error) {
	head, _, err := readHeader(bufio.NewReaderSize(from, maxHeader))
	return head, err
}

func readHeader(from *bufio.Reader) (head Header, raw []byte, err error) {
	start := make([]byte, len(magic))
	n, err := io.ReadFull(from, start)
	if n == 0 || !bytes.HasPrefix([]byte(magic), start[:n]) {
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return head, nil, err
		}
		return head, nil, ErrNotABackup
	}
	if err != nil {
		return head, nil, early(err)
	}
	line, err := from.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return head, nil, fmt.Errorf("%w: its header does not end", ErrDamaged)
	}
	if err != nil {
		return head, nil, early(err)
	}
	if err := json.Unmarshal(line, &head); err != nil || head.Format < 1 {
		return head, nil, fmt.Errorf("%w: its header cannot be read", ErrDamaged)
	}
	if head.Format > Format {
		return head, nil, fmt.Errorf("%w (format %d; this release knows %d)", ErrNewer, head.Format, Format)
	}
	return head, append(start, line...), nil
}

// early turns the end of a file, where more was expected, into ErrTruncated.
func early(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrTruncated
	}
	return err
}

// Read reads a whole backup and writes its SQLite file to into. The manifest is returned only
// if every checksum is right; what was written until then counts for nothing.
func Read(ctx context.Context, from io.Reader, identities []age.Identity, into io.Writer) (m Manifest, err error) {
	buffered := bufio.NewReaderSize(from, maxHeader)
	head, raw, err := readHeader(buffered)
	if err != nil {
		return m, err
	}
	var body io.Reader = buffered
	if head.Encrypted {
		if body, err = decrypt(buffered, identities); err != nil {
			return m, err
		}
	}
	r := &reader{from: body, sum: sha256.New()}
	r.sum.Write(raw)
	if err := r.readAll(ctx, &m, into); err != nil {
		return Manifest{}, explain(err, head.Encrypted)
	}
	if m.Store != head.Store || !m.TakenAt.Equal(head.TakenAt) || m.Release != head.Release {
		return Manifest{}, fmt.Errorf("%w: its header is that of another one", ErrDamaged)
	}
	return m, nil
}

func decrypt(from io.Reader, identities []age.Identity) (io.Reader, error) {
	if len(identities) == 0 {
		return nil, ErrEncrypted
	}
	plain, err := age.Decrypt(from, identities...)
	var none *age.NoIdentityMatchError
	switch {
	case errors.As(err, &none):
		return nil, ErrIdentity
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, ErrTruncated
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return plain, nil
}

// readError is an error of the file that is read, as opposed to one of where it goes.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }
func (e *readError) Unwrap() error { return e.err }

// explain says what an error of reading means: age reports a change as an error of its own.
func explain(err error, encrypted bool) error {
	var read *readError
	var corrupt flate.CorruptInputError
	switch {
	case errors.Is(err, ErrDamaged), errors.Is(err, ErrTruncated):
		return err
	case errors.As(err, &corrupt):
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	case !errors.As(err, &read):
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ErrTruncated
	case encrypted: // age does not tell the two apart
		return fmt.Errorf("%w, or was not copied to its end: %w", ErrDamaged, err)
	}
	return err
}

// reader reads a body in plain text, and hashes it.
type reader struct {
	from io.Reader
	sum  hash.Hash
	left uint32 // bytes of the present frame
	done bool   // the last frame was read
}

func (r *reader) full(n int) ([]byte, error) {
	text := make([]byte, n)
	if _, err := io.ReadFull(r.from, text); err != nil {
		return nil, &readError{err}
	}
	r.sum.Write(text)
	return text, nil
}

func (r *reader) length(limit uint32) (uint32, error) {
	text, err := r.full(4)
	if err != nil {
		return 0, err
	}
	n := binary.BigEndian.Uint32(text)
	if n > limit {
		return 0, fmt.Errorf("%w: a part of it is too long", ErrDamaged)
	}
	return n, nil
}

// Read reads the frames.
func (r *reader) Read(p []byte) (int, error) {
	if r.done || len(p) == 0 {
		return 0, io.EOF
	}
	if r.left == 0 {
		n, err := r.length(maxFrame)
		if err != nil {
			return 0, err
		}
		if r.left = n; n == 0 {
			r.done = true
			return 0, io.EOF
		}
	}
	n, err := r.from.Read(p[:min(len(p), int(r.left))])
	r.sum.Write(p[:n])
	r.left -= uint32(n)
	if err != nil && n == 0 {
		return 0, &readError{err}
	}
	return n, nil
}

func (r *reader) readAll(ctx context.Context, m *Manifest, into io.Writer) error {
	n, err := r.length(maxManifest)
	if err != nil {
		return err
	}
	text, err := r.full(int(n))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, m); err != nil {
		return fmt.Errorf("%w: its manifest cannot be read", ErrDamaged)
	}
	content := sha256.New()
	if err := r.unpack(ctx, m.Bytes, io.MultiWriter(into, content)); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, r); err != nil { // the frame that ends the others
		return err
	}
	stored, err := r.full(sha256.Size)
	if err != nil {
		return err
	}
	want := r.sum.Sum(nil)
	last := make([]byte, sha256.Size)
	if _, err := io.ReadFull(r.from, last); err != nil {
		return &readError{err}
	}
	if !bytes.Equal(last, want) || !bytes.Equal(stored, content.Sum(nil)) {
		return fmt.Errorf("%w: its checksum is wrong", ErrDamaged)
	}
	switch n, err := io.ReadFull(r.from, make([]byte, 1)); {
	case n > 0:
		return fmt.Errorf("%w: there are bytes behind its end", ErrDamaged)
	case !errors.Is(err, io.EOF):
		return &readError{err}
	}
	return nil
}

// unpack writes size bytes of content.
func (r *reader) unpack(ctx context.Context, size int64, into io.Writer) error {
	packed := flate.NewReader(bufio.NewReaderSize(r, maxFrame))
	buffer := make([]byte, 256<<10)
	for done := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := packed.Read(buffer)
		if done += int64(n); done > size {
			return fmt.Errorf("%w: its content is longer than its manifest says", ErrDamaged)
		}
		if _, err := into.Write(buffer[:n]); err != nil {
			return err
		}
		switch {
		case err == io.EOF && done < size:
			return fmt.Errorf("%w: its content is shorter than its manifest says", ErrDamaged)
		case err == io.EOF: // and not one that readError wraps
			return nil
		case err == io.ErrUnexpectedEOF && r.done:
			return fmt.Errorf("%w: its content ends early", ErrDamaged)
		case err != nil:
			return err
		}
	}
}
