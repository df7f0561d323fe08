package httpapi

import "testing"

// BenchmarkFraming measures the framing check of one signed request.
func BenchmarkFraming(b *testing.B) {
	request := []byte("GET /api/v1/balance HTTP/1.1\r\nHost: coax.example.com\r\nUser-Agent: Go-http-client/1.1\r\n" +
		"X-Api-Key: coax_live_00112233445566778899aabbccddeeff\r\nX-Timestamp: 1804161600\r\nX-Nonce: 00112233445566778899aabbccddeeff\r\n" +
		"X-Signature: 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\r\nAccept-Encoding: gzip\r\n\r\n")
	f := &framing{}
	b.ReportAllocs()
	for b.Loop() {
		f.scan(request)
	}
}
