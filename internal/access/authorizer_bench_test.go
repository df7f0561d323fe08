package access

import (
	"context"
	"testing"
)

// The request is signed within the loop, because a nonce serves once; what that
// costs is measured beside it.
func BenchmarkAuthorize(b *testing.B) {
	s := newFixture(b)
	s.store.quiet = true
	s.store.change(s.hash, func(r *Record) { r.Operator.RateLimit = 1 << 40 })
	ctx := context.Background()
	b.Run("remembered", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.authorizer.Authorize(ctx, s.draft().sign()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read again", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.authorizer.cache.remove(s.hash)
			if _, err := s.authorizer.Authorize(ctx, s.draft().sign()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("drafting and signing alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.draft().sign()
		}
	})
}

// identify is all of Authorize that is not the store's.
func BenchmarkIdentify(b *testing.B) {
	s := newFixture(b)
	s.warm()
	c, err := readClaim(s.draft().sign())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.authorizer.identify(context.Background(), c); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUnknownKey(b *testing.B) {
	s := newFixture(b)
	d := s.draft()
	d.key, _ = NewKey()
	req := d.sign()
	b.ReportAllocs()
	for b.Loop() {
		s.authorizer.Authorize(context.Background(), req)
	}
}
