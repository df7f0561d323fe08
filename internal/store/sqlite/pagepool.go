package sqlite

import (
	"sync"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// pageNotes is what SQLite keeps with each page in memory, in bytes. A pool whose
// places are smaller than both would not be used.
const pageNotes = 272

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
