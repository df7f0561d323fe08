package api

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
)

// BenchmarkTraces is what traces cost: a read and an activation against a whole node, client and
// simulator included, without traces and with a share of the requests recorded. Compare allocs/op
// and cpu-µs/op with those of "off" in the same run; ns/op includes the machine's other load.
func BenchmarkTraces(b *testing.B) {
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer collector.Close()
	for _, mode := range []struct {
		name string
		sets []string
	}{
		{"off", nil},
		{"ratio 0.01", []string{"trace.endpoint=" + collector.URL, "trace.ratio=0.01"}},
		{"ratio 1", []string{"trace.endpoint=" + collector.URL}},
	} {
		w := e2e.NewEnv(b, mode.sets...)
		me := w.NewFundedOperator("me", "10000000")
		b.Run("balance/"+mode.name, func(b *testing.B) {
			measure(b, w, func() e2e.Call { return e2e.Call{As: me, Path: e2e.Balance} })
		})
		mobile := 7_000_000_000
		b.Run("activate/"+mode.name, func(b *testing.B) {
			measure(b, w, func() e2e.Call {
				mobile++
				order := e2e.Order{"full_name": "Asha", "mobile": fmt.Sprint(mobile), "plan_id": "BASIC-1"}
				return e2e.Call{As: me, Method: http.MethodPost, Path: "/api/v1/activate", Body: order.JSON()}
			})
		})
	}
}

// measure sends calls one by one. The first, which opens a connection, is not measured.
func measure(b *testing.B, w *e2e.Env, next func() e2e.Call) {
	send := func() {
		response, err := w.HTTP.Do(w.Request(next()))
		if err != nil {
			b.Fatal(err)
		}
		defer response.Body.Close()
		if body, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK {
			b.Fatalf("%d %s, %v", response.StatusCode, body, err)
		}
	}
	send()
	b.ReportAllocs()
	b.ResetTimer()
	began := cpuTime(b)
	for b.Loop() {
		send()
	}
	b.ReportMetric(float64((cpuTime(b)-began).Nanoseconds())/1000/float64(b.N), "cpu-µs/op")
}

// cpuTime is the time that this process has computed.
func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
