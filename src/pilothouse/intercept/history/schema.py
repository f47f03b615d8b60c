"""The history's tables. One file, read by any number of connections, written by one thread."""

from __future__ import annotations

VERSION = 2

TABLES = """
CREATE TABLE IF NOT EXISTS packets (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  group_id INTEGER NOT NULL,
  is_response INTEGER NOT NULL,
  connection TEXT NOT NULL,
  session TEXT NOT NULL,
  listener INTEGER NOT NULL,
  type TEXT NOT NULL,
  encode TEXT NOT NULL,
  alpn TEXT NOT NULL,
  scheme TEXT NOT NULL,
  server_name TEXT NOT NULL,
  client_ip TEXT NOT NULL,
  client_port INTEGER NOT NULL,
  server_ip TEXT NOT NULL,
  server_port INTEGER NOT NULL,
  method TEXT,
  url TEXT,
  version TEXT NOT NULL,
  status INTEGER,
  duration_ms REAL,
  time REAL NOT NULL,
  length INTEGER NOT NULL,
  modified INTEGER NOT NULL,
  resend INTEGER NOT NULL,
  job TEXT NOT NULL,
  key TEXT NOT NULL,
  error TEXT NOT NULL,
  peer_id INTEGER,
  peer_time REAL,
  peer_length INTEGER,
  peer_modified INTEGER
);
CREATE TABLE IF NOT EXISTS contents (
  id INTEGER PRIMARY KEY,
  head BLOB NOT NULL,
  body BLOB NOT NULL,
  trailers BLOB NOT NULL,
  body_length INTEGER NOT NULL,
  original_head BLOB,
  original_body BLOB
);
CREATE TABLE IF NOT EXISTS chunks (id INTEGER PRIMARY KEY, sizes TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value);
"""
"""`contents` is apart so that scanning rows does not read bodies. `peer_…` is the other packet of
the exchange: what a filter says of an exchange is then true or false of each row by itself.
`chunks` has the sizes, with commas between, of bodies that were sent in several; a file of before
has no such table until it is written. `facts` has the schema's version, the number of rows, and
what the text index has got to."""

COLUMNS: dict[str, str] = {
    "id": "integer",
    "request": "content",
    "response": "content",
    "length": "integer",
    "client_ip": "text",
    "client_port": "integer",
    "server_ip": "text",
    "server_port": "integer",
    "time": "time",
    "resend": "boolean",
    "modified": "boolean",
    "type": "text",
    "encode": "text",
    "alpn": "text",
    "group": "integer",
    "method": "text",
    "url": "text",
    "status": "integer",
    "server_name": "text",
    "full_text": "content",
    "full_text_i": "content",
}
"""Columns that a filter may name, with their kinds. `server_name` is ours, beyond the spec."""

PER_PACKET = frozenset({"id", "length", "time", "modified"})
"""Columns in which the two packets of an exchange differ: either may match."""

ORDERS = (
    "id length client_ip client_port server_ip server_port time resend modified type encode group"
    " method url status"
).split()
"""Columns that a page may be ordered by."""
