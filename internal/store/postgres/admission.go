package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

var _ access.Store = (*DB)(nil)

const maxAdmissions = 256

// admitting is one request that waits to be admitted.
type admitting = entrant[access.Admission, access.Admitted]

func (db *DB) openAdmission(observe Observer) {
	db.admissions = openLane(laneOptions[access.Admission, access.Admitted]{
		observe: observe, baton: db.committing, most: maxAdmissions, locks: db.locks, fleeting: true, // at worst a nonce is burned, and nothing else
		operator: func(a access.Admission) int64 { return a.OperatorID },
		together: func(batch []*admitting, lockTimeout time.Duration) error {
			return db.pipelined(context.Background(), lockTimeout, func(p *pipe) error { return admitAll(p, batch) })
		},
	})
}

// Admit makes one request's admission true: the nonce is burned, the record is
// found to be the one the caller was judged on, a place in the minute is taken.
func (db *DB) Admit(ctx context.Context, a access.Admission) (access.Admitted, error) {
	admitted, err := db.admissions.through(ctx, a)
	if err != nil {
		return access.Admitted{}, fmt.Errorf("admit a request: %w", err)
	}
	return admitted, nil
}

// admitAll admits a batch in two round trips: nonces are burned and places taken
// for everybody in the first, and the second has the commit. Whoever turns out to
// be refused gives its place back in between.
//
// Rows are locked in the order of their keys, so that batches of several nodes
// wait for each other and never in a circle.
func admitAll(p *pipe, batch []*admitting) error {
	slices.SortFunc(batch, func(a, b *admitting) int {
		return cmp.Or(cmp.Compare(a.asks.CredentialID, b.asks.CredentialID), cmp.Compare(a.asks.Nonce, b.asks.Nonce),
			cmp.Compare(a.asks.RequestID, b.asks.RequestID))
	})
	q := newAdmissionQuery(batch)
	asking := &pgx.Batch{}
	q.burn(asking)
	q.takePlaces(asking)
	q.compare(asking) // last, for terms may change while another batch is waited for
	if err := p.send(asking); err != nil {
		return err
	}
	if !q.allFresh {
		looking := &pgx.Batch{}
		q.whoBurned(looking)
		if err := p.send(looking); err != nil {
			return err
		}
	}
	if err := q.decide(p); err != nil {
		return err
	}
	writing := &pgx.Batch{}
	q.givePlacesBack(writing)
	return p.commit(writing)
}

// admissionQuery is a batch on its way through the store.
type admissionQuery struct {
	batch       []*admitting
	credentials []int64
	nonces      []string
	// allFresh: no nonce of the batch was used before. Otherwise burned says who used
	// each, by credential and nonce.
	allFresh bool
	burned   map[burnedNonce]string
	versions map[int64][2]int64
	// counters are in the order that they are locked in.
	counters []counter
}

type burnedNonce struct {
	credentialID int64
	nonce        string
}

// counter is one operator's minute.
type counter struct {
	operatorID, minute int64
	// asked is how many of the batch want a place, used how many places are taken,
	// theirs not among them until they are granted.
	asked, used int64
}

func (c counter) compare(with counter) int {
	return cmp.Or(cmp.Compare(c.operatorID, with.operatorID), cmp.Compare(c.minute, with.minute))
}

func newAdmissionQuery(batch []*admitting) *admissionQuery {
	q := &admissionQuery{
		batch:       batch,
		credentials: column(batch, func(e *admitting) int64 { return e.asks.CredentialID }),
		nonces:      column(batch, func(e *admitting) string { return e.asks.Nonce }),
		versions:    make(map[int64][2]int64, len(batch)),
	}
	for _, e := range batch {
		e.gets = access.Admitted{} // a batch may run again
		if e.asks.Count {
			q.counters = append(q.counters, counter{operatorID: e.asks.OperatorID, minute: e.asks.Minute()})
		}
	}
	slices.SortFunc(q.counters, counter.compare)
	q.counters = slices.CompactFunc(q.counters, func(a, b counter) bool { return a.compare(b) == 0 })
	for _, e := range batch {
		if e.asks.Count {
			q.counterOf(e.asks.OperatorID, e.asks.Minute()).asked++
		}
	}
	return q
}

// counterOf is one of those that the batch needs.
func (q *admissionQuery) counterOf(operatorID, minute int64) *counter {
	n, _ := slices.BinarySearchFunc(q.counters, counter{operatorID: operatorID, minute: minute}, counter.compare)
	return &q.counters[n]
}

// burn uses up the nonces that are free.
func (q *admissionQuery) burn(sending *pgx.Batch) {
	sending.Queue(`
		INSERT INTO nonces (credential_id, nonce, request_id, used_at)
		SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[])
		    ON CONFLICT DO NOTHING`, q.credentials, q.nonces,
		column(q.batch, func(e *admitting) string { return e.asks.RequestID }),
		column(q.batch, func(e *admitting) int64 { return e.asks.Now.UnixMilli() }),
	).Exec(func(tag pgconn.CommandTag) error {
		q.allFresh = tag.RowsAffected() == int64(len(q.batch))
		return nil
	})
}

// whoBurned asks whose nonces they are, where not all were free. A statement of its
// own sees what the one before inserted, and what that found in its way.
func (q *admissionQuery) whoBurned(sending *pgx.Batch) {
	q.burned = make(map[burnedNonce]string, len(q.batch))
	sending.Queue(`
		SELECT n.credential_id, n.nonce, n.request_id
		  FROM unnest($1::bigint[], $2::text[]) AS a (credential_id, nonce)
		  JOIN nonces n ON n.credential_id = a.credential_id AND n.nonce = a.nonce COLLATE "C"`, q.credentials, q.nonces,
	).Query(each(func(row sqlstore.Row) error {
		var one burnedNonce
		var owner string
		err := row.Scan(&one.credentialID, &one.nonce, &owner)
		q.burned[one] = owner
		return err
	}))
}

// each reads every row of a queued query.
func each(read func(sqlstore.Row) error) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		for rows.Next() {
			if err := read(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	}
}

// takePlaces takes a place for everybody who wants one, as if all were to be let in,
// and locks the counters by it.
func (q *admissionQuery) takePlaces(sending *pgx.Batch) {
	if len(q.counters) == 0 {
		return
	}
	sending.Queue(`
		INSERT INTO rate_counters AS r (operator_id, minute, used)
		SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[])
		    ON CONFLICT (operator_id, minute) DO UPDATE SET used = r.used + excluded.used
		RETURNING operator_id, minute, used`,
		column(q.counters, func(c counter) int64 { return c.operatorID }),
		column(q.counters, func(c counter) int64 { return c.minute }),
		column(q.counters, func(c counter) int64 { return c.asked }),
	).Query(each(func(row sqlstore.Row) error {
		var operatorID, minute, used int64
		err := row.Scan(&operatorID, &minute, &used)
		if err == nil {
			counter := q.counterOf(operatorID, minute)
			counter.used = used - counter.asked
		}
		return err
	}))
}

// compare asks which versions are current.
func (q *admissionQuery) compare(sending *pgx.Batch) {
	// They are sorted.
	credentials := slices.Compact(slices.Clone(q.credentials))
	sending.Queue(`
		SELECT c.id, c.version, o.version
		  FROM credentials c JOIN operators o ON o.id = c.operator_id
		 WHERE c.id = ANY ($1::bigint[])`, credentials,
	).Query(each(func(row sqlstore.Row) error {
		var id int64
		var versions [2]int64
		err := row.Scan(&id, &versions[0], &versions[1])
		q.versions[id] = versions
		return err
	}))
}

// decide answers each request on what was found.
func (q *admissionQuery) decide(p *pipe) error {
	for _, e := range q.batch {
		a := e.asks
		if !q.allFresh && q.burned[burnedNonce{a.CredentialID, a.Nonce}] != a.RequestID {
			e.gets = access.Admitted{Replayed: true}
			continue
		}
		versions, found := q.versions[a.CredentialID]
		if !found {
			return fmt.Errorf("compare versions: there is no credential %d", a.CredentialID)
		}
		if versions != [2]int64{a.CredentialVersion, a.OperatorVersion} {
			record, err := recordWhere(p, `c.id = $1`, a.CredentialID)
			if err != nil {
				return fmt.Errorf("read the record afresh: %w", err)
			}
			e.gets = access.Admitted{Fresh: &record}
			continue
		}
		if !a.Count {
			continue
		}
		counter := q.counterOf(a.OperatorID, a.Minute())
		if counter.used >= int64(a.Limit) {
			e.gets = access.Admitted{Used: a.Limit}
			continue
		}
		counter.used++
		counter.asked--
		e.gets = access.Admitted{Counted: true, Used: int(counter.used)}
	}
	return nil
}

// givePlacesBack writes what is used where somebody did not get the place that was
// taken. The rows are locked, so that what was read is what is there. A minute that
// nobody was let in in has no counter.
func (q *admissionQuery) givePlacesBack(writing *pgx.Batch) {
	var written, emptied []counter
	for _, c := range q.counters {
		switch {
		case c.asked == 0: // everybody got one
		case c.used == 0:
			emptied = append(emptied, c)
		default:
			written = append(written, c)
		}
	}
	operators := func(all []counter) []int64 { return column(all, func(c counter) int64 { return c.operatorID }) }
	minutes := func(all []counter) []int64 { return column(all, func(c counter) int64 { return c.minute }) }
	if len(written) > 0 {
		writing.Queue(`
			UPDATE rate_counters r SET used = v.used
			  FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS v (operator_id, minute, used)
			 WHERE r.operator_id = v.operator_id AND r.minute = v.minute`,
			operators(written), minutes(written), column(written, func(c counter) int64 { return c.used }))
	}
	if len(emptied) > 0 {
		writing.Queue(`
			DELETE FROM rate_counters r
			 USING unnest($1::bigint[], $2::bigint[]) AS v (operator_id, minute)
			 WHERE r.operator_id = v.operator_id AND r.minute = v.minute`, operators(emptied), minutes(emptied))
	}
}

// CredentialByHash reads a key's record as it stands now, in one snapshot.
func (db *DB) CredentialByHash(ctx context.Context, hash access.KeyHash) (access.Record, bool, error) {
	// Key, operator and whitelist come from three statements; one read
	// transaction makes them one moment.
	var record access.Record
	err := db.snapshot(ctx, func(from sqlstore.Querier) error {
		var err error
		record, err = recordWhere(from, `c.key_hash = $1`, hash[:])
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return access.Record{}, false, nil
	}
	if err != nil {
		return access.Record{}, false, fmt.Errorf("read a credential: %w", err)
	}
	return record, true, nil
}

// recordWhere reads the record of one credential; the condition is a literal of
// this file.
func recordWhere(from sqlstore.Querier, condition string, argument any) (access.Record, error) {
	credential, err := sqlstore.ReadCredential(from.QueryRow(
		`SELECT `+sqlstore.CredentialColumns+` FROM credentials c WHERE `+condition, argument))
	if err != nil {
		return access.Record{}, err
	}
	operator, err := sqlstore.ReadOperator(from.QueryRow(
		`SELECT `+sqlstore.OperatorColumns+` FROM operators WHERE id = $1`, credential.OperatorID))
	if err != nil {
		return access.Record{}, err
	}
	entries, err := sqlstore.WhitelistOf(from, credential.OperatorID)
	return access.Record{Credential: credential, Operator: operator, Whitelist: entries}, err
}

const (
	// clockAhead is how far in the future a nonce must seem to be used for the clock to
	// have been wrong: clocks of nodes differ by less.
	clockAhead = time.Hour
	// agedAtOnce is how many times more of such nonces are put right in one batch than
	// are removed: only their date is written.
	agedAtOnce = 10
)

// PurgeAdmissions removes what can no longer matter, a little at a time, so
// that no request waits behind a long delete. A row that somebody has locked is left
// for the next time.
//
// Nonces that were used while a clock was ahead would be kept until their time has
// come. They are taken to be used now, and go when that is old enough. They have to be
// ahead of the server's clock, too: a node whose own clock is behind must not make
// today's nonces look old.
func (db *DB) PurgeAdmissions(ctx context.Context, noncesBefore time.Time, minutesBefore int64, most int) (int, error) {
	now := noncesBefore.Add(access.NonceRetention)
	var removed int64
	err := db.do(ctx, func(tx *tx) error {
		_, err := tx.Exec(`
			UPDATE nonces SET used_at = $1 WHERE (credential_id, nonce) IN (
			       SELECT credential_id, nonce FROM nonces WHERE used_at > $2 AND used_at > $4 + extract(epoch FROM clock_timestamp())::bigint * 1000 ORDER BY used_at DESC LIMIT $3 FOR UPDATE SKIP LOCKED)`,
			now.UnixMilli(), now.Add(clockAhead).UnixMilli(), agedAtOnce*most, clockAhead.Milliseconds())
		if err != nil {
			return err
		}
		nonces, err := tx.Exec(`
			DELETE FROM nonces WHERE (credential_id, nonce) IN (
			       SELECT credential_id, nonce FROM nonces WHERE used_at < $1 ORDER BY used_at LIMIT $2 FOR UPDATE SKIP LOCKED)`,
			noncesBefore.UnixMilli(), most)
		if err != nil {
			return err
		}
		counters, err := tx.Exec(`
			DELETE FROM rate_counters WHERE (operator_id, minute) IN (
			       SELECT operator_id, minute FROM rate_counters WHERE minute < $1 ORDER BY minute LIMIT $2 FOR UPDATE SKIP LOCKED)`,
			minutesBefore, int64(most)-nonces)
		removed = nonces + counters
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("purge nonces and counters: %w", err)
	}
	return int(removed), nil
}
