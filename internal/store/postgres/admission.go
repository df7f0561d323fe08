package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/access"
)

var _ access.Store = (*DB)(nil)

const maxAdmissions = 256

// admitting is one request that waits to be admitted.
type admitting = entrant[access.Admission, access.Admitted]

func (db *DB) openAdmission(observe Observer) {
	db.admissions = openLane(laneOptions[access.Admission, access.Admitted]{
		observe: observe, most: maxAdmissions, fleeting: true, // at worst a nonce is burned, and nothing else
		together: func(batch []*admitting) error {
			return db.pipelined(context.Background(), func(p *pipe) error { return admitAll(p, batch) })
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

// minute is an operator's counter.
type minute struct{ operatorID, at int64 }

// admitAll admits a batch in two round trips: everything is asked for and locked
// in the first, and what is counted is written in the second, with the commit.
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
	q.lockCounters(asking)
	q.compare(asking) // last, for terms may change while another batch is waited for
	if err := p.send(asking); err != nil {
		return err
	}
	if err := q.decide(p); err != nil {
		return err
	}
	writing := &pgx.Batch{}
	q.writeCounters(writing)
	return p.commit(writing)
}

// admissionQuery is a batch on its way through the store.
type admissionQuery struct {
	batch    []*admitting
	burned   map[[2]any]string // (credential, nonce) to the request that used it
	versions map[int64][2]int64
	used     map[minute]int64
	counted  map[minute]bool
	keys     []minute // in the order they are locked
}

func newAdmissionQuery(batch []*admitting) *admissionQuery {
	q := &admissionQuery{
		batch: batch, burned: map[[2]any]string{}, versions: map[int64][2]int64{}, used: map[minute]int64{}, counted: map[minute]bool{},
	}
	for _, e := range batch {
		e.gets = access.Admitted{} // a batch may run again
		if key := (minute{e.asks.OperatorID, e.asks.Minute()}); e.asks.Count && !slices.Contains(q.keys, key) {
			q.keys = append(q.keys, key)
		}
	}
	slices.SortFunc(q.keys, func(a, b minute) int {
		return cmp.Or(cmp.Compare(a.operatorID, b.operatorID), cmp.Compare(a.at, b.at))
	})
	return q
}

// burn uses up the nonces that are free, and asks who used the others.
func (q *admissionQuery) burn(sending *pgx.Batch) {
	n := len(q.batch)
	credentials, used := make([]int64, n), make([]int64, n)
	nonces, requests := make([]string, n), make([]string, n)
	for i, e := range q.batch {
		credentials[i], nonces[i], requests[i], used[i] = e.asks.CredentialID, e.asks.Nonce, e.asks.RequestID, e.asks.Now.UnixMilli()
	}
	sending.Queue(`
		INSERT INTO nonces (credential_id, nonce, request_id, used_at)
		SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[])
		    ON CONFLICT DO NOTHING`, credentials, nonces, requests, used)
	// A statement of its own: it sees what the one before inserted, and what the
	// one before found in its way.
	sending.Queue(`
		SELECT n.credential_id, n.nonce, n.request_id
		  FROM unnest($1::bigint[], $2::text[]) AS a (credential_id, nonce)
		  JOIN nonces n ON n.credential_id = a.credential_id AND n.nonce = a.nonce COLLATE "C"`, credentials, nonces,
	).Query(each(func(row scanner) error {
		var credential int64
		var nonce, owner string
		err := row.Scan(&credential, &nonce, &owner)
		q.burned[[2]any{credential, nonce}] = owner
		return err
	}))
}

// each reads every row of a queued query.
func each(read func(scanner) error) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		for rows.Next() {
			if err := read(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	}
}

// compare asks which versions are current.
func (q *admissionQuery) compare(sending *pgx.Batch) {
	var credentials []int64
	for _, e := range q.batch {
		if !slices.Contains(credentials, e.asks.CredentialID) {
			credentials = append(credentials, e.asks.CredentialID)
		}
	}
	sending.Queue(`
		SELECT c.id, c.version, o.version
		  FROM credentials c JOIN operators o ON o.id = c.operator_id
		 WHERE c.id = ANY ($1::bigint[])`, credentials,
	).Query(each(func(row scanner) error {
		var id int64
		var versions [2]int64
		err := row.Scan(&id, &versions[0], &versions[1])
		q.versions[id] = versions
		return err
	}))
}

// lockCounters makes sure that every counter is there, and locks it.
func (q *admissionQuery) lockCounters(sending *pgx.Batch) {
	operators, minutes := make([]int64, len(q.keys)), make([]int64, len(q.keys))
	for i, key := range q.keys {
		operators[i], minutes[i] = key.operatorID, key.at
	}
	sending.Queue(`
		INSERT INTO rate_counters (operator_id, minute, used)
		SELECT *, 0 FROM unnest($1::bigint[], $2::bigint[])
		    ON CONFLICT DO NOTHING`, operators, minutes)
	sending.Queue(`
		SELECT operator_id, minute, used FROM rate_counters
		 WHERE (operator_id, minute) IN (SELECT * FROM unnest($1::bigint[], $2::bigint[]))
		 ORDER BY operator_id, minute
		   FOR NO KEY UPDATE`, operators, minutes,
	).Query(each(func(row scanner) error {
		var key minute
		var used int64
		err := row.Scan(&key.operatorID, &key.at, &used)
		q.used[key] = used
		return err
	}))
}

// decide answers each request on what was found.
func (q *admissionQuery) decide(p *pipe) error {
	for _, e := range q.batch {
		a := e.asks
		if q.burned[[2]any{a.CredentialID, a.Nonce}] != a.RequestID {
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
		key := minute{a.OperatorID, a.Minute()}
		if q.used[key] >= int64(a.Limit) {
			e.gets = access.Admitted{Used: a.Limit}
			continue
		}
		q.used[key]++
		q.counted[key] = true
		e.gets = access.Admitted{Counted: true, Used: int(q.used[key])}
	}
	return nil
}

// writeCounters writes what the batch added up to. The rows are locked, so that
// what was read is what is there.
func (q *admissionQuery) writeCounters(writing *pgx.Batch) {
	var operators, minutes, used []int64
	for _, key := range q.keys {
		if q.counted[key] {
			operators, minutes, used = append(operators, key.operatorID), append(minutes, key.at), append(used, q.used[key])
		}
	}
	if len(operators) == 0 {
		return
	}
	writing.Queue(`
		UPDATE rate_counters r SET used = v.used
		  FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS v (operator_id, minute, used)
		 WHERE r.operator_id = v.operator_id AND r.minute = v.minute`, operators, minutes, used)
}

// CredentialByHash reads a key's record as it stands now, in one snapshot.
func (db *DB) CredentialByHash(ctx context.Context, hash access.KeyHash) (access.Record, bool, error) {
	// Key, operator and whitelist come from three statements; one read
	// transaction makes them one moment.
	var record access.Record
	err := db.snapshot(ctx, func(from querier) error {
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
func recordWhere(from querier, condition string, argument any) (access.Record, error) {
	credential, err := readCredential(from.queryRow(
		`SELECT `+credentialColumns+` FROM credentials c WHERE `+condition, argument))
	if err != nil {
		return access.Record{}, err
	}
	operator, err := readOperator(from.queryRow(
		`SELECT `+operatorColumns+` FROM operators WHERE id = $1`, credential.OperatorID))
	if err != nil {
		return access.Record{}, err
	}
	entries, err := whitelistOf(from, credential.OperatorID)
	return access.Record{Credential: credential, Operator: operator, Whitelist: entries}, err
}

func whitelistOf(from querier, operatorID int64) ([]netip.Prefix, error) {
	rows, err := from.query(`SELECT entry FROM whitelist WHERE operator_id = $1 ORDER BY created_at, entry`, operatorID)
	return collect(rows, err, func(row scanner) (netip.Prefix, error) {
		var text string
		if err := row.Scan(&text); err != nil {
			return netip.Prefix{}, err
		}
		return netip.ParsePrefix(text)
	})
}

// PurgeAdmissions removes what can no longer matter, a little at a time, so
// that no request waits behind a long delete.
func (db *DB) PurgeAdmissions(ctx context.Context, noncesBefore time.Time, minutesBefore int64, most int) (int, error) {
	var removed int64
	err := db.do(ctx, func(tx *tx) error {
		nonces, err := tx.exec(`
			DELETE FROM nonces WHERE (credential_id, nonce) IN (
			       SELECT credential_id, nonce FROM nonces WHERE used_at < $1 ORDER BY used_at LIMIT $2)`,
			noncesBefore.UnixMilli(), most)
		if err != nil {
			return err
		}
		counters, err := tx.exec(`
			DELETE FROM rate_counters WHERE (operator_id, minute) IN (
			       SELECT operator_id, minute FROM rate_counters WHERE minute < $1 ORDER BY minute LIMIT $2)`,
			minutesBefore, int64(most)-nonces)
		removed = nonces + counters
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("purge nonces and counters: %w", err)
	}
	return int(removed), nil
}
