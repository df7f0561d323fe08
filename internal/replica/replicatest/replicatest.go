// Package replicatest serves places for replicas to tests, in their process.
package replicatest

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"net"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// Environment has the credentials of what SFTP and S3 serve, and of no other place.
var Environment = map[string]string{
	"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "COAX_REPLICA_SFTP_PASSWORD": "pass word",
}

// S3 serves a bucket in memory and returns the address of a folder in it.
func S3(t testing.TB) (address string) {
	t.Helper()
	buckets := s3mem.New()
	if err := buckets.CreateBucket("coax"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(buckets).Server())
	t.Cleanup(server.Close)
	return "s3://coax/store%20one?endpoint=" + url.QueryEscape(server.URL)
}

// SFTP serves all files to the user coax, and returns the server's address and key.
func SFTP(t testing.TB) (host, hostKey string) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ServerConfig{PasswordCallback: func(c ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
		if c.User() == "coax" && string(password) == Environment["COAX_REPLICA_SFTP_PASSWORD"] {
			return nil, nil
		}
		return nil, errors.New("refused")
	}}
	config.AddHostKey(signer)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			raw, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(raw, config)
		}
	}()
	return listener.Addr().String(), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
}

// SFTPAddress is the address of a folder that SFTP serves.
func SFTPAddress(host, hostKey, folder string) string {
	return "sftp://coax@" + host + folder + "?host_key=" + url.QueryEscape(hostKey)
}

func serve(raw net.Conn, config *ssh.ServerConfig) {
	_, channels, requests, err := ssh.NewServerConn(raw, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for offered := range channels {
		channel, wanted, err := offered.Accept()
		if err != nil {
			return
		}
		go func() {
			for request := range wanted {
				_ = request.Reply(request.Type == "subsystem", nil)
			}
		}()
		server, err := sftp.NewServer(channel)
		if err != nil {
			return
		}
		go func() { _ = server.Serve() }()
	}
}
