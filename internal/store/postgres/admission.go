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

// admissionItem is one admission that waits for a batch.
type admissionItem = item[access.Admission, access.Admitted]

func (db *DB) openAdmission(observe Observer) {
	db.admissions = newBatcher(batcherOptions[access.Admission, access.Admitted]{
		observe: observe, name: admissions, order: db.commitOrder, maxItems: maxAdmissions, locks: db.locks, discardable: true, // at worst a nonce is burned
		operator: func(a access.Admission) int64 { return a.OperatorID },
		run: func(batch []*admissionItem, lockTimeout time.Duration) error {
			return db.pipelined(context.Background(), lockTimeout, func(p *pipe) error { return admitAll(p, batch) })
		},
	})
}

// Admit burns the request's nonce, checks that the record that the caller was checked
// against is current, and counts the request in the rate window, in one commit.
func (db *DB) Admit(ctx context.Context, a access.Admission) (access.Admitted, error) {
	admitted, err := db.admissions.do(ctx, a)
	if err != nil {
		return access.Admitted{}, fmt.Errorf("admit a request: %w", err)
	}
	return admitted, nil
}

// admitAll admits a batch in two round trips: the first burns the nonces and takes a rate
// slot for each request, the second commits. Refused requests return their slots in
// between.
//
// Rows are locked in the order of their keys, so that batches of several nodes do not
// deadlock.
func admitAll(p *pipe, batch []*admissionItem) error {
	slices.SortFunc(batch, func(a, b *admissionItem) int {
		return cmp.Or(cmp.Compare(a.request.CredentialID, b.request.CredentialID), cmp.Compare(a.request.Nonce, b.request.Nonce),
			cmp.Compare(a.request.RequestID, b.request.RequestID))
	})
	q := newAdmissionQuery(batch)
	reading := &pgx.Batch{}
	q.burn(reading)
	q.takeSlots(reading)
	q.readVersions(reading) // last: keys and operators may change while takeSlots waits for locks
	if err := p.send(reading); err != nil {
		return err
	}
	if !q.allFresh {
		owners := &pgx.Batch{}
		q.readOwners(owners)
		if err := p.send(owners); err != nil {
			return err
		}
	}
	if err := q.decide(p); err != nil {
		return err
	}
	writing := &pgx.Batch{}
	q.returnSlots(writing)
	return p.commit(writing)
}

// admissionQuery is a batch of admissions and what was read for it.
type admissionQuery struct {
	batch       []*admissionItem
	credentials []int64
	nonces      []string
	// allFresh: no nonce of the batch was used before. Otherwise burned maps each nonce to
	// the id of the request that used it.
	allFresh bool
	burned   map[burnedNonce]string
	versions map[int64][2]int64
	// counters are in the order in which they are locked.
	counters []counter
}

type burnedNonce struct {
	credentialID int64
	nonce        string
}

// counter is the rate counter of one operator and minute.
type counter struct {
	operatorID, minute int64
	// requested is how many requests of the batch still need a slot; used is how many slots
	// are taken, excluding those of the batch that decide has not granted yet.
	requested, used int64
}

func (c counter) compare(with counter) int {
	return cmp.Or(cmp.Compare(c.operatorID, with.operatorID), cmp.Compare(c.minute, with.minute))
}

func newAdmissionQuery(batch []*admissionItem) *admissionQuery {
	q := &admissionQuery{
		batch:       batch,
		credentials: column(batch, func(e *admissionItem) int64 { return e.request.CredentialID }),
		nonces:      column(batch, func(e *admissionItem) string { return e.request.Nonce }),
		versions:    make(map[int64][2]int64, len(batch)),
	}
	for _, e := range batch {
		e.result = access.Admitted{} // a batch may run again
		if e.request.Count {
			q.counters = append(q.counters, counter{operatorID: e.request.OperatorID, minute: e.request.Minute()})
		}
	}
	slices.SortFunc(q.counters, counter.compare)
	q.counters = slices.CompactFunc(q.counters, func(a, b counter) bool { return a.compare(b) == 0 })
	for _, e := range batch {
		if e.request.Count {
			q.counterOf(e.request.OperatorID, e.request.Minute()).requested++
		}
	}
	return q
}

// counterOf returns a counter of the batch.
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
		column(q.batch, func(e *admissionItem) string { return e.request.RequestID }),
		column(q.batch, func(e *admissionItem) int64 { return e.request.Now.UnixMilli() }),
	).Exec(func(tag pgconn.CommandTag) error {
		q.allFresh = tag.RowsAffected() == int64(len(q.batch))
		return nil
	})
}

// readOwners reads which requests used the nonces, if not all were free. As a separate
// statement it sees both what burn inserted and what it conflicted with.
func (q *admissionQuery) readOwners(sending *pgx.Batch) {
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

// takeSlots takes a slot for each request that counts, as if all were admitted, which also
// locks the counters.
func (q *admissionQuery) takeSlots(sending *pgx.Batch) {
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
		column(q.counters, func(c counter) int64 { return c.requested }),
	).Query(each(func(row sqlstore.Row) error {
		var operatorID, minute, used int64
		err := row.Scan(&operatorID, &minute, &used)
		if err == nil {
			counter := q.counterOf(operatorID, minute)
			counter.used = used - counter.requested
		}
		return err
	}))
}

// readVersions reads the current versions.
func (q *admissionQuery) readVersions(sending *pgx.Batch) {
	// q.credentials is sorted.
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

// decide sets the result of each request.
func (q *admissionQuery) decide(p *pipe) error {
	for _, e := range q.batch {
		a := e.request
		if !q.allFresh && q.burned[burnedNonce{a.CredentialID, a.Nonce}] != a.RequestID {
			e.result = access.Admitted{Replayed: true}
			continue
		}
		versions, found := q.versions[a.CredentialID]
		if !found {
			return fmt.Errorf("compare versions: there is no credential %d", a.CredentialID)
		}
		if versions != [2]int64{a.CredentialVersion, a.OperatorVersion} {
			record, err := recordWhere(p, `c.id = $1`, a.CredentialID)
			if err != nil {
				return fmt.Errorf("read the record again: %w", err)
			}
			e.result = access.Admitted{Fresh: &record}
			continue
		}
		if !a.Count {
			continue
		}
		counter := q.counterOf(a.OperatorID, a.Minute())
		if counter.used >= int64(a.Limit) {
			e.result = access.Admitted{Used: a.Limit}
			continue
		}
		counter.used++
		counter.requested--
		e.result = access.Admitted{Counted: true, Used: int(counter.used)}
	}
	return nil
}

// returnSlots gives back the slots of refused requests. The rows are locked, so their
// values are still those that were read. A counter that drops to zero is deleted.
func (q *admissionQuery) returnSlots(writing *pgx.Batch) {
	var written, emptied []counter
	for _, c := range q.counters {
		switch {
		case c.requested == 0: // all were admitted
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

// CredentialByHash reads a key's current record, in one snapshot.
func (db *DB) CredentialByHash(ctx context.Context, hash access.KeyHash) (access.Record, bool, error) {
	// Key, operator and whitelist are three statements in one read transaction.
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

// recordWhere reads the record of one credential; condition must be a literal.
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
	// clockAhead is more than node clocks differ by: a nonce whose time is further in the
	// future was written while a clock was wrong.
	clockAhead = time.Hour
	// agedFactor is how many times more nonces a purge corrects than it deletes: a correction
	// writes only their time.
	agedFactor = 10
)

// PurgeAdmissions deletes expired nonces and counters, a few at a time, so that no
// request waits behind a long delete. Locked rows are left for the next call.
//
// Nonces that were used while a clock was ahead would be kept for too long. Their
// time is set to the present, and they expire from then on. Only times that are ahead of the
// server's clock, too, are corrected: a node whose own clock is behind must not change the
// times of valid nonces.
func (db *DB) PurgeAdmissions(ctx context.Context, noncesBefore time.Time, minutesBefore int64, most int) (int, error) {
	now := noncesBefore.Add(access.NonceRetention)
	var removed int64
	err := db.do(ctx, func(tx *tx) error {
		_, err := tx.Exec(`
			UPDATE nonces SET used_at = $1 WHERE (credential_id, nonce) IN (
			       SELECT credential_id, nonce FROM nonces WHERE used_at > $2 AND used_at > $4 + extract(epoch FROM clock_timestamp())::bigint * 1000 ORDER BY used_at DESC LIMIT $3 FOR UPDATE SKIP LOCKED)`,
			now.UnixMilli(), now.Add(clockAhead).UnixMilli(), agedFactor*most, clockAhead.Milliseconds())
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
