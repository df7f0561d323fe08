// Package baseline has the baselines of the service's figures: what its parts can do by
// themselves on the same machine. A slow baseline would flatter the service, so each is as
// lean as possible.
package baseline

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// Example is an answer of the service, to be given again and again.
type Example struct {
	// Header is spelled as the service spells it.
	Header map[string]string `json:"header"`
	Body   []byte            `json:"body"`
}

// BareHandler is a server of net/http, with TLS and limits as the service has
// them, that answers every request with the same bytes.
func BareHandler(example Example, certificate tls.Certificate) *http.Server {
	header := make(http.Header, len(example.Header))
	for name, value := range example.Header {
		header[name] = []string{value}
	}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			into := w.Header()
			for name, value := range header {
				into[name] = value
			}
			_, _ = w.Write(example.Body)
		}),
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, Certificates: []tls.Certificate{certificate}},
		Protocols:         protocols,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		IdleTimeout:       60 * time.Second,
		WriteTimeout:      60 * time.Second,
		MaxHeaderBytes:    8 << 10,
	}
}

// ServeBare answers on a listener until the server is shut down.
func ServeBare(server *http.Server, listener net.Listener) error {
	return server.ServeTLS(listener, "", "")
}
