package signing_test

import (
	"fmt"

	"github.com/coaxhq/coax/signing"
)

// The first vector of contract/vectors/post.json: a client signs the exact bytes
// it is about to send, and the server checks them as they arrived.
func Example() {
	const secret = "cxs_published_test_secret_never_issued_0001"
	r := signing.Request{
		Method:    "POST",
		Path:      "/api/v1/activate",
		Timestamp: "1767225601",
		Nonce:     "post_vector_0001",
		Body:      []byte(`{"full_name":"Ravi Kumar","mobile":"9876543210","plan_id":"BASIC-1"}`),
	}

	fmt.Println(r.StringToSign())
	signature := r.Sign(secret)
	fmt.Println(signature)
	fmt.Println(r.Verify(secret, signature))

	// Output:
	// POST
	// /api/v1/activate
	//
	// 1767225601
	// post_vector_0001
	// 65017ce2524250e8bfabb6f6bcbaa4c8d7139f3549ad3c1019ba33fcf5a279ad
	// 2ab7fa504c61f4093c01009701bc124decc06a63a611f07b1d1d6cebd9bb79f7
	// true
}

func ExampleCanonicalQuery() {
	fmt.Println(signing.CanonicalQuery("name=Ravi+Kumar&city=100%&&id=2&id=1"))

	// Output:
	// =&city=100%25&id=1&id=2&name=Ravi%20Kumar
}
