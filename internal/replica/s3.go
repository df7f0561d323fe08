package replica

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Variables for credentials of S3, as its other programs read them.
const (
	s3KeyVariable     = "AWS_ACCESS_KEY_ID"
	s3SecretVariable  = "AWS_SECRET_ACCESS_KEY"
	s3SessionVariable = "AWS_SESSION_TOKEN"
	s3RegionVariable  = "AWS_REGION"
)

// partMark separates the name of a growing file from the offset of a part.
const partMark = ".part-"

// bucket is a folder in an S3 bucket, or in a store that speaks its protocol. An object
// cannot grow, so each part of a growing file is an object. Requests are signed with
// version 4; nothing else of the protocol is needed, so there is no SDK.
type bucket struct {
	client                       *http.Client
	base                         string // address of the bucket
	prefix                       string
	region, key, secret, session string
	now                          func() time.Time
}

func newS3(address *url.URL, getenv func(string) string) (*bucket, error) {
	query := address.Query()
	b := &bucket{client: &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, ResponseHeaderTimeout: 30 * time.Second,
	}}, prefix: strings.Trim(address.Path, "/"), now: time.Now}
	if b.prefix != "" {
		b.prefix += "/"
	}
	b.region = query.Get("region")
	if b.region == "" {
		b.region = getenv(s3RegionVariable)
	}
	if b.region == "" {
		b.region = "us-east-1"
	}
	if endpoint := query.Get("endpoint"); endpoint != "" {
		b.base = strings.TrimRight(endpoint, "/") + "/" + address.Host
	} else {
		b.base = "https://" + address.Host + ".s3." + b.region + ".amazonaws.com"
	}
	if address.User != nil {
		b.key = address.User.Username()
		b.secret, _ = address.User.Password()
	} else {
		b.key, b.secret, b.session = getenv(s3KeyVariable), getenv(s3SecretVariable), getenv(s3SessionVariable)
	}
	if b.key == "" || b.secret == "" {
		return nil, fmt.Errorf("there are no credentials: set %s and %s", s3KeyVariable, s3SecretVariable)
	}
	return b, nil
}

func (b *bucket) keepsParts() bool { return true }

// do makes one signed request. The caller closes the body of the response.
func (b *bucket) do(ctx context.Context, method, name string, query url.Values, body []byte) (*http.Response, error) {
	place := b.base
	if name != "" {
		place += "/" + escapePath(b.prefix+name)
	}
	request, err := http.NewRequestWithContext(ctx, method, place, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.URL.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20")
	b.sign(request, body)
	response, err := b.client.Do(request)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // without the address
		}
		return nil, err
	}
	if response.StatusCode < 300 {
		return response, nil
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
	var problem struct{ Code, Message string }
	_ = xml.Unmarshal(text, &problem)
	if response.StatusCode == http.StatusNotFound && problem.Code != "NoSuchBucket" {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return nil, fmt.Errorf("%s: %s %s", response.Status, problem.Code, problem.Message)
}

// sign adds the signature of AWS, version 4.
func (b *bucket) sign(r *http.Request, body []byte) {
	at := b.now().UTC()
	sum := sha256.Sum256(body)
	stamp, day := at.Format("20060102T150405Z"), at.Format("20060102")
	r.Header.Set("X-Amz-Date", stamp)
	r.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
	names := []string{"host", "x-amz-content-sha256", "x-amz-date"}
	if b.session != "" {
		r.Header.Set("X-Amz-Security-Token", b.session)
		names = append(names, "x-amz-security-token")
	}
	var headers strings.Builder
	for _, name := range names {
		value := r.Header.Get(name)
		if name == "host" {
			value = r.URL.Host
		}
		fmt.Fprintf(&headers, "%s:%s\n", name, value)
	}
	signed := strings.Join(names, ";")
	canonical := strings.Join([]string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, headers.String(), signed, hex.EncodeToString(sum[:])}, "\n")
	scope := day + "/" + b.region + "/s3/aws4_request"
	of := sha256.Sum256([]byte(canonical))
	text := "AWS4-HMAC-SHA256\n" + stamp + "\n" + scope + "\n" + hex.EncodeToString(of[:])
	key := []byte("AWS4" + b.secret)
	for _, part := range []string{day, b.region, "s3", "aws4_request"} {
		key = mac(key, part)
	}
	r.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s",
		b.key, scope, signed, hex.EncodeToString(mac(key, text))))
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// escapePath escapes everything but letters, digits and -._~/ as the signature wants it.
func escapePath(path string) string {
	var out strings.Builder
	for _, c := range []byte(path) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~/", c) >= 0 {
			out.WriteByte(c)
		} else {
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}

func (b *bucket) check(ctx context.Context, _ bool) error {
	response, err := b.do(ctx, http.MethodGet, "", url.Values{"list-type": {"2"}, "max-keys": {"1"}, "prefix": {b.prefix}}, nil)
	if err != nil {
		return fmt.Errorf("list the bucket: %w", err)
	}
	return response.Body.Close()
}

func (b *bucket) put(ctx context.Context, name string, data []byte) error {
	response, err := b.do(ctx, http.MethodPut, name, nil, data)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func (b *bucket) writeAt(ctx context.Context, name string, at int64, data []byte) error {
	return b.put(ctx, fmt.Sprintf("%s%s%012d", name, partMark, at), data)
}

// seal replaces the parts of a file by the whole, so that fewer objects are kept.
func (b *bucket) seal(ctx context.Context, name string, data []byte) error {
	if data == nil {
		return nil
	}
	if err := b.put(ctx, name, data); err != nil {
		return err
	}
	return b.removeParts(ctx, name)
}

func (b *bucket) removeParts(ctx context.Context, name string) error {
	parts, err := b.objects(ctx, name+partMark)
	for _, part := range parts {
		err = errors.Join(err, b.removeObject(ctx, part))
	}
	return err
}

func (b *bucket) open(ctx context.Context, name string) (io.ReadCloser, error) {
	response, err := b.do(ctx, http.MethodGet, name, nil, nil)
	if err == nil {
		return response.Body, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	parts, failed := b.objects(ctx, name+partMark)
	if failed != nil {
		return nil, failed
	}
	if len(parts) == 0 {
		return nil, err
	}
	slices.Sort(parts)
	return &joined{ctx: ctx, from: b, left: parts}, nil
}

// joined reads the parts of a file, one after the other.
type joined struct {
	ctx  context.Context
	from *bucket
	left []string
	body io.ReadCloser
}

func (j *joined) Read(into []byte) (int, error) {
	for {
		if j.body == nil {
			if len(j.left) == 0 {
				return 0, io.EOF
			}
			response, err := j.from.do(j.ctx, http.MethodGet, j.left[0], nil, nil)
			if err != nil {
				return 0, err
			}
			j.body, j.left = response.Body, j.left[1:]
		}
		n, err := j.body.Read(into)
		if !errors.Is(err, io.EOF) {
			return n, err
		}
		err = j.body.Close()
		if j.body = nil; n > 0 || err != nil {
			return n, err
		}
	}
}

func (j *joined) Close() error {
	if j.body == nil {
		return nil
	}
	return j.body.Close()
}

func (b *bucket) list(ctx context.Context, below string) ([]string, error) {
	if below != "" {
		below += "/"
	}
	names, err := b.objects(ctx, below)
	for i, name := range names {
		names[i], _, _ = strings.Cut(name, partMark)
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// objects lists the names that begin with a text.
func (b *bucket) objects(ctx context.Context, begin string) (names []string, err error) {
	query := url.Values{"list-type": {"2"}, "prefix": {b.prefix + begin}}
	for {
		response, err := b.do(ctx, http.MethodGet, "", query, nil)
		if err != nil {
			return nil, err
		}
		var page struct {
			Contents              []struct{ Key string }
			IsTruncated           bool
			NextContinuationToken string
		}
		err = xml.NewDecoder(response.Body).Decode(&page)
		if err = errors.Join(err, response.Body.Close()); err != nil {
			return nil, fmt.Errorf("list the bucket: %w", err)
		}
		for _, object := range page.Contents {
			names = append(names, strings.TrimPrefix(object.Key, b.prefix))
		}
		if !page.IsTruncated || page.NextContinuationToken == "" {
			return names, nil
		}
		query.Set("continuation-token", page.NextContinuationToken)
	}
}

func (b *bucket) remove(ctx context.Context, name string) error {
	return errors.Join(b.removeObject(ctx, name), b.removeParts(ctx, name))
}

func (b *bucket) removeObject(ctx context.Context, name string) error {
	response, err := b.do(ctx, http.MethodDelete, name, nil, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func (b *bucket) close() error {
	b.client.CloseIdleConnections()
	return nil
}
