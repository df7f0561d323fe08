package pages

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
)

// same fails the test if what a page shows differs from the books.
func (s *sums) same(what string, got, want any) {
	s.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		s.t.Errorf("%s: %v; the books have %v", what, got, want)
	}
}

// panelSums compares an operator's pages with the books.
type panelSums struct {
	*sums
	books books
	id    int64
	b     *e2e.Browser
}

func (p panelSums) get(path string) e2e.Page { return p.b.Get(path).Shows(p.t, http.StatusOK) }

// mine sums the operator's operations.
func (p panelSums) mine(selected func(booksOperation) bool) totals {
	return p.books.sum(func(o booksOperation) bool { return o.operator == p.id && selected(o) })
}

// requested sums the operator's operations of an Indian day in some states; those that were reversed are
// in none.
func (p panelSums) requested(day time.Time, states ...string) totals {
	return p.mine(func(o booksOperation) bool {
		return indianDay(o.created).Equal(day) && o.reversed.IsZero() && (len(states) == 0 || slices.Contains(states, o.state))
	})
}

func (p panelSums) active(s booksSubscriber) bool { return s.expires.After(p.books.now) }

func (p panelSums) home() {
	page := p.get("/panel/")
	operator, today := p.books.operators[p.id], indianDay(p.books.now)
	figures := stats(p.t, page, 4)
	week, month := p.books.within(p.id, 7), p.books.within(p.id, 30)
	p.same("home, balance", paise(p.t, figures[0].value), operator.balance)
	p.same("home, due in 7 days", paise(p.t, figures[0].note), week.paise)
	p.same("home, held", paise(p.t, figures[1].value), operator.held)
	p.same("home, operations today", number(p.t, figures[2].value), p.requested(today).count)
	p.same("home, spent today", paise(p.t, figures[2].note), p.requested(today, "success").paise)
	p.same("home, expire within 7 days", number(p.t, figures[3].value), week.count)
	p.same("home, active", number(p.t, figures[3].note), p.books.countSubscribers(p.id, p.active))

	// The notice above ends with what is missing. It may be without paise.
	if missing := month.paise - operator.balance; missing > 0 {
		_, notice, _ := strings.Cut(page.Body, `id="figures"`)
		notice, _, _ = strings.Cut(notice, `class="grid-stats"`)
		amounts := rupeePattern.FindAllString(notice, -1)
		if len(amounts) == 0 {
			p.t.Fatalf("the home page does not say that %d paise are missing", missing)
		}
		p.same("home, missing for 30 days", paise(p.t, amounts[len(amounts)-1])/100, missing/100)
	}

	counts, spent := table(p.t, page, 0), table(p.t, page, 1)
	p.same("home, days of the charts", fmt.Sprint(len(counts), len(spent)), "30 30")
	for i := range counts {
		day := today.AddDate(0, 0, i-29)
		was := day.AddDate(0, 0, -30)
		at := day.Format("2 Jan")
		p.same("home, operations of "+at, counts[i], []string{
			at, fmt.Sprint(p.requested(day, "success").count), fmt.Sprint(p.requested(day, "failed").count),
			fmt.Sprint(p.requested(day, "processing", "needs_review").count), fmt.Sprint(p.requested(was).count),
		})
		p.same("home, spent on "+at, []int64{paise(p.t, spent[i][1]), paise(p.t, spent[i][2])}, []int64{p.requested(day, "success").paise, p.requested(was, "success").paise})
	}
}

func (p panelSums) subscribers() {
	counts := chips(p.get("/panel/subscribers"))
	for i, view := range []struct {
		show string
		want int
	}{
		{"", p.books.countSubscribers(p.id, func(booksSubscriber) bool { return true })},
		{"active", p.books.countSubscribers(p.id, p.active)},
		{"3", p.books.within(p.id, 3).count}, {"7", p.books.within(p.id, 7).count}, {"15", p.books.within(p.id, 15).count},
		{"expired", p.books.countSubscribers(p.id, func(s booksSubscriber) bool { return !s.expires.IsZero() && !p.active(s) })},
		{"review", p.books.countSubscribers(p.id, func(s booksSubscriber) bool { return s.open })},
	} {
		if view.show != "review" { // its number is not shown
			label := strings.Fields(counts[i])
			p.same("subscribers, number of "+view.show, label[len(label)-1], view.want)
		}
		rows := walk(p.t, p.b, "/panel/subscribers?show="+view.show)
		p.same("subscribers, rows of "+view.show, len(rows), view.want)
		if view.show == "7" {
			sum := int64(0)
			for _, row := range rows {
				sum += paise(p.t, row[4])
			}
			p.same("subscribers, prices within 7 days", sum, p.books.within(p.id, 7).paise)
		}
	}
	const price = 7
	want := totals{}
	for _, s := range p.books.subscribers {
		if s.operator == p.id {
			want.count, want.paise = want.count+1, want.paise+p.books.prices[s.plan]
		}
	}
	p.files("subscribers", "/panel/subscribers/export/%s", price, want)
}

// files compares the rows and the sum of a column of a CSV and of an XLSX file.
func (p panelSums) files(what, path string, column int, want totals) {
	for _, format := range []string{"csv", "xlsx"} {
		got := totals{}
		for _, row := range cells(p.t, p.b, fmt.Sprintf(path, format)) {
			got.count, got.paise = got.count+1, got.paise+plain(p.t, row[column])
		}
		p.same(what+", file "+format, got, want)
	}
}

// due compares the due list and its files: who has an operation in progress is listed and in no sum.
func (p panelSums) due() {
	const price = 7
	for _, days := range [][2]int{{7, 7}, {30, 90}, {p.random.IntN(2), 0}} {
		query := fmt.Sprintf("?within=%d&ended=%d", days[0], days[1])
		want := p.books.fallingDue(p.id, days[0], days[1])
		page := p.get("/panel/subscribers/list/due" + query)
		var got totals
		var figures []string
		for _, sums := range sumPattern.FindAllString(page.Body, -1) {
			for _, figure := range figurePattern.FindAllStringSubmatch(sums, -1) {
				figures = append(figures, figure[1])
			}
		}
		if len(figures) == 3 {
			got = totals{number(p.t, figures[0]), paise(p.t, figures[1])}
			p.same("due list"+query+", sum of all areas", paise(p.t, figures[2]), want.paise)
		}
		p.same("due list"+query, got, want)
		rows := totals{}
		for _, row := range table(p.t, page, 0) {
			if len(row) < 6 {
				continue // the sums of the area
			}
			if rows.count++; strings.Contains(row[4], "₹") {
				rows.paise += paise(p.t, row[4])
			}
		}
		p.same("due list"+query+", rows", rows, want)
		p.files("due list"+query, "/panel/subscribers/list/due/export/%s"+query, price, want)
	}
}

// announced compares the open announced payments.
func (p panelSums) announced() {
	want := p.books.announcements(p.id)
	for _, path := range []string{"/panel/add-money", "/panel/statement"} {
		notice, _, _ := strings.Cut(p.get(path).Body, "<table")
		shown := announcedPattern.FindString(plainText(notice))
		if want.count == 0 {
			p.same(path+", announced payments", shown, "")
			continue
		}
		p.same(path+", announced payments", totals{number(p.t, shown), paise(p.t, shown)}, want)
	}
}

// bulkOffer compares who is offered, and those who are left out because an operation of
// theirs is open, with who expires.
func (p panelSums) bulkOffer() {
	page := p.get("/panel/bulk?within=7")
	var want, got totals
	for _, s := range p.books.subscribers {
		if s.operator == p.id && p.active(s) && s.expires.Before(indianDay(p.books.now).AddDate(0, 0, 8)) && !s.open {
			want.count, want.paise = want.count+1, want.paise+p.books.prices[s.lastPlan]
		}
	}
	for _, box := range pickPattern.FindAllStringSubmatch(page.Body, -1) {
		got.count, got.paise = got.count+1, got.paise+int64(number(p.t, box[1]))
	}
	p.same("bulk renewal, who is offered", got, want)
}

func (p panelSums) statement() {
	today, operator := indianDay(p.books.now), p.books.operators[p.id]
	for range 3 {
		from := today.AddDate(0, 0, -p.random.IntN(50))
		until := from.AddDate(0, 0, p.random.IntN(int(today.Sub(from)/(24*time.Hour))+1))
		query := fmt.Sprintf("?from=%s&until=%s", from.Format(time.DateOnly), until.Format(time.DateOnly))
		opening, closing, debits, credits, lines := operator.statement(from, until)
		figures := stats(p.t, p.get("/panel/statement"+query), 4)
		p.same("statement"+query, []int64{paise(p.t, figures[0].value), paise(p.t, figures[1].value), paise(p.t, figures[2].value), paise(p.t, figures[3].value), paise(p.t, figures[3].note)},
			[]int64{opening, closing - opening, closing, operator.held, operator.balance})
		for _, path := range []string{"/panel/statement", "/panel/statement/print"} {
			var sum [2]int64
			rows := walk(p.t, p.b, path+query)
			shown := 0
			for _, row := range rows {
				if len(row) < 5 || (row[2] == "") == (row[3] == "") {
					continue // opening and closing balance, or a sum
				}
				shown++
				for side := range sum {
					if row[2+side] != "" {
						sum[side] += paise(p.t, row[2+side])
					}
				}
			}
			p.same(path+query+", lines, debits and credits", []any{shown, sum[0], sum[1]}, []any{lines, debits, credits})
		}
		rows := file(p.t, p.b, "/panel/statement/export/csv"+query)
		n := len(rows[0])
		last, sum := opening, [2]int64{}
		for _, row := range rows[1 : len(rows)-1] {
			debit, credit := plain(p.t, row[n-3]), plain(p.t, row[n-2])
			sum[0], sum[1], last = sum[0]+debit, sum[1]+credit, last-debit+credit
			p.same("statement's file, balance", plain(p.t, row[n-1]), last)
		}
		p.same("statement's file", []any{len(rows) - 2, plain(p.t, rows[0][n-1]), sum[0], sum[1], plain(p.t, rows[len(rows)-1][n-1])}, []any{lines, opening, debits, credits, closing})
	}
}

func (p panelSums) transactions() {
	const state, amount = 4, 5
	all := file(p.t, p.b, "/panel/transactions/export/csv")
	words := map[string]string{"success": "Success", "failed": "Failed", "needs_review": "In review", "processing": "Processing", "reversed": "Reversed"}
	for name, word := range words {
		want := p.mine(func(o booksOperation) bool { return o.state == name })
		var got, exported totals
		for _, row := range walk(p.t, p.b, "/panel/transactions?state="+name) {
			got.count, got.paise = got.count+1, got.paise+paise(p.t, row[amount])
			p.same("transactions, state", row[state], word)
		}
		for _, row := range all {
			if row[9] == word {
				exported.count, exported.paise = exported.count+1, exported.paise+plain(p.t, row[8])
			}
		}
		p.same("transactions in "+name, got, want)
		p.same("transactions' file, "+name, exported, want)
	}
	p.same("transactions", len(walk(p.t, p.b, "/panel/transactions")), p.mine(func(booksOperation) bool { return true }).count)
	p.same("transactions' file", len(all), p.mine(func(booksOperation) bool { return true }).count)
	from := indianDay(p.books.now).AddDate(0, 0, -20)
	p.same("transactions of some days", len(walk(p.t, p.b, fmt.Sprintf("/panel/transactions?from=%[1]s&until=%[1]s", from.Format(time.DateOnly)))),
		p.mine(func(o booksOperation) bool { return indianDay(o.created).Equal(from) }).count)
}

var (
	sumPattern       = regexp.MustCompile(`(?s)<dl class="sum">.*?</dl>`)
	figurePattern    = regexp.MustCompile(`<dd>([^<]*)</dd>`)
	announcedPattern = regexp.MustCompile(`[0-9,]+ announced payments? of ₹[0-9,.]+`)
)

var receiptPattern = regexp.MustCompile(`(?s)(R\d\d-\d\d)/(\d{6}).*class="receipt-sum"><dt>.*?</dt><dd>(.*?)</dd>`)

// receipts compares the receipt of each success with its operation, and all of them with the
// ledger: their numbers are consecutive in each financial year.
func (p panelSums) receipts() {
	numbers := map[string][]int{}
	sum := int64(0)
	for id, op := range p.books.operations {
		if op.operator != p.id || op.state != "success" && op.state != "reversed" {
			continue
		}
		found := receiptPattern.FindStringSubmatch(p.get("/panel/transactions/" + id + "/receipt").Body)
		if found == nil {
			p.t.Fatalf("the receipt of %s has no number or no amount", id)
		}
		numbers[found[1]] = append(numbers[found[1]], number(p.t, found[2]))
		p.same("receipt of "+id, paise(p.t, found[3]), op.amount)
		sum += op.amount
	}
	for year, given := range numbers {
		slices.Sort(given)
		for i, n := range given {
			p.same("receipt numbers of "+year, n, i+1)
		}
	}
	debits := int64(0)
	for _, line := range p.books.operators[p.id].lines {
		if line.debit && line.transaction {
			debits += line.amount
		}
	}
	p.same("receipts, sum", sum, debits)
}

// bulkJob compares a job's summary with the operations of its rows.
func (p panelSums) bulkJob(path string) {
	db := e2e.OpenReadOnly(p.t, p.Node.Config.Store)
	defer db.Close()
	var done, review, refused totals
	for _, row := range e2e.QueryRows(p.t, db, fmt.Sprintf(`SELECT COALESCE(operation_id, '') FROM bulk_rows WHERE job_id = '%s'`, strings.TrimPrefix(path, "/panel/bulk/"))) {
		op, into := p.books.operations[row], &refused
		switch op.state {
		case "success":
			into = &done
		case "needs_review":
			into = &review
		}
		into.count, into.paise = into.count+1, into.paise+op.amount
	}
	if done.count == 0 || review.count == 0 || refused.count == 0 {
		p.t.Errorf("the bulk renewal has %d done, %d in review, %d refused; want some of each", done.count, review.count, refused.count)
	}
	figures := stats(p.t, p.get(path), 3)
	p.same("bulk renewal", []any{
		totals{number(p.t, figures[0].value), paise(p.t, figures[0].note)}, number(p.t, figures[1].value),
		totals{number(p.t, figures[2].value), paise(p.t, figures[2].note)},
	}, []any{done, refused.count, review})
	p.files("bulk renewal", path+"/%s", 8, totals{done.count + review.count + refused.count, done.paise + review.paise})
}

// consoleSums compares the console's pages with the books.
type consoleSums struct {
	*sums
	books books
	b     *e2e.Browser
}

func (c consoleSums) get(path string) e2e.Page { return c.b.Get(path).Shows(c.t, http.StatusOK) }

func (c consoleSums) home() {
	figures := stats(c.t, c.get("/console/"), 8)
	var balance, held int64
	operators, active := 0, 0
	for _, o := range c.books.operators {
		balance, held = balance+o.balance, held+o.held
		if o.state != "deleted" {
			operators++
		}
		if o.state == "active" {
			active++
		}
	}
	reviews := c.books.sum(func(o booksOperation) bool { return o.state == "needs_review" }).count
	c.same("console, in review", number(c.t, figures[1].value), reviews)
	c.same("console, operators", []int{number(c.t, figures[5].value), number(c.t, figures[5].note)}, []int{operators, active})
	c.same("console, subscribers", number(c.t, figures[6].value), len(c.books.subscribers))
	c.same("console, wallets", []int64{paise(c.t, figures[7].value), paise(c.t, figures[7].note)}, []int64{balance, held})

	queue := c.get("/console/review")
	c.same("review queue", number(c.t, stats(c.t, queue, 4)[0].value), reviews)
	c.same("rows of the review queue", len(walk(c.t, c.b, "/console/review")), reviews)

	announced := c.books.announcements(0)
	c.same("console, announced payments", []int64{int64(number(c.t, figures[4].value)), paise(c.t, figures[4].note)}, []int64{int64(announced.count), announced.paise})
	money := stats(c.t, c.get("/console/payments"), 2)
	c.same("money in", totals{number(c.t, money[0].value), paise(c.t, money[1].value)}, announced)
	var rows totals
	for _, row := range walk(c.t, c.b, "/console/payments") {
		rows.count, rows.paise = rows.count+1, rows.paise+paise(c.t, row[3])
	}
	c.same("money in, rows", rows, announced)
}

func (c consoleSums) operators() {
	rows := walk(c.t, c.b, "/console/operators")
	c.same("operators", len(rows), len(c.books.operators))
	for _, row := range rows {
		fields := strings.Fields(row[0])
		id := int64(number(c.t, fields[len(fields)-1]))
		o := c.books.operators[id]
		all := c.books.countSubscribers(id, func(booksSubscriber) bool { return true })
		active := c.books.countSubscribers(id, func(s booksSubscriber) bool { return s.expires.After(c.books.now) })
		c.same("operators, "+o.name, []any{number(c.t, row[3]), paise(c.t, row[4]), paise(c.t, row[5])}, []any{all, o.balance, o.held})
		figures := stats(c.t, c.get(fmt.Sprintf("/console/operators/%d", id)), 3)
		c.same("operator "+o.name, []any{paise(c.t, figures[0].value), paise(c.t, figures[1].value), number(c.t, figures[2].value), number(c.t, figures[2].note)}, []any{o.balance, o.held, all, active})
		wallet := c.get(fmt.Sprintf("/console/operators/%d/wallet", id))
		figures = stats(c.t, wallet, 2)
		c.same("wallet of "+o.name, []int64{paise(c.t, figures[0].value), paise(c.t, figures[1].value)}, []int64{o.balance, o.held})
		for i, line := range table(c.t, wallet, 0) {
			want := o.lines[len(o.lines)-1-i]
			if want.debit {
				want.amount = -want.amount
			}
			c.same("line of "+o.name, []int64{paise(c.t, line[2]), paise(c.t, line[3])}, []int64{want.amount, want.balance})
		}
	}
}

// commission compares the months' sums, without what was reversed in the month: on the page, and in both
// of its files.
func (c consoleSums) commission() {
	for back := range 3 {
		now := indianDay(c.books.now)
		month := time.Date(now.Year(), now.Month()-time.Month(back), 1, 0, 0, 0, 0, now.Location())
		var sold totals
		earned := int64(0)
		for _, o := range c.books.operations {
			if at := indianDay(o.succeeded); !o.succeeded.IsZero() && at.Year() == month.Year() && at.Month() == month.Month() {
				sold.count, sold.paise, earned = sold.count+1, sold.paise+o.amount, earned+o.commission
			}
			if at := indianDay(o.reversed); !o.reversed.IsZero() && at.Year() == month.Year() && at.Month() == month.Month() {
				sold.paise, earned = sold.paise-o.amount, earned-o.commission
			}
		}
		query := "?operator=0&month=" + month.Format("2006-01")
		page := c.get("/console/commission" + query)
		figures := stats(c.t, page, 3)
		want := []any{sold, earned}
		c.same("commission"+query, []any{totals{number(c.t, figures[2].value), paise(c.t, figures[1].value)}, paise(c.t, figures[0].value)}, want)
		for name, columns := range map[string][3]int{"sums": {5, 6, 7}, "lines": {-1, 7, 9}} {
			var got totals
			commission := int64(0)
			for _, row := range file(c.t, c.b, "/console/commission/"+name+"/csv"+query) {
				n := 1
				switch {
				case columns[0] >= 0:
					n = number(c.t, row[columns[0]])
				case plain(c.t, row[columns[1]]) < 0: // a reversal
					n = 0
				}
				got.count, got.paise, commission = got.count+n, got.paise+plain(c.t, row[columns[1]]), commission+plain(c.t, row[columns[2]])
			}
			c.same("commission, file of "+name+query, []any{got, commission}, want)
		}
	}
}
