//go:build long

package sdk

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/coaxhq/coax/internal/certify/line"
	"github.com/coaxhq/coax/internal/e2e"
)

// Prism sees nothing in the requests and answers of any story that violates openapi.yaml. It
// serialises bodies anew, which breaks signatures and changes how amounts are written, so it
// is not in the line's way: it is shown each request again, with the answer that it had.
func TestStories_PrismSeesNoViolation(t *testing.T) {
	const number = "X-Test-Answer"
	var mu sync.Mutex
	var answers []line.Answer
	recorded := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int
		if _, err := fmt.Sscan(r.Header.Get(number), &n); err != nil {
			t.Errorf("Prism forwarded no number: %v", err)
			return
		}
		mu.Lock()
		answer := answers[n]
		mu.Unlock()
		maps.Copy(w.Header(), answer.Header)
		w.WriteHeader(answer.Status)
		_, _ = w.Write(answer.Body)
	}))
	t.Cleanup(recorded.Close)
	shared := newStage(t)
	prism := e2e.StartPrism(t, recorded.URL, "")
	shared.watch = func(t testing.TB, r line.Request, answer line.Answer) {
		mu.Lock()
		n := len(answers)
		answers = append(answers, answer)
		mu.Unlock()
		request, err := http.NewRequest(r.Method, prism.String()+strings.TrimPrefix(r.Target, "/api/v1"), bytes.NewReader(r.Body))
		if err != nil {
			t.Error(err)
			return
		}
		request.Header = r.Header.Clone()
		request.Header.Set(number, fmt.Sprint(n))
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Errorf("Prism did not answer: %v", err)
			return
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Errorf("Prism did not answer: %v", err)
			return
		}
		if response.StatusCode != answer.Status {
			t.Errorf("Prism made %d %s of the answer %d %s", response.StatusCode, body, answer.Status, answer.Body)
		}
		e2e.CheckViolations(t, response, body)
	}
	forEach(t, func(t *testing.T, l language) {
		d := l.start(t)
		for name, s := range readStories(t) {
			t.Run(name, func(t *testing.T) { shared.play(t, d, l, name, s) })
		}
	})
	t.Cleanup(func() {
		if len(answers) < 4*50 {
			t.Errorf("%d answers were shown to Prism; want at least 200", len(answers))
		}
	})
}
