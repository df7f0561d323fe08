package admin

import "time"

// Health is what a node knows about itself and the installation, for staff to see
// at a glance. Whoever shows it asks for it anew.
type Health struct {
	Node    string
	Version string
	// Store is the kind, sqlite or postgres; StoreProblem is why it cannot be used
	// now, empty if it can. Migrations is how many the schema has had.
	Store        string
	StoreProblem string
	Migrations   int
	Started      time.Time

	Provider    ProviderHealth
	Certificate CertificateHealth
	Audit       AuditHealth

	// Maintenance is the mode, and WaitingJobs are the bulk renewals that were interrupted
	// and wait for their operators.
	Maintenance Maintenance
	WaitingJobs []WaitingJob

	// OverdueReviews is how many operations have been in review for ReviewDue or
	// longer.
	OverdueReviews int
}

// CertificateHealth is how the node's TLS certificate and its key are.
type CertificateHealth struct {
	File    string
	Expires time.Time
	// Days is how many calendar days are left, 0 on the last one.
	Days              int
	Expired, Expiring bool
	KeyFile           string
	// OpenKeyMode is the key file's mode if every user of the machine can read it.
	OpenKeyMode string
}

// WaitingJob is a bulk renewal that waits for its operator.
type WaitingJob struct {
	OperatorID int64
	Title      string
	Since      time.Time
	// ByMaintenance: maintenance mode interrupted it; BySuspension: the suspension of its
	// operator did; otherwise no node had worked on it for long when one started.
	ByMaintenance, BySuspension bool
}

// ProviderHealth is how things stand with the provider.
type ProviderHealth struct {
	Name string
	// Out: it is known to be down, and nothing is sent to it.
	Out bool
	// PricesVerifiedAt is the last good comparison with its catalogue; zero if there
	// was none. PricesCount says whether that is recent enough to sell by.
	PricesVerifiedAt time.Time
	PricesCount      bool
	PricesProblem    string
	// Recent are its last answers to this node, newest first.
	Recent []ProviderAnswer
}

// ProviderAnswer is how one call to the provider went.
type ProviderAnswer struct {
	At   time.Time
	What string
	// Cause is why it ended as it did; Answered: with an answer that can be used.
	Cause    string
	Answered bool
}

// AuditHealth is what the last audit beside the node's work found.
type AuditHealth struct {
	// Every is the pause between two; zero if there are none.
	Every time.Duration
	// EndedAt is when the last one ended; zero if none has yet.
	EndedAt time.Time
	// Problem is why it could not be carried through; empty if it could.
	Problem string
	// Violations is how many there were, First some of them.
	Violations int64
	First      []string
}
