package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"strings"
)

// target is a place for the replica's files. Every method that returns nil has made its
// change durable there. A file that is missing is fs.ErrNotExist.
type target interface {
	// check reports whether the place is there and can be used, and whether it has files
	// that are no replica's. create: make the last folder of the address if it is missing.
	check(ctx context.Context, create bool) error
	// put writes a whole file, or replaces it, at once.
	put(ctx context.Context, name string, data []byte) error
	// writeAt writes the next part of a file that grows; again at the same place after a
	// failure. Only one file of each folder grows at a time.
	writeAt(ctx context.Context, name string, at int64, data []byte) error
	// seal says that a growing file is complete. data has its contents, or is nil.
	seal(ctx context.Context, name string, data []byte) error
	open(ctx context.Context, name string) (io.ReadCloser, error)
	// list returns the names of all files below a folder; "" is the whole replica.
	list(ctx context.Context, folder string) ([]string, error)
	remove(ctx context.Context, name string) error
	// keepsParts reports whether each part of a growing file is stored by itself, so that
	// seal should be given the whole.
	keepsParts() bool
	close() error
}

// Address is the checked address of a replica.
type Address struct {
	url *url.URL
	// Insecure says why the connection is not protected; "" if it is.
	Insecure string
}

// Redact returns an address without its password, for messages.
func Redact(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		// The text may have a password in a place that cannot be told.
		scheme, _, _ := strings.Cut(address, ":")
		return scheme + ":…"
	}
	if parsed.User != nil {
		parsed.User = url.User(parsed.User.Username())
	}
	return parsed.String()
}

// String returns the address without its password.
func (a Address) String() string { return Redact(a.url.String()) }

// IsAddress reports whether a text is meant as the address of a replica.
func IsAddress(text string) bool {
	for _, scheme := range []string{"file://", "sftp://", "s3://"} {
		if strings.HasPrefix(text, scheme) {
			return true
		}
	}
	return false
}

// ParseAddress checks an address: file:///FOLDER, sftp://USER@HOST/FOLDER or
// s3://BUCKET/FOLDER. Its errors never have a password.
func ParseAddress(address string) (a Address, err error) {
	parsed, err := url.Parse(address)
	if err != nil {
		return a, errors.New("it cannot be read as an address (write special characters of a password as %XX)")
	}
	a.url = parsed
	allowed := map[string]bool{}
	switch parsed.Scheme {
	case "file":
		if parsed.Host != "" || !strings.HasPrefix(parsed.Path, "/") || strings.Trim(parsed.Path, "/") == "" {
			return a, errors.New("write a folder of this machine as file:///FOLDER, with three slashes")
		}
	case "sftp":
		allowed = map[string]bool{"host_key": true, "known_hosts": true, "key": true, "insecure_host_key": true}
		if parsed.Host == "" || parsed.User.Username() == "" || strings.Trim(parsed.Path, "/") == "" {
			return a, errors.New("write it as sftp://USER@HOST/FOLDER")
		}
		query := parsed.Query()
		if query.Get("insecure_host_key") == "true" {
			a.Insecure = "the host key of " + parsed.Host + " is not checked, so another machine may receive the store"
		}
	case "s3":
		allowed = map[string]bool{"endpoint": true, "region": true}
		if parsed.Host == "" {
			return a, errors.New("write it as s3://BUCKET/FOLDER")
		}
		if endpoint := parsed.Query().Get("endpoint"); endpoint != "" {
			at, err := url.Parse(endpoint)
			if err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" || at.User != nil {
				return a, errors.New("endpoint: write it as https://HOST")
			}
			if at.Scheme == "http" && !loopback(at.Hostname()) {
				a.Insecure = "the store is sent to " + at.Host + " unencrypted"
			}
		}
	default:
		return a, errors.New("write it as file:///FOLDER, sftp://USER@HOST/FOLDER or s3://BUCKET/FOLDER")
	}
	if parsed.Fragment != "" {
		return a, errors.New("it has a #, which must be written as %23")
	}
	for name := range parsed.Query() {
		if !allowed[name] {
			return a, fmt.Errorf("there is no parameter %q for %s", name, parsed.Scheme)
		}
	}
	return a, nil
}

func loopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.Unmap().IsLoopback()
}

// connect returns the target of an address. getenv reads credentials.
func (a Address) connect(getenv func(string) string) (target, error) {
	switch a.url.Scheme {
	case "file":
		return &folder{path: strings.TrimRight(a.url.Path, "/")}, nil
	case "sftp":
		return newSFTP(a.url, getenv)
	default:
		return newS3(a.url, getenv)
	}
}

func readAll(ctx context.Context, from target, name string) (data []byte, err error) {
	file, err := from.open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return io.ReadAll(file)
}
