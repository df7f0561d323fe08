package postgres

import (
	"fmt"
	"strconv"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

// sessionName is the application_name of our sessions. That of generation 2, whose nodes do not
// report their keys, was "coax".
var sessionName = "coax/" + strconv.Itoa(generation)

// liveNodes goes by when a node was last seen. The server lists the sessions of older nodes, which
// do not report.
func liveNodes(from sqlstore.Querier, reported []admin.NodeKeys, now time.Time) (live []admin.NodeKeys, older []string, err error) {
	for _, node := range reported {
		if now.Sub(node.SeenAt) < admin.NodeLiveFor {
			live = append(live, node)
		}
	}
	rows, err := from.Query(`
		SELECT DISTINCT coalesce(host(client_addr), 'this machine') FROM pg_stat_activity
		 WHERE datname = current_database() AND application_name = 'coax' ORDER BY 1`)
	older, err = sqlstore.Collect(rows, err, func(row sqlstore.Row) (address string, err error) {
		err = row.Scan(&address)
		return "a process on " + address, err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("look for nodes of an older release: %w", err)
	}
	return live, older, nil
}
