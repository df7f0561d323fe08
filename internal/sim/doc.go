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
// There is nothing here to import: the package is its tests. The page
// docs/architecture.md says how to run and replay them.
package sim
