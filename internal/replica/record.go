package replica

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"
)

// record is one upload: the pages that one or more commits have changed. Records form a
// chain: each has the number and checksum that follow the one before.
type record struct {
	seq      uint64
	chain    uint32 // checksum of the record before
	at       time.Time
	end      position // in the write-ahead log
	pages    uint32   // of the database
	pageSize uint32
	changes  []byte // page numbers, each with its contents
	sum      uint32
}

const (
	recordMagic      = "CXL1"
	recordHeaderSize = 64
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errTorn is the end of a segment that was not written to its end.
var errTorn = errors.New("the record is incomplete")

// errDamaged is a record that is there and is not what was written.
var errDamaged = fmt.Errorf("%w: it is damaged", errTorn)

// encode returns the record's bytes and sets its checksum.
func (r *record) encode() []byte {
	out := make([]byte, recordHeaderSize, recordHeaderSize+len(r.changes)+4)
	copy(out, recordMagic)
	put := binary.BigEndian
	put.PutUint32(out[4:], uint32(len(r.changes)))
	put.PutUint64(out[8:], r.seq)
	put.PutUint64(out[16:], uint64(r.at.UnixMilli()))
	for i, word := range []uint32{r.chain, r.end.salts[0], r.end.salts[1], r.end.frames, r.end.sums[0], r.end.sums[1], r.pages, r.pageSize} {
		put.PutUint32(out[24+4*i:], word)
	}
	out = append(out, r.changes...)
	r.sum = crc32.Checksum(out, castagnoli)
	return put.AppendUint32(out, r.sum)
}

// readRecord reads the next record; io.EOF if there is none.
func readRecord(from *bufio.Reader) (*record, error) {
	head := make([]byte, recordHeaderSize)
	if _, err := io.ReadFull(from, head); errors.Is(err, io.EOF) {
		return nil, io.EOF
	} else if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errTorn
	} else if err == nil && string(head[:4]) != recordMagic {
		return nil, errDamaged
	} else if err != nil {
		return nil, err
	}
	get := binary.BigEndian
	length := get.Uint32(head[4:])
	if length > 1<<30 {
		return nil, errDamaged
	}
	rest := make([]byte, length+4)
	if _, err := io.ReadFull(from, rest); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errTorn
	} else if err != nil {
		return nil, err
	}
	word := func(i int) uint32 { return get.Uint32(head[24+4*i:]) }
	r := &record{
		seq: get.Uint64(head[8:]), at: time.UnixMilli(int64(get.Uint64(head[16:]))).UTC(), chain: word(0),
		end:   position{salts: [2]uint32{word(1), word(2)}, frames: word(3), sums: [2]uint32{word(4), word(5)}},
		pages: word(6), pageSize: word(7), changes: rest[:length], sum: get.Uint32(rest[length:]),
	}
	if crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, r.changes) != r.sum {
		return nil, errDamaged
	}
	if step := r.pageSize + 4; r.pageSize < 512 || r.pageSize > 65536 || length%step != 0 {
		return nil, errDamaged
	}
	return r, nil
}

// apply writes the record's pages into a database file.
func (r *record) apply(file io.WriterAt) error {
	step := int(r.pageSize) + 4
	for at := 0; at < len(r.changes); at += step {
		page := binary.BigEndian.Uint32(r.changes[at:])
		if page == 0 {
			return fmt.Errorf("record %d: %w", r.seq, errDamaged)
		}
		if _, err := file.WriteAt(r.changes[at+4:at+step], int64(page-1)*int64(r.pageSize)); err != nil {
			return err
		}
	}
	return nil
}
