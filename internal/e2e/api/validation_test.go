package api

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
)

// bizLetters are one character each, of one, three and four bytes; the last is
// two units of UTF-16.
var bizLetters = []string{"a", "अ", "😀"}

func TestActivate_Fields(t *testing.T) {
	b := newBiz(t)
	b.run(t, "each is accepted up to its limit and returned as sent", bizFieldsAtTheirBoundaries)
	b.run(t, "a preferred id is used when free and replaced when taken", bizPreferredID)
	b.run(t, "a password is returned once, and only if it was generated", bizPassword)
	b.CheckAudit()
}

func TestPost_Fields(t *testing.T) {
	b := newBiz(t)
	b.run(t, "a missing required field is named", bizRequiredFields)
	b.run(t, "every error is reported at once", bizAllErrorsAtOnce)
	b.run(t, "a known field that is not a string is named", bizNonTextFields)
	b.run(t, "unknown fields and prices are ignored", bizUnknownFields)
	b.run(t, "controls, direction marks and noncharacters are refused", bizForbiddenCharacters)
	b.run(t, "a renewal names its customer by id, or else by mobile", bizCustomerOfRenewal)
	b.CheckAudit()
}

// sentBack checks that an activation's fields are returned in the answer and both
// look-ups, and the address, which no answer has, by the admin service.
func (b *bizEnv) sentBack(what string, got e2e.Answer, sent bizBody) {
	b.TB.Helper()
	if got.Code != fault.OK {
		return
	}
	want := func(name string) string {
		text, _ := sent[name].(string)
		return strings.TrimSpace(text)
	}
	customer := map[string]string{"customer.name": want("full_name"), "customer.mobile": want("mobile")}
	b.mustShow(what, got, customer)
	b.mustShow(what+", looked up", b.get(b.me, "transaction?transaction_id="+got.Text("transaction_id")), customer)
	customer["customer.email"], customer["customer.connection_type"] = want("email"), want("connection_type")
	if customer["customer.connection_type"] == "" {
		customer["customer.connection_type"] = "OTT + Live TV"
	}
	b.mustShow(what+", as a subscription", b.get(b.me, "subscription?mobile="+want("mobile")), customer)
	if sent["address"] == nil {
		return
	}
	_, kept, err := b.Admin.FindSubscriber(context.Background(), got.Text("customer.subscriber_id"))
	if err != nil || kept.Address != want("address") {
		b.TB.Errorf("%s: the address %q is kept as %q, %v", what, want("address"), kept.Address, err)
	}
}

func bizFieldsAtTheirBoundaries(t *testing.T, b *bizEnv) {
	long := strings.Repeat("p", 100)
	b.plan(long, "1.00", 1)
	type row struct {
		field, value string
		want         fault.Code
	}
	rows := []row{
		{"full_name", "", fault.ValidationError}, {"full_name", " \u00a0 ", fault.ValidationError}, {"full_name", "A", fault.OK},
		{"full_name", "  " + strings.Repeat("a", 100) + "  ", fault.OK}, {"full_name", "\t\r\nAsha\u0085\u3000", fault.OK},
		{"full_name", `<b>"A" & 'B'</b> \ /`, fault.OK}, {"full_name", "आशा क्षत्रिय र\u200dय र्\u200cय", fault.OK}, {"full_name", "e\u0301", fault.OK},
		{"mobile", "", fault.ValidationError}, {"mobile", "   ", fault.ValidationError}, {"mobile", "981111111", fault.ValidationError},
		{"mobile", "98111111111", fault.ValidationError}, {"mobile", "+919811111", fault.ValidationError}, {"mobile", "98111 1111", fault.ValidationError},
		{"mobile", "98-1111111", fault.ValidationError}, {"mobile", "981111111x", fault.ValidationError}, {"mobile", "९८१११११११०", fault.ValidationError},
		{"mobile", "９８１１１１１１１１", fault.ValidationError}, {"mobile", "1234567.89", fault.ValidationError}, {"mobile", "0000000000", fault.OK},
		{"mobile", "9999999999", fault.OK}, {"mobile", " 9811111112 ", fault.OK},
		{"plan_id", "", fault.ValidationError}, {"plan_id", "  ", fault.ValidationError}, {"plan_id", long, fault.OK}, {"plan_id", long + "p", fault.ValidationError},
		{"plan_id", " BASIC-1 ", fault.OK}, {"plan_id", "basic-1", fault.InvalidPlan}, {"plan_id", "BASIC-2", fault.InvalidPlan},
		{"plan_id", strings.Repeat("अ", 100), fault.InvalidPlan}, {"plan_id", strings.Repeat("अ", 101), fault.ValidationError}, {"plan_id", "BASIC-1' OR '1'='1", fault.InvalidPlan},
		{"email", "", fault.OK}, {"email", " a@example.com ", fault.OK}, {"email", "a.b+c_d-e@mail.example.co.in", fault.OK}, {"email", "A1@EXAMPLE.COM", fault.OK},
		{"email", "a", fault.ValidationError}, {"email", "a@", fault.ValidationError}, {"email", "@example.com", fault.ValidationError}, {"email", "a@b@example.com", fault.ValidationError},
		{"email", "a b@example.com", fault.ValidationError}, {"email", "a@exam ple.com", fault.ValidationError}, {"email", "a@example", fault.ValidationError},
		{"email", "a@.example.com", fault.ValidationError}, {"email", "a@example..com", fault.ValidationError}, {"email", "a@example.com.", fault.ValidationError},
		{"email", "a@-example.com", fault.ValidationError}, {"email", "a@example-.com", fault.ValidationError}, {"email", ".a@example.com", fault.ValidationError},
		{"email", "a.@example.com", fault.ValidationError}, {"email", "a..b@example.com", fault.ValidationError}, {"email", "A <a@example.com>", fault.ValidationError},
		{"email", "<a@example.com>", fault.ValidationError}, {"email", "a@example.com, b@example.com", fault.ValidationError}, {"email", "a@exa_mple.com", fault.ValidationError},
		{"email", "mailto:a@example.com", fault.ValidationError}, {"email", "a@example.com(x)", fault.ValidationError},
		{"email", bizEmail(150), fault.OK}, {"email", bizEmail(151), fault.ValidationError},
		{"password", "", fault.OK}, {"password", " ", fault.OK}, {"password", "p\n", fault.ValidationError}, {"password", strings.Repeat("p", 64) + " ", fault.ValidationError},
		{"connection_type", "", fault.OK}, {"connection_type", "  ", fault.OK}, {"connection_type", "Live TV", fault.OK}, {"connection_type", "<TV> & more", fault.OK},
		{"address", "", fault.OK}, {"address", "12, M.G. Road & <Cross>, मुंबई", fault.OK},
		{"address", "12 Lake Road\r\n\tKochi\n682001", fault.OK}, {"address", "\n12 Lake Road\n", fault.OK}, {"address", strings.Repeat("a\n", 249) + "bcd", fault.ValidationError},
		{"address", "a\u000bb", fault.ValidationError}, {"connection_type", "a\nb", fault.ValidationError},
		{"subscriber_id", "", fault.OK}, {"subscriber_id", "12345", fault.ValidationError}, {"subscriber_id", "1234567", fault.ValidationError},
		{"subscriber_id", "12345a", fault.ValidationError}, {"subscriber_id", "१२३४५६", fault.ValidationError}, {"subscriber_id", "-12345", fault.ValidationError},
		{"subscriber_id", "000000", fault.OK}, {"subscriber_id", " 654321 ", fault.OK},
	}
	for field, most := range map[string]int{"full_name": 100, "password": 64, "connection_type": 100, "address": 500} {
		for _, letter := range bizLetters {
			rows = append(rows, row{field, strings.Repeat(letter, most), fault.OK}, row{field, strings.Repeat(letter, most+1), fault.ValidationError})
		}
	}
	try := func(taken bool) {
		for _, row := range rows {
			if (row.want == fault.OK) != taken {
				continue
			}
			what := fmt.Sprintf("%s %.40q of %d bytes", row.field, row.value, len(row.value))
			sent := b.good("activate").with(row.field, row.value)
			got := b.must(what, b.post(b.me, "activate", b.key(), sent.json()), row.want)
			switch row.want {
			case fault.OK:
				b.sentBack(what, got, sent)
			case fault.ValidationError:
				b.mustName(what, got, row.field)
			}
		}
	}
	b.checkNoCharge("what is refused", func() { try(false) })
	try(true)
}

// bizEmail returns a valid address of this length.
func bizEmail(length int) string {
	local, domain := strings.Repeat("a", 40)+"@", "."+strings.Repeat("b", 60)+".com"
	return local + strings.Repeat("c", length-len(local)-len(domain)) + domain
}

func bizRequiredFields(t *testing.T, b *bizEnv) {
	for _, field := range []string{"full_name", "mobile", "plan_id"} {
		b.mustName("no "+field, b.post(b.me, "activate", b.key(), b.good("activate").without(field).json()), field)
	}
	// Names are returned unchanged.
	for _, field := range []string{"full_name", "mobile", "plan_id"} {
		good := b.good("activate")
		other := good.without(field).with(strings.ToUpper(field), good[field])
		b.mustName(strings.ToUpper(field), b.post(b.me, "activate", b.key(), other.json()), field)
	}
	for _, endpoint := range bizEndpoints[1:] {
		b.mustName(endpoint+" without a plan", b.post(b.me, endpoint, b.key(), b.good(endpoint).without("plan_id").json()), "plan_id")
		b.mustName(endpoint+" of nothing", b.post(b.me, endpoint, b.key(), `{}`), "plan_id", "subscriber_id")
	}
	b.mustName("activate of nothing", b.post(b.me, "activate", b.key(), `{}`), "full_name", "mobile", "plan_id")
}

func bizAllErrorsAtOnce(t *testing.T, b *bizEnv) {
	wrong := bizBody{
		"full_name": strings.Repeat("a", 101), "mobile": "98", "plan_id": 7, "email": "x", "password": strings.Repeat("p", 65),
		"connection_type": "a\u202eb", "address": nil, "subscriber_id": "1",
	}
	names := []string{"full_name", "mobile", "plan_id", "email", "password", "connection_type", "address", "subscriber_id"}
	b.checkNoCharge("everything wrong", func() {
		b.mustName("everything wrong", b.post(b.me, "activate", b.key(), wrong.json()), names...)
		for _, endpoint := range bizEndpoints[1:] {
			b.mustName(endpoint+", id and plan", b.post(b.me, endpoint, b.key(), `{"subscriber_id":1,"plan_id":2}`), "subscriber_id", "plan_id")
			b.mustName(endpoint+", mobile and plan", b.post(b.me, endpoint, b.key(), `{"mobile":"98","plan_id":""}`), "mobile", "plan_id")
		}
	})
	// A field error is reported before an unknown plan.
	b.mustName("an unknown plan besides", b.post(b.me, "activate", b.key(), b.good("activate").with("plan_id", "NONE").with("email", "x").json()), "email")
}

func bizNonTextFields(t *testing.T, b *bizEnv) {
	values := []any{nil, true, false, 0, 9811111111, -1.5, []any{}, []any{"BASIC-1"}, bizBody{}, bizBody{"a": "b"}}
	known := map[string][]string{
		"activate":      {"full_name", "mobile", "plan_id", "email", "password", "connection_type", "address", "subscriber_id"},
		"renew":         {"subscriber_id", "plan_id", "mobile"},
		"advance-renew": {"subscriber_id", "plan_id", "mobile"},
	}
	for endpoint, fields := range known {
		good := b.good(endpoint)
		b.checkNoCharge(endpoint, func() {
			for _, field := range fields {
				for _, value := range values {
					sent := good.with(field, value)
					if endpoint != "activate" && field == "mobile" {
						sent = sent.without("subscriber_id") // with it the mobile is ignored
					}
					b.mustName(fmt.Sprintf("%s with %s %v", endpoint, field, value), b.post(b.me, endpoint, b.key(), sent.json()), field)
				}
			}
		})
	}
}

func bizUnknownFields(t *testing.T, b *bizEnv) {
	extras := []bizBody{
		{"price": "1.00"}, {"price": 1}, {"amount": 0.01, "price": nil}, {"amount": "0"}, {"wallet": bizBody{"charged": 0, "before": 1}}, {"expiry": "2099-01-01 00:00:00"},
		{"duration": 12, "duration_months": "12"}, {"channel": "web", "status": "success"}, {"lco_id": 1, "operator_id": "1"}, {"transaction_id": "CX1"},
		{"x": true}, {"x": false}, {"x": []any{1, "a", nil, []any{}}}, {"x": bizBody{"plan_id": "FAMILY-3"}}, {"": "", "\u202e": "\u0000"}, {"Plan_Id": "FAMILY-3"},
	}
	all := bizBody{}
	for i, extra := range extras {
		for name, value := range extra {
			all[fmt.Sprint(strings.TrimSuffix(name, "x"), strings.Repeat("x", i))] = value
		}
	}
	for _, endpoint := range bizEndpoints {
		tried := []bizBody{{"price": "1.00", "amount": 0.01}, all}
		if endpoint == "activate" {
			tried = append(tried, extras...)
		}
		for _, extra := range tried {
			sent := b.good(endpoint)
			price := map[any]string{"BASIC-1": "199", "FAMILY-1": "349"}[sent["plan_id"]]
			for name, value := range extra {
				sent[name] = value
			}
			before := b.WalletPaise(b.me)
			got := b.must(fmt.Sprintf("%s with %v", endpoint, extra), b.post(b.me, endpoint, b.key(), sent.json()), fault.OK)
			b.mustShow(fmt.Sprintf("%s with %v", endpoint, extra), got, map[string]string{
				"amount": price, "wallet.charged": price, "plan.id": fmt.Sprint(sent["plan_id"]), "plan.duration_months": "1", "channel": "api",
			})
			if cost := before[0] - b.WalletPaise(b.me)[0]; cost != e2e.Rupees(t, price).Paise() {
				t.Errorf("%s with %v cost %d paise; want %s", endpoint, extra, cost, price)
			}
		}
	}
}

func bizForbiddenCharacters(t *testing.T, b *bizEnv) {
	refused := []rune{
		0x00, 0x01, 0x09, 0x0a, 0x0d, 0x1b, 0x1f, 0x80, 0x85, 0x9f, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069,
		0xfdd0, 0xfdef, 0xfffe, 0xffff, 0x1fffe, 0x1ffff, 0x10fffe, 0x10ffff,
	}
	edges := []rune{0x00, 0x1f, 0x80, 0x9f, 0x202a, 0x202e, 0x2066, 0x2069, 0xfdd0, 0xfffe, 0x10ffff}
	b.checkNoCharge("unprintable", func() {
		good := b.good("activate")
		for _, field := range []string{"full_name", "plan_id", "email", "password", "connection_type", "address"} {
			some := edges
			if field == "full_name" {
				some = refused
			}
			for _, r := range some {
				sent := good.with(field, "a"+string(r)+"b")
				b.mustName(fmt.Sprintf("%s with U+%04X", field, r), b.post(b.me, "activate", b.key(), sent.json()), field)
			}
		}
		for _, endpoint := range bizEndpoints[1:] {
			for _, field := range []string{"subscriber_id", "plan_id"} {
				for _, r := range edges {
					sent := bizBody{"subscriber_id": "100001", "plan_id": "BASIC-1"}.with(field, "a"+string(r)+"b")
					b.mustName(fmt.Sprintf("%s, %s with U+%04X", endpoint, field, r), b.post(b.me, endpoint, b.key(), sent.json()), field)
				}
			}
		}
	})
	// Adjacent code points and joiners are allowed.
	taken := "a \u007e\u00a0\u00a1\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202f\u2065\u206a\ufdcf\ufdf0\ufeff\ufffd\U0001fffd\U00020000\U0010fffdb"
	for _, field := range []string{"full_name", "connection_type", "address", "password"} {
		sent := b.good("activate").with(field, taken)
		got := b.must(field+" with the neighbours", b.post(b.me, "activate", b.key(), sent.json()), fault.OK)
		b.sentBack(field+" with the neighbours", got, sent)
	}
}

func bizCustomerOfRenewal(t *testing.T, b *bizEnv) {
	for _, endpoint := range bizEndpoints[1:] {
		customer := func() bizCustomer { return b.customer(b.me, "BASIC-1") }
		nobody := customer()
		rows := []struct {
			what string
			body func(c bizCustomer) bizBody
			want fault.Code
			name string
		}{
			{"an id", func(c bizCustomer) bizBody { return bizBody{"subscriber_id": c.id} }, fault.OK, ""},
			{"an id between blanks", func(c bizCustomer) bizBody { return bizBody{"subscriber_id": " " + c.id + " "} }, fault.OK, ""},
			{"a mobile", func(c bizCustomer) bizBody { return bizBody{"mobile": c.mobile} }, fault.OK, ""},
			{"an empty id and a mobile", func(c bizCustomer) bizBody { return bizBody{"subscriber_id": "", "mobile": c.mobile} }, fault.OK, ""},
			{"a blank id and a mobile", func(c bizCustomer) bizBody { return bizBody{"subscriber_id": "  ", "mobile": c.mobile} }, fault.OK, ""},
			{"an id and another's mobile", func(c bizCustomer) bizBody { return bizBody{"subscriber_id": c.id, "mobile": nobody.mobile} }, fault.OK, ""},
			{"an id and a malformed mobile", func(c bizCustomer) bizBody { return bizBody{"subscriber_id": c.id, "mobile": "98"} }, fault.OK, ""},
			{"an id and a mobile that is no text", func(c bizCustomer) bizBody { return bizBody{"subscriber_id": c.id, "mobile": 98} }, fault.OK, ""},
			{"an unknown id and a mobile", func(c bizCustomer) bizBody { return bizBody{"subscriber_id": "nobody", "mobile": c.mobile} }, fault.SubscriberNotFound, ""},
			{"a mobile for an id", func(c bizCustomer) bizBody { return bizBody{"subscriber_id": c.mobile} }, fault.SubscriberNotFound, ""},
			{"an unknown mobile", func(bizCustomer) bizBody { return bizBody{"mobile": "9600000000"} }, fault.SubscriberNotFound, ""},
			{"neither", func(bizCustomer) bizBody { return bizBody{} }, fault.ValidationError, "subscriber_id"},
			{"both empty", func(bizCustomer) bizBody { return bizBody{"subscriber_id": "", "mobile": ""} }, fault.ValidationError, "subscriber_id"},
			{"null for an id and a mobile", func(c bizCustomer) bizBody { return bizBody{"subscriber_id": nil, "mobile": c.mobile} }, fault.ValidationError, "subscriber_id"},
			{"a mobile of nine digits", func(c bizCustomer) bizBody { return bizBody{"mobile": c.mobile[:9]} }, fault.ValidationError, "mobile"},
			{"a mobile of eleven digits", func(c bizCustomer) bizBody { return bizBody{"mobile": c.mobile + "0"} }, fault.ValidationError, "mobile"},
			{"a mobile with a letter", func(c bizCustomer) bizBody { return bizBody{"mobile": c.mobile[:9] + "x"} }, fault.ValidationError, "mobile"},
		}
		for _, row := range rows {
			c, what := customer(), endpoint+" with "+row.what
			got := b.post(b.me, endpoint, b.key(), row.body(c).with("plan_id", "FAMILY-1").json())
			if b.must(what, got, row.want); row.want == fault.OK {
				b.mustShow(what, got, map[string]string{"customer.subscriber_id": c.id, "customer.mobile": c.mobile, "customer.name": "Asha"})
			}
			if row.name != "" {
				b.mustName(what, got, row.name)
			}
		}
	}
}

func bizPreferredID(t *testing.T, b *bizEnv) {
	other := b.NewFundedOperator("other", "1000")
	first := b.post(b.me, "activate", b.key(), b.good("activate").with("subscriber_id", "424242").json())
	b.mustShow("a free id", first, map[string]string{"customer.subscriber_id": "424242"})
	for _, as := range []e2e.Caller{b.me, other} {
		got := b.must("a taken id", b.post(as, "activate", b.key(), b.good("activate").with("subscriber_id", "424242").json()), fault.OK)
		id := got.Text("customer.subscriber_id")
		if id == "424242" || len(id) != 6 || strings.Trim(id, "0123456789") != "" {
			t.Errorf("a taken id was replaced by %q; want six other digits", id)
		}
		b.must("the replaced id", b.get(as, "subscription?subscriber_id="+url.QueryEscape(id)), fault.OK)
	}
	// After a failure the number and the id are free again.
	sent := b.good("activate").with("subscriber_id", "515151")
	b.ScriptProvider(sent["mobile"].(string), "reject")
	failed := b.must("a rejected activation", b.post(b.me, "activate", b.key(), sent.json()), fault.ProviderError)
	b.must("its subscriber", b.get(b.me, "subscription?subscriber_id=515151"), fault.SubscriberNotFound)
	b.must("its subscriber by mobile", b.get(b.me, "subscription?mobile="+sent["mobile"].(string)), fault.SubscriberNotFound)
	b.must("its transaction", b.get(b.me, "transaction?transaction_id="+failed.Text("transaction_id")), fault.OK)
	again := b.must("once more, by another operator", b.post(other, "activate", b.key(), sent.json()), fault.OK)
	b.mustShow("once more", again, map[string]string{"customer.subscriber_id": "515151"})
}

func bizPassword(t *testing.T, b *bizEnv) {
	for _, given := range []any{"secret<&>", " p ", strings.Repeat("😀", 64)} {
		got := b.must("a given password", b.post(b.me, "activate", b.key(), b.good("activate").with("password", given).json()), fault.OK)
		if _, there := got.Data["customer"].(map[string]any)["password"]; there {
			t.Errorf("password %q was given, and the answer has one: %s", given, got.Raw)
		}
	}
	for _, sent := range []bizBody{b.good("activate"), b.good("activate").with("password", "")} {
		key := b.key()
		got := b.must("no password", b.post(b.me, "activate", key, sent.json()), fault.OK)
		if made := got.Text("customer.password"); len(made) != 12 || strings.ContainsAny(made, "0O1lI") {
			t.Errorf("the password made is %q; want twelve characters and no look-alikes", made)
		}
		for what, later := range map[string]e2e.Answer{"the replay": b.post(b.me, "activate", key, sent.json()), "the look-up": b.LookUp(b.me, key)} {
			if _, there := later.Data["customer"].(map[string]any)["password"]; there || later.Code != fault.OK {
				t.Errorf("%s has a password: %s", what, later.Raw)
			}
		}
	}
	if got := b.post(b.me, "renew", b.key(), b.good("renew").json()); got.Text("customer.password") != "" {
		t.Errorf("a renewal has a password: %s", got.Raw)
	}
}
