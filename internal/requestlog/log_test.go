package requestlog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coaxhq/coax/internal/fault"
)

// fakeStore stores batches in memory, or fails. The real stores are tested by storetest.
type fakeStore struct {
	Store
	mu      sync.Mutex
	batches []Batch
	err     error
}

func (s *fakeStore) RecordRequests(_ context.Context, batch Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	batch.Blocks = slices.Clone(batch.Blocks)
	s.batches = append(s.batches, batch)
	return nil
}

// calls returns all written calls, and checks that each block has one operator.
func (s *fakeStore) calls(t *testing.T) (all []Entry) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, batch := range s.batches {
		for _, b := range batch.Blocks {
			entries, err := b.unpack()
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, entries...)
		}
	}
	return all
}

type counter struct{ dropped int }

func (c *counter) RequestsNotLogged(calls int) { c.dropped += calls }

var morning = time.Date(2027, 3, 1, 6, 30, 0, 0, time.UTC)

func sample(n int) Entry {
	return Entry{
		At: morning.Add(time.Duration(n) * time.Millisecond), OperatorID: int64(1 + n%3), CredentialID: int64(11 + n%3), KeyHint: "cxk_1a2b3c4d",
		Method: "GET", Path: "/api/v1/balance", Status: 200, Code: fault.OK, Address: netip.MustParseAddr("203.0.113.7"),
		RequestID: fmt.Sprintf("req_%032x", n), Took: time.Millisecond,
	}
}

func TestEntry_PackRoundTrip(t *testing.T) {
	full := sample(1)
	full.Signature = NewSignatureDetails("GET\n/api/v1/balance\n\n1800000000\nnonce\nhash", strings.Repeat("0a", 32))
	for name, e := range map[string]Entry{
		"an ordinary one":        sample(0),
		"with signature details": full,
		"with nothing in it":     {At: time.UnixMilli(0).UTC()},
		"before 1970":            {At: time.UnixMilli(-5).UTC()},
		"over IPv6":              {At: morning, Address: netip.MustParseAddr("2001:db8::1")},
		"of unknown words":       {At: morning, Method: "BREW", Path: "/pot", Code: "TEAPOT", Status: 418},
		"of another id":          {At: morning, RequestID: "req_XYZ", KeyHint: "cxk_1A2B"},
		"of an odd id":           {At: morning, RequestID: "req_abc", KeyHint: "cxk_"},
		"of a very long id":      {At: morning, RequestID: "req_" + strings.Repeat("ab", 100)},
		"of an id with no hex":   {At: morning, RequestID: "req_0g"},
		"with a key, and large":  {At: morning, IdempotencyKey: strings.Repeat("k", 100), CredentialID: 1 << 40, Took: time.Hour},
	} {
		packed := appendEntry(nil, &e)
		e.OperatorID = 0 // the block has it
		r := unpacker{rest: packed}
		got := r.entry()
		if r.damaged || len(r.rest) != 0 || !reflect.DeepEqual(got, e) {
			t.Errorf("%s: %+v with %d bytes left; want %+v", name, got, len(r.rest), e)
		}
		// A truncated call is an error, wherever it ends.
		for cut := range packed {
			r := unpacker{rest: packed[:cut]}
			if r.entry(); !r.damaged {
				t.Errorf("%s: %d of %d bytes pass for a call", name, cut, len(packed))
			}
		}
	}
	ordinary := sample(0)
	if size := len(appendEntry(nil, &ordinary)); size > 50 {
		t.Errorf("an ordinary call takes %d bytes; want 50 at most", size)
	}
}

// Blocks of one release are read by the next: indexes of the dictionary do not change.
func TestBlock_FirstFormatStaysReadable(t *testing.T) {
	packed := "\x01\x2b\xd0\xdc\xc0\xfc\xff\x68\x0b\x04\x1a\x2b\x3c\x4d\x02\x04\xc8\x01\x0a\x04\xcb\x00\x71\x07" +
		"\x10\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\xe8\x07\x00\x00"
	entries, err := Block{ID: 9, OperatorID: 4, Packed: []byte(packed)}.unpack()
	want := Entry{
		ID: "9-0", At: time.UnixMilli(1_803_882_600_232).UTC(), OperatorID: 4, CredentialID: 11, KeyHint: "cxk_1a2b3c4d", Method: "POST", Path: "/api/v1/renew", Status: 200,
		Code: fault.OK, Address: netip.MustParseAddr("203.0.113.7"), RequestID: "req_000102030405060708090a0b0c0d0e0f", Took: time.Millisecond,
	}
	if err != nil || len(entries) != 1 || !reflect.DeepEqual(entries[0], want) {
		again := appendEntry(nil, &want)
		t.Errorf("read %+v, %v; want %+v; it packs as %x (%d)", entries, err, want, again, len(again))
	}
	for index, text := range map[int]string{1: "GET", 2: "POST", 3: "/api/v1/balance", 9: "/api/v1/advance-renew", 10: "OK", 15: "INVALID_SIGNATURE", 39: "LCO_INACTIVE"} {
		if dictionary[index] != text {
			t.Errorf("dictionary[%d] is %s; it was %s in the first format", index, dictionary[index], text)
		}
	}
	if _, err := (Block{Packed: []byte{2}}).unpack(); err == nil {
		t.Error("a block of a later format was read")
	}
	if _, err := (Block{Packed: []byte{blockFormat, 200}}).unpack(); !errors.Is(err, errDamaged) {
		t.Errorf("half a block: %v; want %v", err, errDamaged)
	}
}

func TestLog_BlocksByOperator(t *testing.T) {
	store := &fakeStore{}
	log := New(store, Config{Keep: time.Hour})
	const calls = 3000
	for n := range calls {
		log.Record(sample(n))
	}
	if err := log.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	written := store.calls(t)
	if len(written) != calls {
		t.Errorf("%d calls were written; want %d", len(written), calls)
	}
	for _, batch := range store.batches {
		for _, b := range batch.Blocks {
			entries, _ := b.unpack()
			for _, e := range entries {
				var n int
				if _, err := fmt.Sscanf(e.RequestID, "req_%x", &n); err != nil || sample(n).OperatorID != b.OperatorID {
					t.Fatalf("the call %s is in a block of operator %d", e.RequestID, b.OperatorID)
				}
				if e.At.Before(b.From) || e.At.After(b.Until) {
					t.Fatalf("the call of %s is in a block from %s to %s", e.At, b.From, b.Until)
				}
			}
			if len(b.Packed) > blockBytes+256 {
				t.Errorf("a block has %d bytes; want about %d at most", len(b.Packed), blockBytes)
			}
		}
	}
	if uses := store.batches[0].Uses; len(uses) != 3 || uses[0].CredentialID != 11 || !uses[0].At.Equal(sample(calls-3).At) {
		t.Errorf("uses = %v; want the last of each key", uses)
	}
	log.Record(sample(calls))
	if err := log.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if uses := store.batches[len(store.batches)-1].Uses; len(uses) != 0 {
		t.Errorf("a use within the same minute was noted: %v", uses)
	}
}

// Search relies on blockSpan, in whatever order calls come.
func TestLog_BlockSpanIsBounded(t *testing.T) {
	store := &fakeStore{}
	log := New(store, Config{Keep: time.Hour})
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 500 {
		e := sample(n)
		e.At = morning.Add(time.Duration(random.IntN(60_000)) * time.Millisecond)
		log.Record(e)
	}
	if err := log.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for _, batch := range store.batches {
		for _, b := range batch.Blocks {
			blocks++
			if b.Until.Sub(b.From) > blockSpan {
				t.Errorf("a block reaches from %s to %s", b.From, b.Until)
			}
		}
	}
	if len(store.calls(t)) != 500 || blocks < 18 {
		t.Errorf("%d calls in %d blocks", len(store.calls(t)), blocks)
	}
}

func TestLog_CountsDroppedCalls(t *testing.T) {
	store, missed := &fakeStore{err: errors.New("no disk")}, &counter{}
	var problems []error
	log := New(store, Config{Keep: time.Hour, Metrics: missed, Problem: func(err error) { problems = append(problems, err) }})
	log.Record(sample(1))
	log.Record(sample(2))
	if err := log.Flush(t.Context()); err == nil || missed.dropped != 2 {
		t.Errorf("a store that fails: %v, %d dropped; want 2", err, missed.dropped)
	}

	// The store blocks: calls are buffered up to maxPending, and Record never blocks.
	store = &fakeStore{}
	missed = &counter{}
	log = New(store, Config{Keep: time.Hour, Metrics: missed})
	large := sample(1)
	large.Signature = NewSignatureDetails(strings.Repeat("x", longestString), "")
	sent := 0
	for missed.dropped == 0 {
		log.Record(large)
		sent++
	}
	if bytes := len(log.waiting); bytes > maxPending+longestString || bytes < maxPending-longestString {
		t.Errorf("%d bytes wait; want about %d", bytes, maxPending)
	}
	if err := log.Flush(t.Context()); err != nil || len(store.calls(t)) != sent-1 {
		t.Errorf("of %d calls %d were written (%v); want all but the last", sent, len(store.calls(t)), err)
	}
}

func TestLog_WritesPeriodicallyAndAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		log := New(store, Config{Keep: time.Hour})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { log.Run(ctx) })
		log.Record(sample(1))
		synctest.Wait()
		if got := len(store.calls(t)); got != 0 {
			t.Errorf("%d calls were written at once; want them to gather", got)
		}
		time.Sleep(gatherFor) // of the bubble's time
		synctest.Wait()
		if got := len(store.calls(t)); got != 1 {
			t.Errorf("%d calls were written in time; want 1", got)
		}
		log.Record(sample(2))
		stop()
		running.Wait()
		if got := len(store.calls(t)); got != 2 {
			t.Errorf("%d calls were written by the end; want 2", got)
		}
	})
}

func TestLog_WritesBurstsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		log := New(store, Config{Keep: time.Hour, Every: time.Hour})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { log.Run(ctx) })
		for n := 0; n < flushThreshold/40; n++ {
			log.Record(sample(n))
		}
		synctest.Wait()
		if len(store.calls(t)) == 0 {
			t.Error("nothing was written before the hour was over")
		}
		stop()
		running.Wait()
	})
}

func TestLog_ConcurrentRecordAndFlush(t *testing.T) {
	store := &fakeStore{}
	log := New(store, Config{Keep: time.Hour})
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for n := range 500 {
				log.Record(sample(worker*500 + n))
				if n%100 == 0 {
					if err := log.Flush(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	if err := log.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, e := range store.calls(t) {
		seen[e.RequestID] = true
	}
	if len(seen) != 4000 || len(store.calls(t)) != 4000 {
		t.Errorf("%d calls, %d of them different; want 4000", len(store.calls(t)), len(seen))
	}
}

func TestLog_StoresNoSecrets(t *testing.T) {
	const secret = "cxs_00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	store := &fakeStore{}
	log := New(store, Config{Keep: time.Hour})
	e := sample(1)
	e.IdempotencyKey = secret
	e.Signature = NewSignatureDetails("GET\n/api/v1/balance\na=1&app_password=hunter2&password=hunter3&token=t0ken\n"+secret+"\n"+secret+"\nhash", secret)
	log.Record(e)
	e.Signature = NewSignatureDetails(strings.Repeat("x", 1<<20), strings.Repeat("ab", 32))
	log.Record(e)
	if err := log.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	kept := store.calls(t)
	var text string
	for _, call := range kept {
		evidence := *call.Signature
		call.Signature = nil // %+v would print its address, which may hold any four digits
		text += fmt.Sprintf("%+v %+v\n", call, evidence)
	}
	for _, part := range []string{"0011", "hunter", "t0ken", "abababababab"} {
		if strings.Contains(text, part) {
			t.Errorf("%s is kept in %.2000s", part, text)
		}
	}
	for _, part := range []string{"a=1&", "abababab"} {
		if !strings.Contains(text, part) {
			t.Errorf("%s is missing in %.2000s", part, text)
		}
	}
	if got := len(kept[1].Signature.StringToSign); got != longestString {
		t.Errorf("%d bytes of evidence; want %d at most", got, longestString)
	}
}

func BenchmarkRecord(b *testing.B) {
	log := New(&fakeStore{}, Config{Keep: time.Hour})
	e := sample(1)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		e.OperatorID = int64(1 + n%1000)
		log.Record(e)
		if n%50_000 == 0 {
			log.mu.Lock()
			log.waiting, log.calls = log.waiting[:0], 0
			log.mu.Unlock()
		}
	}
}
