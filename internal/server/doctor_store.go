package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/coaxhq/coax/internal/replica"
	"github.com/coaxhq/coax/internal/store/sqlite"
	"github.com/coaxhq/coax/internal/subscription"
)

const (
	// backupLate and backupLost are when the newest backup is a warning and a problem. The
	// timer of the manual makes one every hour.
	backupLate = 26 * time.Hour
	backupLost = 7 * 24 * time.Hour
	// replicaLate is how far a replica may be behind what the store has.
	replicaLate = 5 * time.Minute
)

// checkStore checks that the store is there, and that its schema is this binary's.
func (d *doctor) checkStore(context.Context) []Diagnosis {
	l := lines{check: "store"}
	place := d.config.Store.Address()
	if d.config.Store.Kind == "sqlite" {
		if cause, err := os.ReadFile(sqlite.DiskFailureFile(d.config.Store.Path)); err == nil {
			l.problem("see that the disk works; the next start checks the whole store before it serves", "its disk has failed: %s", cause)
		}
	}
	state, err := d.store()
	switch {
	case errors.Is(err, errNoStore):
		l.warn("start a node, or run `coax migrate`", "%s: there is no store yet", place)
	case err != nil && d.config.Store.Kind == "postgres":
		l.problem("see that PostgreSQL runs there, takes writes, and lets this user connect", "%s: %v", place, err)
	case err != nil:
		l.problem("", "%s cannot be read: %v", place, err)
	default:
		l.ok("%s can be read", place)
		l.check = "schema"
		d.schemaLines(&l, state)
	}
	return l.all
}

func (d *doctor) schemaLines(l *lines, state storeState) {
	switch {
	case state.Generation > state.generation:
		l.problem("install the newer release", "the store was migrated by a newer release, and needs a binary of generation %d or later (this one is %d)", state.Generation, state.generation)
	case state.Migration < state.newest:
		l.problem("start a node with this release, or run `coax migrate`", "the schema is older than this binary: migration %d of %d", state.Migration, state.newest)
	case state.Migration > state.newest:
		l.warn("install the newer release on every machine", "the store was migrated by a newer release (migration %d; this binary's newest is %d); this binary works with it", state.Migration, state.newest)
	default:
		l.ok("migration %d, as this binary has it", state.Migration)
	}
}

// state returns the store's state if it could be read whole, or adds that it was not checked.
func (d *doctor) state(l *lines) (storeState, bool) {
	state, err := d.store()
	switch {
	case errors.Is(err, errNoStore):
		l.ok("there is no store yet")
	case err != nil || !state.Complete:
		l.warn("mend the store first", "not checked: the store cannot be read")
	default:
		return state, true
	}
	return state, false
}

func (d *doctor) checkMaintenance(context.Context) []Diagnosis {
	l := lines{check: "maintenance"}
	state, ok := d.state(&l)
	switch {
	case !ok:
	case state.Restore.Open:
		l.problem("compare it with the provider (`coax reconcile`), then `coax admin maintenance off`",
			"the store was restored, and nothing is sold: %s", state.Restore.How)
	case state.Maintenance.On:
		l.warn("`coax admin maintenance off` ends it", "on since %s by %s, and nothing is sold: %s", indian(state.Maintenance.Since), state.Maintenance.Actor, state.Maintenance.Reason)
	default:
		l.ok("off")
	}
	return l.all
}

func indian(t time.Time) string { return t.In(subscription.IST).Format("2006-01-02 15:04:05 -07:00") }

// checkMark says what a node that starts would find.
func (d *doctor) checkMark(context.Context) []Diagnosis {
	l := lines{check: "mark"}
	path := d.config.Store.MarkFile
	// Before the store: a node may be writing it, and its value is in the store by then.
	file, err := readMarkFile(path)
	if err != nil {
		l.problem("a node does not start without it", "%v", err)
		return l.all
	}
	state, ok := d.state(&l)
	if !ok {
		return l.all
	}
	found, err := compareMark(d.config.Store, state.Mark, file, nil, state.Restore.Open)
	if err == nil && found.how != "" {
		// Another check may have read the store before a node advanced both.
		if now, unread := d.storeNow(); unread == nil && now.Complete {
			found, err = compareMark(d.config.Store, now.Mark, file, nil, now.Restore.Open)
		}
	}
	switch {
	case err != nil:
		l.problem("", "%v", err)
	case found.how != "":
		l.problem("if it was not restored, put the mark file back; else compare with the provider after the start (`coax reconcile`)",
			"the next start takes the store for restored, and begins in maintenance: %s", found.how)
	case file == nil:
		l.ok("there is no mark file at %s; the next start writes it", path)
	default:
		l.ok("%s agrees with the store", path)
	}
	return l.all
}

// checkPrices says whether plans can be sold.
func (d *doctor) checkPrices(context.Context) []Diagnosis {
	l := lines{check: "prices"}
	state, ok := d.state(&l)
	if !ok {
		return l.all
	}
	age := d.now().Sub(state.PricesVerified)
	switch {
	case state.PricesVerified.IsZero():
		l.warn("a node compares them when it starts", "they were never verified with the provider; nothing is sold until then (PLANS_UNAVAILABLE)%s", because(state.PricesProblem))
	case age > d.config.Catalogue.MaxAge && d.node().running():
		l.problem("see what the provider line says; a node tries again every "+d.config.Catalogue.Refresh.String(),
			"last verified with the provider at %s, longer ago than catalogue.max_age; nothing is sold (PLANS_UNAVAILABLE)%s", indian(state.PricesVerified), because(state.PricesProblem))
	case age > d.config.Catalogue.MaxAge:
		l.ok("last verified with the provider at %s; a node verifies them when it starts", indian(state.PricesVerified))
	case state.PricesProblem != "":
		l.warn("see what the provider line says", "last verified with the provider at %s; since then%s", indian(state.PricesVerified), because(state.PricesProblem))
	default:
		l.ok("verified with the provider at %s", indian(state.PricesVerified))
	}
	return l.all
}

func because(problem string) string {
	if problem == "" {
		return ""
	}
	return ": " + problem
}

// checkBackups looks for the newest backup of this store in a folder.
func (d *doctor) checkBackups(context.Context) []Diagnosis {
	l := lines{check: "backup"}
	if d.backups == "" {
		l.warn("set backup.folder, where the timer of `coax backup` writes them, or give --backups FOLDER", "not checked: where backups are is not known")
		return l.all
	}
	id := ""
	if state, err := d.store(); err == nil && state.Complete {
		id = StoreID(sqlite.Facts{FirstHash: state.FirstHash})
	}
	newest, err := newestBackup(d.backups, storeName(d.config.Store), id)
	age := d.now().Sub(newest.at)
	const cure = "see why the timer did not run (`systemctl status coax-backup.timer`, `journalctl -u coax-backup`), or run `coax backup`"
	switch {
	case err != nil:
		l.problem("", "%v", err)
	case newest.path == "":
		l.problem(cure, "there is no backup of this store in %s", d.backups)
	case age > backupLost:
		l.problem(cure, "the newest, %s, is %s old", newest.path, ageText(age))
	case age > backupLate:
		l.warn(cure, "the newest, %s, is %s old", newest.path, ageText(age))
	default:
		l.ok("the newest, %s, is %s old", newest.path, ageText(age))
	}
	return l.all
}

// ageText writes an age in its largest unit.
func ageText(age time.Duration) string {
	switch {
	case age < time.Hour:
		return fmt.Sprintf("%d min", int(age.Minutes()))
	case age < 48*time.Hour:
		return fmt.Sprintf("%d h", int(age.Hours()))
	}
	return fmt.Sprintf("%d days", int(age.Hours()/24))
}

// checkReplica compares the newest upload with what the store has.
func (d *doctor) checkReplica(ctx context.Context) []Diagnosis {
	l := lines{check: "replica"}
	if d.config.Store.Replica == "" || d.config.Store.Kind != "sqlite" {
		return nil
	}
	where := replica.Redact(d.config.Store.Replica)
	address, err := replica.ParseAddress(d.config.Store.Replica)
	var found replica.Inspected
	if err == nil {
		found, err = replica.Inspect(ctx, address, os.Getenv)
	}
	if err != nil {
		l.problem("see that the place is there, and its credentials", "%s: %v", where, err)
		return l.all
	}
	state, ok := d.state(&l)
	switch {
	case !ok:
	case found.Store != state.Mark.StoreID:
		l.problem("name an empty folder in store.replica", "%s is the replica of another store", where)
	case found.At.IsZero():
		l.problem("a node copies the store when it runs; its log says why it does not", "%s has no complete copy yet", where)
	// The mark is written at most every half second while the store changes.
	case state.Mark.At.Sub(found.At) > replicaLate:
		l.problem("see the node's log for why", "%s is %s behind the store", where, ageText(state.Mark.At.Sub(found.At)))
	default:
		l.ok("%s has what the store had at %s", where, indian(found.At))
	}
	return l.all
}
