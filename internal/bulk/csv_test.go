package bulk_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/bulk"
)

func TestReadCSV_AnyColumnOrder(t *testing.T) {
	for name, text := range map[string]string{
		"as listed":                       "subscriber_id,mobile,plan_id\n100001,,BASIC-1\n,9800000002,\n",
		"in another order":                "plan_id,subscriber_id,mobile\nBASIC-1,100001,\n,,9800000002\n",
		"with a mark, CRLF and blanks":    "\ufeffSubscriber_ID , MOBILE,plan_id\r\n 100001 ,,BASIC-1\r\n,9800000002,\r\n",
		"with quotation marks":            "\"subscriber_id\",\"mobile\",\"plan_id\"\n\"100001\",\"\",\"BASIC-1\"\n,9800000002,\n",
		"with empty lines in it":          "subscriber_id,mobile,plan_id\n100001,,BASIC-1\n,9800000002,\n\n,,\n",
		"without a line's end at its end": "subscriber_id,mobile,plan_id\n100001,,BASIC-1\n,9800000002,",
	} {
		got, err := bulk.ReadCSV(strings.NewReader(text))
		want := []bulk.Selection{{Line: 2, SubscriberID: "100001", PlanID: "BASIC-1"}, {Line: 3, Mobile: "9800000002"}}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
	one, err := bulk.ReadCSV(strings.NewReader("mobile\n9800000001\n"))
	if err != nil || !slices.Equal(one, []bulk.Selection{{Line: 2, Mobile: "9800000001"}}) {
		t.Errorf("one column: %+v, %v", one, err)
	}
}

// Each problem names its line and column.
func TestReadCSV_ReportsAllProblems(t *testing.T) {
	for _, row := range []struct {
		name, text string
		want       []string // line/column/part of the text
	}{
		{"nothing", "", []string{"0//empty"}},
		{"only a header", "mobile\n", []string{"0//no rows"}},
		{"no header", "9800000001,BASIC-1\n", []string{"1/9800000001/no such column", "1/BASIC-1/no such column", "1//has to name"}},
		{"a column that is not known", "mobile,name\n9800000001,A\n", []string{"1/name/no such column"}},
		{"a column twice", "mobile,mobile\n9800000001,9800000001\n", []string{"1/mobile/twice"}},
		{"neither id nor mobile as a column", "plan_id\nBASIC-1\n", []string{"1//subscriber_id or mobile"}},
		{"not UTF-8", "mobile\n\xff\xfe\n", []string{"0//UTF-8"}},
		{"several lines", "subscriber_id,mobile,plan_id\n,,BASIC-1\n,98,\n100001,,\n100001,,\n1,2\n,9800000001,\"a\"b\n,9800000002,\u202eX\n", []string{
			"2/subscriber_id/Give a subscriber_id or a mobile", "3/mobile/ten digits", "5/subscriber_id/on line 4 already", "6//has 2 fields",
			"7//quotation marks", "8/plan_id/direction",
		}},
		{"a mobile twice", "mobile\n9800000001\n9800000001\n", []string{"3/mobile/on line 2 already"}},
		{"a plan that is too long", "mobile,plan_id\n9800000001," + strings.Repeat("x", 101) + "\n", []string{"2/plan_id/more than 100"}},
	} {
		selections, err := bulk.ReadCSV(strings.NewReader(row.text))
		var wrong *bulk.FileError
		if !errors.As(err, &wrong) || selections != nil {
			t.Errorf("%s: %+v, %v; want it refused", row.name, selections, err)
			continue
		}
		if len(wrong.Problems) != len(row.want) {
			t.Errorf("%s: %v; want %d problems", row.name, wrong.Problems, len(row.want))
			continue
		}
		for i, problem := range wrong.Problems {
			parts := strings.SplitN(row.want[i], "/", 3)
			if fmt.Sprint(problem.Line) != parts[0] || problem.Column != parts[1] || !strings.Contains(problem.Text, parts[2]) {
				t.Errorf("%s: problem %d is %+v; want %s", row.name, i+1, problem, row.want[i])
			}
			if !strings.Contains(err.Error(), problem.String()) {
				t.Errorf("%s: %q does not say %q", row.name, err, problem)
			}
		}
	}
}

func TestReadCSV_Limits(t *testing.T) {
	var full strings.Builder
	full.WriteString("mobile\n")
	for i := range bulk.MaxRows {
		fmt.Fprintf(&full, "98%08d\n", i)
	}
	if selections, err := bulk.ReadCSV(strings.NewReader(full.String())); err != nil || len(selections) != bulk.MaxRows {
		t.Errorf("%d rows: %v; want %d", len(selections), err, bulk.MaxRows)
	}
	if _, err := bulk.ReadCSV(strings.NewReader(full.String() + "9900000000\n")); err == nil || !strings.Contains(err.Error(), "more than 5000 rows") {
		t.Errorf("one row more: %v; want it refused", err)
	}
	large := "mobile\n9800000001\n" + strings.Repeat("\n", bulk.MaxFile)
	if _, err := bulk.ReadCSV(strings.NewReader(large)); err == nil || !strings.Contains(err.Error(), "1 MB") {
		t.Errorf("a large file: %v; want it refused", err)
	}
	exact := "mobile\n9800000001\n"
	exact += strings.Repeat("\n", bulk.MaxFile-len(exact))
	if selections, err := bulk.ReadCSV(strings.NewReader(exact)); err != nil || len(selections) != 1 {
		t.Errorf("as large as can be: %d rows, %v; want it read", len(selections), err)
	}
}

func FuzzReadCSV(f *testing.F) {
	f.Add("subscriber_id,mobile,plan_id\n100001,,BASIC-1\n")
	f.Add("\ufeffmobile\r\n\"98\n\"\"")
	f.Fuzz(func(t *testing.T, text string) {
		selections, err := bulk.ReadCSV(strings.NewReader(text))
		var wrong *bulk.FileError
		switch {
		case err == nil && len(selections) == 0, err != nil && !errors.As(err, &wrong), wrong != nil && len(wrong.Problems) == 0:
			t.Errorf("%d selections, %v", len(selections), err)
		}
		for _, selection := range selections {
			if selection.Line < 2 || selection.SubscriberID == "" && selection.Mobile == "" {
				t.Errorf("selection %+v", selection)
			}
		}
	})
}
