package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/contract/contracttest"
	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/operation"
)

// service describes the code in the form of contracttest.Description; differences
// reports what is in one and not in the other.
type service struct {
	routes      []route
	permissions []access.Permission
	statuses    map[fault.Code][]int
	fields      map[string][]string // of a request's body, by path
	queries     map[string][]string // by path
	envelope    reflect.Type
	views       []view
	details     map[fault.Code][]string
}

// view is a struct and the responses that show it.
type view struct {
	shows   reflect.Type
	by      []string // endpoints
	answers []int
	never   []string // optional fields that these responses do not have
}

func itself() service {
	s := service{
		routes:      New(Config{}).routes(),
		permissions: access.AllPermissions.List(),
		statuses:    map[fault.Code][]int{},
		fields: map[string][]string{
			"/api/v1/activate":      operation.KnownFields(operation.Activate),
			"/api/v1/renew":         operation.KnownFields(operation.Renew),
			"/api/v1/advance-renew": operation.KnownFields(operation.AdvanceRenew),
		},
		queries: map[string][]string{
			"/api/v1/transaction":  {lookupTransaction.first, lookupTransaction.second},
			"/api/v1/subscription": {lookupSubscription.first, lookupSubscription.second},
		},
		envelope: reflect.TypeFor[envelope](),
		views: []view{
			{
				shows: reflect.TypeFor[operationData](),
				by:    []string{"POST /api/v1/activate", "POST /api/v1/renew", "POST /api/v1/advance-renew"}, answers: []int{200, 202, 502},
			},
			{
				shows: reflect.TypeFor[transactionData](), by: []string{"GET /api/v1/transaction"}, answers: []int{200},
				never: []string{"customer.password"},
			},
			{shows: reflect.TypeFor[subscriptionData](), by: []string{"GET /api/v1/subscription"}, answers: []int{200}},
			{shows: reflect.TypeFor[balanceData](), by: []string{"GET /api/v1/balance"}, answers: []int{200}},
			{shows: reflect.TypeFor[plansData](), by: []string{"GET /api/v1/plans"}, answers: []int{200}},
		},
	}
	for code, entry := range codes {
		s.statuses[code] = []int{entry.status}
	}
	for status := range faultTexts {
		s.statuses[fault.BadRequest] = append(s.statuses[fault.BadRequest], status)
	}
	return s
}

// differences reports every difference between the service and the document.
func (s service) differences(said contracttest.Description) (found []string) {
	complain := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }

	var have []string
	for _, route := range s.routes {
		name := route.method + " " + route.path
		have = append(have, name)
		endpoint := said.Endpoints[name]
		if want := []string{route.needs.String()}; !slices.Equal(endpoint.Permissions, want) {
			complain("%s: the document asks for the permissions %q; the route for %q", name, endpoint.Permissions, want)
		}
		if !strings.Contains(strings.Join(strings.Fields(endpoint.Words), " "), "the permission `"+route.needs.String()+"`") {
			complain("%s: the description does not name the permission %s", name, route.needs)
		}
		lists(complain, name+": field", slices.Collect(maps.Keys(endpoint.Fields)), s.fields[route.path])
		lists(complain, name+": parameter", slices.Collect(maps.Keys(endpoint.Query)), s.queries[route.path])
	}
	lists(complain, "endpoint", slices.Collect(maps.Keys(said.Endpoints)), have)

	var needed, granted []string
	for _, endpoint := range said.Endpoints {
		needed = append(needed, endpoint.Permissions...)
	}
	for _, permission := range s.permissions {
		granted = append(granted, permission.String())
	}
	lists(complain, "permission", needed, granted)

	s.codes(said, complain)
	s.shapes(said, complain)
	s.refusals(said, complain)
	return found
}

// lists compares names in any order.
func lists(complain func(string, ...any), what string, document, service []string) {
	for _, name := range document {
		if !slices.Contains(service, name) {
			complain("%s %s is in the document and not in the service", what, name)
		}
	}
	for _, name := range service {
		if !slices.Contains(document, name) {
			complain("%s %s is in the service and not in the document", what, name)
		}
	}
}

func (s service) codes(said contracttest.Description, complain func(string, ...any)) {
	pairs := func(code string, statuses []int) (list []string) {
		for _, status := range statuses {
			list = append(list, fmt.Sprintf("%s as %d", code, status))
		}
		return list
	}
	var document, service, ours []string
	for code, statuses := range said.Statuses {
		document = append(document, pairs(code, statuses)...)
	}
	for code, statuses := range s.statuses {
		service = append(service, pairs(string(code), statuses)...)
		ours = append(ours, string(code))
	}
	lists(complain, "code", document, service)
	var known []string
	for _, code := range append(slices.Clone(fault.Contract), fault.BadRequest) {
		known = append(known, string(code))
	}
	lists(complain, "known code", ours, known)
}

func (s service) shapes(said contracttest.Description, complain func(string, ...any)) {
	outer := fieldsOf(s.envelope)
	for name, endpoint := range said.Endpoints {
		for status, codes := range endpoint.Answers {
			for code, envelope := range codes {
				at := fmt.Sprintf("%s %d %s: envelope's", name, status, code)
				lists(complain, at, slices.Collect(maps.Keys(envelope.Fields)), slices.Collect(maps.Keys(outer)))
			}
		}
	}
	for _, view := range s.views {
		has, shown := fieldsOf(view.shows), map[string]bool{}
		for _, name := range view.by {
			for _, status := range view.answers {
				codes := said.Endpoints[name].Answers[status]
				if len(codes) != 1 {
					complain("%s %d has %d codes; a view is for one", name, status, len(codes))
				}
				for _, envelope := range codes {
					for _, shape := range envelope.Data {
						has.compare(shape, shown, func(format string, args ...any) {
							complain("%s %d: %s", name, status, fmt.Sprintf(format, args...))
						})
					}
				}
			}
		}
		for field := range has {
			if excused := slices.Contains(view.never, field); shown[field] == excused {
				complain("%v: %s is shown by %q: %v; excused from that: %v", view.shows, field, view.by, shown[field], excused)
			}
		}
	}
}

// compare compares a struct's fields with those of one shape, and marks the ones the
// shape has in shown.
func (has fields) compare(shape contracttest.Shape, shown map[string]bool, complain func(string, ...any)) {
	for field, required := range shape {
		always, known := has[field]
		switch {
		case !known:
			complain("%s is in the document and not in the service", field)
		case always && !required:
			complain("%s is always there; the document calls it optional", field)
		}
		shown[field] = true
	}
	for field, always := range has {
		if _, known := shape[field]; always && !known {
			complain("%s is in the service and not in the document", field)
		}
	}
}

// refusals compares the details of refusals.
func (s service) refusals(said contracttest.Description, complain func(string, ...any)) {
	document := map[string]bool{}
	for _, endpoint := range said.Endpoints {
		for status, codes := range endpoint.Answers {
			if slices.Contains([]int{http.StatusOK, http.StatusAccepted, http.StatusBadGateway}, status) {
				continue // views
			}
			for code, envelope := range codes {
				for _, shape := range envelope.Data {
					for field := range shape {
						if !strings.Contains(field, ".") { // data.fields is compared with the request's fields
							document[code+" with "+field] = true
						}
					}
				}
			}
		}
	}
	var service []string
	for code, names := range s.details {
		for _, name := range names {
			service = append(service, string(code)+" with "+name)
		}
	}
	lists(complain, "refusal", slices.Collect(maps.Keys(document)), service)
	for name, endpoint := range said.Endpoints {
		var wrong []string
		for _, envelope := range endpoint.Answers[http.StatusUnprocessableEntity][string(fault.ValidationError)].Data {
			for field := range envelope {
				if inner, found := strings.CutPrefix(field, "fields."); found {
					wrong = append(wrong, inner)
				}
			}
		}
		_, path, _ := strings.Cut(name, " ")
		lists(complain, name+": field error", wrong, append(slices.Clone(s.fields[path]), s.queries[path]...))
	}
}

// fields are a struct's JSON fields by path; false means optional.
type fields map[string]bool

func fieldsOf(t reflect.Type) fields {
	found := fields{}
	found.add(t, "")
	return found
}

var marshaler = reflect.TypeFor[json.Marshaler]()

func (f fields) add(t reflect.Type, prefix string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Implements(marshaler) || t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return // it has its own MarshalJSON
	case t.Kind() == reflect.Slice:
		f.add(t.Elem(), strings.TrimSuffix(prefix, ".")+"[].")
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			field := t.Field(i)
			name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			switch {
			case field.Anonymous && name == "":
				f.add(field.Type, prefix)
			case name == "":
				f[prefix+field.Name+" without a name in JSON"] = true
			default:
				f[prefix+name] = !strings.Contains(options, "omitempty")
				f.add(field.Type, prefix+name+".")
			}
		}
	}
}

func TestContract_ServiceMatchesDocument(t *testing.T) {
	said := contracttest.Describe(t)
	s := itself()
	var err error
	if s.details, err = detailsIn(sources...); err != nil {
		t.Fatal(err)
	}
	for _, difference := range s.differences(said) {
		t.Error(difference)
	}
}
