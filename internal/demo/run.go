package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"

	"github.com/coaxhq/coax/internal/fileowner"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/store/sqlite"
	"github.com/coaxhq/coax/internal/telemetry"
)

// Options are how a demo is run.
type Options struct {
	Folder string
	// Addr is the API's address; empty leaves it to the settings.
	Addr          string
	Sets, Environ []string
	// NewStore allows an empty store on PostgreSQL although a SQLite store exists.
	NewStore bool
	// History gives a new demo three months of history.
	History bool
	Log     io.Writer
	JSONLog bool
	// Ready is called once the demo serves.
	Ready func(Info) error
}

// Run sets up the demo in its folder as far as it is missing, and serves until the context
// ends.
func Run(ctx context.Context, o Options) error {
	folder, err := filepath.Abs(o.Folder)
	if err != nil {
		return err
	}
	if err := fileowner.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("make the demo's folder: %w", err)
	}
	// Locked before anything is written: a running demo's files must not change.
	lock, err := sqlite.LockFolder(filepath.Join(folder, "demo.lock"))
	if err != nil {
		return err
	}
	defer lock.Close()
	provider, err := StartSimulator("127.0.0.1:0", filepath.Join(folder, "simulator.json"))
	if err != nil {
		return err
	}
	defer provider.Stop()
	config, err := Prepare(Folder{Path: folder, Sets: o.Sets, Environ: o.Environ}, o.Addr, provider.URL)
	if err != nil {
		return err
	}
	config.Store.New = o.NewStore
	format := "text"
	if o.JSONLog {
		format = "json"
	}
	log, err := server.NewLogger(o.Log, config, format)
	if err != nil {
		return err
	}
	defer telemetry.Flush(log)
	server.SetGCPercent(o.Environ)
	if config.Store.Kind == "sqlite" {
		server.AddProcessor(o.Environ)
	}
	node, err := server.Open(ctx, config, o.Environ, log, server.Clock(config.Clock.Offset))
	if err != nil {
		return err
	}
	info, err := setupAndListen(ctx, node, folder, provider, o)
	if err != nil {
		return errors.Join(err, node.Close())
	}
	if err := o.Ready(info); err != nil {
		return errors.Join(err, node.Close())
	}
	return errors.Join(node.Serve(ctx), node.Close())
}

// setupAndListen sets up the demo, starts to listen, and saves its info.
func setupAndListen(ctx context.Context, node *server.Node, folder string, provider *RunningSimulator, o Options) (Info, error) {
	file := filepath.Join(folder, "demo.json")
	from, err := FindStart(ctx, node, o.Log, node.Config.Provider.URL == provider.URL, o.History)
	if err != nil {
		return Info{}, err
	}
	info, err := SetupFrom(ctx, node, file, from)
	if err != nil {
		return info, err
	}
	if from.History {
		if err := FillHistory(ctx, node, provider, from.Now(), o.Log); err != nil {
			return info, err
		}
	}
	if err := node.Listen(); err != nil {
		return info, err
	}
	info.BaseURL = "https://" + server.Reachable(node.APIAddr) + "/api/v1"
	info.PanelURL = "https://" + server.Reachable(node.APIAddr) + "/"
	info.CACert = filepath.Join(folder, "ca.pem")
	info.Config = filepath.Join(folder, "coax.toml")
	info.SimulatorURL = provider.URL
	info.InternalURL = plainURL(node.InternalAddr)
	info.PlainURL = plainURL(node.PlainAddr)
	info.ClockOffset = ""
	if offset := node.Config.Clock.Offset; offset != 0 {
		info.ClockOffset = offset.String()
	}
	return info, saveInfo(file, info)
}

// plainURL returns the URL of a plain HTTP listener; "" if there is none.
func plainURL(addr net.Addr) string {
	if addr == nil {
		return ""
	}
	return "http://" + server.Reachable(addr)
}
