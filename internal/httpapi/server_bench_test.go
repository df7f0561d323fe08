package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/store/sqlite"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/telemetry"
	"github.com/coaxhq/coax/signing"
)

// BenchmarkServer measures what a signed read costs beside its store: TLS,
// net/http, the authorizer, the envelope, the log; and once with the request log in a
// real store. The authorizer's store answers at once and burns no nonce, so that a cheap
// client can send one signed request again and again. Two handlers that only send the
// same bytes, behind Server and behind net/http alone, show net/http's share. Compare
// cpu-µs/op, taken alternately (-count), rather than ns/op, which includes the machine's
// other load.
func BenchmarkServer(b *testing.B) {
	b.Run("signed balance", func(b *testing.B) {
		api, request := signedBalance(b)
		benchmarkServer(b, api, request)
	})
	b.Run("signed balance in the request log", func(b *testing.B) {
		api, request := signedBalance(b)
		db, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "coax.db"), sqlite.Options{})
		if err != nil {
			b.Fatal(err)
		}
		defer db.Close()
		log := requestlog.New(db, requestlog.Config{Keep: time.Hour, Problem: func(err error) { b.Error(err) }})
		api.recorder = api.recorder.withRequestLog(log)
		running, stop := context.WithCancel(b.Context())
		var written sync.WaitGroup
		written.Go(func() { log.Run(running) })
		benchmarkServer(b, api, request)
		stop()
		written.Wait()
	})
	b.Run("same bytes behind Server", func(b *testing.B) {
		api, request := signedBalance(b)
		benchmarkServer(b, sameBytes(b, api, request), request)
	})
	b.Run("same bytes without it", func(b *testing.B) {
		api, request := signedBalance(b)
		server := &http.Server{
			Handler: sameBytes(b, api, request), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second,
			WriteTimeout: time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10,
			TLSConfig: &tls.Config{Certificates: []tls.Certificate{*certificate()}, NextProtos: []string{"http/1.1"}},
		}
		listener := listen(b)
		var served sync.WaitGroup
		served.Go(func() { server.ServeTLS(listener, "", "") })
		defer served.Wait()
		defer server.Close()
		hammer(b, listener.Addr().String(), request)
	})
}

// sameBytes answers every request with api's response to one request.
func sameBytes(b *testing.B, api *API, request []byte) http.Handler {
	answer := newResponseRecorder()
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(request)))
	if err != nil {
		b.Fatal(err)
	}
	r.RemoteAddr = "127.0.0.1:1"
	api.ServeHTTP(answer, overEncrypted(r))
	if answer.status != http.StatusOK {
		b.Fatalf("the signed request was answered %d %s", answer.status, answer.body.Bytes())
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), answer.header)
		w.Write(answer.body.Bytes())
	})
}

// responseRecorder records a response. httptest's would canonicalise header names.
type responseRecorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func newResponseRecorder() *responseRecorder                { return &responseRecorder{header: http.Header{}} }
func (r *responseRecorder) Header() http.Header             { return r.header }
func (r *responseRecorder) WriteHeader(status int)          { r.status = status }
func (r *responseRecorder) Write(p []byte) (n int, _ error) { return r.body.Write(p) }

// signedBalance returns an API with a real authorizer and its log in a file, and a
// request that it accepts.
func signedBalance(b *testing.B) (*API, []byte) {
	masterKey, err := access.NewMasterKey()
	if err != nil {
		b.Fatal(err)
	}
	vault, err := access.OpenVault(masterKey)
	if err != nil {
		b.Fatal(err)
	}
	key, secret := access.NewKey()
	store := &willingStore{hash: access.HashKey(key)}
	sealed, err := vault.Seal(secret, 7, store.hash)
	if err != nil {
		b.Fatal(err)
	}
	store.record = access.Record{
		Credential: access.Credential{ID: 3, OperatorID: 7, KeyHash: store.hash, Hint: access.Hint(key), SealedSecret: sealed,
			Permissions: access.AllPermissions, Version: 1},
		Operator: subscription.Operator{ID: 7, Status: subscription.OperatorActive, API: subscription.APIEnabled,
			RateLimit: 1_000_000, Version: 1},
		Whitelist: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("0.0.0.0/0")},
	}
	file, err := os.Create(filepath.Join(b.TempDir(), "log"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { file.Close() })
	api := New(Config{
		Now:        func() time.Time { return noon },
		Authorizer: access.NewAuthorizer(store, vault, access.AuthorizerConfig{}),
		Wallets: walletFunc(func(_ context.Context, id int64) (subscription.Wallet, error) {
			return subscription.Wallet{OperatorID: id, Balance: money.Paise(123_450), LowBelow: money.Paise(50_000)}, nil
		}),
		Log:     telemetry.NewLogger(file, slog.LevelInfo, "json"),
		Metrics: telemetry.NewMetrics(),
	})
	signed := signing.Request{
		Method: "GET", Path: "/api/v1/balance", Timestamp: strconv.FormatInt(noon.Unix(), 10), Nonce: "0123456789abcdef0123456789abcdef",
	}
	return api, fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: coax.example\r\nUser-Agent: bench\r\nX-API-Key: %s\r\nX-Timestamp: %s\r\nX-Nonce: %s\r\nX-Signature: %s\r\n\r\n",
		signed.Path, key, signed.Timestamp, signed.Nonce, signed.Sign(secret.Reveal()))
}

// willingStore has one key and admits it at once.
type willingStore struct {
	hash   access.KeyHash
	record access.Record
}

func (s *willingStore) CredentialByHash(_ context.Context, hash access.KeyHash) (access.Record, bool, error) {
	return s.record, hash == s.hash, nil
}

func (s *willingStore) Admit(context.Context, access.Admission) (access.Admitted, error) {
	return access.Admitted{Counted: true, Used: 1}, nil
}

func (s *willingStore) PurgeAdmissions(context.Context, time.Time, int64, int) (int, error) {
	return 0, nil
}

func listen(b *testing.B) net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	return listener
}

// benchmarkServer measures a handler behind a Server.
func benchmarkServer(b *testing.B, handler http.Handler, request []byte) {
	server := NewServer(ServerConfig{
		Handler:        handler,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate(), nil },
	})
	listener := listen(b)
	var served sync.WaitGroup
	served.Go(func() { server.ServeTLS(listener) })
	defer served.Wait()
	defer server.Shutdown(context.Background())
	hammer(b, listener.Addr().String(), request)
}

// hammer sends a request repeatedly on a few TLS connections.
func hammer(b *testing.B, address string, request []byte) {
	const connections = 16
	conns := make([]*tls.Conn, connections)
	for i := range conns {
		conn, err := tls.Dial("tcp", address, clientTLS())
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		conns[i] = conn
		if err := exchangeOnce(conns[i], request, make([]byte, 4096)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	before := processorTime(b)
	var sending sync.WaitGroup
	for i, conn := range conns {
		sending.Go(func() {
			buffer := make([]byte, 4096)
			for n := i; n < b.N; n += connections {
				if err := exchangeOnce(conn, request, buffer); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	sending.Wait()
	b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

// exchangeOnce sends a request and reads its response, which must be a 200.
func exchangeOnce(conn net.Conn, request, buffer []byte) error {
	if _, err := conn.Write(request); err != nil {
		return err
	}
	const lengthName = "\r\nContent-Length: "
	for got := 0; ; {
		n, err := conn.Read(buffer[got:])
		if err != nil {
			return err
		}
		got += n
		head := bytes.Index(buffer[:got], []byte("\r\n\r\n"))
		at := bytes.Index(buffer[:got], []byte(lengthName))
		if head < 0 || at < 0 {
			continue
		}
		digits, _, _ := bytes.Cut(buffer[at+len(lengthName):got], []byte("\r\n"))
		length, err := strconv.Atoi(string(digits))
		if err != nil {
			return err
		}
		if got < head+4+length {
			continue
		}
		if !bytes.HasPrefix(buffer[:got], []byte("HTTP/1.1 200")) {
			return fmt.Errorf("answered %q", buffer[:got])
		}
		return nil
	}
}

// processorTime returns the CPU time this process has used so far.
func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
