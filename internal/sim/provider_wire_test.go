package sim

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// answer replies to an order, status query or void with the order's state.
func (p *provider) answer(rw http.ResponseWriter, o *order, to string) {
	p.mu.Lock()
	said := map[string]any{"reference": o.Reference}
	switch {
	case o.effects > 0:
		said["status"], said["transaction_id"] = "applied", o.transaction
		said["subscriber_id"], said["mobile"], said["component"] = o.SubscriberID, o.Mobile, o.Component
	case to == "void":
		said["status"] = "voided"
	case o.voided && to == "order":
		said["status"], said["message"] = "rejected", "The order was cancelled before it arrived."
	case o.voided:
		said["status"] = "voided"
	case o.rejected:
		said["status"], said["message"] = "rejected", "No such box is registered."
	case o.pending:
		said["status"] = "pending"
	default:
		said["status"] = "unknown_reference"
	}
	p.mu.Unlock()
	p.say(rw, http.StatusOK, said)
}

func (p *provider) say(rw http.ResponseWriter, status int, said map[string]any) {
	text, _ := json.Marshal(said)
	rw.Header().Set("Content-Type", "application/json")
	rw.Header().Set("Content-Length", strconv.Itoa(len(text)))
	rw.WriteHeader(status)
	_, _ = rw.Write(text)
}

// applied returns the text of a reply that confirms an order.
func applied(o *order, number string) string {
	return fmt.Sprintf(`{"reference":%q,"status":"applied","subscriber_id":%q,"mobile":%q,"component":%q,"transaction_id":%q}`,
		o.Reference, o.SubscriberID, o.Mobile, o.Component, number)
}

// cut breaks the connection somewhere within a confirming reply.
func (p *provider) cut(rw http.ResponseWriter, o *order) {
	p.noteFailure()
	conn, _, err := rw.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	number := ""
	p.set(func() { number = o.transaction })
	body := applied(o, number)
	text := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	_, _ = io.WriteString(conn, text[:p.env.chance.below(len(text), "cut", p.env.nickname(o.Reference))])
	_ = conn.Close()
}

// malformed sends a confirming reply that a strict parser rejects.
func (p *provider) malformed(rw http.ResponseWriter, o *order, label string) {
	p.noteFailure()
	yes := applied(o, "P999999")
	media := "application/json"
	switch p.env.chance.below(6, "malformed", label) {
	case 0:
		yes = yes[:len(yes)-1]
	case 1:
		yes = yes[:len(yes)-1] + `,"status":"applied"}`
	case 2:
		yes += "{}"
	case 3:
		media = "text/html"
	case 4:
		yes = strings.Replace(yes, `"P999999"`, `null`, 1)
	case 5:
		yes = "<html>" + yes
	}
	rw.Header().Set("Content-Type", media)
	_, _ = io.WriteString(rw, yes)
}

func (p *provider) list(rw http.ResponseWriter) {
	p.mu.Lock()
	down := p.catalogueDown
	components := []map[string]any{}
	for _, c := range sold {
		if !p.withdrawn[c.code] {
			components = append(components, map[string]any{"code": c.code, "name": c.code, "role": c.role})
		}
	}
	p.mu.Unlock()
	if down {
		rw.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	p.say(rw, http.StatusOK, map[string]any{"components": components})
}

// sold are the components that the provider sells.
var sold = []struct{ code, role string }{{"TV-BASIC", "main"}, {"TV-FAMILY", "main"}, {"OTT-PLUS", "addon"}}

// spoilQuery answers a query with a fault, unless its behaviour is "ok", and reports
// whether it did.
func (p *provider) spoilQuery(rw http.ResponseWriter, r *http.Request, behaviour string) bool {
	switch behaviour {
	case "dropped":
		p.noteFailure()
		panic(http.ErrAbortHandler)
	case "503":
		p.noteFailure()
		rw.WriteHeader(http.StatusServiceUnavailable)
	case "malformed":
		p.noteFailure()
		_, _ = io.WriteString(rw, `{"status":"unknown_reference"`)
	case "silent":
		p.silence(r)
	case "hangs":
		p.env.occurred("fault: " + queriesHang)
		p.countHanging(1)
		defer p.countHanging(-1)
		p.hang(r)
	default:
		return false
	}
	return true
}
