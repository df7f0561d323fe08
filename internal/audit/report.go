package audit

import (
	"time"

	"github.com/coaxhq/coax/internal/money"
)

// Counts has the number of rows read, and sums.
type Counts struct {
	Operators     int64      `json:"operators"`
	Wallets       int64      `json:"wallets"`
	WalletEntries int64      `json:"wallet_entries"`
	LedgerLines   int64      `json:"ledger_lines"`
	Operations    Operations `json:"operations"`
	Commissions   int64      `json:"commissions"`
	Events        int64      `json:"operation_events"`
	ProviderCalls int64      `json:"provider_calls"`
	Exceptions    int64      `json:"exceptions"`
	Reversals     int64      `json:"reversals"`
	Subscribers   int64      `json:"subscribers"`
	Cycles        int64      `json:"cycles"`
	Plans         int64      `json:"plans"`
	PlanVersions  int64      `json:"plan_versions"`
	Keys          int64      `json:"keys"`
	Whitelist     int64      `json:"whitelist_entries"`
	Actions       int64      `json:"acts"`
	Logins        int64      `json:"logins"`
	Proposals     int64      `json:"proposals"`
	Periods       int64      `json:"closed_months"`
	Digests       int64      `json:"ledger_digests"`
	// Unsealed are wallet entries and ledger lines that no digest covers yet.
	Unsealed int64 `json:"unsealed_rows"`
	// Closings record what was removed because it was old; Removed is how many rows.
	Closings int64 `json:"retention_closings"`
	Removed  int64 `json:"removed_rows"`
	Nonces   int64 `json:"nonces"`
	Minutes  int64 `json:"rate_minutes"`
	// Receipts are purchases with a receipt number.
	Receipts int64 `json:"receipts"`
	Sums     Sums  `json:"sums"`
}

// Operations counts operations by their status.
type Operations struct {
	Total       int64 `json:"total"`
	Processing  int64 `json:"processing"`
	NeedsReview int64 `json:"needs_review"`
	Success     int64 `json:"success"`
	Failed      int64 `json:"failed"`
}

// Sums is the money of all operators.
type Sums struct {
	// Credited is the sum of top-ups and adjustments.
	Credited money.Amount `json:"credited"`
	// Charged is the price of successful operations that were not reversed, Held that of open ones.
	Charged money.Amount `json:"charged"`
	Held    money.Amount `json:"held"`
	// Balance and Ledger are the sums of the wallets.
	Balance    money.Amount `json:"balance"`
	Ledger     money.Amount `json:"ledger"`
	Commission money.Amount `json:"commission"`
}

// Invariant is what must hold in every store at every moment.
type Invariant struct {
	ID      string
	Promise string
}

// Invariants is everything the audit checks.
var Invariants = []Invariant{
	{"M1", "what came into a wallet is its balance, what was charged, and what is held"},
	{"M2", "a wallet's entries have no gap and each balance follows from the one before"},
	{"M2w", "a wallet is what its last entry says"},
	{"M3", "no balance was ever below zero"},
	{"M4", "an operation's money, books and commission are exactly those of its status"},
	{"M5", "an operator's idempotency key stands for one operation, an id for one, and none is sent to the provider twice"},
	{"M6", "the charge is the price of the plan's version that was in force"},
	{"M7", "the balance an operation saw before it is its wallet entry's"},
	{"M8", "staff credit money under a reference used once across all operators, an announced payment is said to be credited by a top-up of its own, and other money moves only with an operation, by its actor or the person who decided it"},
	{"M9", "money is given back at most once"},
	{"L1", "a ledger has no gap and each sum follows from the one before"},
	{"L2", "a wallet's ledger sum is its last ledger line's"},
	{"L3", "a wallet's balance is its ledger's sum less what open operations hold"},
	{"L4", "every top-up and adjustment has its ledger line, and no other line lacks an operation"},
	{"L6", "every purchase since receipts are numbered has a receipt number, and those of an operator and a financial year have no gap and no repeat, up to the wallet's count"},
	{"C1", "a commission is the operator's rate of the price, rounded half up"},
	{"C2", "a closed month's commission is what it was when it was closed"},
	{"C3", "a reversal takes back exactly the commission of its operation"},
	{"V1", "a reversal gives back exactly what its operation charged, once, and takes its cycle away, for a member of staff whose request is in the log"},
	{"P1", "a plan's versions have no gap and the plan is its newest one"},
	{"S1", "an operation went only where the state machine allows, and is where its history says"},
	{"S2", "a customer has at most one open operation at a time"},
	{"S3", "a mobile number and a subscriber id belong to one subscriber"},
	{"S4", "nothing is stuck: every open operation has a lease, a next check or waits for a person"},
	{"S5", "a success has its subscriber and cycle, a pending subscriber its open activation, a failed activation neither"},
	{"S6", "a subscriber's expiry is what the purchases, in their order, come to"},
	{"S9", "every outcome rests on a provider reply or a person's decision, and where the two differ there is an exception"},
	{"I2", "every operation has the full fingerprint that tells a replay from another request"},
	{"I5", "no renewal repeats another of the same subscriber and plan within two minutes"},
	{"T1", "later events have later timestamps, and events of one transaction the same"},
	{"O1", "no row refers to a missing operation"},
	{"O2", "no row refers to a missing operator, and every operator has a wallet"},
	{"A1", "a key is one key, and a nonce of it was used by one request"},
	{"A3", "every change of an account, a whitelist, a key or a login incremented the version that nodes compare"},
	{"A6", "in no minute were more requests admitted than the operator's limit"},
	{"A9", "every staff action is in the chain, and everything staff can change or decide is as the last one left it"},
	{"A10", "what needs approval was proposed by one person and approved by another, once, and carried out then"},
	{"A13", "an adopted operation is what one staff action and the entry of the provider's list say, and no other rests on either"},
	{"L5", "wallet entries and ledger lines are as they were when their day was sealed"},
	{"A12", "no staff action was changed, added or removed by anybody without the master key"},
	{"R1", "what was removed for its age is recorded in a chain that nobody without the master key can change, and was old enough"},
	{"R2", "an operation lacks its events or provider calls only where a closing says that they were removed, and was due for it"},
	{"H1", "the store contains every exported head that it is compared with"},
	{"A11", "every login was created by a staff action, is as the last one on it left it, and none is missing"},
}

var india = time.FixedZone("IST", 19_800)

// moment writes Unix milliseconds for people.
func moment(ms int64) string { return time.UnixMilli(ms).In(india).Format("2006-01-02 15:04:05.000") }

// rupees writes paise for people.
func rupees(paise int64) string { return money.Paise(paise).String() }
