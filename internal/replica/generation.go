package replica

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// doneSuffix is added to a snapshot's name for the file that says that it is complete.
const doneSuffix = ".json"

// generation is a chain of records with its snapshots.
type generation struct {
	number    int
	name      string
	snapshots []snapshotFile // complete ones, in order
	begun     []snapshotFile // all, in order
	segments  []segmentFile  // in order
}

type snapshotFile struct {
	name string
	seq  uint64
	at   time.Time
}

type segmentFile struct {
	name  string
	first uint64
}

// readGenerations lists what a replica has, oldest first.
func readGenerations(ctx context.Context, from target) ([]generation, error) {
	names, err := from.list(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("list the replica: %w", err)
	}
	slices.Sort(names)
	byName := map[string]*generation{}
	for _, name := range names {
		folder, file, found := strings.Cut(name, "/")
		var number int
		if !found || len(folder) != 11 || !strings.HasPrefix(folder, "g") {
			continue
		}
		if _, err := fmt.Sscanf(folder, "g%010d", &number); err != nil {
			continue
		}
		g := byName[folder]
		if g == nil {
			g = &generation{number: number, name: folder}
			byName[folder] = g
		}
		var seq uint64
		var millis int64
		if whole, complete := strings.CutSuffix(name, doneSuffix); complete {
			if n, _ := fmt.Sscanf(strings.TrimSuffix(file, doneSuffix), "snapshot-%016d-%013d", &seq, &millis); n == 2 {
				g.snapshots = append(g.snapshots, snapshotFile{name: whole, seq: seq, at: time.UnixMilli(millis).UTC()})
			}
		} else if n, _ := fmt.Sscanf(file, "snapshot-%016d-%013d", &seq, &millis); n == 2 {
			g.begun = append(g.begun, snapshotFile{name: name, seq: seq, at: time.UnixMilli(millis).UTC()})
		} else if n, _ := fmt.Sscanf(file, "log-%016d", &seq); n == 1 {
			g.segments = append(g.segments, segmentFile{name: name, first: seq})
		}
	}
	var all []generation
	for _, g := range byName {
		all = append(all, *g)
	}
	slices.SortFunc(all, func(a, b generation) int { return a.number - b.number })
	return all, nil
}

// lastRecord returns the last record of a generation; nil if it has none.
func (g generation) lastRecord(ctx context.Context, from target) (*record, error) {
	for _, segment := range slices.Backward(g.segments) {
		last, err := lastOf(ctx, from, segment.name)
		if err != nil || last != nil {
			return last, err
		}
	}
	return nil, nil
}

func readFinished(ctx context.Context, from target, s snapshotFile) (done finished, err error) {
	text, err := readAll(ctx, from, s.name+doneSuffix)
	if err != nil {
		return done, err
	}
	if err := json.Unmarshal(text, &done); err != nil || done.PageSize < 512 || done.Pages == 0 {
		return done, fmt.Errorf("%s is damaged", s.name+doneSuffix)
	}
	return done, nil
}

// lastOf returns the last record of a segment; nil if it has none.
func lastOf(ctx context.Context, from target, name string) (last *record, err error) {
	file, err := from.open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	for reader := bufio.NewReaderSize(file, 1<<20); ; {
		r, err := readRecord(reader)
		if errors.Is(err, io.EOF) || errors.Is(err, errTorn) || err == nil && last != nil && (r.seq != last.seq+1 || r.chain != last.sum) {
			return last, nil
		}
		if err != nil {
			return nil, err
		}
		last = r
	}
}

// nextGeneration names a new generation, and removes what earlier attempts at one have left.
func (l *Log) nextGeneration(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	// The folder may be another one than at the start.
	if err := errors.Join(l.target.check(ctx, false), l.identify(ctx)); err != nil {
		return "", err
	}
	generations, err := readGenerations(ctx, l.target)
	if err != nil {
		return "", err
	}
	if err := l.dropUnfinished(ctx, generations); err != nil {
		return "", err
	}
	number := 1
	if n := len(generations); n > 0 {
		number = generations[n-1].number + 1
	}
	return fmt.Sprintf("g%010d", number), nil
}

// dropUnfinished removes snapshots that are not complete. None may be under way.
func (l *Log) dropUnfinished(ctx context.Context, generations []generation) error {
	var errs []error
	for _, g := range generations {
		for _, s := range g.begun {
			complete := slices.ContainsFunc(g.snapshots, func(done snapshotFile) bool { return done.name == s.name })
			if !complete {
				errs = append(errs, l.target.remove(ctx, s.name))
			}
		}
	}
	return errors.Join(errs...)
}

// purge removes what is not needed to restore any moment within Keep.
func (l *Log) purge(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	generations, err := readGenerations(ctx, l.target)
	if err != nil {
		return err
	}
	before := l.options.Now().Add(-Keep)
	var first *snapshotFile // the newest one that is old enough
	last := 0
	for i, g := range generations {
		for k := range g.snapshots {
			if g.snapshots[k].at.Before(before) {
				first, last = &g.snapshots[k], i
			}
		}
	}
	errs := []error{l.dropUnfinished(ctx, generations)}
	if first == nil {
		return errors.Join(errs...)
	}
	drop := func(names ...string) {
		for _, name := range names {
			errs = append(errs, l.target.remove(ctx, name))
		}
	}
	for i, g := range generations[:last+1] {
		for _, s := range g.snapshots {
			if i < last || s.seq < first.seq {
				drop(s.name+doneSuffix, s.name) // first what makes it count
			}
		}
		for k, s := range g.segments {
			if i < last || k+2 < len(g.segments) && g.segments[k+2].first <= first.seq+1 {
				drop(s.name)
			}
		}
	}
	return errors.Join(errs...)
}
