package main

import "net/http"

// reusesNonce signs an operation once and sends timestamp, nonce and signature of the first attempt in
// each retry. The service refuses them as a replay, and the outcome of a lost answer stays unknown.
func reusesNonce(c *call) {
	sign := c.sign
	var first http.Header
	adjusted := false
	c.sign = func(method, path, query string, body []byte) http.Header {
		if method != http.MethodPost {
			return sign(method, path, query, body)
		}
		if first == nil || c.adjusted != adjusted { // a corrected clock needs a new signature
			first, adjusted = sign(method, path, query, body), c.adjusted
		}
		return first.Clone()
	}
}
