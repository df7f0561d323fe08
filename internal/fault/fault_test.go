package fault

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"
)

func TestContract_ListsEachCodeOnce(t *testing.T) {
	seen := map[Code]bool{}
	for _, code := range Contract {
		if seen[code] {
			t.Errorf("%s is listed twice", code)
		}
		seen[code] = true
	}
	if len(Contract) != 41 {
		t.Errorf("%d codes listed; the contract has 41", len(Contract))
	}
	if seen[BadRequest] {
		t.Errorf("%s is ours, not the contract's", BadRequest)
	}
}

// A code that is declared and not listed would have no status and be answered as 500.
func TestContract_ListsEveryDeclaredCode(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "code.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	for _, declaration := range file.Decls {
		group, ok := declaration.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			for _, value := range spec.(*ast.ValueSpec).Values {
				text, err := strconv.Unquote(value.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				declared++
				if code := Code(text); code != BadRequest && !slices.Contains(Contract, code) {
					t.Errorf("%s is declared in code.go and missing from Contract", code)
				}
			}
		}
	}
	if declared != len(Contract)+1 {
		t.Errorf("code.go declares %d codes; want the contract's %d and BAD_REQUEST", declared, len(Contract))
	}
}

func TestFrom_PlainErrorIsInternalError(t *testing.T) {
	inner := errors.New("disk /dev/sda1 on fire")
	got := From(fmt.Errorf("settle CX1: %w", inner))
	if got.Code != InternalError {
		t.Errorf("code = %s; want INTERNAL_ERROR", got.Code)
	}
	if !errors.Is(got, inner) {
		t.Error("the cause is lost; the log needs it")
	}
	if want := "Something went wrong on our side. Retry with the same Idempotency-Key."; got.Message != want {
		t.Errorf("message = %q; want the fixed text", got.Message)
	}
}

func TestFrom_WrappedError_With_CopiesData(t *testing.T) {
	base := New(IPNotWhitelisted, "not from there")
	one := base.With("ip", "192.0.2.1")
	two := one.With("ip", "192.0.2.2")
	if len(base.Data) != 0 || one.Data["ip"] != "192.0.2.1" || two.Data["ip"] != "192.0.2.2" {
		t.Errorf("data leaked between copies: %v %v %v", base.Data, one.Data, two.Data)
	}
	if !Is(fmt.Errorf("judge: %w", two), IPNotWhitelisted) {
		t.Error("a wrapped refusal lost its code")
	}
	if CodeOf(nil) != OK {
		t.Errorf("CodeOf(nil) = %s; want OK", CodeOf(nil))
	}
}
