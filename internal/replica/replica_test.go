package replica

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/replica/replicatest"
	_ "modernc.org/sqlite"
)

func TestParseAddress(t *testing.T) {
	for address, want := range map[string]string{
		"file:///backup/coax": "", "sftp://coax@host/backup": "", "s3://bucket/coax?region=ap-south-1": "",
		"file://backup": "three slashes", "sftp://host/backup": "sftp://USER@HOST", "s3:///x": "s3://BUCKET", "http://x/y": "file:///FOLDER",
		"s3://bucket/coax?regoin=x": `no parameter "regoin"`, "sftp://u:p%zz@h/x": "cannot be read",
	} {
		_, err := ParseAddress(address)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v; want %q", address, err, want)
		}
	}
	for address, insecure := range map[string]bool{
		"sftp://u@h/x?insecure_host_key=true": true, "s3://b/x?endpoint=http%3A%2F%2Fminio.example": true,
		"s3://b/x?endpoint=http%3A%2F%2F127.0.0.1:9000": false, "s3://b/x": false,
		"s3://b/x?endpoint=http%3A%2F%2F127.0.0.1.example": true, "s3://b/x?endpoint=http%3A%2F%2F[::1]:9000": false,
	} {
		if a, err := ParseAddress(address); err != nil || (a.Insecure != "") != insecure {
			t.Errorf("%s: insecure %q, %v", address, a.Insecure, err)
		}
	}
}

func TestRedact_HidesPasswords(t *testing.T) {
	for _, address := range []string{"sftp://coax:hunter2@host/x", "s3://key:hunter2@bucket/x", "sftp://coax:hunter2%zz@host/x"} {
		if got := Redact(address); strings.Contains(got, "hunter2") {
			t.Errorf("%s", got)
		}
	}
}

// places are one address of each kind, with its credentials.
func places(t *testing.T) map[string]string {
	host, key := replicatest.SFTP(t)
	return map[string]string{
		"file": "file://" + filepath.Join(t.TempDir(), "replica"),
		"sftp": replicatest.SFTPAddress(host, key, filepath.Join(t.TempDir(), "replica")),
		"s3":   replicatest.S3(t),
	}
}

func environment(name string) string {
	return replicatest.Environment[name]
}

func TestLog_RestoreEqualsFile(t *testing.T) {
	for kind, text := range places(t) {
		t.Run(kind, func(t *testing.T) {
			address, err := ParseAddress(text)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "coax.db")
			pool, err := sql.Open("sqlite", "file:"+file+"?_pragma=journal_mode(wal)&_pragma=wal_autocheckpoint(0)")
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			pool.SetMaxOpenConns(1)
			exec := func(query string, args ...any) {
				t.Helper()
				if _, err := pool.Exec(query, args...); err != nil {
					t.Fatal(err)
				}
			}
			exec(`CREATE TABLE numbers (n INTEGER PRIMARY KEY, pad BLOB)`)
			options := Options{File: file, Store: strings.Repeat("a", 32), Now: time.Now, Getenv: environment}
			log, err := Open(t.Context(), address, options)
			if err != nil {
				t.Fatal(err)
			}
			if resumed, err := log.Resume(t.Context()); err != nil || resumed {
				t.Fatalf("resumed %v, %v", resumed, err)
			}
			copyFile := begin(t, log, file, pool)
			if err := copyFile(t.Context()); err != nil {
				t.Fatal(err)
			}
			for n := range 40 {
				exec(`INSERT INTO numbers VALUES (?, randomblob(700000))`, n)
				if err := log.Ship(t.Context()); err != nil {
					t.Fatal(err)
				}
				if n%10 == 5 { // another process goes on
					if err := log.Close(); err != nil {
						t.Fatal(err)
					}
					if log, err = Open(t.Context(), address, options); err != nil {
						t.Fatal(err)
					}
					if resumed, err := log.Resume(t.Context()); err != nil || !resumed {
						t.Fatalf("resumed %v, %v", resumed, err)
					}
				}
			}
			if err := log.WriteMark(t.Context(), []byte("mark")); err != nil {
				t.Fatal(err)
			}
			if mark, err := log.ReadMark(t.Context()); err != nil || string(mark) != "mark" {
				t.Errorf("the mark: %q, %v", mark, err)
			}
			if err := log.Close(); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "restored.db")
			restored, err := Restore(t.Context(), address, environment, time.Time{}, path, nil)
			if err != nil || restored.Records != 40 || restored.Incomplete != "" {
				t.Fatalf("restored %+v, %v", restored, err)
			}
			if want, got := dump(t, file), dump(t, path); !slices.Equal(want, got) {
				t.Errorf("%d rows differ from the %d of the store", len(got), len(want))
			}
			options.Store = strings.Repeat("b", 32)
			if _, err := Open(t.Context(), address, options); !errors.Is(err, ErrForeign) {
				t.Errorf("another store: %v", err)
			}
		})
	}
}

func begin(t *testing.T, log *Log, file string, pool *sql.DB) func(context.Context) error {
	t.Helper()
	var path string
	if err := pool.QueryRow(`SELECT file FROM pragma_database_list`).Scan(&path); err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = from.Close() })
	copyFile, err := log.Begin(from, false)
	if err != nil {
		t.Fatal(err)
	}
	return copyFile
}

func dump(t *testing.T, file string) (rows []string) {
	t.Helper()
	pool, err := sql.Open("sqlite", "file:"+file)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	found, err := pool.Query(`SELECT n, hex(pad) FROM numbers ORDER BY n`)
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	for found.Next() {
		var n int
		var pad string
		if err := found.Scan(&n, &pad); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, fmt.Sprint(n, pad))
	}
	return rows
}

func TestSFTP_HostKeyIsVerified(t *testing.T) {
	host, _ := replicatest.SFTP(t)
	_, other := replicatest.SFTP(t)
	address, err := ParseAddress(replicatest.SFTPAddress(host, other, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), address, Options{Store: "a", Now: time.Now, Getenv: environment}); err == nil || !strings.Contains(err.Error(), "host key") {
		t.Errorf("a server with another key: %v", err)
	}
}
