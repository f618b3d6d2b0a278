"""A session store in Python, over SQLite: an example of the store protocol.

It needs nothing but the standard library. One SQLite file holds one session.
docs/store-protocol.md says what each request asks for.
"""

import fcntl
import itertools
import json
import os
import re
import sqlite3
import sys
import time
import uuid
from decimal import Context, Decimal

MAX_SEQ = 2**53 - 1
MAX_PAYLOAD, MAX_TX, MAX_DEPTH = 64 << 20, 256 << 20, 1000
TYPES = {"message", "compaction", "branch_summary", "custom"}
STRUCTURAL = {"kind", "id", "parentId", "type", "customType"}  # of an entry, in a write
STORED = {"seq", "timestamp", "sum"}  # what only a store adds
TOKENS = ["input", "output", "cacheRead", "cacheWrite", "cacheWrite1h", "reasoning", "totalTokens"]
COSTS = ["input", "output", "cacheRead", "cacheWrite", "total"]
EXACT = Context(prec=4000, Emax=999999, Emin=-999999)

sys.setrecursionlimit(6000)  # nested JSON, in a line that is some levels deeper


class Refused(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


# JSON as it was written. Python's json module would change number literals and
# drop duplicate keys, so values are cut out of the text instead.


def no_constant(name):
    raise Refused("invalid", f"{name} is not JSON")


DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=no_constant)


STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'


def compact(text):
    """Removes white space outside strings."""
    if not re.search(r"[ \t\r\n]", text):
        return text
    return re.sub(rf"({STRING})|[ \t\r\n]+", lambda m: m[1] or "", text)


def members(text):
    """Yields (name, name as written, value as written) of a compact object."""
    if not text.startswith("{"):
        raise Refused("invalid", "not an object")
    at = 1
    while text[at] == '"':
        name, colon = json.decoder.scanstring(text, at + 1)
        end = DECODER.raw_decode(text, colon + 1)[1]
        yield name, text[at:colon], text[colon + 1 : end]
        at = end + 1
        if text[end] == "}":
            return


def elements(text):
    at = 1
    while text[at] != "]":
        end = DECODER.raw_decode(text, at)[1]
        yield text[at:end]
        at = end + (text[end] == ",")


def fields(text):
    return {name: value for name, _, value in members(text)}


def asked(text):
    """The members of what a request asks: none is given twice, null is left out."""
    found = {}
    for name, _, value in members(text):
        if name in found:
            raise Refused("invalid", "two members named " + name)
        found[name] = value
    return {name: value for name, value in found.items() if value != "null"}


def flag_of(raw):
    if raw not in (None, "null", "true", "false"):
        raise Refused("invalid", "neither true nor false: " + raw[:60])
    return raw == "true"


def text_of(raw, default=""):
    if raw is None or raw == "null":
        return default
    value = json.loads(raw) if raw.startswith('"') else None
    if value is None:
        raise Refused("invalid", "not a string: " + raw[:60])
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Refused("invalid", "not UTF-8: " + raw[:60]) from None
    return value


def int_of(raw):
    if raw is None or raw == "null":
        return 0
    if not re.fullmatch(r"\d{1,16}", raw) or int(raw) > MAX_SEQ:
        raise Refused("invalid", "not an integer from 0 to 2^53-1: " + raw[:60])
    return int(raw)


def quote(text):
    return json.dumps(text, ensure_ascii=False)


# What can be refused by looking at a write alone.


def check_text(what, text, least, most, controls=False):
    if len(text.encode()) < least:
        raise Refused("invalid", "empty " + what)
    if len(text.encode()) > most:
        raise Refused("too_large", f"{what} of more than {most} bytes")
    if re.search("\0" if controls else r"[\x00-\x1f\x7f-\x9f]", text):
        raise Refused("invalid", what + " has a control character")


def check_json(what, text, kind=None):
    if text is None:
        raise Refused("invalid", "no " + what)
    if len(text.encode()) > MAX_PAYLOAD:
        raise Refused("too_large", what + " of more than 64 MiB")
    depth = deepest = 0
    for bracket in re.findall(r"[\[\]{}]", re.sub(STRING, "", text)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    if deepest > MAX_DEPTH:
        raise Refused("too_large", f"{what} is nested deeper than {MAX_DEPTH}")
    if kind == "object" and not text.startswith("{"):
        raise Refused("invalid", what + " is not an object")
    return len(text.encode())


def admit(raw):
    """Turns a write into a dict, and returns its size in bytes too."""
    w, payload, seen = {}, [], set()
    entry = fields(raw).get("kind") == '"entry"'
    for name, written, value in members(raw):
        if entry and name not in STRUCTURAL:
            if name in STORED:
                raise Refused("invalid", "a payload has no member named " + name)
            payload.append(written + ":" + value)
        elif name in seen:
            raise Refused("invalid", "two members named " + name)
        else:
            seen.add(name)
            w[name] = value
    kind, op = text_of(w.get("kind")), text_of(w.get("op"))
    size = 0
    if kind in ("entry", "usage"):
        w["id"] = text_of(w.get("id"))
        check_text("id", w["id"], 1, 128)
    if kind == "entry":
        w["parent"] = text_of(w.get("parentId"), None)
        w["type"], w["customType"] = text_of(w.get("type")), text_of(w.get("customType"))
        if w["parent"] is not None:
            check_text("parentId", w["parent"], 1, 128)
        if w["type"] not in TYPES:
            raise Refused("invalid", "type " + w["type"][:60])
        if w["type"] == "custom":
            check_text("customType", w["customType"], 1, 128)
        elif w["customType"]:
            raise Refused("invalid", "customType on an entry of type " + w["type"])
        w["payload"] = "{" + ",".join(payload) + "}"
        size = check_json("payload", w["payload"]) + len((w["id"] + (w["parent"] or "") + w["customType"]).encode())
    elif kind == "usage":
        w["entryId"] = text_of(w.get("entryId"))
        check_text("entryId", w["entryId"], 0, 128)
        size = check_json("usage", w.get("usage"), "object") + len((w["id"] + w["entryId"]).encode())
        if w.get("details") is not None:
            size += check_json("details", w["details"])
        w["adjustment"] = flag_of(w.get("adjustment"))
    elif kind == "register" and op in ("set", "delete"):
        w["namespace"], w["key"] = address(w)
        size = len((w["namespace"] + w["key"]).encode())
        if op == "set":
            size += check_json("value", w.get("value"))
    else:
        raise Refused("invalid", f"a write of kind {kind[:60]} {op[:60]}")
    w["kind"], w["op"] = kind, op
    return w, size


def address(f):
    namespace, key = text_of(f.get("namespace")), text_of(f.get("key"))
    check_text("namespace", namespace, 1, 128, controls=True)
    check_text("key", key, 0, 1024, controls=True)
    return namespace, key


def amount(raw, adjustment):
    """An exact number, or None for a value that counts as unknown."""
    m = re.fullmatch(r"-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?", raw)
    if not m or len(m[1] + (m[2] or "")) > 64 or abs(int(m[3] or 0)) > 400:
        return None
    value = Decimal(raw)
    return None if value < 0 and not adjustment else value


def plain(value):
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


class Totals:
    """Statistics, kept up to date with every commit."""

    def __init__(self, saved=None):
        saved = saved or {}
        self.counts = {name: saved.get(name, 0) for name in ("entries", "messages", "rows", "unusable")}
        self.sums = {name: Decimal(saved.get("sums", {}).get(name, 0)) for name in TOKENS + ["cost." + c for c in COSTS]}

    def save(self):
        return json.dumps({**self.counts, "sums": {name: plain(v) for name, v in self.sums.items()}})

    def entry(self, kind):
        self.counts["entries"] += 1
        self.counts["messages"] += kind == "message"

    def usage(self, usage, adjustment):
        known = fields(usage)
        cost = known.get("cost")
        values = {name: known[name] for name in TOKENS if name in known}
        unusable = cost is not None and not cost.startswith("{")
        if cost and not unusable:
            values.update({"cost." + name: v for name, v in fields(cost).items() if name in COSTS})
        for name, raw in values.items():
            value = amount(raw, adjustment)
            if value is None:
                unusable = True
            else:
                self.sums[name] = EXACT.add(self.sums[name], value)
        self.counts["rows"] += 1
        self.counts["unusable"] += unusable

    def json(self):
        c, s = self.counts, {name: plain(v) for name, v in self.sums.items()}
        cost = ",".join(f'"{name}":{s["cost." + name]}' for name in COSTS)
        sums = ",".join(f'"{name}":{s[name]}' for name in TOKENS)
        return (
            f'{{"entryCount":{c["entries"]},"messageCount":{c["messages"]},'
            f'"usage":{{"rows":{c["rows"]},"unusable":{c["unusable"]},{sums},"cost":{{{cost}}}}}}}'
        )


SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value);
CREATE TABLE ids (id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE entries (seq INTEGER PRIMARY KEY, id TEXT UNIQUE, parent TEXT, type TEXT, customType TEXT, timestamp INTEGER, payload TEXT);
CREATE TABLE usage (seq INTEGER PRIMARY KEY, id TEXT, entryId TEXT, adjustment INTEGER, usage TEXT, details TEXT);
CREATE TABLE registers (namespace TEXT, key TEXT, value TEXT, seq INTEGER, PRIMARY KEY (namespace, key)) WITHOUT ROWID;
"""


class Store:
    """One open session."""

    def __init__(self, location, read_only, power, create, session, metadata):
        if session and session != text_of(metadata.get("id"), session):
            raise Refused("invalid", "session and the id of metadata differ")
        self.location, self.read_only, self.closed, self.faulted = location, read_only, False, False
        self.lock = None
        exists = os.path.exists(location)
        if not exists and (read_only or not create):
            raise Refused("not_found", "nothing at " + location)
        if not read_only:
            self.lock = open(location + ".lock", "a")
            try:
                fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self.lock.close()
                raise Refused("locked", location + " has another writer") from None
        try:
            self.connect(power)
            if not read_only and not self.db.execute("SELECT name FROM sqlite_master").fetchone():
                self.make(session, metadata)
            self.info = dict(self.db.execute("SELECT name, value FROM meta"))
            if session and session != self.info["id"]:
                raise Refused("not_found", location + " holds another session")
        except BaseException:
            self.close()
            raise
        self.totals = Totals(json.loads(self.info["totals"]))

    def connect(self, power):
        # autocommit: transactions begin and end where this file says so
        mode = "ro" if self.read_only else "rwc"
        self.db = sqlite3.connect(f"file:{self.location}?mode={mode}", uri=True, isolation_level=None)
        if not self.read_only:
            self.db.execute("PRAGMA journal_mode=WAL")
            # A write that reached the operating system survives the process.
            self.db.execute("PRAGMA synchronous=" + ("FULL" if power else "OFF"))

    def make(self, session, metadata):
        now = int(time.time() * 1000)
        info = {
            "id": session or text_of(metadata.get("id")) or uuid7(now),
            "createdAt": int_of(metadata.get("createdAt")) or now,
            "cwd": text_of(metadata.get("cwd")),
            "parentSessionId": text_of(metadata.get("parentSessionId")),
            "nextSeq": 1,
            "totals": Totals().save(),
        }
        check_text("session id", info["id"], 1, 128)
        self.db.executescript("BEGIN;" + SCHEMA)
        self.db.executemany("INSERT INTO meta VALUES (?, ?)", info.items())
        self.db.execute("COMMIT")

    def session(self):
        i = self.info
        parent = f',"parentSessionId":{quote(i["parentSessionId"])}' if i["parentSessionId"] else ""
        return f'{{"id":{quote(i["id"])},"createdAt":{i["createdAt"]},"cwd":{quote(i["cwd"])}{parent},"storageVersion":1}}'

    def close(self):
        if self.closed:
            return
        self.closed = True
        self.db.close()
        if self.lock:
            self.lock.close()

    # commit

    def commit(self, p):
        if self.read_only:
            raise Refused("read_only", "opened read-only")
        writes, size = [], 0
        for raw in elements(p.get("writes", "[]")):
            w, n = admit(raw)
            writes.append(w)
            size += n
        if size > MAX_TX:
            raise Refused("too_large", "a transaction of more than 256 MiB")
        expect = [(address(f), int_of(f.get("seq"))) for f in map(asked, elements(p.get("expect", "[]")))]
        self.db.execute("BEGIN IMMEDIATE")
        try:
            result = self.apply(writes, expect)
            self.acknowledge()
            return result
        except Refused:
            self.db.execute("ROLLBACK")
            raise
        except sqlite3.Error as e:
            self.faulted = True
            raise Refused("faulted", str(e)) from None

    def acknowledge(self):
        self.db.execute("COMMIT")

    def apply(self, writes, expect):
        for at, seq in expect:
            found = self.find(*at)
            if (found[1] if found else 0) != seq:
                raise Refused("conflict", f"register {at[0]}/{at[1]} is not at seq {seq}")
        timestamp = int(time.time() * 1000)
        first = self.get("nextSeq")
        totals = Totals(json.loads(self.get("totals")))
        for seq, w in enumerate(writes, first):
            self.write(seq, timestamp, w, totals)
        self.put("nextSeq", first + len(writes))
        self.put("totals", totals.save())
        self.totals = totals
        seqs = ",".join(str(first + i) for i in range(len(writes)))
        return f'{{"firstSeq":{first if writes else 0},"seqs":[{seqs}],"timestamp":{timestamp},"stats":{totals.json()}}}'

    def write(self, seq, timestamp, w, totals):
        if w["kind"] == "register":
            self.set_register(seq, w)
            return
        try:
            self.db.execute("INSERT INTO ids VALUES (?)", (w["id"],))
        except sqlite3.IntegrityError:
            raise Refused("duplicate_id", w["id"]) from None
        if w["kind"] == "usage":
            self.db.execute(
                "INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?)",
                (seq, w["id"], w["entryId"], w["adjustment"], w["usage"], w.get("details")),
            )
            totals.usage(w["usage"], w["adjustment"])
            return
        if w["parent"] is not None and not self.entry(w["parent"]):
            raise Refused("missing_parent", w["parent"])
        self.db.execute(
            "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)",
            (seq, w["id"], w["parent"], w["type"], w["customType"], timestamp, w["payload"]),
        )
        totals.entry(w["type"])

    def set_register(self, seq, w):
        if w["op"] == "set":
            self.db.execute("REPLACE INTO registers VALUES (?, ?, ?, ?)", (w["namespace"], w["key"], w["value"], seq))
        else:
            self.db.execute("DELETE FROM registers WHERE namespace = ? AND key = ?", (w["namespace"], w["key"]))

    def get(self, name):
        return self.db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()[0]

    def put(self, name, value):
        self.db.execute("UPDATE meta SET value = ? WHERE name = ?", (value, name))

    # reading

    def entry(self, id):
        return self.db.execute("SELECT * FROM entries WHERE id = ?", (id,)).fetchone()

    def find(self, namespace, key):
        return self.db.execute("SELECT value, seq FROM registers WHERE namespace = ? AND key = ?", (namespace, key)).fetchone()

    def entries(self, p):
        ids = {text_of(raw) for raw in elements(p.get("ids", "[]"))}
        return entries_json(row for row in map(self.entry, ids) if row)

    def register(self, p):
        namespace, key = text_of(p.get("namespace")), text_of(p.get("key"))
        found = self.find(namespace, key)
        return '{"register":' + (register_json(namespace, key, *found) if found else "null") + "}"

    def registers(self, p):
        namespace, prefix = text_of(p.get("namespace")), text_of(p.get("prefix"))
        rows = self.db.execute(
            "SELECT key, value, seq FROM registers WHERE namespace = ? AND key >= ? ORDER BY key", (namespace, prefix)
        )
        rows = itertools.takewhile(lambda row: row[0].startswith(prefix), rows)
        return '{"registers":[' + ",".join(register_json(namespace, *row) for row in rows) + "]}"

    def branch(self, p, structure=False):
        oldest_first = one_of(p, "order", "newestFirst", "oldestFirst")
        limit, cursor = int_of(p.get("limit")), int_of(asked(p.get("cursor", "{}")).get("seq"))
        stop_type, stop_id = text_of(p.get("stopAtType")), text_of(p.get("stopAtId"))
        path = []
        for row in self.path(text_of(p.get("start"))):
            path.append(row)
            if row[3] == stop_type or row[1] == stop_id:
                break
        kept = [row for row in path if keeps(row, p)]
        if oldest_first:
            kept.reverse()
        if cursor:
            kept = [row for row in kept if (row[0] > cursor if oldest_first else row[0] < cursor)]
        return entries_json(kept[: limit or None], structure)

    def path(self, start):
        row = self.entry(start)
        if not row:
            raise Refused("not_found", "no entry " + start)
        while row:
            yield row
            if row[2] is None:
                return
            row = self.entry(row[2])
        raise Refused("corrupt", "a parent is missing")

    def scan(self, table, p):
        falling = one_of(p, "order", "asc", "desc")
        low, high = int_of(p.get("fromSeq")), int_of(p.get("toSeq")) or MAX_SEQ
        return self.db.execute(
            f"SELECT * FROM {table} WHERE seq BETWEEN ? AND ? ORDER BY seq {'DESC' if falling else 'ASC'}", (low, high)
        )

    def scan_entries(self, p):
        rows = [row for row in self.scan("entries", p) if keeps(row, p)]
        return entries_json(rows[: int_of(p.get("limit")) or None])

    def scan_usage(self, p):
        rows = self.scan("usage", p).fetchall()[: int_of(p.get("limit")) or None]
        return '{"rows":[' + ",".join(map(usage_json, rows)) + "]}"

    def stats(self, p):
        return Totals(json.loads(self.get("totals"))).json()

    # upkeep

    def sync(self, p):
        self.db.execute("PRAGMA wal_checkpoint(FULL)")
        for name in (self.location, os.path.dirname(self.location) or "."):
            fd = os.open(name, os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)
        return "{}"

    def compact(self, p):
        before = os.path.getsize(self.location)
        self.db.execute("VACUUM")
        self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return f'{{"bytesBefore":{before},"bytesAfter":{os.path.getsize(self.location)}}}'


def one_of(p, name, natural, reverse):
    value = text_of(p.get(name), natural)
    if value not in (natural, reverse):
        raise Refused("invalid", f"{name} {value[:60]}")
    return value == reverse


def keeps(row, p):
    kind, custom = text_of(p.get("type")), text_of(p.get("customType"))
    return (not kind or row[3] == kind) and (not custom or row[4] == custom)


def entries_json(rows, structure=False):
    out = []
    for seq, id, parent, kind, custom, timestamp, payload in rows:
        custom = f',"customType":{quote(custom)}' if custom else ""
        inline = "," + payload[1:-1] if not structure and payload != "{}" else ""
        parent = "null" if parent is None else quote(parent)
        out.append(
            f'{{"id":{quote(id)},"parentId":{parent},"seq":{seq},"timestamp":{timestamp},"type":{quote(kind)}{custom}{inline}}}'
        )
    return '{"entries":[' + ",".join(out) + "]}"


def usage_json(row):
    seq, id, entry, adjustment, usage, details = row
    entry = f'"entryId":{quote(entry)},' if entry else ""
    details = f',"details":{details}' if details is not None else ""
    return f'{{"seq":{seq},"id":{quote(id)},{entry}"adjustment":{"true" if adjustment else "false"},"usage":{usage}{details}}}'


def register_json(namespace, key, value, seq):
    return f'{{"namespace":{quote(namespace)},"key":{quote(key)},"value":{value},"seq":{seq}}}'


def uuid7(ms):
    tail = uuid.uuid4().int & ((1 << 80) - 1)
    return str(uuid.UUID(int=(ms << 80 | tail) & ~(0xF << 76) & ~(3 << 62) | 7 << 76 | 2 << 62))


class Server:
    """Answers requests, one open store at a time."""

    store_class = Store

    def __init__(self):
        self.store = None

    def open(self, p):
        if self.store and not self.store.closed:
            raise Refused("invalid", "a store is open; close it first")
        self.store = self.store_class(
            text_of(p.get("location")),
            one_of(p, "mode", "rw", "ro"),
            one_of(p, "durability", "process", "power"),
            flag_of(p.get("create")),
            text_of(p.get("session")),
            asked(p.get("metadata", "{}")),
        )
        return f'{{"session":{self.store.session()},"format":"sqlite-example","storageVersion":1}}'

    def call(self, method, p):
        if method == "open":
            return self.open(p)
        if method == "close":
            if not self.store:
                raise Refused("closed", "nothing was opened")
            self.store.close()
            return "{}"
        names = {"scanEntries": "scan_entries", "scanUsage": "scan_usage", "branchStructure": "branch"}
        if method not in ("commit", "entries", "register", "registers", "branch", "stats", "sync", "compact", *names):
            raise Refused("invalid", "no method " + method[:60])
        if not self.store or self.store.closed:
            raise Refused("closed", "the store is closed")
        if self.store.faulted:
            raise Refused("faulted", "an earlier call failed; open the store again")
        do = getattr(self.store, names.get(method, method))
        return do(p, structure=True) if method == "branchStructure" else do(p)

    def answer(self, line):
        id = "null"
        try:
            text = line.decode()
            DECODER.decode(text)
            request = asked(compact(text))
            id = request.get("id", "null")
            result = self.call(text_of(request.get("method")), asked(request.get("params", "{}")))
            return f'{{"id":{id},"result":{result}}}'
        except Refused as e:
            code, message = e.code, str(e)
        except RecursionError:
            code, message = "too_large", "nested too deep"
        except ValueError as e:  # neither UTF-8 nor JSON
            code, message = "invalid", str(e)
        except (OSError, sqlite3.Error) as e:
            code, message = "faulted", str(e)
        return f'{{"id":{id},"error":{{"code":"{code}","message":{quote(message)}}}}}'

    def run(self):
        for line in sys.stdin.buffer:
            sys.stdout.buffer.write(self.answer(line).encode() + b"\n")
            sys.stdout.buffer.flush()
        if self.store:
            self.store.close()


if __name__ == "__main__":
    Server().run()
