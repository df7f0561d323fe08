package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/spf13/cobra"
)

type listedRow struct {
	n    int
	made time.Time
}

// printed lists that many rows, made a second apart.
func printed(t *testing.T, rows int, f listFlags, asJSON, newestFirst bool) (out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := &app{out: &stdout, err: &stderr, asJSON: asJSON}
	pages := 0
	err := printList(a, f, lister[listedRow]{
		none: "There is nothing.",
		page: func(limit int, after *listedRow) (page []listedRow, err error) {
			if pages++; limit > pageRows {
				t.Errorf("a page of %d rows was requested", limit)
			}
			n := 0
			if after != nil {
				n = after.n + 1
			}
			for ; n < rows && len(page) < limit; n++ {
				page = append(page, listedRow{n, time.Date(2027, 3, 1, 6, 30, n, 0, time.UTC)})
			}
			return page, nil
		},
		row: func(r listedRow) object {
			return object{{"n", r.n}, {"amount", money.Paise(int64(r.n))}, {"text", "=1+1"}, {"made_at", at(r.made)}}
		},
		at:          func(r listedRow) time.Time { return r.made },
		newestFirst: newestFirst,
	})
	if err != nil {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String()
}

func TestList_PrintsEveryRow(t *testing.T) {
	for _, rows := range []int{0, 1, pageRows - 1, pageRows, pageRows + 1, 2*pageRows + 500} {
		out, errs := printed(t, rows, listFlags{}, true, false)
		var all []struct {
			N      int    `json:"n"`
			MadeAt string `json:"made_at"`
		}
		if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != rows || errs != "" || !strings.HasSuffix(out, "]\n") {
			t.Errorf("%d rows: %d in JSON, %v, stderr %q", rows, len(all), err, errs)
		}
		for i, row := range all {
			if row.N != i {
				t.Fatalf("row %d is %d", i, row.N)
			}
		}
		if rows > 0 && all[0].MadeAt != "2027-03-01 12:00:00" {
			t.Errorf("JSON has the time %q", all[0].MadeAt)
		}
		out, _ = printed(t, rows, listFlags{csv: true}, false, false)
		records, err := csv.NewReader(strings.NewReader(out)).ReadAll()
		if err != nil || len(records) != rows+1 || strings.Join(records[0], ",") != "n,amount,text,made_at" {
			t.Fatalf("%d rows: %d records of CSV, %v, %v", rows, len(records), records[:1], err)
		}
		if rows > 0 && strings.Join(records[1], ",") != "0,0.00,'=1+1,2027-03-01T12:00:00+05:30" {
			t.Errorf("the first record is %q", records[1])
		}
		out, _ = printed(t, rows, listFlags{}, false, false)
		if want := rows + 1; strings.Count(out, "\n") != want {
			t.Errorf("%d rows: the table has %d lines; want %d", rows, strings.Count(out, "\n"), want)
		}
		if rows > 0 && !strings.Contains(out, "2027-03-01 12:00:00 +05:30") {
			t.Errorf("the table has no zone:\n%.200s", out)
		}
	}
}

func TestList_LimitReportsMoreRows(t *testing.T) {
	for _, row := range []struct {
		rows, limit, want int
		newestFirst       bool
		says              string
	}{
		{5, 5, 5, false, ""},
		{6, 5, 5, false, "--from 2027-03-01T12:00:04.000+05:30"},
		{6, 5, 5, true, "--to 2027-03-01T12:00:04.001+05:30"},
		{2*pageRows + 1, 2 * pageRows, 2 * pageRows, false, "Later rows follow"},
		{3, 10, 3, false, ""},
	} {
		out, errs := printed(t, row.rows, listFlags{limit: row.limit}, true, row.newestFirst)
		var all []any
		if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != row.want {
			t.Errorf("%d of %d: %d are listed, %v", row.limit, row.rows, len(all), err)
		}
		if (row.says == "") != (errs == "") || !strings.Contains(errs, row.says) {
			t.Errorf("%d of %d: stderr %q; want %q", row.limit, row.rows, errs, row.says)
		}
	}
}

func TestListFlags_Times(t *testing.T) {
	read := func(asJSON bool, args ...string) (listFlags, error) {
		var f listFlags
		command := &cobra.Command{}
		f.add(command)
		if err := command.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		err := f.read(&app{asJSON: asJSON}, command)
		return f, err
	}
	f, err := read(false, "--from", "2027-03-01", "--to", "2027-03-31")
	if got := fmt.Sprint(f.From.UTC().Format(time.RFC3339), " ", f.To.UTC().Format(time.RFC3339)); err != nil || got != "2027-02-28T18:30:00Z 2027-03-31T18:30:00Z" {
		t.Errorf("March is %s, %v", got, err)
	}
	f, err = read(false, "--from", "2027-03-01T09:00:00+05:30", "--to", "2027-03-01T03:30:01Z")
	if err != nil || f.To.Sub(f.From) != time.Second {
		t.Errorf("a second is %s, %v", f.To.Sub(f.From), err)
	}
	for _, args := range [][]string{
		{"--from", "yesterday"}, {"--to", "2027-02-30"}, {"--from", "2027-03-01 09:00:00"}, {"--from", "2027-03-02", "--to", "2027-03-01"},
		{"--limit", "0"}, {"--limit", "-1"},
	} {
		if _, err := read(false, args...); err == nil {
			t.Errorf("%q is accepted", args)
		} else if _, is := err.(*usageError); !is {
			t.Errorf("%q: %v; want a usage error", args, err)
		}
	}
	if _, err := read(true, "--csv"); err == nil {
		t.Error("--csv and --json are accepted together")
	}
}
