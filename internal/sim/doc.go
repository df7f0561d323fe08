// Package sim runs whole histories of Coax in fake time: the production code of
// several nodes on one real store, clients, staff and a provider of its own, with
// faults wherever something can go wrong, and a model that knows the rules
// independently and objects to whatever breaks them. Among the faults are rows of one
// operator that another session holds, questions to the provider that hang, and
// staff who decide while such a question is under way.
//
// One seed is one history, to the last step. Everything that could happen in
// either order passes a gate, and the seed decides who goes first; so a history
// that goes wrong goes wrong again, and can be made smaller until it is plain.
//
// The same histories also run on PostgreSQL in real time, where several things
// really happen at once. Then a seed fixes what everybody does and meets, and the
// machine in which order; everything is judged at the end, by a journal that the
// database kept of every transaction.
//
// The model reads a journal that triggers in the store write of every committed row. It
// checks each commit against the contract: price, customer, duplicate window, expiry, one
// charge per key, one effect per reference, no refund of what the provider did. It checks
// each response: it must have been true at some moment of its request. At the end all
// faults stop, and within ten minutes every operation must be settled, the provider's
// books must equal ours, and the audit must be clean. A run also fails if a result code,
// a kind of fault or a shared commit that failed never occurred.
//
// A history that fails is printed with the command that replays it, reduced to the
// actions and faults it needs: -keep names actions, -without leaves out kinds of faults.
// make test runs histories for a minute from a fresh seed, make sim HISTORIES=10000 runs
// more. Seeds that found a bug are in regressions_test.go, each with the bug and a
// deterministic test of it. TestFaults_AtEveryStep runs short scenarios of the
// contract and puts each kind of fault at each place of them in turn.
//
// There is nothing here to import: the package is its tests.
package sim
