"""Copy Coax's store, also while it runs. Run it as the user that runs Coax.

    backup.py STORE COPY

SQLite's backup interface reads one moment of the store, whatever is written meanwhile, and
keeps nobody waiting. COPY must not be there yet; it appears whole, checked and on disk, or
not at all.
"""

import os
import sqlite3
import sys

if len(sys.argv) != 3:
    raise SystemExit(__doc__)
store, target = sys.argv[1:]
draft = target + ".part"
if os.path.exists(target):
    raise SystemExit(f"{target} is there already: choose another name")
os.umask(0o077)
if os.path.exists(draft):
    os.remove(draft)  # of a backup that was interrupted

live = sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=60)
copy = sqlite3.connect(draft)
live.backup(copy)  # all pages in one step, which is what makes it one moment
copy.execute("PRAGMA journal_mode = DELETE")  # one file, with nothing beside it
problems = copy.execute("PRAGMA integrity_check").fetchall()
copy.close()
live.close()
if problems != [("ok",)]:
    raise SystemExit(f"the copy is not sound: {problems}")

with open(draft, "rb") as file:
    os.fsync(file.fileno())
os.rename(draft, target)
folder = os.open(os.path.dirname(os.path.abspath(target)), os.O_RDONLY)
os.fsync(folder)
print(f"{target}: {os.path.getsize(target)} bytes")
