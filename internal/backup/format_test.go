package backup_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/coaxhq/coax/internal/backup"
)

var takenAt = time.Date(2026, 11, 18, 19, 35, 1, 250e6, time.UTC)

// content is half text that compresses and half noise.
func content(size int) []byte {
	draw := rand.New(rand.NewPCG(1, uint64(size)))
	text := bytes.Repeat([]byte("operator 7, subscriber 100001; "), size/62+1)[:size/2]
	for len(text) < size {
		text = append(text, byte(draw.Uint32()))
	}
	return text
}

func manifest(size int) backup.Manifest {
	return backup.Manifest{
		Store: "5f2c", TakenAt: takenAt, Release: "0.2.0", Kind: "sqlite", Bytes: int64(size), Migration: 25, Generation: 2, Actions: 41,
		ActionHash: "aa", Settings: map[string]string{"provider.name": "headend"},
	}
}

func write(t testing.TB, content []byte, recipients ...age.Recipient) []byte {
	t.Helper()
	var file bytes.Buffer
	err := backup.Write(&file, manifest(len(content)), recipients, func(to io.Writer) error {
		_, err := to.Write(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func read(file []byte, identities ...age.Identity) (backup.Manifest, []byte, error) {
	var content bytes.Buffer
	m, err := backup.Read(context.Background(), bytes.NewReader(file), identities, &content)
	return m, content.Bytes(), err
}

func identity(t testing.TB) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestBackup_ReadsWhatWasWritten(t *testing.T) {
	for _, size := range []int{0, 1, 4096, 1<<18 - 1, 1 << 18, 3<<20 + 17} {
		want := content(size)
		one, two := identity(t), identity(t)
		for name, file := range map[string][]byte{"plain": write(t, want), "encrypted": write(t, want, one.Recipient(), two.Recipient())} {
			m, got, err := read(file, two)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s, %d bytes: read %d, %v", name, size, len(got), err)
			}
			if m.Settings["provider.name"] != "headend" || !m.TakenAt.Equal(takenAt) || m.Actions != 41 {
				t.Errorf("%s, %d bytes: the manifest is %+v", name, size, m)
			}
			head, err := backup.ReadHeader(bytes.NewReader(file))
			if err != nil || head.Store != "5f2c" || !head.TakenAt.Equal(takenAt) || head.Encrypted != (name == "encrypted") {
				t.Errorf("%s, %d bytes: the header is %+v, %v", name, size, head, err)
			}
			if name == "encrypted" && bytes.Contains(file, []byte("headend")) {
				t.Errorf("%d bytes: the manifest of an encrypted backup is not encrypted", size)
			}
		}
	}
}

func TestBackup_FindsDamage(t *testing.T) {
	id := identity(t)
	draw := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 3))
	for name, file := range map[string][]byte{"plain": write(t, content(90_000)), "encrypted": write(t, content(90_000), id.Recipient())} {
		// Each byte of the header and of the ends, and some in the middle.
		var places []int
		for i := range 300 {
			places = append(places, i, len(file)-1-i)
		}
		for range 400 {
			places = append(places, draw.IntN(len(file)))
		}
		for _, at := range places {
			damaged := bytes.Clone(file)
			damaged[at] ^= byte(1 + draw.IntN(255))
			if _, _, err := read(damaged, id); err == nil {
				t.Fatalf("%s: byte %d of %d was changed from %x to %x, unnoticed", name, at, len(file), file[at], damaged[at])
			}
		}
		for range 300 {
			if n := draw.IntN(len(file)); true {
				_, _, err := read(file[:n], id)
				if err == nil || n >= 12 && !errors.Is(err, backup.ErrTruncated) && !errors.Is(err, backup.ErrDamaged) {
					t.Fatalf("%s: cut to %d of %d bytes: %v", name, n, len(file), err)
				}
			}
		}
		if _, _, err := read(append(bytes.Clone(file), 0), id); !errors.Is(err, backup.ErrDamaged) {
			t.Errorf("%s: with a byte behind its end: %v", name, err)
		}
		want := backup.ErrTruncated
		if name == "encrypted" {
			want = backup.ErrDamaged // age does not tell the two apart
		}
		if _, _, err := read(file[:len(file)-100], id); !errors.Is(err, want) {
			t.Errorf("%s: without its last bytes: %v", name, err)
		}
	}
}

func TestBackup_Refuses(t *testing.T) {
	id, other := identity(t), identity(t)
	plain, sealed := write(t, content(1000)), write(t, content(1000), id.Recipient())
	tests := []struct {
		name       string
		file       []byte
		identities []age.Identity
		want       error
	}{
		{"an empty file", nil, nil, backup.ErrNotABackup},
		{"another file", []byte("SQLite format 3\x00..."), nil, backup.ErrNotABackup},
		{"an age file", []byte("age-encryption.org/v1\n"), nil, backup.ErrNotABackup},
		{"no identity", sealed, nil, backup.ErrEncrypted},
		{"another identity", sealed, []age.Identity{other}, backup.ErrIdentity},
		{"a newer format", bytes.Replace(plain, []byte(`"format":1`), []byte(`"format":2`), 1), nil, backup.ErrNewer},
		{"the header of an encrypted one", bytes.Replace(plain, []byte(`"encrypted":false`), []byte(`"encrypted":true `), 1), []age.Identity{id}, backup.ErrDamaged},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if m, _, err := read(test.file, test.identities...); !errors.Is(err, test.want) || m.Store != "" {
				t.Errorf("%+v, %v; want %v", m, err, test.want)
			}
		})
	}
}

func TestBackup_RefusesContentOfAnotherSize(t *testing.T) {
	for _, size := range []int{999, 1001} {
		err := backup.Write(io.Discard, manifest(1000), nil, func(to io.Writer) error {
			_, err := to.Write(content(size))
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "expected 1000") {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestBackup_ReportsWriteErrors(t *testing.T) {
	full := errors.New("the disk is full")
	for limit := range 40 {
		err := backup.Write(&limited{left: limit * 100, err: full}, manifest(200_000), nil, func(to io.Writer) error {
			_, err := to.Write(content(200_000))
			return err
		})
		if !errors.Is(err, full) {
			t.Fatalf("with room for %d bytes: %v", limit*100, err)
		}
	}
	if _, err := backup.Read(context.Background(), bytes.NewReader(write(t, content(5000))), nil, &limited{left: 100, err: full}); !errors.Is(err, full) {
		t.Errorf("unpacked to a full disk: %v", err)
	}
}

// limited is a writer with little room.
type limited struct {
	left int
	err  error
}

func (l *limited) Write(p []byte) (int, error) {
	if len(p) > l.left {
		n := l.left
		l.left = 0
		return n, l.err
	}
	l.left -= len(p)
	return len(p), nil
}

func FuzzRead(f *testing.F) {
	f.Add(write(f, content(3000)))
	f.Add([]byte("coax backup\n{\"format\":1}\n\x00\x00\x00\x02{}\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, file []byte) {
		m, got, err := read(file)
		if err == nil && int64(len(got)) != m.Bytes {
			t.Errorf("%d bytes were read without an error; the manifest says %d", len(got), m.Bytes)
		}
	})
}
