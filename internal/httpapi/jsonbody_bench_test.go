package httpapi

import "testing"

func BenchmarkParseBody(b *testing.B) {
	for name, body := range map[string]string{
		"a renewal":     `{"subscriber_id":"100001","plan_id":"BASIC-1"}`,
		"an activation": `{"name":"Ramesh Rao","mobile":"9812345678","email":"rao@example.com","plan_id":"FAMILY-1","connection_type":"cable","address":"12, MG Road, Pune"}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := parseBody([]byte(body)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkMediaTypeCheck(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if err := checkMediaType([]string{"application/json"}); err != nil {
			b.Fatal(err)
		}
	}
}
