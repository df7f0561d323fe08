package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

const (
	walHeaderSize   = 32
	frameHeaderSize = 24
	// maxRecord is about how many bytes of the log one record covers. It ends with a
	// commit, so a large transaction makes a larger one.
	maxRecord = 4 << 20
)

// position is a place in SQLite's write-ahead log, after a commit.
type position struct {
	salts  [2]uint32 // of the log's header; SQLite changes them when it starts over
	frames uint32
	sums   [2]uint32 // running checksum after the last frame
}

// wal reads the write-ahead log of a file, without SQLite: frames are checked with the
// log's own checksums, so a frame that is being written is not taken for a commit.
type wal struct {
	path     string
	pageSize uint32
	order    binary.ByteOrder // of the checksums
	at       position
	buffer   []byte
	pages    uint32 // of the database after the last commit; 0 if the log has none
	// settled is the last position of which is known that nothing was committed after it
	// when SQLite was allowed to start the log over.
	settled position
}

// errRestarted: SQLite has started the log over after commits that were not read.
var errRestarted = fmt.Errorf("%w: the write-ahead log started over before all of it was read", ErrLost)

// settle notes that the log has nothing after the position, and may start over.
func (w *wal) settle() { w.settled = w.at }

// commits are the pages that were changed by one or more commits, each once.
type commits struct {
	end   position
	pages uint32 // of the database
	// numbers has the changed pages in the order of their first change, and data their
	// latest contents.
	numbers []uint32
	data    map[uint32][]byte
}

// header reads the header of the log, and starts at its beginning if SQLite has started
// it over. It returns false while there is no log.
func (w *wal) header(file io.ReaderAt) (found bool, err error) {
	head := make([]byte, walHeaderSize)
	if n, err := file.ReadAt(head, 0); n < walHeaderSize {
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		return false, fmt.Errorf("read the write-ahead log: %w", err)
	}
	var order binary.ByteOrder = binary.LittleEndian
	switch binary.BigEndian.Uint32(head) {
	case 0x377f0682:
	case 0x377f0683:
		order = binary.BigEndian
	default:
		return false, errors.New("read the write-ahead log: it does not begin as one")
	}
	sums := walChecksum(order, [2]uint32{}, head[:24])
	if sums[0] != binary.BigEndian.Uint32(head[24:]) || sums[1] != binary.BigEndian.Uint32(head[28:]) {
		return false, nil // it is being written
	}
	salts := [2]uint32{binary.BigEndian.Uint32(head[16:]), binary.BigEndian.Uint32(head[20:])}
	if salts != w.at.salts || w.order == nil {
		if w.order != nil && w.at != w.settled {
			return false, errRestarted
		}
		w.order, w.pageSize = order, binary.BigEndian.Uint32(head[8:])
		w.at = position{salts: salts, sums: sums}
	}
	return true, nil
}

// open opens the log; nil if there is none. No lock of SQLite is on this file.
func (w *wal) open() (*os.File, error) {
	file, err := os.Open(w.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the write-ahead log: %w", err)
	}
	return file, nil
}

// after returns the position after a frame; false if the frame does not follow the position.
func (w *wal) after(at position, frame []byte) (position, bool) {
	if binary.BigEndian.Uint32(frame[8:]) != at.salts[0] || binary.BigEndian.Uint32(frame[12:]) != at.salts[1] {
		return at, false
	}
	sums := walChecksum(w.order, walChecksum(w.order, at.sums, frame[:8]), frame[frameHeaderSize:])
	if sums[0] != binary.BigEndian.Uint32(frame[16:]) || sums[1] != binary.BigEndian.Uint32(frame[20:]) {
		return at, false
	}
	return position{salts: at.salts, frames: at.frames + 1, sums: sums}, true
}

// next reads what was committed after the position. It returns nil if there is nothing.
func (w *wal) next(limit int) (*commits, error) {
	file, err := w.open()
	if file == nil {
		return nil, err
	}
	defer file.Close()
	if found, err := w.header(file); err != nil || !found {
		return nil, err
	}
	found := &commits{data: map[uint32][]byte{}}
	type change struct {
		page uint32
		data []byte
	}
	var open []change // of the transaction whose commit was not reached
	at, size, committed := w.at, int64(w.pageSize)+frameHeaderSize, 0
	// A small piece first: mostly there are a few frames, and what follows them is old.
	for frames := int64(16); committed < limit; frames = min(2*frames, 512) {
		if int64(len(w.buffer)) < frames*size {
			w.buffer = make([]byte, frames*size)
		}
		chunk := w.buffer[:frames*size]
		n, err := file.ReadAt(chunk, walHeaderSize+int64(at.frames)*size)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read the write-ahead log: %w", err)
		}
		whole := int64(n) / size * size
		if whole == 0 {
			break
		}
		read := chunk[:whole]
		for ; len(read) > 0 && committed < limit; read = read[size:] {
			frame := read[:size]
			after, follows := w.after(at, frame)
			if !follows {
				break
			}
			at = after
			open = append(open, change{binary.BigEndian.Uint32(frame), append([]byte(nil), frame[frameHeaderSize:]...)})
			if pages := binary.BigEndian.Uint32(frame[4:]); pages != 0 {
				for _, c := range open {
					if _, known := found.data[c.page]; !known {
						found.numbers = append(found.numbers, c.page)
					}
					found.data[c.page] = c.data
					committed += len(c.data)
				}
				open = open[:0]
				found.end, found.pages = at, pages
			}
		}
		if len(read) > 0 {
			break
		}
	}
	if found.pages == 0 {
		return nil, nil
	}
	w.at, w.pages = found.end, found.pages
	return found, nil
}

// skip moves to the end of the log and returns where the latest contents of each of its
// pages are.
func (w *wal) skip() (offsets map[uint32]int64, err error) {
	offsets = map[uint32]int64{}
	w.order, w.at, w.pages = nil, position{}, 0
	file, err := w.open()
	if file == nil {
		return offsets, err
	}
	defer file.Close()
	if found, err := w.header(file); err != nil || !found {
		return offsets, err
	}
	open, at, size := map[uint32]int64{}, w.at, int64(w.pageSize)+frameHeaderSize
	frame := make([]byte, size)
	for {
		offset := walHeaderSize + int64(at.frames)*size
		if _, err := file.ReadAt(frame, offset); errors.Is(err, io.EOF) {
			return offsets, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the write-ahead log: %w", err)
		}
		after, follows := w.after(at, frame)
		if !follows {
			return offsets, nil
		}
		at = after
		open[binary.BigEndian.Uint32(frame)] = offset + frameHeaderSize
		if pages := binary.BigEndian.Uint32(frame[4:]); pages != 0 {
			for page, offset := range open {
				offsets[page] = offset
			}
			clear(open)
			w.at, w.pages = at, pages
		}
	}
}

// resume moves to a position that was reached before; false if the present log does not
// have it.
func (w *wal) resume(to position) (bool, error) {
	w.order, w.at = nil, position{}
	file, err := w.open()
	if file == nil {
		return false, err
	}
	defer file.Close()
	if found, err := w.header(file); err != nil || !found || w.at.salts != to.salts {
		return false, err
	}
	if to.frames > 0 {
		frame := make([]byte, frameHeaderSize)
		if _, err := file.ReadAt(frame, walHeaderSize+int64(to.frames-1)*(int64(w.pageSize)+frameHeaderSize)); errors.Is(err, io.EOF) {
			return false, nil
		} else if err != nil {
			return false, fmt.Errorf("read the write-ahead log: %w", err)
		}
		sums := [2]uint32{binary.BigEndian.Uint32(frame[16:]), binary.BigEndian.Uint32(frame[20:])}
		if binary.BigEndian.Uint32(frame[8:]) != to.salts[0] || binary.BigEndian.Uint32(frame[12:]) != to.salts[1] || sums != to.sums {
			return false, nil
		}
	}
	w.at = to
	return true, nil
}

// walChecksum is SQLite's checksum of whole pairs of words.
func walChecksum(order binary.ByteOrder, sums [2]uint32, data []byte) [2]uint32 {
	a, b := sums[0], sums[1]
	if order == binary.LittleEndian {
		for ; len(data) >= 8; data = data[8:] {
			a += binary.LittleEndian.Uint32(data) + b
			b += binary.LittleEndian.Uint32(data[4:]) + a
		}
	} else {
		for ; len(data) >= 8; data = data[8:] {
			a += binary.BigEndian.Uint32(data) + b
			b += binary.BigEndian.Uint32(data[4:]) + a
		}
	}
	return [2]uint32{a, b}
}
