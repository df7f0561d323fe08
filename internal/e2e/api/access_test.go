package api

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
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

func TestTimestamp_Within300Seconds(t *testing.T) {
	w := e2e.NewEnv(t, "limits.failed_auth_per_minute=1000")
	now := w.Now().Unix()
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
		got := w.Expect("timestamp "+row.timestamp, e2e.Call{As: w.DemoCaller(), Path: e2e.Balance, Timestamp: row.timestamp}, row.want)
		if row.want == fault.TimestampExpired && got.Data["server_time"] != float64(now) {
			t.Errorf("timestamp %s: server_time %v; want %d", row.timestamp, got.Data["server_time"], now)
		}
	}
	milliseconds := fmt.Sprint(w.Now().UnixMilli())
	got := w.Expect("a timestamp in milliseconds", e2e.Call{As: w.DemoCaller(), Path: e2e.Balance, Timestamp: milliseconds}, fault.TimestampExpired)
	if !strings.Contains(got.Message, "milliseconds") || got.Data["server_time"] != float64(now) {
		t.Errorf("timestamp %s: %q, server_time %v; want a message about milliseconds, and %d", milliseconds, got.Message, got.Data["server_time"], now)
	}
}

func TestNonce_LengthAndCharacters(t *testing.T) {
	w := e2e.NewEnv(t, "limits.failed_auth_per_minute=1000")
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
		w.Expect("nonce "+row.nonce, e2e.Call{As: w.DemoCaller(), Path: e2e.Balance, Nonce: row.nonce}, row.want)
	}
}

func TestAuthHeaders_RepeatedOrEmptyIsMissing(t *testing.T) {
	w := e2e.NewEnv(t)
	for _, name := range []string{"X-Api-Key", "X-Timestamp", "X-Nonce", "X-Signature"} {
		right := w.Request(e2e.Call{As: w.DemoCaller(), Path: e2e.Balance}).Header.Get(name)
		for what, values := range map[string][]string{"twice": {right, right}, "empty": {""}} {
			w.Expect(name+" "+what, e2e.Call{As: w.DemoCaller(), Path: e2e.Balance, Header: http.Header{name: values}}, fault.MissingAuthHeaders)
		}
	}
}

func TestSignature_CoversMethodPathQueryBody(t *testing.T) {
	w := e2e.NewEnv(t)
	me := w.DemoCaller()
	w.Expect("a query in canonical form", e2e.Call{As: me, Path: e2e.Balance + "?b=2&a=1"}, fault.OK)
	w.Expect("an odd query", e2e.Call{As: me, Path: e2e.Balance + "?%zz&&a=+%2B&=&a"}, fault.OK)
	signed := w.Request(e2e.Call{As: me, Path: e2e.Balance + "?a=1"}).Header
	w.Expect("another query than was signed", e2e.Call{
		As: me, Path: e2e.Balance + "?a=2", Timestamp: signed.Get("X-Timestamp"), Nonce: signed.Get("X-Nonce"), Signature: signed.Get("X-Signature"),
	}, fault.InvalidSignature)
	signed = w.Request(e2e.Call{As: me, Path: e2e.Balance + "?b=2&a=1"}).Header
	w.Expect("the same query in another order", e2e.Call{
		As: me, Path: e2e.Balance + "?a=1&b=2", Timestamp: signed.Get("X-Timestamp"), Nonce: signed.Get("X-Nonce"), Signature: signed.Get("X-Signature"),
	}, fault.OK)
	signed = w.Request(e2e.Call{As: me, Method: "POST", Path: "/api/v1/renew", Body: `{"a":"1"}`}).Header
	w.Expect("a body that was re-encoded", e2e.Call{
		As: me, Method: "POST", Path: "/api/v1/renew", Body: `{"a": "1"}`,
		Timestamp: signed.Get("X-Timestamp"), Nonce: signed.Get("X-Nonce"), Signature: signed.Get("X-Signature"),
	}, fault.InvalidSignature)
	signed = w.Request(e2e.Call{As: me, Method: "POST", Path: "/api/v1/renew", Body: `{}`}).Header
	w.Expect("a query on a POST is not signed", e2e.Call{
		As: me, Method: "POST", Path: "/api/v1/renew?anything=goes", Body: `{}`,
		Timestamp: signed.Get("X-Timestamp"), Nonce: signed.Get("X-Nonce"), Signature: signed.Get("X-Signature"),
	}, fault.ValidationError)
	w.Expect("a body on a GET is signed too", e2e.Call{As: me, Path: e2e.Balance, Body: "hello"}, fault.OK)
	good := w.Request(e2e.Call{As: me, Path: e2e.Balance})
	w.Expect("an upper-case signature", e2e.Call{
		As: me, Path: e2e.Balance, Timestamp: good.Header.Get("X-Timestamp"), Nonce: good.Header.Get("X-Nonce"),
		Signature: strings.ToUpper(good.Header.Get("X-Signature")),
	}, fault.InvalidSignature)
	bare := me
	bare.Secret = strings.TrimPrefix(bare.Secret, "cxs_")
	w.Expect("a secret without its prefix", e2e.Call{As: bare, Path: e2e.Balance}, fault.InvalidSignature)
}

func TestFailedAuthThrottle_SlidingMinute(t *testing.T) {
	w := e2e.NewEnv(t)
	unknown := e2e.Caller{Key: "cxk_" + strings.Repeat("0", 32), Secret: "x"}
	for i := range 30 {
		if i == 10 {
			w.Advance(20 * time.Second)
		}
		w.Expect("a failure", e2e.Call{As: unknown, Path: e2e.Balance}, fault.InvalidAPIKey)
	}
	// While it lasts, nothing else is checked.
	got := w.Expect("the 31st, a right one", e2e.Call{As: w.DemoCaller(), Path: e2e.Balance}, fault.TooManyFailedAttempts)
	if got.Status != http.StatusTooManyRequests || got.Header.Get("Retry-After") != "40" {
		t.Errorf("throttled: %d, Retry-After %q; want 429 and the 40 seconds until the first failure is a minute old",
			got.Status, got.Header.Get("Retry-After"))
	}
	w.Expect("an unknown path", e2e.Call{As: w.DemoCaller(), Path: "/nowhere"}, fault.TooManyFailedAttempts)
	w.Advance(39 * time.Second)
	w.Expect("a second too early", e2e.Call{As: w.DemoCaller(), Path: e2e.Balance}, fault.TooManyFailedAttempts)
	w.Advance(time.Second)
	w.Expect("after the wait", e2e.Call{As: w.DemoCaller(), Path: e2e.Balance}, fault.OK)
	for range 10 {
		w.Expect("one of ten more failures", e2e.Call{As: unknown, Path: e2e.Balance}, fault.InvalidAPIKey)
	}
	w.Expect("and no more", e2e.Call{As: w.DemoCaller(), Path: e2e.Balance}, fault.TooManyFailedAttempts)
}

func TestRotatedKey_ValidUntilGraceEnds(t *testing.T) {
	w := e2e.NewEnv(t)
	old := w.NewOperator("one", access.PermissionsOf(access.CheckBalance))
	issued, err := w.Admin.RotateKey(t.Context(), old.ID, 72*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	fresh := e2e.Caller{ID: issued.ID, OperatorID: old.OperatorID, Key: issued.Key, Secret: issued.Secret.Reveal()}
	w.Expect("the old key within its grace", e2e.Call{As: old, Path: e2e.Balance}, fault.OK)
	w.Expect("the new key", e2e.Call{As: fresh, Path: e2e.Balance}, fault.OK)
	w.Expect("the new key has the old one's permissions", e2e.Call{As: fresh, Path: "/api/v1/plans"}, fault.PermissionDenied)
	w.Advance(72*time.Hour - time.Millisecond)
	w.Expect("the old key in its last moment", e2e.Call{As: old, Path: e2e.Balance}, fault.OK)
	w.Advance(time.Millisecond)
	w.Expect("the old key at 72 hours", e2e.Call{As: old, Path: e2e.Balance}, fault.CredentialExpired)
	w.Expect("the new key still", e2e.Call{As: fresh, Path: e2e.Balance}, fault.OK)
	if err := w.Admin.RevokeKey(t.Context(), old.ID); err != nil {
		t.Fatal(err)
	}
	w.Expect("revoked comes before expired", e2e.Call{As: old, Path: e2e.Balance}, fault.CredentialRevoked)
}

func TestForwardedHeaders_TrustedProxyOnly(t *testing.T) {
	w := e2e.NewEnv(t)
	me := w.NewOperator("one", access.AllPermissions)
	spoof := http.Header{"X-Forwarded-For": {"192.0.2.9"}, "X-Forwarded-Proto": {"http"}, "X-Real-Ip": {"192.0.2.9"}, "Forwarded": {"for=192.0.2.9"}}
	w.Expect("headers of an untrusted peer", e2e.Call{As: me, Path: e2e.Balance, Header: spoof}, fault.OK)
	w.Expect("https claimed by an untrusted peer", e2e.Call{As: me, Path: e2e.Balance, Base: w.Demo.PlainURL, Header: http.Header{"X-Forwarded-Proto": {"https"}}}, fault.HTTPSRequired)

	w.Stop()
	w.Start("server.trusted_proxies=127.0.0.1/32,10.0.0.0/8")
	if _, err := w.Admin.AllowAddress(t.Context(), me.OperatorID, "192.0.2.9"); err != nil {
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
		{"the last address that is no trusted proxy counts", "192.0.2.9, 192.0.2.8, 10.1.2.3", "https", true, fault.IPNotWhitelisted, "192.0.2.8"},
		{"through two proxies", "192.0.2.8, 192.0.2.9, 10.1.2.3", "https", true, fault.OK, ""},
		{"IPv4 within IPv6 counts as IPv4", "::ffff:192.0.2.9", "https", true, fault.OK, ""},
		{"a hop that is no address", "192.0.2.9, rubbish", "https", true, fault.IPNotWhitelisted, "unknown"},
		{"no forwarded address", "", "https", true, fault.OK, ""},
	}
	for _, row := range rows {
		c := e2e.Call{As: me, Path: e2e.Balance, Header: http.Header{}}
		if row.plain {
			c.Base = w.Demo.PlainURL
		}
		if row.forwarded != "" {
			c.Header.Set("X-Forwarded-For", row.forwarded)
		}
		if row.proto != "" {
			c.Header.Set("X-Forwarded-Proto", row.proto)
		}
		if got := w.Expect(row.what, c, row.want); row.ip != "" && got.Data["ip"] != row.ip {
			t.Errorf("%s: data.ip is %v; want %s", row.what, got.Data["ip"], row.ip)
		}
	}
}

func TestRestart_KeepsNoncesCountsRevocations(t *testing.T) {
	w := e2e.NewEnv(t)
	me, revoked := w.NewOperator("one", access.AllPermissions), w.NewOperator("two", access.AllPermissions)
	nonce := client.NewNonce()
	before := w.Expect("before", e2e.Call{As: me, Path: e2e.Balance, Nonce: nonce}, fault.OK)
	if err := w.Admin.RevokeKey(t.Context(), revoked.ID); err != nil {
		t.Fatal(err)
	}
	w.Restart()
	w.Expect("the nonce after a restart", e2e.Call{As: me, Path: e2e.Balance, Nonce: nonce}, fault.ReplayDetected)
	after := w.Expect("the count after a restart", e2e.Call{As: me, Path: e2e.Balance}, fault.OK)
	if before.Header.Get("X-RateLimit-Remaining") != "59" || after.Header.Get("X-RateLimit-Remaining") != "58" {
		t.Errorf("remaining %s, after the restart %s; want 59 and 58", before.Header.Get("X-RateLimit-Remaining"), after.Header.Get("X-RateLimit-Remaining"))
	}
	w.Expect("the revoked key after a restart", e2e.Call{As: revoked, Path: e2e.Balance}, fault.CredentialRevoked)
}

func TestDamagedSecret_Is500WithoutDetails(t *testing.T) {
	w := e2e.NewEnv(t)
	me := w.NewOperator("one", access.AllPermissions)
	e2e.ExecOnStore(t, w.Node.Config.Store, fmt.Sprintf(`UPDATE credentials SET sealed_secret = %s WHERE id = %d`, e2e.BlobLiteral("00"), me.ID))
	got := w.Expect("a damaged row", e2e.Call{As: me, Path: e2e.Balance}, fault.InternalError)
	if got.Status != http.StatusInternalServerError || strings.Contains(string(got.Raw), "tink") || strings.Contains(string(got.Raw), "aead") {
		t.Errorf("a damaged row: %d %s; want 500 without inner details", got.Status, got.Raw)
	}
	if !strings.Contains(w.Log.String(), got.ID) || !strings.Contains(w.Log.String(), "open") {
		t.Error("the log does not have the reason")
	}
}

func TestMissingStore_Is503AndNotReady(t *testing.T) {
	w := e2e.NewEnv(t)
	// A node whose clock differs from its store's is not ready either.
	w.Time.Store(time.Now().UnixMilli())
	if watch := w.Node.ClockWatch; watch != nil {
		if err := watch.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ready := func() int {
		response, err := http.Get(w.Demo.InternalURL + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	if got := ready(); got != http.StatusOK {
		t.Errorf("readyz %d; want 200", got)
	}
	e2e.RemoveStore(t, w.Node.Config.Store)
	if got := ready(); got != http.StatusServiceUnavailable {
		t.Errorf("readyz without a store: %d; want 503", got)
	}
	if !pgtest.Chosen() {
		// An open file stays usable after it is moved.
		if err := w.Node.Store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	got := w.Expect("without a store", e2e.Call{As: w.DemoCaller(), Path: e2e.Balance}, fault.ServiceUnavailable)
	if got.Status != http.StatusServiceUnavailable || got.Header.Get("Retry-After") != "" {
		t.Errorf("without a store: %d %v; want 503 and no Retry-After", got.Status, got.Header)
	}
}

// A used nonce is deleted when its timestamp is too old for a replay, and not before.
func TestNonce_PurgedAfterADay(t *testing.T) {
	w := e2e.NewEnv(t)
	me := w.NewOperator("one", access.AllPermissions)
	nonce := client.NewNonce()
	w.Expect("first", e2e.Call{As: me, Path: e2e.Balance, Nonce: nonce}, fault.OK)
	for _, later := range []struct {
		pass time.Duration
		want fault.Code
	}{{24 * time.Hour, fault.ReplayDetected}, {time.Millisecond, fault.OK}} {
		w.Advance(later.pass)
		if _, err := w.Node.Authorizer.Purge(t.Context(), w.Now()); err != nil {
			t.Fatal(err)
		}
		w.Expect("after "+later.pass.String()+" more", e2e.Call{As: me, Path: e2e.Balance, Nonce: nonce}, later.want)
	}
}

// Another operator's key with the caller's secret is a wrong signature, and an operator id
// in the query is ignored.
func TestForeignKeyAndID_RevealNothing(t *testing.T) {
	w := e2e.NewEnv(t)
	me, other := w.NewOperator("me", access.AllPermissions), w.NewOperator("other", access.AllPermissions)
	if _, _, err := w.Admin.TopUp(t.Context(), admin.TopUp{OperatorID: other.OperatorID, Amount: e2e.Rupees(t, "77.00"), Reference: "r"}); err != nil {
		t.Fatal(err)
	}
	w.Expect("another operator's key", e2e.Call{As: e2e.Caller{Key: other.Key, Secret: me.Secret}, Path: e2e.Balance}, fault.InvalidSignature)
	for _, query := range []string{"", fmt.Sprintf("?lco_id=%d", other.OperatorID)} {
		if got := w.Expect("my balance", e2e.Call{As: me, Path: e2e.Balance + query}, fault.OK); got.Data["wallet_balance"] != 0.0 || got.Data["lco_id"] != float64(me.OperatorID) {
			t.Errorf("my balance%s is %s", query, got.Raw)
		}
	}
}

func TestSecrets_InNoLogOrStore(t *testing.T) {
	w := e2e.NewEnv(t, "provider.timeout=2s", "review.first_check=1h")
	me := w.NewFundedOperator("one", "10000")
	const password, mobile = "planted-password-4711", "9812345670"
	planted := map[string]string{
		"the demo's secret": w.Demo.APISecret, "the secret": me.Secret, "the secret without its prefix": strings.TrimPrefix(me.Secret, "cxs_"),
		"the whole key": me.Key, "the key without its prefix": strings.TrimPrefix(me.Key, "cxk_"), "a password": password,
	}
	master, err := os.ReadFile(filepath.Join(w.Folder, "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	if _, value, found := strings.Cut(string(master), `"value":"`); found {
		planted["the master key"], _, _ = strings.Cut(value, `"`)
	} else {
		t.Fatal("the master key's file has an unknown format")
	}
	// Passwords, given and generated, in activations with every outcome.
	for i, outcome := range []string{"success", "reject", "wrong_reference", "timeout_applied", "gateway_error", "reset_applied"} {
		for j, given := range []string{password, ""} {
			number := fmt.Sprintf("98123456%d%d", i, j)
			w.ScriptProvider(number, outcome)
			got := w.Operate(me, "activate", "secret-"+number, e2e.Order{"full_name": "A", "mobile": number, "password": given, "plan_id": "COMBO-1"})
			if made := got.Text("customer.password"); made != "" {
				planted["a password generated for "+outcome] = made
			}
		}
	}
	if len(planted) < 10 {
		t.Fatalf("only %d secrets to search for: no password was generated", len(planted))
	}
	w.Send(e2e.Call{As: me, Path: "/api/v1/subscription?mobile=" + mobile})
	w.Send(e2e.Call{As: me, Path: "/" + me.Secret + "?key=" + me.Key})
	w.Send(e2e.Call{As: me, Path: e2e.Balance, Header: http.Header{"X-Nonce": {me.Secret}, "X-Forwarded-For": {me.Secret}}})
	w.Send(e2e.Call{As: me, Path: e2e.Balance, Timestamp: me.Secret})
	w.Send(e2e.Call{As: me, Path: e2e.Balance, Signature: me.Secret})
	w.Send(e2e.Call{As: e2e.Caller{Key: me.Secret, Secret: me.Secret}, Path: e2e.Balance})
	w.Send(e2e.Call{As: me, Path: e2e.Balance, Nonce: "planted " + me.Secret})
	if err := w.Admin.RevokeKey(context.Background(), me.ID); err != nil {
		t.Fatal(err)
	}
	if err := w.Admin.RevokeKey(context.Background(), me.ID); err == nil {
		t.Error("revoked twice")
	}

	texts := map[string]string{"the log": w.Log.String(), "the store": e2e.DumpStore(t, w.Node.Config.Store)}
	files := 0
	for _, pattern := range []string{"data/*", "coax.toml", "simulator.json"} {
		names, err := filepath.Glob(filepath.Join(w.Folder, pattern))
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
		t.Fatal("the store's dump has no customer numbers: the search would find nothing")
	}
	for _, number := range []string{mobile, "9812345600"} {
		if strings.Contains(texts["the log"], number) {
			t.Errorf("the customer's number %s is in the log", number)
		}
	}
	for what, secret := range planted {
		for where, text := range texts {
			if strings.Contains(text, secret) {
				t.Errorf("%s is in %s", what, where)
			}
		}
	}
}
