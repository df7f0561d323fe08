package audit

// PostgresInBatches is Postgres with another number of rows that are fetched at
// a time, for tests whose tables are smaller than a batch.
func PostgresInBatches(tx Snapshot, rows int) Snapshot { return postgres{tx, rows} }

// RestEvery is after how many rows an audit may rest.
const RestEvery = restEvery
