package httpapi

import (
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/coaxhq/coax/contract/contracttest"
	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/fault"
)

// Each kind of difference is made here once, on either side, and must be reported: a
// comparison that reports nothing would look like agreement.
func TestContractComparison_ReportsEveryDifference(t *testing.T) {
	const activate, balance, transaction = "POST /api/v1/activate", "GET /api/v1/balance", "GET /api/v1/transaction"
	type withMore struct {
		balanceData
		More string `json:"more"`
	}
	type withOptional struct {
		balanceData
		More string `json:"more,omitempty"`
	}
	type withLess struct {
		LCOID int64 `json:"lco_id"`
	}
	type unnamed struct {
		balanceData
		More string
	}
	show := func(t reflect.Type) func(*service, contracttest.Description) {
		return func(s *service, _ contracttest.Description) {
			at := slices.IndexFunc(s.views, func(v view) bool { return v.shows == reflect.TypeFor[balanceData]() })
			s.views = slices.Clone(s.views)
			s.views[at].shows = t
		}
	}
	data := func(said contracttest.Description, endpoint string, status int, code string) contracttest.Shape {
		return said.Endpoints[endpoint].Answers[status][code].Data[0]
	}
	endpoint := func(said contracttest.Description, name string, change func(*contracttest.Endpoint)) {
		changed := said.Endpoints[name]
		change(&changed)
		said.Endpoints[name] = changed
	}
	tests := []struct {
		name  string
		plant func(*service, contracttest.Description)
		want  string
	}{
		{"an endpoint that is only documented", func(_ *service, said contracttest.Description) {
			said.Endpoints["GET /api/v1/wallet"] = contracttest.Endpoint{}
		}, "endpoint GET /api/v1/wallet is in the document and not in the service"},
		{"an endpoint that is only served", func(_ *service, said contracttest.Description) { delete(said.Endpoints, balance) },
			"endpoint GET /api/v1/balance is in the service and not in the document"},
		{"an endpoint of another method", func(s *service, _ contracttest.Description) { s.routes[3].method = "POST" },
			"endpoint POST /api/v1/balance is in the service and not in the document"},

		{"another permission in the document", func(_ *service, said contracttest.Description) {
			endpoint(said, balance, func(e *contracttest.Endpoint) { e.Permissions = []string{"Get Plans"} })
		}, `the document asks for the permissions ["Get Plans"]; the route for ["Check Balance"]`},
		{"another permission at the route", func(s *service, _ contracttest.Description) { s.routes[3].needs = access.GetPlans },
			`the document asks for the permissions ["Check Balance"]; the route for ["Get Plans"]`},
		{"another permission in the description", func(_ *service, said contracttest.Description) {
			endpoint(said, balance, func(e *contracttest.Endpoint) { e.Words = "The key needs the permission `Get Plans`." })
		}, "the description does not name the permission Check Balance"},
		{"an unused permission", func(s *service, _ contracttest.Description) {
			s.permissions = append(s.permissions, access.Permission(99))
		}, "permission Permission(99) is in the service and not in the document"},

		{"a code that is only documented", func(_ *service, said contracttest.Description) { said.Statuses["TEAPOT"] = []int{418} },
			"code TEAPOT as 418 is in the document and not in the service"},
		{"a code that is only served", func(_ *service, said contracttest.Description) { delete(said.Statuses, "RATE_LIMITED") },
			"code RATE_LIMITED as 429 is in the service and not in the document"},
		{"another status in the document", func(_ *service, said contracttest.Description) { said.Statuses["RATE_LIMITED"] = []int{503} },
			"code RATE_LIMITED as 503 is in the document and not in the service"},
		{"another status in the table", func(s *service, _ contracttest.Description) { s.statuses[fault.RateLimited] = []int{503} },
			"code RATE_LIMITED as 503 is in the service and not in the document"},
		{"a status of unreadable messages", func(s *service, _ contracttest.Description) {
			s.statuses[fault.BadRequest] = append(s.statuses[fault.BadRequest], 414)
		}, "code BAD_REQUEST as 414 is in the service and not in the document"},
		{"a code missing from fault.Codes", func(s *service, said contracttest.Description) {
			s.statuses["TEAPOT"], said.Statuses["TEAPOT"] = []int{418}, []int{418}
		}, "known code TEAPOT is in the document and not in the service"},

		{"a field of a request that is only documented", func(_ *service, said contracttest.Description) {
			said.Endpoints[activate].Fields["landmark"] = contracttest.Text{}
		}, "POST /api/v1/activate: field landmark is in the document and not in the service"},
		{"a field of a request that is only read", func(s *service, _ contracttest.Description) {
			s.fields["/api/v1/renew"] = append(s.fields["/api/v1/renew"], "email")
		}, "POST /api/v1/renew: field email is in the service and not in the document"},
		{"a parameter that is only documented", func(_ *service, said contracttest.Description) {
			said.Endpoints[balance].Query["at"] = contracttest.Text{}
		}, "GET /api/v1/balance: parameter at is in the document and not in the service"},
		{"a parameter that is only read", func(_ *service, said contracttest.Description) {
			delete(said.Endpoints[transaction].Query, "idempotency_key")
		}, "GET /api/v1/transaction: parameter idempotency_key is in the service and not in the document"},
		{"a missing field error", func(_ *service, said contracttest.Description) {
			delete(data(said, activate, 422, "VALIDATION_ERROR"), "fields.email")
		}, "POST /api/v1/activate: field error email is in the service and not in the document"},
		{"a field error for an unknown field", func(_ *service, said contracttest.Description) {
			data(said, transaction, 422, "VALIDATION_ERROR")["fields.mobile"] = false
		}, "GET /api/v1/transaction: field error mobile is in the document and not in the service"},

		{"a field of an answer that is only documented", func(_ *service, said contracttest.Description) {
			data(said, activate, 202, "PENDING_REVIEW")["customer.email"] = true
		}, "POST /api/v1/activate 202: customer.email is in the document and not in the service"},
		{"a field of an answer that is only sent", func(_ *service, said contracttest.Description) {
			delete(data(said, activate, 502, "PROVIDER_ERROR"), "wallet.refunded")
		}, "POST /api/v1/activate 502: wallet.refunded is in the service and not in the document"},
		{"a field of one shape that is missing", func(_ *service, said contracttest.Description) {
			delete(said.Endpoints["GET /api/v1/subscription"].Answers[200]["OK"].Data[2], "pending_operations[].plan.id")
		}, "GET /api/v1/subscription 200: pending_operations[].plan.id is in the service and not in the document"},
		{"a field of the envelope", func(_ *service, said contracttest.Description) {
			said.Endpoints[balance].Answers[401]["INVALID_NONCE"].Fields["hint"] = true
		}, "GET /api/v1/balance 401 INVALID_NONCE: envelope's hint is in the document and not in the service"},
		{"a new field", show(reflect.TypeFor[withMore]()), "GET /api/v1/balance 200: more is in the service and not in the document"},
		{"a new field that may be missing", show(reflect.TypeFor[withOptional]()), "more is shown by"},
		{"a field that is gone", show(reflect.TypeFor[withLess]()), "GET /api/v1/balance 200: note is in the document and not in the service"},
		{"a field without a tag", show(reflect.TypeFor[unnamed]()), "More without a name in JSON"},
		{"a required field documented as optional", func(_ *service, said contracttest.Description) {
			data(said, balance, 200, "OK")["note"] = false
		}, "GET /api/v1/balance 200: note is always there; the document calls it optional"},
		{"a password in a look-up", func(_ *service, said contracttest.Description) {
			data(said, transaction, 200, "OK")["customer.password"] = false
		}, "customer.password is shown by"},

		{"a detail that is only documented", func(_ *service, said contracttest.Description) {
			data(said, activate, 409, "SUBSCRIBER_EXISTS")["subscriber_id"] = true
		}, "refusal SUBSCRIBER_EXISTS with subscriber_id is in the document and not in the service"},
		{"a detail that is only sent", func(s *service, _ contracttest.Description) {
			s.details[fault.SubscriberExists] = []string{"subscriber_id"}
		}, "refusal SUBSCRIBER_EXISTS with subscriber_id is in the service and not in the document"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := itself()
			var err error
			if s.details, err = detailsIn(sources...); err != nil {
				t.Fatal(err)
			}
			said := contracttest.Describe(t)
			tt.plant(&s, said)
			found := s.differences(said)
			if !slices.ContainsFunc(found, func(difference string) bool { return strings.Contains(difference, tt.want) }) {
				t.Errorf("found %q; want %q among them", found, tt.want)
			}
		})
	}
}

func TestDetailsIn_ReadsRefusalsFromSource(t *testing.T) {
	read := func(statement string) (map[fault.Code][]string, error) {
		return detailsIn(fs.FS(fstest.MapFS{"x.go": {Data: []byte("package x\nfunc f() { " + statement + " }")}}))
	}
	got, err := read(`g(fault.New(fault.NotFound, "no").With("a", 1).Because(err).With("b", 2)); log.With(slog.Int("n", 1))`)
	if want := []string{"a", "b"}; err != nil || len(got) != 1 || !slices.Equal(slices.Sorted(slices.Values(got[fault.NotFound])), want) {
		t.Errorf("read %v, %v; want %q under NOT_FOUND", got, err, want)
	}
	for _, statement := range []string{
		`g(refusal.With("a", 1))`, `g(fault.New(fault.NotFound, "no").With(name, 1))`, `g(fault.New(code, "no").With("a", 1))`,
	} {
		if got, err := read(statement); err == nil {
			t.Errorf("%s was read as %v; want an error", statement, got)
		}
	}
}
