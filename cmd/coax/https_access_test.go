package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

const balance = "/api/v1/balance"

func TestTheClockMayBeThreeHundredSecondsOff(t *testing.T) {
	w := newWorld(t, "limits.failed_auth_per_minute=1000")
	now := w.now().Unix()
	rows := []struct {
		timestamp string
		want      fault.Code
	}{
		{fmt.Sprint(now - 300), fault.OK},
		{fmt.Sprint(now + 300), fault.OK},
		{fmt.Sprint(now - 301), fault.TimestampExpired},
		{fmt.Sprint(now + 301), fault.TimestampExpired},
		{fmt.Sprintf("%d.0", now), fault.TimestampExpired},
		{fmt.Sprintf("-%d", now), fault.TimestampExpired},
		{"1e9", fault.TimestampExpired},
		{strings.Repeat("9", 40), fault.TimestampExpired},
		{"१७००००००००", fault.TimestampExpired},
	}
	for _, row := range rows {
		got := w.expect("timestamp "+row.timestamp, call{as: w.demoCaller(), path: balance, timestamp: row.timestamp}, row.want)
		if row.want == fault.TimestampExpired && got.data["server_time"] != float64(now) {
			t.Errorf("timestamp %s: server_time %v; want %d", row.timestamp, got.data["server_time"], now)
		}
	}
}

func TestANonceHasSixteenToSixtyFourOfItsCharacters(t *testing.T) {
	w := newWorld(t, "limits.failed_auth_per_minute=1000")
	rows := []struct {
		nonce string
		want  fault.Code
	}{
		{strings.Repeat("a", 15), fault.InvalidNonce},
		{strings.Repeat("b", 16), fault.OK},
		{strings.Repeat("c", 64), fault.OK},
		{strings.Repeat("d", 65), fault.InvalidNonce},
		{"AZaz09_-AZaz09_-", fault.OK},
		{"AZaz09_.AZaz09_.", fault.InvalidNonce},
		{"nonce with blank", fault.InvalidNonce},
		{"ééééééééééééééééé", fault.InvalidNonce},
	}
	for _, row := range rows {
		w.expect("nonce "+row.nonce, call{as: w.demoCaller(), path: balance, nonce: row.nonce}, row.want)
	}
}

func TestAHeaderSentTwiceOrEmptyCountsAsMissing(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"X-Api-Key", "X-Timestamp", "X-Nonce", "X-Signature"} {
		right := w.request(call{as: w.demoCaller(), path: balance}).Header.Get(name)
		for what, values := range map[string][]string{"twice": {right, right}, "empty": {""}} {
			w.expect(name+" "+what, call{as: w.demoCaller(), path: balance, header: http.Header{name: values}}, fault.MissingAuthHeaders)
		}
	}
}

func TestTheSignatureCoversMethodPathQueryAndBodyAsTheyWereSent(t *testing.T) {
	w := newWorld(t)
	me := w.demoCaller()
	w.expect("a query in canonical form", call{as: me, path: balance + "?b=2&a=1"}, fault.OK)
	w.expect("an odd query", call{as: me, path: balance + "?%zz&&a=+%2B&=&a"}, fault.OK)
	signed := w.request(call{as: me, path: balance + "?a=1"}).Header
	w.expect("another query than was signed", call{
		as: me, path: balance + "?a=2", timestamp: signed.Get("X-Timestamp"), nonce: signed.Get("X-Nonce"), signature: signed.Get("X-Signature"),
	}, fault.InvalidSignature)
	signed = w.request(call{as: me, path: balance + "?b=2&a=1"}).Header
	w.expect("the same query in another order", call{
		as: me, path: balance + "?a=1&b=2", timestamp: signed.Get("X-Timestamp"), nonce: signed.Get("X-Nonce"), signature: signed.Get("X-Signature"),
	}, fault.OK)
	signed = w.request(call{as: me, method: "POST", path: "/api/v1/renew", body: `{"a":"1"}`}).Header
	w.expect("a body that was written anew", call{
		as: me, method: "POST", path: "/api/v1/renew", body: `{"a": "1"}`,
		timestamp: signed.Get("X-Timestamp"), nonce: signed.Get("X-Nonce"), signature: signed.Get("X-Signature"),
	}, fault.InvalidSignature)
	signed = w.request(call{as: me, method: "POST", path: "/api/v1/renew", body: `{}`}).Header
	w.expect("a query on a POST is not signed", call{
		as: me, method: "POST", path: "/api/v1/renew?anything=goes", body: `{}`,
		timestamp: signed.Get("X-Timestamp"), nonce: signed.Get("X-Nonce"), signature: signed.Get("X-Signature"),
	}, fault.ValidationError)
	w.expect("a body on a GET is signed too", call{as: me, path: balance, body: "hello"}, fault.OK)
	good := w.request(call{as: me, path: balance})
	w.expect("an upper-case signature", call{
		as: me, path: balance, timestamp: good.Header.Get("X-Timestamp"), nonce: good.Header.Get("X-Nonce"),
		signature: strings.ToUpper(good.Header.Get("X-Signature")),
	}, fault.InvalidSignature)
	bare := me
	bare.secret = strings.TrimPrefix(bare.secret, "cxs_")
	w.expect("a secret without its prefix", call{as: bare, path: balance}, fault.InvalidSignature)
}

func TestTheThrottleSlidesOverAMinute(t *testing.T) {
	w := newWorld(t)
	unknown := caller{key: "cxk_" + strings.Repeat("0", 32), secret: "x"}
	for i := range 30 {
		if i == 10 {
			w.pass(20 * time.Second)
		}
		w.expect("a failure", call{as: unknown, path: balance}, fault.InvalidAPIKey)
	}
	// While it lasts, nothing else is looked at.
	got := w.expect("the 31st, a right one", call{as: w.demoCaller(), path: balance}, fault.TooManyFailedAttempts)
	if got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") != "40" {
		t.Errorf("throttled: %d, Retry-After %q; want 429 and the 40 seconds until the first failure is a minute old",
			got.status, got.header.Get("Retry-After"))
	}
	w.expect("an unknown path", call{as: w.demoCaller(), path: "/nowhere"}, fault.TooManyFailedAttempts)
	w.pass(39 * time.Second)
	w.expect("a second too early", call{as: w.demoCaller(), path: balance}, fault.TooManyFailedAttempts)
	w.pass(time.Second)
	w.expect("after the wait", call{as: w.demoCaller(), path: balance}, fault.OK)
	for range 10 {
		w.expect("room for ten more failures", call{as: unknown, path: balance}, fault.InvalidAPIKey)
	}
	w.expect("and no more", call{as: w.demoCaller(), path: balance}, fault.TooManyFailedAttempts)
}

func TestARotatedKeyLivesUntilItsGraceEnds(t *testing.T) {
	w := newWorld(t)
	old := w.newOperator("one", access.PermissionsOf(access.CheckBalance))
	issued, err := w.desk.RotateKey(t.Context(), old.id, 72*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	fresh := caller{id: issued.ID, operatorID: old.operatorID, key: issued.Key, secret: issued.Secret.Reveal()}
	w.expect("the old key within its grace", call{as: old, path: balance}, fault.OK)
	w.expect("the new key", call{as: fresh, path: balance}, fault.OK)
	w.expect("the new key has the old one's permissions", call{as: fresh, path: "/api/v1/plans"}, fault.PermissionDenied)
	w.pass(72*time.Hour - time.Millisecond)
	w.expect("the old key in its last moment", call{as: old, path: balance}, fault.OK)
	w.pass(time.Millisecond)
	w.expect("the old key at 72 hours", call{as: old, path: balance}, fault.CredentialExpired)
	w.expect("the new key still", call{as: fresh, path: balance}, fault.OK)
	if err := w.desk.RevokeKey(t.Context(), old.id); err != nil {
		t.Fatal(err)
	}
	w.expect("revoked is said before expired", call{as: old, path: balance}, fault.CredentialRevoked)
}

func TestOnlyATrustedProxyIsBelieved(t *testing.T) {
	w := newWorld(t)
	me := w.newOperator("one", access.AllPermissions)
	spoof := http.Header{"X-Forwarded-For": {"192.0.2.9"}, "X-Forwarded-Proto": {"http"}, "X-Real-Ip": {"192.0.2.9"}, "Forwarded": {"for=192.0.2.9"}}
	w.expect("a stranger's word", call{as: me, path: balance, header: spoof}, fault.OK)
	w.expect("a stranger's word for https", call{as: me, path: balance, base: w.line.PlainURL, header: http.Header{"X-Forwarded-Proto": {"https"}}}, fault.HTTPSRequired)

	w.stop()
	w.start("server.trusted_proxies=127.0.0.1/32,10.0.0.0/8")
	if _, err := w.desk.AllowAddress(t.Context(), me.operatorID, "192.0.2.9"); err != nil {
		t.Fatal(err)
	}
	rows := []struct {
		what, forwarded, proto string
		plain                  bool
		want                   fault.Code
		ip                     string
	}{
		{"a proxy that ended TLS", "192.0.2.9", "https", true, fault.OK, ""},
		{"a proxy that says nothing, over plain HTTP", "192.0.2.9", "", true, fault.HTTPSRequired, ""},
		{"a proxy that says http, over TLS", "192.0.2.9", "http", false, fault.HTTPSRequired, ""},
		{"the nearest that is no proxy counts", "192.0.2.9, 192.0.2.8, 10.1.2.3", "https", true, fault.IPNotWhitelisted, "192.0.2.8"},
		{"through two proxies", "192.0.2.8, 192.0.2.9, 10.1.2.3", "https", true, fault.OK, ""},
		{"IPv4 within IPv6 counts as IPv4", "::ffff:192.0.2.9", "https", true, fault.OK, ""},
		{"a hop that is no address", "192.0.2.9, rubbish", "https", true, fault.IPNotWhitelisted, "unknown"},
		{"no word on the address", "", "https", true, fault.OK, ""},
	}
	for _, row := range rows {
		c := call{as: me, path: balance, header: http.Header{}}
		if row.plain {
			c.base = w.line.PlainURL
		}
		if row.forwarded != "" {
			c.header.Set("X-Forwarded-For", row.forwarded)
		}
		if row.proto != "" {
			c.header.Set("X-Forwarded-Proto", row.proto)
		}
		if got := w.expect(row.what, c, row.want); row.ip != "" && got.data["ip"] != row.ip {
			t.Errorf("%s: data.ip is %v; want %s", row.what, got.data["ip"], row.ip)
		}
	}
}

func TestARestartForgetsNoNonceNoCountAndNoRevocation(t *testing.T) {
	w := newWorld(t)
	me, revoked := w.newOperator("one", access.AllPermissions), w.newOperator("two", access.AllPermissions)
	nonce := client.NewNonce()
	before := w.expect("before", call{as: me, path: balance, nonce: nonce}, fault.OK)
	if err := w.desk.RevokeKey(t.Context(), revoked.id); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.expect("the nonce after a restart", call{as: me, path: balance, nonce: nonce}, fault.ReplayDetected)
	after := w.expect("the count after a restart", call{as: me, path: balance}, fault.OK)
	if before.header.Get("X-RateLimit-Remaining") != "59" || after.header.Get("X-RateLimit-Remaining") != "58" {
		t.Errorf("remaining %s, after the restart %s; want 59 and 58", before.header.Get("X-RateLimit-Remaining"), after.header.Get("X-RateLimit-Remaining"))
	}
	w.expect("the revoked key after a restart", call{as: revoked, path: balance}, fault.CredentialRevoked)
}

func TestASecretThatCannotBeOpenedIsOurFaultAndSaysNothing(t *testing.T) {
	w := newWorld(t)
	me := w.newOperator("one", access.AllPermissions)
	damageStore(t, w.node.config.Store, fmt.Sprintf(`UPDATE credentials SET sealed_secret = %s WHERE id = %d`, blob("00"), me.id))
	got := w.expect("a damaged row", call{as: me, path: balance}, fault.InternalError)
	if got.status != http.StatusInternalServerError || strings.Contains(string(got.raw), "tink") || strings.Contains(string(got.raw), "aead") {
		t.Errorf("a damaged row: %d %s; want 500 without inner details", got.status, got.raw)
	}
	if !strings.Contains(w.logged.String(), got.id) || !strings.Contains(w.logged.String(), "open") {
		t.Error("the log does not say why")
	}
}

func TestWithTheStoreAwayTheServiceSaysSo(t *testing.T) {
	w := newWorld(t)
	// A node is not ready either while its clock is not its store's.
	w.time.Store(time.Now().UnixMilli())
	if watch := w.node.clockWatch; watch != nil {
		if err := watch.look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ready := func() int {
		response, err := http.Get(w.line.InternalURL + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	if got := ready(); got != http.StatusOK {
		t.Errorf("readyz %d; want 200", got)
	}
	takeStoreAway(t, w.node.config.Store)
	if got := ready(); got != http.StatusServiceUnavailable {
		t.Errorf("readyz without a store: %d; want 503", got)
	}
	if !pgtest.Chosen() {
		// Whoever holds a file open still has it.
		if err := w.node.store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	got := w.expect("without a store", call{as: w.demoCaller(), path: balance}, fault.ServiceUnavailable)
	if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") != "" {
		t.Errorf("without a store: %d %v; want 503 and no Retry-After", got.status, got.header)
	}
}

// A used nonce is forgotten when nobody could replay it any more, and not before.
func TestUsedNoncesArePurgedAfterADay(t *testing.T) {
	w := newWorld(t)
	me := w.newOperator("one", access.AllPermissions)
	nonce := client.NewNonce()
	w.expect("first", call{as: me, path: balance, nonce: nonce}, fault.OK)
	for _, later := range []struct {
		pass time.Duration
		want fault.Code
	}{{24 * time.Hour, fault.ReplayDetected}, {time.Millisecond, fault.OK}} {
		w.pass(later.pass)
		if _, err := w.node.gate.Purge(t.Context(), w.now()); err != nil {
			t.Fatal(err)
		}
		w.expect("after "+later.pass.String()+" more", call{as: me, path: balance, nonce: nonce}, later.want)
	}
}

// Another operator's key that I sign for is no more telling than a wrong
// signature of its owner's, and an id in the query changes nothing of whose
// balance is shown.
func TestAnotherOperatorsKeyAndIdOpenNothing(t *testing.T) {
	w := newWorld(t)
	me, other := w.newOperator("me", access.AllPermissions), w.newOperator("other", access.AllPermissions)
	if _, _, err := w.desk.TopUp(t.Context(), admin.TopUp{OperatorID: other.operatorID, Amount: rupees(t, "77.00"), Reference: "r"}); err != nil {
		t.Fatal(err)
	}
	w.expect("another operator's key", call{as: caller{key: other.key, secret: me.secret}, path: balance}, fault.InvalidSignature)
	for _, query := range []string{"", fmt.Sprintf("?lco_id=%d", other.operatorID)} {
		if got := w.expect("my balance", call{as: me, path: balance + query}, fault.OK); got.data["wallet_balance"] != 0.0 || got.data["lco_id"] != float64(me.operatorID) {
			t.Errorf("my balance%s is %s", query, got.raw)
		}
	}
}

func TestNothingSecretIsWrittenDown(t *testing.T) {
	w := newWorld(t, "provider.timeout=2s", "review.first_check=1h")
	me := w.rich("one", "10000")
	const password, mobile = "planted-password-4711", "9812345670"
	planted := map[string]string{
		"the demo's secret": w.line.APISecret, "the secret": me.secret, "the secret without its prefix": strings.TrimPrefix(me.secret, "cxs_"),
		"the whole key": me.key, "the key without its prefix": strings.TrimPrefix(me.key, "cxk_"), "a password": password,
	}
	master, err := os.ReadFile(filepath.Join(w.folder, "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	if _, value, found := strings.Cut(string(master), `"value":"`); found {
		planted["the master key"], _, _ = strings.Cut(value, `"`)
	} else {
		t.Fatal("the master key's file is not what this test knows")
	}
	// Passwords, given and made up, through every way an activation can go.
	for i, outcome := range []string{"success", "reject", "wrong_reference", "timeout_applied", "gateway_error", "reset_applied"} {
		for j, given := range []string{password, ""} {
			number := fmt.Sprintf("98123456%d%d", i, j)
			w.script(number, outcome)
			got := w.operate(me, "activate", "secret-"+number, order{"full_name": "A", "mobile": number, "password": given, "plan_id": "COMBO-1"})
			if made := got.text("customer.password"); made != "" {
				planted["a password made up for "+outcome] = made
			}
		}
	}
	if len(planted) < 10 {
		t.Fatalf("only %d things are planted: no password was made up", len(planted))
	}
	w.send(call{as: me, path: "/api/v1/subscription?mobile=" + mobile})
	w.send(call{as: me, path: "/" + me.secret + "?key=" + me.key})
	w.send(call{as: me, path: balance, header: http.Header{"X-Nonce": {me.secret}, "X-Forwarded-For": {me.secret}}})
	w.send(call{as: me, path: balance, timestamp: me.secret})
	w.send(call{as: me, path: balance, signature: me.secret})
	w.send(call{as: caller{key: me.secret, secret: me.secret}, path: balance})
	w.send(call{as: me, path: balance, nonce: "planted " + me.secret})
	if err := w.desk.RevokeKey(context.Background(), me.id); err != nil {
		t.Fatal(err)
	}
	if err := w.desk.RevokeKey(context.Background(), me.id); err == nil {
		t.Error("revoked twice")
	}

	texts := map[string]string{"the log": w.logged.String(), "the store": storeText(t, w.node.config.Store)}
	files := 0
	for _, pattern := range []string{"data/*", "coax.toml", "simulator.json"} {
		names, err := filepath.Glob(filepath.Join(w.folder, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			texts[filepath.Base(name)] = string(text)
			files++
		}
	}
	if pgtest.Chosen() {
		texts["the server's log"] = pgtest.SharedLog()
	} else if files < 4 || len(texts["coax.db-wal"]) == 0 {
		t.Fatalf("only %d files were searched; the write-ahead log must be among them", files)
	}
	if !strings.Contains(texts["the store"], mobile[:6]) {
		t.Fatal("the customers' numbers are not found where they are kept: this proves nothing")
	}
	for _, number := range []string{mobile, "9812345600"} {
		if strings.Contains(texts["the log"], number) {
			t.Errorf("the customer's number %s stands in the log", number)
		}
	}
	for what, secret := range planted {
		for where, text := range texts {
			if strings.Contains(text, secret) {
				t.Errorf("%s stands in %s", what, where)
			}
		}
	}
}
