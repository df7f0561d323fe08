package httpapi

import (
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/fault"
)

func TestParseBody_Messages(t *testing.T) {
	for text, want := range map[string]string{
		"{\"a\":\"\xff\"}":                "it is not valid UTF-8.",
		" ":                               "it is empty.",
		"[]":                              "it begins with something else.",
		"{} x":                            "something follows the object at byte 3.",
		`{"a":`:                           "it ends too early.",
		`{"a":é}`:                         `unexpected 'Ã' at byte 5.`,
		`{"a":1,"\u0061":2}`:              `the name "a" is there twice.`,
		`{"a":"\ud800"}`:                  "an escape before byte 12 is half of a surrogate pair.",
		`{"x":` + strings.Repeat("[", 32): "it is nested deeper than 32.",
	} {
		_, err := parseBody([]byte(text))
		if got := fault.From(err); got.Code != fault.InvalidJSON || got.Message != "The body is not a JSON object: "+want {
			t.Errorf("%q: %s %s; want %s", text, got.Code, got.Message, want)
		}
	}
}

func TestParseBody_SeparatesStringFields(t *testing.T) {
	body, err := parseBody([]byte(`{"mobile":9876543210,"plan_id":"P","address":null,"email":["a"],"full_name":{"a":"b"},"price":"1","x":true}`))
	if err != nil {
		t.Fatal(err)
	}
	if body.texts["plan_id"] != "P" || body.texts["price"] != "1" || len(body.texts) != 2 {
		t.Errorf("texts %v", body.texts)
	}
	slices.Sort(body.others)
	if want := []string{"address", "email", "full_name", "mobile", "x"}; !slices.Equal(body.others, want) {
		t.Errorf("others %v; want %v", body.others, want)
	}
}

func TestCheckMediaType(t *testing.T) {
	for value, good := range map[string]bool{
		"application/json": true, "application/json; charset=utf-8": true, "Application/JSON;charset=UTF-8": true, `application/json; charset="utf-8"`: true,
		"": false, "text/plain": false, "application/json; charset=latin1": false, "application/jsonx": false,
		"application/json, application/json": false, "application/problem+json": false,
		"application/json; charset*1=latin1": false, `application/json; Charset*0="utf-8"`: false, "application/json; charset*=utf-8''utf-8": false,
		"application/json; v=1": true, "application/json; charset=utf8": true, "application/json; charset=UTF8; v=1": true,
		"application/json; profile=\"https://x.example/*\"": true, "application/json; c*0=x": true, "application/json;": true,
		"application/json; v=1; charset=latin1": false, "application/json; charset=utf-8; charset=latin1": false, "application/json; charset=utf_8": false,
		`application/json; charset=""`: false, "application/json; v": false, "text/plain; charset=utf-8; v=1": false,
	} {
		if err := checkMediaType([]string{value}); (err == nil) != good {
			t.Errorf("%q: %v; want taken: %v", value, err, good)
		}
	}
	if checkMediaType(nil) == nil || checkMediaType([]string{"application/json", "application/json"}) == nil {
		t.Error("none, or two, are taken")
	}
}

func TestParseIdempotencyKey(t *testing.T) {
	rows := []struct {
		values []string
		want   fault.Code
	}{
		{nil, fault.MissingIdempotencyKey}, {[]string{""}, fault.MissingIdempotencyKey},
		{[]string{"1234567"}, fault.InvalidIdempotencyKey}, {[]string{"12345678"}, fault.OK},
		{[]string{strings.Repeat("k", 100)}, fault.OK}, {[]string{strings.Repeat("k", 101)}, fault.InvalidIdempotencyKey},
		{[]string{"AZaz09_.:-"}, fault.OK}, {[]string{"with blank"}, fault.InvalidIdempotencyKey}, {[]string{"slash/1234"}, fault.InvalidIdempotencyKey},
		{[]string{"ключ-ключ"}, fault.InvalidIdempotencyKey}, {[]string{"12345678", "12345678"}, fault.InvalidIdempotencyKey},
	}
	for _, row := range rows {
		if _, err := parseIdempotencyKey(row.values); fault.CodeOf(err) != row.want {
			t.Errorf("%q: %v; want %s", row.values, err, row.want)
		}
	}
}

func TestReadQuery(t *testing.T) {
	rows := []struct {
		raw   string
		wrong string
		first string
	}{
		{"subscriber_id=100001", "", "100001"},
		{"mobile=9876543210", "", ""},
		{"subscriber_id=100001&mobile=junk", "", "100001"},
		{"subscriber_id=&mobile=9876543210", "", ""},
		{"other=1&subscriber_id=%31", "", "1"},
		{"subscriber_id=+100001%0A", "", "100001"},
		{"mobile=%209876543210%C2%A0", "", ""},
		{"subscriber_id=%20&mobile=9876543210+", "", ""},
		{"subscriber_id=+%09", "subscriber_id", ""},
		{"mobile=98765+43210", "mobile", ""},
		{"subscriber_id=1%0A2", "subscriber_id", ""},
		{"subscriber_id=+&subscriber_id=1", "subscriber_id", ""},
		{"", "subscriber_id", ""},
		{"subscriber_id=", "subscriber_id", ""},
		{"mobile=98", "mobile", ""},
		{"mobile=98765432१0", "mobile", ""},
		{"subscriber_id=1&subscriber_id=1", "subscriber_id", ""},
		{"subscriber_id=1&mobile=9876543210&mobile=9876543210", "mobile", ""},
		{"subscriber_id=%00", "subscriber_id", ""},
		{"subscriber_id=%FF", "subscriber_id", ""},
		{"Subscriber_id=1", "subscriber_id", ""},
	}
	for _, row := range rows {
		got, err := readQuery(row.raw, lookupSubscription)
		fields, _ := fault.From(err).Data["fields"].(map[string]string)
		switch {
		case row.wrong == "" && (err != nil || got["subscriber_id"] != row.first):
			t.Errorf("%s: %v, %v; want %q", row.raw, got, err, row.first)
		case row.wrong != "" && (fault.CodeOf(err) != fault.ValidationError || fields[row.wrong] == ""):
			t.Errorf("%s: %v %v; want an error on %s", row.raw, err, fields, row.wrong)
		}
	}
}
