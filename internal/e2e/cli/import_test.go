package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/sheet"
	"github.com/coaxhq/coax/internal/subscription"
)

const cliImportHeader = "lco,subscriber_id,mobile,name,plan_id,expiry\n"

// cliCustomer is a subscriber as "name mobile lco plan status expiry".
func cliCustomer(t testing.TB, h *e2e.Install, id string) string {
	t.Helper()
	s := e2e.CheckShape(t, h.JSON("subscriber", "show", "--subscriber", id), e2e.SubscriberShape...)
	for _, raw := range e2e.JSONArray(t, s["cycles"]) {
		if c := e2e.CheckShape(t, raw, "plan_id text", "starts_at moment", "ends_at moment"); c["plan_id"] != s["plan_id"] || c["ends_at"] != s["expiry_date"] {
			t.Errorf("the cycle of %s is %v", id, c)
		}
	}
	return e2e.JoinUnquoted(s["name"], s["mobile"], s["lco_id"], s["plan_id"], s["status"], s["expiry_date"])
}

func TestImport_CreatesSubscribers(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	h.JSON("lco", "create", "--name", "Second")
	h.JSON("plan", "retire", "--id", "FAMILY-3")
	ledger := h.JSON("ledger", "--lco", "1")
	h.CheckImport(cliImportHeader+
		"1,100001,9800000001,Asha Rao,BASIC-1,2090-01-31\n"+
		"2,100002,9800000002,रवि कुमार,FAMILY-1,2090-01-31 10:00:05\n"+
		"\n"+
		" 1 , 1000000003 ,9800000003,\"Rao, Ben \"\"Bo\"\"\",\"COMBO-1\",2020-02-29\n"+ // lapsed
		"1,100004,9000030004,"+strings.Repeat("ब", 100)+",FAMILY-3,2090-01-31", // no longer sold; no last line feed
		4, 0)
	for id, want := range map[string]string{
		"100001":     "Asha Rao 9800000001 1 BASIC-1 active 2090-01-31 23:59:59",
		"100002":     "रवि कुमार 9800000002 2 FAMILY-1 active 2090-01-31 10:00:05",
		"1000000003": `Rao, Ben \Bo\ 9800000003 1 COMBO-1 expired 2020-02-29 23:59:59`,
		"100004":     strings.Repeat("ब", 100) + " 9000030004 1 FAMILY-3 active 2090-01-31 23:59:59",
	} {
		if got := cliCustomer(t, h, id); got != want {
			t.Errorf("%s is %s; want %s", id, got, want)
		}
	}
	if after := h.JSON("ledger", "--lco", "1"); after != ledger {
		t.Errorf("an import has cost something: %s", after)
	}
	for lco, count := range map[string]string{"1": `{"imported":3}`, "2": `{"imported":1}`} {
		entries := e2e.JSONArray(t, h.JSON("log", "--lco", lco))
		e2e.CheckMentions(t, "the last act", entries[len(entries)-1], `"action":"subscriber import"`, `"after":`+count)
	}
	e2e.CheckMentions(t, "a subscriber for people", e2e.RequireOK(t, h.Admin("subscriber", "show", "--subscriber", "100001")).Out, "Asha Rao", "2090-01-31 23:59:59", "BASIC-1")
	if counts, _, _ := cliCheckAudit(t, h); counts["subscribers"] != "4" || counts["cycles"] != "4" {
		t.Errorf("the audit counted %v", counts)
	}
}

func TestImport_SpreadsheetFormats(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	const row = "1,100001,9800000001,Asha,BASIC-1,2090-01-31\n"
	before := h.Dump()
	for name, content := range map[string]string{
		"as it is":                cliImportHeader + row,
		"a byte order mark":       "\ufeff" + cliImportHeader + row,
		"CRLF":                    strings.ReplaceAll(cliImportHeader+row, "\n", "\r\n"),
		"both":                    "\ufeff" + strings.ReplaceAll(cliImportHeader+row, "\n", "\r\n"),
		"everything in quotes":    `"lco","subscriber_id","mobile","name","plan_id","expiry"` + "\n" + `"1","100001","9800000001","Asha","BASIC-1","2090-01-31"` + "\n",
		"no line feed at its end": strings.TrimSuffix(cliImportHeader+row, "\n"),
		"blank lines":             cliImportHeader + "\n\r\n" + row + "\n\n",
		"semicolons":              strings.ReplaceAll(cliImportHeader+row, ",", ";"),
		"tabs":                    strings.ReplaceAll(cliImportHeader+row, ",", "\t"),
		"columns in capitals":     strings.ToUpper(cliImportHeader) + row,
		"another order":           "expiry,plan,Customer name,Mobile No.,subscriber_id,LCO ID\n2090-01-31,BASIC-1,Asha,+91 98000-00001,100001,1\n",
		"other columns":           strings.Replace(cliImportHeader, "\n", ",Colour\n", 1) + strings.Replace(row, "\n", ",Sector 5\n", 1),
		"blanks around a field":   cliImportHeader + "1, 100001,9800000001 ,\tAsha ,BASIC-1, 2090-01-31\n",
	} {
		e2e.CheckMentions(t, name, e2e.RequireOK(t, h.Admin("subscriber", "import", e2e.WriteCSV(t, content), "--check")).Out, "rows           1\n", "imported       0\n", "is fine")
	}
	extra := e2e.WriteCSV(t, strings.Replace(cliImportHeader, "\n", ",Colour,Remarks\n", 1)+strings.Replace(row, "\n", ",Sector 5,\n", 1))
	e2e.CheckMentions(t, "other columns", e2e.RequireOK(t, h.Admin("subscriber", "import", extra, "--check")).Out, "Columns that are not used: Colour, Remarks.")
	e2e.CheckMentions(t, "other columns", h.JSON("subscriber", "import", extra, "--check"), `"ignored_columns":["Colour","Remarks"]`)
	e2e.CheckMentions(t, "a workbook", e2e.RequireOK(t, h.Admin("subscriber", "import", workbook(t), "--check")).Out, "rows           1\n", "is fine")
	h.CheckImport(cliImportHeader, 0, 0)
	if after := h.Dump(); !slices.Equal(before, after) {
		t.Errorf("--check has changed the store:\n%s", e2e.Diff(before, after))
	}
	h.CheckImport("\ufeff"+strings.ReplaceAll(cliImportHeader+row, "\n", "\r\n"), 1, 0)
	if got := cliCustomer(t, h, "100001"); got != "Asha 9800000001 1 BASIC-1 active 2090-01-31 23:59:59" {
		t.Errorf("it is %s", got)
	}
}

// workbook is the path of a workbook with a subscriber whose numbers and expiry are stored
// as numbers.
func workbook(t testing.TB) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "customers.xlsx"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	table, err := sheet.NewXLSX(file, "Customers", sheet.Column{Title: "lco", Kind: sheet.Number}, sheet.Column{Title: "Subscriber ID", Kind: sheet.Number},
		sheet.Column{Title: "Mobile", Kind: sheet.Number}, sheet.Column{Title: "Name"}, sheet.Column{Title: "Plan"}, sheet.Column{Title: "Expiry", Kind: sheet.Date})
	if err == nil {
		err = errors.Join(table.Row(1, 100001, int64(9800000001), "Asha", "BASIC-1", time.Date(2090, 1, 31, 0, 0, 0, 0, subscription.IST)), table.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return file.Name()
}

// Contact data may be there, in any order and in part. A subscriber that is there already is skipped,
// whatever the columns say.
func TestImport_ContactColumns(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	file := "lco,subscriber_id,mobile,name,plan_id,expiry,STB No,area,address,notes,email\n" +
		"1,100001,9800000001,Asha,BASIC-1,2090-01-31,STB-1,  Ward   4 ,\"7 Lake Road\nKochi\",rings twice,asha@example.in\n" +
		"1,100002,9800000002,Binu,BASIC-1,2090-01-31,,,,,\n"
	h.CheckImport(file, 2, 0)
	h.CheckImport(file, 0, 2)
	h.CheckImport("lco,subscriber_id,mobile,name,plan_id,expiry,area\n1,100001,9800000001,Asha,BASIC-1,2090-01-31,Elsewhere\n", 0, 1)
	shown := h.JSON("subscriber", "show", "--subscriber", "100001")
	e2e.CheckMentions(t, "the subscriber", shown, `"area":"Ward 4"`, `"address":"7 Lake Road\nKochi"`, `"box_number":"STB-1"`, `"notes":"rings twice"`, `"email":"asha@example.in"`)
	wrong := "lco,subscriber_id,mobile,name,plan_id,expiry,box_number,email\n1,100003,9800000003,Chitra,BASIC-1,2090-01-31,no box,nobody\n"
	refused := h.Admin("subscriber", "import", e2e.WriteCSV(t, wrong))
	if refused.Code == 0 || !strings.Contains(refused.Out, "box_number: it may have letters, digits and hyphens only") || !strings.Contains(refused.Out, "email: it is not an e-mail address") {
		t.Errorf("%+v", refused)
	}
}

func TestImport_InvalidFiles(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	before := h.Dump()
	for _, test := range []struct {
		name, content string
		want          []string
	}{
		{"an empty file", "", []string{"header", strings.TrimSpace(cliImportHeader)}},
		{"an empty file with a byte order mark", "\ufeff", []string{"header"}},
		{"no header", "1,100001,9800000001,Asha,BASIC-1,2090-01-31\n", []string{"header"}},
		{"a column too few", "lco,subscriber_id,mobile,name,plan_id\n", []string{"header", "lacks expiry"}},
		{"a column twice", "lco,LCO,subscriber_id,mobile,name,plan_id,expiry\n", []string{"header", "twice: lco"}},
		{"UTF-16 that ends", "\xff\xfel\x00c\x00o\x00,\x00", []string{"header"}},
		{"a picture", "\x89PNG\r\n\x1a\n\x00\x00", []string{"neither a workbook nor text"}},
		{"a workbook that is damaged", "PK\x03\x04", []string{"damaged"}},
		{"Latin-1", cliImportHeader + "1,100034,9800000034,B\xe9n,BASIC-1,2090-01-31\n", []string{"Line 2 is not UTF-8"}},
		{"a quote that never ends, from the first line on", "\"" + cliImportHeader + "1,100001,9800000001,Asha,BASIC-1,2090-01-31\n", []string{"not CSV"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			e2e.CheckRefused(t, h.WithTB(t).Admin("subscriber", "import", e2e.WriteCSV(t, test.content)), test.want...)
		})
	}
	for _, flag := range []string{"--check", "--json"} {
		e2e.CheckRefused(t, h.Admin("subscriber", "import", e2e.WriteCSV(t, "nothing of the kind"), flag), "header")
	}
	e2e.CheckRefused(t, h.Admin("subscriber", "import", h.Folder), h.Folder)
	if diff := e2e.Diff(before, h.Dump()); diff != "" {
		t.Errorf("what was refused changed the store all the same:\n%s", diff)
	}
}

// cliWrongRows is a file in which every line but three is wrong, with the expected error of
// each.
var cliWrongRows = []struct{ row, want string }{
	{"x,1,2,,,", "2: lco; subscriber_id; mobile; name; plan_id; expiry"},
	{"1,100011", "3: 2 fields; 6"},
	{"1,100012,9800000012,Ben,BASIC-1,2090-01-31,more", "4: 7 fields; 6"},
	{"99,100013,9800000013,Ben,BASIC-1,2090-01-31", "5: no operator 99"},
	{"2,100014,9800000014,Ben,BASIC-1,2090-01-31", "6: operator 2; deleted"},
	{"0,100015,9800000015,Ben,BASIC-1,2090-01-31", `7: lco "0"`},
	{"1,100016,9800000016,Ben,NONE-1,2090-01-31", "8: no plan NONE-1"},
	{"1,100017,9800000017,Ben,basic-1,2090-01-31", "9: no plan basic-1"},
	{"1,100001,9800000018,Ben,BASIC-1,2090-01-31", "10: subscriber_id 100001; another"},
	{"1,100019,9800000002,Ben,BASIC-1,2090-01-31", "11: mobile 9800000002; another"},
	{"3,100003,9800000003,Ben,BASIC-1,2090-01-31", "12: subscriber_id 100003; another"}, // operator 1's
	{"1,100021,9800000021,Ben,BASIC-1,2090-02-30", `13: expiry "2090-02-30"; YYYY-MM-DD`},
	{"1,100022,9800000022,Ben,BASIC-1,31/01/2090", `14: expiry "31/01/2090"`},
	{"1,100023,9800000023,Ben,BASIC-1,2090-01-31T10:00:00Z", "15: expiry"},
	{"1,100024,9800000024,Ben,BASIC-1,2090-01-31 24:00:00", "16: expiry"},
	{"1,100025,9800000025,Ben,BASIC-1,never", `17: expiry "never"`},
	{"1,10002,9800000026,Ben,BASIC-1,2090-01-31", `18: subscriber_id "10002"`},
	{"1,10002700000,9800000027,Ben,BASIC-1,2090-01-31", "19: subscriber_id"},
	{"1,1000२८,9800000028,Ben,BASIC-1,2090-01-31", "20: subscriber_id"},
	{"1,100029,+929800000029,Ben,BASIC-1,2090-01-31", `21: mobile "+929800000029"`},
	{"1,100030,98000 0003,Ben,BASIC-1,2090-01-31", "22: mobile"},
	{"1,100031,9800000031," + strings.Repeat("ब", 101) + ",BASIC-1,2090-01-31", "23: name; 100"},
	{"1,100032,9800000032,\"Ben\nRao\",BASIC-1,2090-01-31", "24: name; U+000A"}, // two lines
	{"1,100033,9800000033,B\x1bn,BASIC-1,2090-01-31", "26: name; U+001B"},
	{"1,100034,9800000034,,BASIC-1,2090-01-31", "27: name"},
	{"1,100035,9800000035,Ben,BASIC-1,2090-01-31", ""},
	{"1,100035,9800000036,Ben,BASIC-1,2090-01-31", "29: subscriber_id 100035; line 28"},
	{"1,100037,9800000035,Ben,BASIC-1,2090-01-31", "30: mobile 9800000035; line 28"},
	{"1,100035,9800000035,Ben,BASIC-1,2090-01-31", "31: subscriber_id 100035; line 28"},
	{"", ""}, // nothing is no subscriber
	{"1,100004,9800000004,Asha,BASIC-1,2090-01-31", ""}, // there already
	{"1,100039,9800000039,Ben,BASIC-1,", "34: expiry"},
	{"1,100040,9800000040,B\u202en,BASIC-1,2090-01-31", "35: name; U+202E"},
	{"1,100041,9800000041,B\ufffen,BASIC-1,2090-01-31", "36: name; U+FFFE"},
	{"1,100042,9800000042,Ben,BASIC-1,0001-01-01 05:30:00", "37: expiry; 2000 to 2100"},
	{"1,100043,9800000043,Ben,BASIC-1,1999-12-31", "38: expiry; 2000 to 2100"},
	{"1,100044,9800000044,Ben,BASIC-1,9999-12-31", "39: expiry; 2000 to 2100"},
	{"1,100045,9800000045,B\"en,BASIC-1,2090-01-31", "40: not CSV"},
	{"1,100046,9800000046,\"Ben\"x,BASIC-1,2090-01-31", "41: not CSV"},
	{"1,100005,9800000005,Another,BASIC-1,2090-01-31", "42: subscriber 100005; there already; another name"},
	{"1,100006,9800000006,Asha,FAMILY-1,2090-01-31", "43: subscriber 100006; plan"},
	{"1,100007,9800000007,Asha,BASIC-1,2090-02-28", "44: subscriber 100007; expiry"},
}

func TestImport_AllRowErrorsAtOnce(t *testing.T) {
	t.Parallel()
	h := cliRefusalInstall(t) // operator 2 is deleted
	h.JSON("lco", "create", "--name", "Third")
	there := ""
	for i := range 7 {
		there += fmt.Sprintf("1,%d,%d,Asha,BASIC-1,2090-01-31\n", 100001+i, 9800000001+i)
	}
	h.CheckImport(cliImportHeader+there, 7, 0)
	content, want := cliImportHeader, []string{}
	for _, row := range cliWrongRows {
		content += row.row + "\n"
		if row.want != "" {
			want = append(want, row.want)
		}
	}
	file, before := e2e.WriteCSV(t, content), h.Dump()
	for _, more := range [][]string{nil, {"--check"}, {"--json"}} {
		got := h.Admin(append([]string{"subscriber", "import", file}, more...)...)
		refusal := fmt.Sprintf("coax: %d of %d lines are not right, so nothing was imported; correct them and import the file again\n", len(want), len(want)+2)
		if got.Code != e2e.ExitRefused || got.Err != refusal {
			t.Errorf("%q: exit %d and %q; want 1 and %q", more, got.Code, got.Err, refusal)
		}
		var told []string
		if slices.Contains(more, "--json") {
			report := e2e.CheckShape(t, got.Out, e2e.ImportShape...)
			if e2e.JoinUnquoted(report["rows"], report["imported"], report["already_there"]) != fmt.Sprint(len(want)+2, " 0 1") {
				t.Errorf("%q: the report is %v", more, report)
			}
			for _, raw := range e2e.JSONArray(t, report["problems"]) {
				p := e2e.CheckShape(t, raw, "line int", "problem any")
				problem, err := strconv.Unquote(p["problem"])
				if err != nil {
					t.Fatal(err)
				}
				told = append(told, p["line"]+": "+problem)
			}
		} else {
			for _, line := range regexp.MustCompile(`(?m)^line (.*)$`).FindAllStringSubmatch(got.Out, -1) {
				told = append(told, line[1])
			}
		}
		if len(told) != len(want) {
			t.Fatalf("%q: told are %d errors; want %d:\n%s", more, len(told), len(want), got.Out)
		}
		for i := range want {
			number, parts, _ := strings.Cut(want[i], ": ")
			if !strings.HasPrefix(told[i], number+": ") {
				t.Errorf("%q: error %d is %q; want it on line %s", more, i+1, told[i], number)
			}
			e2e.CheckMentions(t, "line "+number, told[i], strings.Split(parts, "; ")...)
		}
	}
	if diff := e2e.Diff(before, h.Dump()); diff != "" {
		t.Errorf("a refused import has changed the store:\n%s", diff)
	}
}

// cliManyRows returns a file of this many subscribers of operator 1.
func cliManyRows(many int) string {
	var text strings.Builder
	for i := range many {
		fmt.Fprintf(&text, "1,%06d,98%08d,Customer %d,BASIC-1,2090-01-31\n", 200000+i, i, i)
	}
	return text.String()
}

func TestImport_CanBeRepeated(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	h.CheckImport(cliImportHeader+cliManyRows(3), 3, 0, "--check")
	h.CheckImport(cliImportHeader+cliManyRows(3), 3, 0)
	state := h.Dump()
	h.CheckImport(cliImportHeader+cliManyRows(3), 0, 3)
	h.CheckImport(cliImportHeader+cliManyRows(3), 0, 3, "--check")
	if after := h.Dump(); !slices.Equal(state, after) {
		t.Errorf("the same file again has changed the store:\n%s", e2e.Diff(state, after))
	}
	h.CheckImport(cliImportHeader+cliManyRows(5), 2, 3)
}

// After a kill the same file imports the rest. Progress is printed per batch.
func TestImport_ResumesAfterKill(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	const many, batch = 1000, 200
	file := e2e.WriteCSV(t, cliImportHeader+cliManyRows(many))
	p := e2e.Launch(t, "admin", "--config", h.Config, "subscriber", "import", file)
	t.Cleanup(p.Kill)
	if !p.Err.WaitFor("imported 200 of 1000", p.Ended) {
		t.Fatalf("the import did not begin:\n%s", p.Err)
	}
	p.Kill()
	there := len(e2e.QueryRows(t, e2e.OpenReadOnly(t, h.Store()), "SELECT id FROM subscribers"))
	if there < batch || there%batch != 0 {
		t.Errorf("%d are there after the kill; want whole batches", there)
	}
	got := h.Admin("subscriber", "import", file)
	report := fmt.Sprintf("rows           %d\nimported       %d\nalready_there  %d\n", many, many-there, there)
	progress := ""
	for done := batch; done <= many-there; done += batch {
		end := "\r" // a terminal writes the next one over it
		if done == many-there {
			end = "\n"
		}
		progress += fmt.Sprintf("imported %d of %d%s", done, many-there, end)
	}
	if got.Code != e2e.ExitDone || got.Out != report || got.Err != progress {
		t.Errorf("exit %d, report %q, progress %q; want 0, %q, %q", got.Code, got.Out, got.Err, report, progress)
	}
	if counts, _, _ := cliCheckAudit(t, h); counts["subscribers"] != "1000" || counts["cycles"] != "1000" {
		t.Errorf("the audit counted %v", counts)
	}
}

// cliConcurrentImports imports the same file several times at once and returns the reports.
func cliConcurrentImports(t *testing.T, h *e2e.Install, rows, times int) (reports []map[string]string) {
	t.Helper()
	file := e2e.WriteCSV(t, cliImportHeader+cliManyRows(rows))
	ended := make(chan e2e.Result, times)
	for range times {
		go func() { ended <- e2e.Run(t, "admin", "--config", h.Config, "subscriber", "import", file, "--json") }()
	}
	for range times {
		got := <-ended
		if got.Code != e2e.ExitDone {
			t.Errorf("given at once: %s", got)
		}
		reports = append(reports, e2e.CheckShape(t, got.Out, e2e.ImportShape...))
	}
	return reports
}

func TestImport_ConcurrentRunsImportOnce(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	imported := 0
	for _, report := range cliConcurrentImports(t, h, 40, 4) {
		n, _ := strconv.Atoi(report["imported"])
		imported += n
	}
	counts, _, _ := cliCheckAudit(t, h)
	if imported != 40 || counts["subscribers"] != "40" || counts["cycles"] != "40" {
		t.Errorf("%d were imported, %s are there; want 40", imported, counts["subscribers"])
	}
}

func TestImport_ByteOrderMarkBeforeQuote(t *testing.T) {
	t.Parallel()
	content := "\ufeff" + `"lco","subscriber_id","mobile","name","plan_id","expiry"` + "\n" + `"1","100001","9800000001","Asha","BASIC-1","2090-01-31"` + "\n"
	e2e.NewInstall(t).CheckImport(content, 1, 0)
}

// An expiry has one format. A finer one would not be stored, and a repeated import would not
// recognise the row.
func TestImport_ExpiryFormats(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	for _, expiry := range []string{"2090-01-31 10:00:00.1234", "2090-01-31 10:00:00.5", "2090-01-31 10:00:00,5", "2090-01-31 1:00:00"} {
		got := h.Admin("subscriber", "import", e2e.WriteCSV(t, cliImportHeader+"1,100001,9800000001,Asha,BASIC-1,\""+expiry+"\"\n"), "--check")
		if got.Code != e2e.ExitRefused || !strings.Contains(got.Out, "line 2: expiry") {
			t.Errorf("%s: %s; want it refused", expiry, got)
		}
	}
}

// The error names the line where the quote was opened, not the end of the file.
func TestImport_OpenQuoteNamesLine(t *testing.T) {
	t.Parallel()
	content := cliImportHeader + "1,100001,9800000001,\"Asha,BASIC-1,2090-01-31\n1,100002,9800000002,Ben,BASIC-1,2090-01-31\n1,100003,9800000003,Chitra,BASIC-1,2090-01-31\n"
	e2e.CheckMentions(t, "the report", e2e.NewInstall(t).Admin("subscriber", "import", e2e.WriteCSV(t, content)).Out, "line 2: it is not CSV")
}

// Fixing the reported errors must be enough.
func TestImport_ReportsEveryErrorOfARow(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	for _, test := range []struct {
		name, rows string
		want       []string
	}{
		{"a repetition of a line that is wrong itself", "1,100001,9800000001,,BASIC-1,2090-01-31\n1,100001,9800000002,Ben,BASIC-1,2090-01-31\n", []string{"line 2: the name", "line 3: subscriber_id 100001"}},
		{"operator and plan", "99,100001,9800000001,Ben,NONE-1,2090-01-31\n", []string{"operator 99", "plan NONE-1"}},
		{"expiry and plan", "1,100001,9800000001,Ben,NONE-1,never\n", []string{"expiry", "plan NONE-1"}},
		{"id and mobile of two lines", "1,100001,9800000001,A,BASIC-1,2090-01-31\n1,100002,9800000002,B,BASIC-1,2090-01-31\n1,100001,9800000002,C,BASIC-1,2090-01-31\n", []string{"line 4", "line 2 already", "line 3 already"}},
	} {
		e2e.CheckMentions(t, test.name, h.Admin("subscriber", "import", e2e.WriteCSV(t, cliImportHeader+test.rows)).Out, test.want...)
	}
}

func TestImport_EscapesFileContent(t *testing.T) {
	t.Parallel()
	got := e2e.NewInstall(t).Admin("subscriber", "import", e2e.WriteCSV(t, cliImportHeader+"1,100001,9800000001,Ben,\"NO\nline 9: \x1b[2J\",2090-01-31\n"))
	if strings.Contains(got.Out, "\x1b") || strings.Contains(got.Out, "\nline 9") {
		t.Errorf("the file writes on the terminal: %q", got.Out)
	}
}

// rows = imported + already_there, also for the slower of two imports.
func TestImport_RaceReportAddsUp(t *testing.T) {
	t.Parallel()
	for _, report := range cliConcurrentImports(t, e2e.NewInstall(t), 40, 4) {
		if text := e2e.JoinUnquoted(report["imported"], report["already_there"]); text != "40 0" && text != "0 40" {
			t.Errorf("of 40 lines imported and already there are %s", text)
		}
	}
}
