package requestlog

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"
)

// openBlock is a block that calls are still added to.
type openBlock struct {
	Block
	calls int
}

// group puts the calls of each operator into blocks of their own, and returns the uses of
// keys that are due to be recorded.
func (l *Log) group(waiting []byte) ([]openBlock, []Use) {
	// The size of each operator's calls is counted first: blocks that grow while they are
	// filled would be copied several times.
	size := map[int64]int{}
	for r := (unpacker{rest: waiting}); len(r.rest) > 0; {
		operator := int64(r.uvarint())
		r.bytes(1)
		before := len(r.rest)
		r.bytes(r.uvarint())
		size[operator] += before - len(r.rest)
	}
	var done []openBlock
	open := make(map[int64]*openBlock, len(size))
	uses := map[int64]Use{}
	for r := (unpacker{rest: waiting}); len(r.rest) > 0; {
		operator, marks := int64(r.uvarint()), r.bytes(1)[0]
		packed := r.bytes(r.uvarint())
		head := unpacker{rest: packed}
		at, key := time.UnixMilli(head.varint()).UTC(), int64(head.uvarint())

		b := open[operator]
		if b != nil && !b.takes(at, len(packed)) {
			done = append(done, *b)
			b = nil
		}
		if b == nil {
			b = &openBlock{Block: Block{OperatorID: operator, From: at, Until: at}}
			b.Packed = append(make([]byte, 0, 1+min(size[operator], blockBytes)), blockFormat)
			open[operator] = b
		}
		before := len(b.Packed)
		b.add(at, marks, packed)
		size[operator] -= len(b.Packed) - before
		if use := uses[key]; key != 0 && marks&markProven != 0 && at.Sub(l.noted[key]) >= useEvery && at.After(use.At) {
			uses[key] = Use{operator, key, at}
		}
	}
	for _, b := range open {
		done = append(done, *b)
	}
	slices.SortFunc(done, func(a, b openBlock) int {
		return cmp.Or(cmp.Compare(a.OperatorID, b.OperatorID), a.Until.Compare(b.Until))
	})
	if len(l.noted) > usesRemembered {
		clear(l.noted)
	}
	return done, inOrder(uses)
}

func inOrder(uses map[int64]Use) []Use {
	var all []Use
	for _, use := range uses {
		all = append(all, use)
	}
	slices.SortFunc(all, func(a, b Use) int {
		return cmp.Or(cmp.Compare(a.OperatorID, b.OperatorID), cmp.Compare(a.CredentialID, b.CredentialID))
	})
	return all
}

// takes reports whether another call fits in.
func (f *openBlock) takes(at time.Time, length int) bool {
	return len(f.Packed)+binary.MaxVarintLen16+length <= blockBytes && at.Sub(f.From) <= blockSpan && f.Until.Sub(at) <= blockSpan
}

func (f *openBlock) add(at time.Time, marks byte, packed []byte) {
	if at.Before(f.From) {
		f.From = at
	}
	if at.After(f.Until) {
		f.Until = at
	}
	f.Refused = f.Refused || marks&markRefused != 0
	f.Packed = binary.AppendUvarint(f.Packed, uint64(len(packed)))
	f.Packed = append(f.Packed, packed...)
	f.calls++
}
