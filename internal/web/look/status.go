package look

import "html/template"

// badge is how a state is shown: by a colour, an icon and a word, so that no one
// of them has to be seen for it to be understood.
type badge struct{ kind, icon, text string }

var badges = map[string]badge{
	// operations
	"success":      {"good", "circle-check", Word("Success")},
	"processing":   {"info", "loader-circle", Word("Processing")},
	"needs_review": {"warn", "hourglass", Word("In review")},
	"failed":       {"bad", "circle-x", Word("Failed")},

	// subscribers
	"active":   {"good", "circle-check", Word("Active")},
	"expiring": {"warn", "calendar-clock", Word("Expiring")},
	"expired":  {"bad", "calendar-clock", Word("Expired")},
	"pending":  {"info", "clock", Word("Pending")},

	// operators, keys, plans, logins
	"inactive":     {"neutral", "ban", Word("Suspended")},
	"enabled":      {"good", "circle-check", Word("Enabled")},
	"disabled":     {"neutral", "ban", Word("Disabled")},
	"blocked":      {"bad", "ban", Word("Blocked")},
	"deleted":      {"neutral", "trash-2", Word("Deleted")},
	"revoked":      {"bad", "ban", Word("Revoked")},
	"grace":        {"warn", "clock", Word("In grace")},
	"retired":      {"neutral", "ban", Word("Retired")},
	"verified":     {"good", "badge-check", Word("Verified")},
	"not_verified": {"warn", "triangle-alert", Word("Not verified")},

	// work that goes on by itself
	"draft":     {"neutral", "file-text", Word("Draft")},
	"running":   {"info", "loader-circle", Word("Running")},
	"queued":    {"info", "clock", Word("Queued")},
	"finished":  {"good", "circle-check", Word("Finished")},
	"waiting":   {"warn", "hourglass", Word("Waits for confirmation")},
	"refused":   {"bad", "circle-x", Word("Refused")},
	"cancelled": {"neutral", "ban", Word("Cancelled")},
	"done":      {"good", "circle-check", Word("Done")},
	"stopped":   {"neutral", "ban", Word("Stopped")},
	"skipped":   {"neutral", "ban", Word("Skipped")},
	"open":      {"info", "clock", Word("Open")},
	"closed":    {"neutral", "lock", Word("Closed")},
	"approved":  {"good", "circle-check", Word("Approved")},
	"declined":  {"bad", "circle-x", Word("Declined")},
	"withdrawn": {"neutral", "ban", Word("Withdrawn")},
	"lapsed":    {"neutral", "clock", Word("Lapsed")},
	"healthy":   {"good", "activity", Word("Healthy")},
	"unhealthy": {"bad", "activity", Word("Not healthy")},
}

// StateWord is what people call a state, in English, if it is in the table.
func StateWord(state string) (word string, known bool) {
	b, known := badges[state]
	return b.text, known
}

// status shows a state as a badge. One that is not in the table is shown by its
// own name, so that a new state is never hidden.
func status(say func(string, ...any) string, state string) template.HTML {
	b, ok := badges[state]
	if !ok {
		b = badge{kind: "neutral", text: state}
	}
	mark := template.HTML("")
	if b.icon != "" {
		mark = mustIcon(b.icon)
	}
	return `<span class="badge badge-` + template.HTML(b.kind) + `">` + mark +
		template.HTML(template.HTMLEscapeString(say(b.text))) + `</span>`
}
