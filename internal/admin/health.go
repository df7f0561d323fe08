package admin

import "time"

// Health is the state of a node and of the installation, for the console. It is read
// afresh for every page.
type Health struct {
	Node    string
	Version string
	// Store is the kind, sqlite or postgres; StoreProblem is why it cannot be used
	// now, empty if it can. Migrations is how many have been applied.
	Store        string
	StoreProblem string
	Migrations   int
	Started      time.Time

	Provider    ProviderHealth
	Certificate CertificateHealth
	Audit       AuditHealth

	// WaitingJobs are the bulk renewals that were interrupted and wait for their
	// operators.
	Maintenance Maintenance
	// Restore is the restore of the store that has not been dealt with.
	Restore     Restore
	WaitingJobs []WaitingJob

	// OverdueReviews is how many operations have been in review for ReviewDue or
	// longer.
	OverdueReviews int
}

// CertificateHealth is the state of the node's TLS certificate and key.
type CertificateHealth struct {
	File    string
	Expires time.Time
	// Days is how many calendar days are left, 0 on the last one.
	Days              int
	Expired, Expiring bool
	KeyFile           string
	// Missing: none was ordered yet. Problem is why the newest one is not in use; "" if it is.
	Missing bool
	Problem string
	// OpenKeyMode is the key file's mode if every user of the machine can read it.
	OpenKeyMode string
}

// WaitingJob is a bulk renewal that waits for its operator.
type WaitingJob struct {
	OperatorID int64
	Title      string
	Since      time.Time
	// ByMaintenance: maintenance mode interrupted it; BySuspension: the suspension of its
	// operator did; otherwise it was idle for too long while no node ran.
	ByMaintenance, BySuspension bool
}

// ProviderHealth is the state of the provider.
type ProviderHealth struct {
	Name string
	// Down: the breaker is open, and nothing is sent to it.
	Down bool
	// PricesVerifiedAt is the last good comparison with its catalogue; zero if there
	// was none. PricesVerified: it is recent enough to sell by.
	PricesVerifiedAt time.Time
	PricesVerified   bool
	PricesProblem    string
	// Recent are the last calls of this node, newest first.
	Recent []ProviderAnswer
}

// ProviderAnswer is the outcome of one call to the provider.
type ProviderAnswer struct {
	At   time.Time
	What string
	// Cause is why it ended as it did; Answered: with a usable reply.
	Cause    string
	Answered bool
}

// AuditHealth is the result of the node's last background audit.
type AuditHealth struct {
	// Every is the pause between two audits; zero if there are none.
	Every time.Duration
	// EndedAt is when the last one ended; zero if none has yet.
	EndedAt time.Time
	// Problem is why it could not be completed; empty if it was.
	Problem string
	// Violations is how many there were, First the first few.
	Violations int64
	First      []string
}
