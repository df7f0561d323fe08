package contracttest

import (
	"slices"
	"testing"
)

func TestMutations_ChangeEveryPartOnce(t *testing.T) {
	var got []string
	for _, mutation := range Mutations([]byte(`{"a":[{"b":1.50}],"c":null}`)) {
		got = append(got, mutation.Name+": "+string(mutation.Body))
	}
	want := []string{
		`retype the body as a string: "object"`,
		`retype the body as an array: [{"a":[{"b":1.50}],"c":null}]`,
		`remove a: {"c":null}`,
		`retype a as a string: {"a":"array","c":null}`,
		`retype a as an object: {"a":{"0":[{"b":1.50}]},"c":null}`,
		`retype a[0] as a string: {"a":["object"],"c":null}`,
		`retype a[0] as an array: {"a":[[{"b":1.50}]],"c":null}`,
		`remove a[0].b: {"a":[{}],"c":null}`,
		`retype a[0].b as a string: {"a":[{"b":"1.50"}],"c":null}`,
		`retype a[0].b as a boolean: {"a":[{"b":true}],"c":null}`,
		`retype a[0].b as an array: {"a":[{"b":[1.50]}],"c":null}`,
		`rewrite a[0].b as 1.500: {"a":[{"b":1.500}],"c":null}`,
		`add a[0].unexpected: {"a":[{"b":1.50,"unexpected":{"alien":true}}],"c":null}`,
		`append to a: {"a":[{"b":1.50},{"alien":true}],"c":null}`,
		`remove c: {"a":[{"b":1.50}]}`,
		`retype c as a number: {"a":[{"b":1.50}],"c":0}`,
		`retype c as a boolean: {"a":[{"b":1.50}],"c":true}`,
		`retype c as an array: {"a":[{"b":1.50}],"c":[]}`,
		`add unexpected: {"a":[{"b":1.50}],"c":null,"unexpected":{"alien":true}}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%q\nwant:\n%q", got, want)
	}
	if none := Mutations([]byte("no JSON")); none != nil {
		t.Errorf("a body that is not JSON has the mutations %v", none)
	}
}

func TestCheckMutations_Allowed(t *testing.T) {
	tests := []struct {
		name    string
		of      string
		allowed []string
		failed  int
	}{
		{"every mutation is detected", "balance", nil, 0},
		{"an allowed mutation is detected", "balance", []string{"remove data.note"}, 1},
		{"an allowed mutation does not exist", "balance", []string{"remove data.password"}, 1},
		{"a field that is given once is optional", "activate", nil, 0},
		{"a field that is given once is allowed explicitly", "activate", []string{"remove data.customer.password"}, 0},
		{"a field that is given once is missing", "activate-password-given", nil, 0},
		{"the replay header is optional", "activate-replayed", []string{"remove header Idempotent-Replayed"}, 0},
		{"one of several field errors is optional", "validation-error-activate", []string{"remove data.fields.mobile"}, 0},
		{"the only field error is required", "validation-error-renew", []string{"remove data.fields.subscriber_id"}, 1},
		{"the only detail is optional where data may be empty", "operation-in-progress-activate-own", []string{"remove data.transaction_id"}, 0},
		{"the only detail is required elsewhere", "operation-in-progress-renew", []string{"remove data.transaction_id"}, 1},
		{"a wrong response fails", "wrong", nil, 1},
	}
	recorded := recorded(t)
	wrong := recorded["activate"]
	wrong.status = 201
	recorded["wrong"] = wrong
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, r := &fakeTB{TB: t}, recorded[tt.of]
			tried := CheckMutations(f, r.method, r.path, r.status, r.header, r.body, tt.allowed...)
			if f.failed != tt.failed || tried < 50 {
				t.Errorf("%d failures in %d mutations; want %d in at least 50", f.failed, tried, tt.failed)
			}
		})
	}
}
