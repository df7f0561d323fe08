package backup

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Extension ends the names of backups.
const Extension = ".coaxbackup"

const stamp = "20060102T150405Z"

var namePattern = regexp.MustCompile(`^(.+)-(\d{8}T\d{6}Z)(?:-([1-9]\d*))?\.coaxbackup$`)

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_.]+`)

// Name is the name of a backup in a folder: that of the store, and the time in UTC. The n-th of
// the same second, from 1, has n behind it unless it is the first.
func Name(store string, takenAt time.Time, n int) string {
	store = strings.Trim(notInNames.ReplaceAllString(store, "-"), "-.")
	if store == "" {
		store = "coax"
	}
	name := store + "-" + takenAt.UTC().Format(stamp)
	if n > 1 {
		name += "-" + strconv.Itoa(n)
	}
	return name + Extension
}

// ParseName returns the time in a name that Name made for a store.
func ParseName(store, name string) (takenAt time.Time, ok bool) {
	match := namePattern.FindStringSubmatch(name)
	if match == nil {
		return takenAt, false
	}
	n := 1
	if match[3] != "" {
		n, _ = strconv.Atoi(match[3])
	}
	takenAt, err := time.Parse(stamp, match[2])
	return takenAt, err == nil && Name(store, takenAt, n) == name
}

// Keep says which backups are kept: the newest of each of the last days, weeks and months
// that have one. The zero value keeps all.
type Keep struct{ Days, Weeks, Months int }

// maxKept bounds each number.
const maxKept = 10_000

// ParseKeep reads a Keep such as 7d,4w,12m.
func ParseKeep(text string) (Keep, error) {
	var k Keep
	fields := map[byte]*int{'d': &k.Days, 'w': &k.Weeks, 'm': &k.Months}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		wrong := fmt.Errorf("%q is not how many days, weeks and months to keep, such as 7d,4w,12m", text)
		if part == "" {
			return Keep{}, wrong
		}
		into := fields[part[len(part)-1]]
		n, err := strconv.Atoi(part[:len(part)-1])
		if into == nil || *into != 0 || err != nil || n < 1 || n > maxKept {
			return Keep{}, wrong
		}
		*into = n
	}
	return k, nil
}

// Expired returns the indexes of the times that are not kept. Of each of the last k.Days days
// that have a time, the newest is kept, and so for weeks, which begin on Mondays, and months.
// Days without a backup do not count: what is old is deleted only when there is enough newer.
// The newest of all is always kept. Days are those of UTC.
func (k Keep) Expired(times []time.Time) []int {
	if k == (Keep{}) {
		return nil
	}
	newestFirst := make([]int, len(times))
	for i := range times {
		newestFirst[i] = i
	}
	slices.SortStableFunc(newestFirst, func(a, b int) int { return times[b].Compare(times[a]) })
	kept := map[int]bool{}
	if len(newestFirst) > 0 {
		kept[newestFirst[0]] = true
	}
	for _, rule := range []struct {
		count  int
		period func(time.Time) string
	}{
		{k.Days, func(t time.Time) string { return t.Format(time.DateOnly) }},
		{k.Weeks, func(t time.Time) string { year, week := t.ISOWeek(); return fmt.Sprint(year, " ", week) }},
		{k.Months, func(t time.Time) string { return t.Format("2006-01") }},
	} {
		seen := map[string]bool{}
		for _, i := range newestFirst {
			period := rule.period(times[i].UTC())
			if seen[period] {
				continue
			}
			if len(seen) == rule.count {
				break
			}
			seen[period] = true
			kept[i] = true
		}
	}
	var expired []int
	for i := range times {
		if !kept[i] {
			expired = append(expired, i)
		}
	}
	return expired
}
