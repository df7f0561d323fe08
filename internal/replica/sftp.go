package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// dialTimeout limits how long connecting may take.
const dialTimeout = 10 * time.Second

// sftpTarget is a folder on an SSH server. A connection that failed is made again by the
// next call.
type sftpTarget struct {
	host, path string
	config     *ssh.ClientConfig

	mu      sync.Mutex
	ssh     *ssh.Client
	client  *sftp.Client
	growing map[string]*sftp.File
}

// Variables for credentials of SFTP.
const (
	sftpPasswordVariable = "COAX_REPLICA_SFTP_PASSWORD"
	sftpKeyVariable      = "COAX_REPLICA_SFTP_KEY"
)

// newSFTP reads the parameters: key=FILE is a private key; host_key is the server's public
// key as in authorized_keys, and known_hosts a file of them (default ~/.ssh/known_hosts).
func newSFTP(address *url.URL, getenv func(string) string) (*sftpTarget, error) {
	t := &sftpTarget{host: address.Host, path: path.Clean(address.Path)}
	if address.Port() == "" {
		t.host = net.JoinHostPort(address.Hostname(), "22")
	}
	query := address.Query()
	t.config = &ssh.ClientConfig{User: address.User.Username(), Timeout: dialTimeout}
	password, _ := address.User.Password()
	if password == "" {
		password = getenv(sftpPasswordVariable)
	}
	keyFile := query.Get("key")
	if keyFile == "" {
		keyFile = getenv(sftpKeyVariable)
	}
	if keyFile != "" {
		text, err := os.ReadFile(keyFile)
		if err != nil {
			return nil, fmt.Errorf("read the private key: %w", err)
		}
		signer, err := ssh.ParsePrivateKey(text)
		if err != nil {
			return nil, fmt.Errorf("the private key in %s cannot be used: %w", keyFile, err)
		}
		t.config.Auth = append(t.config.Auth, ssh.PublicKeys(signer))
	}
	if password != "" {
		t.config.Auth = append(t.config.Auth, ssh.Password(password))
	}
	if len(t.config.Auth) == 0 {
		return nil, fmt.Errorf("there is no key or password: add key=FILE to the address, or set %s or %s", sftpKeyVariable, sftpPasswordVariable)
	}
	switch {
	case query.Get("insecure_host_key") == "true":
		t.config.HostKeyCallback = ssh.InsecureIgnoreHostKey()
	case query.Get("host_key") != "":
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(query.Get("host_key")))
		if err != nil {
			return nil, errors.New("host_key: write the server's public key as `ssh-keyscan` prints it, without the host (spaces and + as %20 and %2B)")
		}
		t.config.HostKeyCallback, t.config.HostKeyAlgorithms = ssh.FixedHostKey(key), algorithmsOf(key)
	default:
		file := query.Get("known_hosts")
		if file == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return nil, errors.New("the server's key is not known: add known_hosts=FILE or host_key=KEY to the address")
			}
			file = filepath.Join(home, ".ssh", "known_hosts")
		}
		check, err := knownhosts.New(file)
		if err != nil {
			return nil, fmt.Errorf("the server's key is not known: add known_hosts=FILE or host_key=KEY to the address: %w", err)
		}
		t.config.HostKeyCallback = check
	}
	return t, nil
}

// algorithmsOf returns how a server may prove that it has a key.
func algorithmsOf(key ssh.PublicKey) []string {
	if key.Type() == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	return []string{key.Type()}
}

func (t *sftpTarget) keepsParts() bool { return false }

func (t *sftpTarget) name(name string) string { return path.Join(t.path, name) }

// with calls use with a connection, and drops the connection if it fails or the context
// ends.
func (t *sftpTarget) with(ctx context.Context, use func(*sftp.Client) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := ctx.Err(); err != nil { // it waited for its turn
		return err
	}
	if t.client == nil {
		if err := t.connect(ctx); err != nil {
			return fmt.Errorf("connect to %s: %w", t.host, err)
		}
	}
	connection := t.ssh
	stop := context.AfterFunc(ctx, func() { _ = connection.Close() })
	err := use(t.client)
	stop()
	var refused *sftp.StatusError
	if err != nil && (ctx.Err() != nil || !errors.As(err, &refused) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission)) {
		t.disconnect()
	}
	return err
}

func (t *sftpTarget) connect(ctx context.Context) error {
	dialer := net.Dialer{Timeout: dialTimeout}
	raw, err := dialer.DialContext(ctx, "tcp", t.host)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	connection, channels, requests, err := ssh.NewClientConn(raw, t.host, t.config)
	if err != nil {
		return errors.Join(err, raw.Close())
	}
	t.ssh = ssh.NewClient(connection, channels, requests)
	if t.client, err = sftp.NewClient(t.ssh); err != nil {
		t.disconnect()
		return err
	}
	return nil
}

func (t *sftpTarget) disconnect() {
	// The connection first: closing the client alone waits for the server.
	if t.ssh != nil {
		_ = t.ssh.Close()
	}
	if t.client != nil {
		_ = t.client.Close()
	}
	t.client, t.ssh, t.growing = nil, nil, nil
}

func (t *sftpTarget) check(ctx context.Context, create bool) error {
	return t.with(ctx, func(c *sftp.Client) error {
		info, err := c.Stat(t.path)
		if create && errors.Is(err, fs.ErrNotExist) {
			if err = c.Mkdir(t.path); err == nil {
				info, err = c.Stat(t.path)
			}
		}
		if err != nil {
			return fmt.Errorf("find the folder %s: %w", t.path, err)
		}
		if !info.IsDir() {
			return fmt.Errorf("%s is no folder", t.path)
		}
		return nil
	})
}

func (t *sftpTarget) put(ctx context.Context, name string, data []byte) error {
	return t.with(ctx, func(c *sftp.Client) error {
		file, err := t.create(c, t.name(name)+".new")
		if err != nil {
			return err
		}
		_, err = file.Write(data)
		if err = errors.Join(err, syncRemote(c, file), file.Close()); err != nil {
			return err
		}
		return c.PosixRename(t.name(name)+".new", t.name(name))
	})
}

func (t *sftpTarget) create(c *sftp.Client, name string) (*sftp.File, error) {
	if folder := path.Dir(name); folder != t.path {
		if _, err := c.Stat(folder); errors.Is(err, fs.ErrNotExist) {
			if err := c.Mkdir(folder); err != nil {
				return nil, err
			}
		}
	}
	return c.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
}

// syncRemote flushes a file where the server can: fsync@openssh.com.
func syncRemote(c *sftp.Client, file *sftp.File) error {
	if _, able := c.HasExtension("fsync@openssh.com"); !able {
		return nil
	}
	return file.Sync()
}

func (t *sftpTarget) writeAt(ctx context.Context, name string, at int64, data []byte) error {
	return t.with(ctx, func(c *sftp.Client) (err error) {
		kind := kindOf(name)
		file := t.growing[kind]
		if file == nil || file.Name() != t.name(name) {
			if file != nil {
				_ = file.Close()
				delete(t.growing, kind)
			}
			if at == 0 {
				file, err = t.create(c, t.name(name))
			} else {
				file, err = c.OpenFile(t.name(name), os.O_WRONLY)
			}
			if err != nil {
				return err
			}
			if t.growing == nil {
				t.growing = map[string]*sftp.File{}
			}
			t.growing[kind] = file
		}
		if _, err = file.WriteAt(data, at); err == nil {
			err = syncRemote(c, file)
		}
		if err == nil {
			// The file may have been removed while it was open.
			_, err = c.Stat(t.name(name))
		}
		if err != nil {
			_ = file.Close()
			delete(t.growing, kind)
		}
		return err
	})
}

func (t *sftpTarget) seal(context.Context, string, []byte) error { return nil }

func (t *sftpTarget) open(ctx context.Context, name string) (file io.ReadCloser, err error) {
	err = t.with(ctx, func(c *sftp.Client) error {
		opened, err := c.Open(t.name(name))
		if err != nil {
			return err
		}
		// Reads do not know the context: a server that hangs is cut off.
		connection := t.ssh
		file = remoteFile{opened, context.AfterFunc(ctx, func() { _ = connection.Close() })}
		return nil
	})
	return file, err
}

// remoteFile is a file that is read while its context lasts.
type remoteFile struct {
	*sftp.File
	stop func() bool
}

func (f remoteFile) Close() error {
	defer f.stop() // closing it asks the server, too
	return f.File.Close()
}

func (t *sftpTarget) list(ctx context.Context, below string) (names []string, err error) {
	err = t.with(ctx, func(c *sftp.Client) error {
		names = nil
		walker := c.Walk(t.name(below))
		for walker.Step() {
			if err := walker.Err(); err != nil {
				return err
			}
			if !walker.Stat().IsDir() {
				names = append(names, strings.TrimPrefix(strings.TrimPrefix(walker.Path(), t.path), "/"))
			}
		}
		return nil
	})
	return names, err
}

func (t *sftpTarget) remove(ctx context.Context, name string) error {
	return t.with(ctx, func(c *sftp.Client) error {
		if err := c.Remove(t.name(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

func (t *sftpTarget) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.disconnect()
	return nil
}
