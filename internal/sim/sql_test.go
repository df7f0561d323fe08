package sim

import (
	"database/sql"
	"errors"
)

// execute runs statements on a file that nobody has open.
func execute(path, statements string) error {
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		return err
	}
	_, err = db.Exec(statements)
	return errors.Join(err, db.Close())
}
