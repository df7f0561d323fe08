// Package sim simulates Coax in fake time: the production code of several nodes on
// one real store, with simulated clients, staff and provider, injected faults, and an
// independent model that checks every commit and response against the contract. One
// simulated run is called a history. Faults include locked rows of one operator,
// provider queries that hang, and staff who settle an operation during such a query. Staff also
// reverse operations, and settle the reversals that the provider leaves unknown.
//
// A seed determines a history completely. Everything that could happen in either
// order passes a gate, and the seed decides the order; so a failing history fails
// again when replayed, and can be reduced.
//
// The same histories also run on PostgreSQL in real time, with real concurrency. Then
// the seed determines actions and faults but not their order; everything is checked at
// the end, from a journal that the database kept of every transaction.
//
// The model reads a journal that triggers in the store write of every committed row. It
// checks each commit against the contract: price, customer, duplicate window, expiry, one
// charge per key, one effect per reference, no refund of what the provider did. It checks
// each response: it must have been true at some moment of its request. At the end all
// faults stop, and within ten minutes every operation must be settled, the provider's
// records must match ours, and the audit must be clean. A run also fails if a result code,
// a kind of fault or a failed shared commit never occurred.
//
// A history that fails is printed with the command that replays it, reduced to the
// actions and faults it needs: -keep names actions, -without leaves out kinds of faults.
// make test runs histories for a minute from a fresh seed, make sim HISTORIES=10000 runs
// more. Seeds that found a bug are in regressions_test.go, each with the bug and a
// deterministic test of it. TestFaults_AtEveryStep runs short scenarios of the
// contract and injects each kind of fault at each of their steps in turn.
package sim
