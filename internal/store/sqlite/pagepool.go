package sqlite

import (
	"encoding/binary"
	"os"
	"sync"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

const (
	// pooledFrom is how large a file is whose pages a node keeps in a pool: twice as
	// many of them, for little more memory.
	pooledFrom = 2 << 30
	// pageNotes is what SQLite keeps with each page in memory, in bytes. A pool whose
	// places are smaller than both would not be used.
	pageNotes = 272
)

// pagePool is memory for pages that SQLite is given in one piece. Page by page it
// would get it from the translated library's allocator, which has 4 KB for each that
// needs a little more than two, and has them all over: to find a page among ten
// thousands then is mostly to find the memory that it is in.
//
// SQLite takes such a pool once in a process, before it does anything else, and
// writes to all of it at once. So only a node with a large store has one.
var pagePool struct {
	once  sync.Once
	taken bool
}

// poolPages gives SQLite a pool for so many bytes of pages. It reports whether this
// process has one: if SQLite was in use before, or the system has no such memory,
// pages are allocated one by one, as without it.
func poolPages(bytes int64) bool {
	pagePool.once.Do(func() {
		places := int(bytes / PageSize)
		memory := bigPages(places * (PageSize + pageNotes))
		if memory == nil {
			return
		}
		tls := libc.NewTLS()
		defer tls.Close()
		args := libc.NewVaList(uintptr(unsafe.Pointer(&memory[0])), int32(PageSize+pageNotes), int32(places))
		defer libc.Xfree(tls, args)
		if lib.Xsqlite3_config(tls, lib.SQLITE_CONFIG_PAGECACHE, args) == lib.SQLITE_OK {
			pagePool.taken = true
		}
	})
	return pagePool.taken
}

// takeCache decides how many bytes of pages the writer keeps in memory. It comes
// before the first connection, because a pool must.
func (db *DB) takeCache(role Role) int64 {
	var size int64
	if file, err := os.Stat(db.path); err == nil { // what is wrong with it, connect says
		size = file.Size()
	}
	cache := writerCache(size)
	if role == Node && size >= pooledFrom && pageSize(db.path) == PageSize && poolPages(2*cache) {
		return 2 * cache
	}
	return cache
}

// pageSize reads how large a file's pages are; 0 if it cannot be told. It is for a
// node that has no connection yet: with any file that a process closes it loses the
// locks on it that its connections hold.
func pageSize(path string) int {
	file, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer file.Close()
	var header [18]byte
	if _, err := file.ReadAt(header[:], 0); err != nil {
		return 0
	}
	return int(binary.BigEndian.Uint16(header[16:]))
}
