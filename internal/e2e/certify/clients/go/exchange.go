package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// exchange makes a connection for one request. On a connection that was used before, the
// transport would repeat a request with an Idempotency-Key by itself, with the same nonce.
func (c *call) exchange(method, path, query string, body []byte) (a answer) {
	config, err := c.trust()
	if err != nil {
		return answer{err: err, unsent: true, untrusted: true}
	}
	left := min(60*time.Second, time.Until(c.deadline))
	ctx, cancel := context.WithTimeout(context.Background(), left)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.BaseURL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return answer{err: err, unsent: true, untrusted: true}
	}
	request.URL.RawQuery = query
	request.Header = c.sign(method, "/api/v1"+path, query, body)
	if method == "POST" {
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Idempotency-Key", c.key())
	}
	transport := &http.Transport{
		DialContext:        (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSClientConfig:    config,
		DisableKeepAlives:  true,
		DisableCompression: true,
	}
	response, err := transport.RoundTrip(request) // not an http.Client, which would follow redirects
	if err != nil {
		var dial *net.OpError
		var certificate *tls.CertificateVerificationError
		a.untrusted = errors.As(err, &certificate)
		a.unsent = a.untrusted || errors.As(err, &dial) && dial.Op == "dial"
		a.err = err
		return a
	}
	defer response.Body.Close()
	a.status = response.StatusCode
	if seconds, err := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 31); err == nil {
		a.retryAfter = time.Duration(seconds) * time.Second
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, 8<<20))
	if err != nil {
		a.err = err
		return a
	}
	a.read(text, c.key())
	return a
}

func (c *call) trustCA() (*tls.Config, error) {
	if c.CACert == "" {
		return &tls.Config{}, nil
	}
	pem, err := os.ReadFile(c.CACert)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate", c.CACert)
	}
	return &tls.Config{RootCAs: roots}, nil
}

// clocks has by API key how many seconds the service's clock is ahead of this machine's.
var clocks sync.Map

func (c *call) signed(method, path, query string, body []byte) http.Header {
	nonce := make([]byte, 16)
	rand.Read(nonce)
	ahead, _ := clocks.Load(c.APIKey)
	seconds, _ := ahead.(int64)
	header := http.Header{}
	header.Set("X-API-Key", c.APIKey)
	header.Set("X-Timestamp", strconv.FormatInt(time.Now().Unix()+seconds, 10))
	header.Set("X-Nonce", hex.EncodeToString(nonce))
	digest := sha256.Sum256(body)
	mac := hmac.New(sha256.New, []byte(c.APISecret))
	fmt.Fprintf(mac, "%s\n%s\n%s\n%s\n%s\n%x", method, path, query, header.Get("X-Timestamp"), header.Get("X-Nonce"), digest)
	header.Set("X-Signature", hex.EncodeToString(mac.Sum(nil)))
	return header
}

// answer is what came back from one attempt.
type answer struct {
	status     int // 0 if there was no answer at all
	retryAfter time.Duration
	body       map[string]any // nil unless it is the service's
	err        error          // why there is no answer
	unsent     bool           // the request never left
	untrusted  bool           // there is no verified connection to send it on
}

// read takes text for the service's answer if it has a code and is not about another key.
func (a *answer) read(text []byte, key string) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // amounts are exact
	if err := decoder.Decode(&a.body); err != nil {
		a.body = nil
	} else if _, end := decoder.Token(); end != io.EOF {
		a.body = nil
	}
	if _, named := a.at("code").(string); !named || a.status/100 == 3 {
		a.body = nil
	}
	if other := a.text("data", "idempotency_key"); other != "" && other != key {
		a.body = nil
	}
}

func (a answer) at(path ...string) any {
	var value any = a.body
	for _, name := range path {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	return value
}

func (a answer) text(path ...string) string {
	text, _ := a.at(path...).(string)
	return text
}

func (a answer) serverTime() int64 {
	number, _ := a.at("data", "server_time").(json.Number)
	seconds, _ := number.Int64()
	return seconds
}

// charged returns what was debited, with two decimals, or nothing if that cannot be read.
func (a answer) charged() string {
	number, _ := a.at("data", "wallet", "charged").(json.Number)
	rupees, valid := new(big.Rat).SetString(number.String())
	if !valid || !new(big.Rat).Mul(rupees, big.NewRat(100, 1)).IsInt() {
		return ""
	}
	return rupees.FloatString(2)
}
