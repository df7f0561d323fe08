package bankstatement

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func readFile(t *testing.T, name string) Table {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := ReadRows(file)
	if err != nil {
		t.Fatal(err)
	}
	table, err := Find(rows)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// The columns and quirks are those of the banks' own downloads.
func TestRead_StatementsOfBanks(t *testing.T) {
	for _, tt := range []struct {
		file            string
		columns         Columns
		lines           []string
		debits, skipped int
	}{
		{"sbi.csv", Columns{Date: 0, Narration: 2, Reference: 3, Credit: 5, Debit: 4, Amount: -1, Side: -1}, []string{
			"2026-11-02 5000.00 631245678901",
			"2026-11-02 100000.00 N306261234567890",
			"2026-11-04 2500.50 ", // the bank has broken the reference: 6312 45678955
			"2026-11-05 12000.00 ",
		}, 1, 1},
		{"hdfc.csv", Columns{Date: 0, Narration: 1, Reference: 5, Credit: 4, Debit: 3, Amount: -1, Side: -1}, []string{
			"2026-11-02 5000.00 631245678901",
			"2026-11-02 100000.00 SBIN526306123456",
			"2026-11-04 2500.50 631245678955",
			"2026-11-05 300000.00 ICICR52026110512345678",
		}, 1, 0},
		{"icici.csv", Columns{Date: 2, Narration: 4, Reference: 3, Credit: 6, Debit: 5, Amount: -1, Side: -1}, []string{
			"2026-11-02 5000.00 631245678901",
			"2026-11-02 100000.00 SBIN526306123456",
			"2026-11-04 2500.50 631245678955",
		}, 1, 1},
		{"icici-corporate.csv", Columns{Date: 3, Narration: 5, Reference: 1, Credit: -1, Debit: -1, Amount: 7, Side: 6}, []string{
			"2026-11-02 5000.00 631245678901",
			"2026-11-04 300000.00 SBINR52026110412345678",
		}, 1, 0},
	} {
		t.Run(tt.file, func(t *testing.T) {
			table := readFile(t, tt.file)
			if table.Guess != tt.columns {
				t.Errorf("guessed %+v; want %+v", table.Guess, tt.columns)
			}
			got, err := table.Read(table.Guess)
			if err != nil {
				t.Fatal(err)
			}
			var lines []string
			for _, l := range got.Lines {
				lines = append(lines, fmt.Sprintf("%s %s %s", l.On.Format("2006-01-02"), l.Amount, l.Reference))
			}
			if strings.Join(lines, "\n") != strings.Join(tt.lines, "\n") {
				t.Errorf("read\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(tt.lines, "\n"))
			}
			if got.Debits != tt.debits || got.Skipped != tt.skipped {
				t.Errorf("%d debits and %d skipped rows; want %d and %d", got.Debits, got.Skipped, tt.debits, tt.skipped)
			}
			if again, err := ReadColumns(table.Guess.JSON()); err != nil || again != table.Guess {
				t.Errorf("stored and read again the columns are %+v, %v", again, err)
			}
		})
	}
}

func TestKey_IsThatOfTheHeaderLine(t *testing.T) {
	sbi, hdfc := readFile(t, "sbi.csv"), readFile(t, "hdfc.csv")
	if sbi.Key() == hdfc.Key() {
		t.Error("two banks' headers have one key")
	}
	spaced := sbi
	spaced.Titles = nil
	for _, title := range sbi.Titles {
		spaced.Titles = append(spaced.Titles, "  "+strings.ToUpper(title)+" ")
	}
	if spaced.Key() != sbi.Key() {
		t.Error("blanks and capitals change the key of a header")
	}
}

func TestParseAmount(t *testing.T) {
	for text, want := range map[string]string{
		"1,00,000.00": "100000.00 ", "5000": "5000.00 ", " 250.5 ": "250.50 ", "₹ 1,250.00": "1250.00 ", "INR 12": "12.00 ", "Rs. 12.30": "12.30 ", "Rs 7": "7.00 ",
		"500.00 Cr": "500.00 C", "500.00CR": "500.00 C", "500.00 (Dr)": "500.00 D", "500 dr.": "500.00 D", "(250.00)": "250.00 D", "-250.00": "250.00 D", "−250": "250.00 D", "+250": "250.00 C",
		"100.5000": "100.50 ", "": "0.00 ", "-": "0.00 ", "0.00": "0.00 ", "00012": "12.00 ",
	} {
		amount, way, ok := parseAmount(text)
		got := strings.TrimRight(fmt.Sprintf("%s %c", amount, way), "\x00")
		if !ok || got != want {
			t.Errorf("%q is %q, %v; want %q", text, got, ok, want)
		}
	}
	for _, text := range []string{"abc", "1.2.3", "1.234", "1e5", "12 apples", "12 crore", "--5", "99999999999999999999"} {
		if amount, _, ok := parseAmount(text); ok {
			t.Errorf("%q is %s; want it refused", text, amount)
		}
	}
}

func TestParseDate(t *testing.T) {
	for _, text := range []string{
		"02/11/2026", "2/11/26", "02-11-2026", "02.11.2026", "02-Nov-26", "2-NOV-2026", "02 nov 2026", "2026-11-02", "02/11/2026 10:11:12 AM", "2026-11-02T10:11:12", "2 November 2026",
	} {
		if day, ok := parseDate(text); !ok || day.Format("2006-01-02 15:04 -0700") != "2026-11-02 00:00 +0530" {
			t.Errorf("%q is %s, %v; want 2 November 2026", text, day, ok)
		}
	}
	for _, text := range []string{"", "31/02/2026", "11/31/2026", "02/11", "Opening balance", "20261102", "02/11/1926"} {
		if day, ok := parseDate(text); ok {
			t.Errorf("%q is %s; want it refused", text, day)
		}
	}
}

// A refusal names the line and what is wrong with it.
func TestRead_RefusesWithReason(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"an empty file", "", "does not look like a bank's statement"},
		{"a letter", "Dear customer\nyour statement is ready\n", "does not look like a bank's statement"},
		{"a header alone", "Date,Narration,Credit\n", "no rows below its header"},
		{"an amount of words", "Date,Narration,Credit\n02/11/2026,UPI,5000.00\n03/11/2026,UPI,five\n", "Line 3: “five” is not an amount"},
		{"neither Cr nor Dr", "Date,Narration,Cr/Dr,Amount\n02/11/2026,UPI,?,5000.00\n", "Line 2: “?” says neither Cr nor Dr."},
		{"nothing tells credits from debits", "Date,Narration,Amount\n02/11/2026,UPI/631245678901,5000.00\n03/11/2026,BSNL,1179.00\n", "Nothing tells credits from debits: no amount in column “Amount” has a sign, Cr or Dr."},
		{"no dates", "Date,Narration,Credit\nyesterday,UPI,5000.00\n", "No row has a date in column “Date”"},
		{"a broken quotation", "Date,Narration,Credit\n02/11/2026,\"UPI,5000.00\n", "quotation marks"},
		{"a workbook of old Excel", "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1aaaa", "Excel"},
		{"a page", "<html><table><tr><td>Date</td></tr></table>", "web page"},
		{"Latin-1", "Date,Narration,Credit\n02/11/2026,caf\xe9,5\n", "UTF-8"},
		{"a large file", strings.Repeat("a,b,c\n", MaxBytes/6+1), "larger than 1 MB"},
		{"many rows", "Date,Narration,Credit\n" + strings.Repeat("02/11/2026,UPI,5\n", MaxRows+100), "more than"},
		{"many columns", "Date,Narration,Credit" + strings.Repeat(",x", MaxColumns) + "\n02/11/2026,UPI,5\n", "more than 40 columns"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rows, err := ReadRows(strings.NewReader(tt.text))
			var table Table
			if err == nil {
				table, err = Find(rows)
			}
			if err == nil {
				_, err = table.Read(table.Guess)
			}
			var refused *Error
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v; want a refusal with %q", err, tt.want)
			}
		})
	}
}

func TestColumns_CheckRefusesWhatCannotBeRead(t *testing.T) {
	with := func(change func(*Columns)) Columns {
		c := Columns{Date: 0, Narration: 1, Reference: -1, Credit: 2, Debit: -1, Amount: -1, Side: -1}
		change(&c)
		return c
	}
	if err := with(func(*Columns) {}).Check(); err != nil {
		t.Errorf("date, narration and credit: %v", err)
	}
	for want, c := range map[string]Columns{
		"has the date":      with(func(c *Columns) { c.Date = -1 }),
		"has the amount":    with(func(c *Columns) { c.Credit = -1 }),
		"not both":          with(func(c *Columns) { c.Amount = 3 }),
		"narration":         with(func(c *Columns) { c.Narration = -1 }),
		"column of Cr and ": with(func(c *Columns) { c.Side = 3 }),
	} {
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %q", c, err, want)
		}
	}
}

// One column of amounts is read if something tells credits from debits.
func TestRead_OneColumnOfAmounts(t *testing.T) {
	for _, text := range []string{
		"Date,Narration,Amount\n02/11/2026,UPI,5000.00\n03/11/2026,BSNL,-1179.00\n",
		"Date,Narration,Amount\n02/11/2026,UPI,+5000.00\n03/11/2026,BSNL,-1179.00\n",
		"Date,Narration,Amount (INR)\n02/11/2026,UPI,5000.00 Cr\n03/11/2026,BSNL,1179.00 Dr\n",
		"Date,Narration,D/C,Amount\n02/11/2026,UPI,C,5000.00\n03/11/2026,BSNL,D,1179.00\n",
		"Date,Narration,Amount,Dr/Cr\n02/11/2026,UPI,5000.00,CR\n03/11/2026,BSNL,1179.00,DR\n",
		"Date,Narration,Cr/Dr Indicator,Amount\n02/11/2026,UPI,Credit,5000.00\n03/11/2026,BSNL,Debit,1179.00\n",
	} {
		rows, err := ReadRows(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		table, err := Find(rows)
		if err != nil {
			t.Fatal(err)
		}
		got, err := table.Read(table.Guess)
		if err != nil || len(got.Lines) != 1 || got.Lines[0].Amount.String() != "5000.00" || got.Debits != 1 {
			t.Errorf("%q: read %+v, %v; want one credit of 5000.00 and one debit", text, got, err)
		}
	}
}

func TestFindReference(t *testing.T) {
	for _, tt := range []struct{ column, narration, want string }{
		{"", "UPI/CR/631245678901/RAVI KUM/HDFC/ravicable@", "631245678901"},
		{"", "UPI-RAVI-919876543210@YBL-HDFC0001234-631245678901", "631245678901"},
		{"", "UPI-RAVI-919876543210-2@ybl-HDFC0001234-631245678901", "631245678901"},
		{"", "UPI-RAVI-919876543210 @ybl-631245678901", "631245678901"},
		{"", "UPI-RAVI-919876543210@YBL", ""},
		{"", "UPI-RAVI-919876543210-631245678901", ""}, // the @ was cut off: nothing tells which is which
		{"", "UPI-RAVI-631245678901-HDFC-631245678901", "631245678901"},
		{"0000631245678901", "UPI-RAVI-919876543210-HDFC0001234", "631245678901"},
		{"", "NEFT CR-SBIN526306123456-919876543210", "SBIN526306123456"},
		{"SBIN526306123456", "NEFT CR-HDFC526306123457", "SBIN526306123456"},
		{"", "CASH DEPOSIT 631245678901", ""},
	} {
		if got := findReference(tt.column, tt.narration); got != tt.want {
			t.Errorf("%q and %q have reference %q; want %q", tt.column, tt.narration, got, tt.want)
		}
	}
}

// A statement without known titles is read with the columns that a person chooses.
func TestRead_ChosenColumns(t *testing.T) {
	rows, err := ReadRows(strings.NewReader("Tag\tText\tEin\tAus\n02/11/2026\tUPI/631245678901/RAVI\t5,000.00\t\n03/11/2026\tBSNL\t\t1,179.00\n"))
	if err != nil {
		t.Fatal(err)
	}
	table, err := Find(rows)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := table.Read(table.Guess); err == nil {
		t.Fatal("columns without known titles were guessed")
	}
	c := NoColumns
	c.Date, c.Narration, c.Credit = 0, 1, 2
	got, err := table.Read(c)
	if err != nil || len(got.Lines) != 1 || got.Lines[0].Amount.String() != "5000.00" || got.Debits != 1 {
		t.Errorf("read %+v, %v; want one credit of 5000.00 and one debit", got, err)
	}
}
