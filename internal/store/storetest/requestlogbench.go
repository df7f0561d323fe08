package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/subscription"
)

// BenchmarkRequestLog measures one more call in the request log, when a number of calls
// of each of a thousand operators are written together: forty for a node that answers
// as many balances as it can, four for renewals, one for light load.
func BenchmarkRequestLog(b *testing.B, newOpener func(testing.TB) Opener) {
	const operators = 1000
	const pause = 50 * time.Millisecond // between two calls of one operator
	for _, each := range []int{1, 4, 40} {
		b.Run(fmt.Sprintf("together=%d", each), func(b *testing.B) {
			store := newOpener(b).Open(b)
			defer store.Close()
			log := requestlog.New(store, requestlog.Config{Keep: time.Hour})
			e := call(subscription.Operator{}, 0)
			b.ReportAllocs()
			b.ResetTimer()
			before := processorTime(b)
			for n := range b.N {
				e.OperatorID, e.CredentialID = int64(1+n%operators), int64(1+n%operators)
				e.At = noon.Add(time.Duration(n/operators) * pause)
				log.Record(e)
				if (n+1)%(each*operators) == 0 {
					if err := log.Flush(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			}
			if err := log.Flush(b.Context()); err != nil {
				b.Fatal(err)
			}
			used := processorTime(b) - before
			b.ReportMetric(float64(used.Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}
