package look

import "html/template"

// badge is how a state is shown: by colour, icon and text, so that any one of them is
// enough.
type badge struct{ kind, icon, text string }

var badges = map[string]badge{
	// operations
	"success":      {"good", "circle-check", Text("Success")},
	"processing":   {"info", "loader-circle", Text("Processing")},
	"needs_review": {"warn", "hourglass", Text("In review")},
	"failed":       {"bad", "circle-x", Text("Failed")},

	// subscribers
	"active":   {"good", "circle-check", Text("Active")},
	"expiring": {"warn", "calendar-clock", Text("Expiring")},
	"expired":  {"bad", "calendar-clock", Text("Expired")},
	"pending":  {"info", "clock", Text("Pending")},

	// reversals
	"requested": {"info", "clock", Text("Reversal requested")},
	"asked":     {"warn", "hourglass", Text("Provider is being asked")},
	"reversed":  {"neutral", "rotate-ccw", Text("Reversed")},

	// operators, keys, plans, logins
	"inactive":     {"neutral", "ban", Text("Suspended")},
	"enabled":      {"good", "circle-check", Text("Enabled")},
	"disabled":     {"neutral", "ban", Text("Disabled")},
	"blocked":      {"bad", "ban", Text("Blocked")},
	"deleted":      {"neutral", "trash-2", Text("Deleted")},
	"revoked":      {"bad", "ban", Text("Revoked")},
	"grace":        {"warn", "clock", Text("In grace")},
	"retired":      {"neutral", "ban", Text("Retired")},
	"verified":     {"good", "badge-check", Text("Verified")},
	"not_verified": {"warn", "triangle-alert", Text("Not verified")},

	// announced payments and lines of a bank statement
	"announced": {"info", "clock", Text("Announced")},
	"matched":   {"info", "badge-check", Text("Found at the bank")},
	"approval":  {"warn", "hourglass", Text("Needs a second approval")},
	"credited":  {"good", "circle-check", Text("Credited")},
	"rejected":  {"bad", "circle-x", Text("Rejected")},
	"exact":     {"good", "badge-check", Text("Amount fits")},
	"differs":   {"warn", "triangle-alert", Text("Amount differs")},
	"unmatched": {"neutral", "search", Text("Not announced")},

	// background jobs and proposals
	"draft":     {"neutral", "file-text", Text("Draft")},
	"running":   {"info", "loader-circle", Text("Running")},
	"queued":    {"info", "clock", Text("Queued")},
	"finished":  {"good", "circle-check", Text("Finished")},
	"part_done": {"warn", "triangle-alert", Text("Some refused")},
	"none_done": {"bad", "circle-x", Text("None renewed")},
	"waiting":   {"warn", "hourglass", Text("Awaiting confirmation")},
	"refused":   {"bad", "circle-x", Text("Refused")},
	"cancelled": {"neutral", "ban", Text("Cancelled")},
	"done":      {"good", "circle-check", Text("Done")},
	"stopped":   {"neutral", "ban", Text("Stopped")},
	"skipped":   {"neutral", "ban", Text("Skipped")},
	"open":      {"info", "clock", Text("Open")},
	"closed":    {"neutral", "lock", Text("Closed")},
	"approved":  {"good", "circle-check", Text("Approved")},
	"declined":  {"bad", "circle-x", Text("Declined")},
	"withdrawn": {"neutral", "ban", Text("Withdrawn")},
	"lapsed":    {"neutral", "clock", Text("Expired")},
	"healthy":   {"good", "activity", Text("Healthy")},
	"unhealthy": {"bad", "activity", Text("Not healthy")},
}

// StateText returns a state's name in English, if it is in the table.
func StateText(state string) (word string, known bool) {
	b, known := badges[state]
	return b.text, known
}

// status renders a state as a badge. An unknown state is shown by its own name, so that no
// state is hidden.
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
