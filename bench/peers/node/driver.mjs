// Does to the stores of the reference implementation what package bench does to
// ours: reads orders as one JSON value from stdin, writes one line of JSON with
// what it measured to stdout. The time of starting and of loading modules is in
// no figure.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { BACKGROUND_CONTEXT as context } from "@earendil-works/pi-agent-core/harness/context";
import { NodeExecutionEnv } from "@earendil-works/pi-agent-core/harness/env/nodejs";
// The package exports sessions, not the stores below them, which are what our
// stores compare with: a session would add a lock to every call.
import { JsonlStorage } from "./node_modules/@earendil-works/pi-agent-core/dist/harness/session/jsonl/storage.js";
import { MemoryStorage } from "./node_modules/@earendil-works/pi-agent-core/dist/harness/session/memory.js";

const orders = JSON.parse(await text(process.stdin));
const fileSystem = new NodeExecutionEnv({ cwd: orders.dir });

const work = { commit, read, open, replay };
try {
  const answer = await work[orders.do]();
  const memory = { residentBytes: process.memoryUsage.rss(), peakBytes: process.resourceUsage().maxRSS * 1024 };
  console.log(JSON.stringify({ node: process.version, ...memory, ...answer }));
} catch (error) {
  console.log(JSON.stringify({ error: String(error.message) }));
}

async function create(session) {
  if (orders.storage === "memory") return new MemoryStorage();
  const header = { v: 4, kind: "header", id: `session-${session}`, storageVersion: 1, createdAt: Date.now(), cwd: orders.dir };
  return JsonlStorage.create({ fileSystem, path: join(orders.dir, `${header.id}.jsonl`) }, header, [], context);
}

// A stream makes the transactions of a session from the templates that were
// ordered: only ids and parents are new.
function stream(session) {
  const { templates } = orders;
  const tail = `-7000-8000-${session.toString(16).padStart(12, "0")}`;
  let n = session * 7;
  let now = 1_700_000_000_000;
  let leaf = null;
  const id = () => {
    const hex = (++now).toString(16).padStart(12, "0");
    return `${hex.slice(0, 8)}-${hex.slice(8)}${tail}`;
  };
  const write = (of) => {
    switch (of.kind) {
      case "entry": {
        const entry = { ...of.entry, id: id(), parentId: leaf };
        leaf = entry.id;
        return { kind: "entry", entry };
      }
      case "usage":
        return { kind: "usage", row: { ...of.row, id: id(), entryId: leaf } };
      default:
        return of.namespace === "lane.leaf" ? { ...of, value: leaf } : of;
    }
  };
  return () => templates[n++ % templates.length].map(write);
}

async function commit() {
  const sessions = [];
  for (let i = 0; i < orders.sessions; i++) sessions.push({ storage: await create(i), next: stream(i), ops: 0, entries: 0 });
  const seen = [];
  const begin = performance.now();
  await Promise.all(sessions.map(async (session, i) => {
    const share = Math.floor(orders.ops / orders.sessions) + (i < orders.ops % orders.sessions ? 1 : 0);
    if (orders.ops > 0 && share === 0) return;
    while (share === 0 || session.ops < share) {
      const writes = session.next();
      const start = performance.now();
      await session.storage.commit(writes, context);
      const end = performance.now();
      seen.push(end - start);
      session.ops++;
      for (const write of writes) if (write.kind === "entry") session.entries++;
      if (orders.durationMS > 0 && end - begin >= orders.durationMS) return;
    }
  }));
  const elapsed = performance.now() - begin;
  for (const session of sessions) {
    expect((await session.storage.getStats(context)).messageCount, session.entries, "entries");
    await session.storage.close(context);
  }
  const ops = sessions.map((session) => session.ops);
  return { ...measured(seen, elapsed), fewest: Math.min(...ops), most: Math.max(...ops) };
}

async function read() {
  const storage = await filled();
  const { ids, leaf: start } = orders;
  const reads = {
    "read-ids": async () => (await storage.getEntries(ids, context)).size,
    "read-latest": async () => (await storage.scanBranch({ start, limit: 50 }, context)).length,
    "read-context": async () => (await storage.scanBranch({ start, stopAtType: "compaction" }, context)).length,
    "read-structure": async () => (await storage.scanBranchStructure({ start }, context)).length,
  };
  return repeat(reads[orders.workload]);
}

// A session with the history of the file that was ordered.
async function filled() {
  if (orders.storage === "jsonl") return JsonlStorage.open({ fileSystem, path: orders.path }, context);
  const storage = new MemoryStorage();
  const lines = (await readFile(orders.path, "utf8")).trimEnd().split("\n").slice(1);
  for (let i = 0; i < lines.length; i += 256) await storage.commit(lines.slice(i, i + 256).map(uncommitted), context);
  return storage;
}

// The write that a line of the file is the result of.
function uncommitted(line) {
  const { seq: _seq, timestamp: _timestamp, kind, ...rest } = JSON.parse(line);
  return kind === "entry" ? { kind, entry: rest } : { kind, ...rest };
}

async function open() {
  const start = performance.now();
  const storage = await JsonlStorage.open({ fileSystem, path: orders.path }, context);
  const elapsed = performance.now() - start;
  // Memory is what the opening took: the check comes behind it.
  const memory = { residentBytes: process.memoryUsage.rss(), peakBytes: process.resourceUsage().maxRSS * 1024 };
  expect((await storage.scanEntries({}, context)).length, orders.want, "entries");
  return { ...memory, ...measured([elapsed], elapsed) };
}

async function replay() {
  return repeat(async () => {
    const storage = await JsonlStorage.open({ fileSystem, path: orders.path }, context);
    return (await storage.scanEntries({}, context)).length;
  });
}

// Repeats an operation behind a first one, which warms.
async function repeat(operation) {
  expect(await operation(), orders.want, "entries");
  const seen = [];
  const begin = performance.now();
  for (;;) {
    const start = performance.now();
    const got = await operation();
    const end = performance.now();
    expect(got, orders.want, "entries");
    seen.push(end - start);
    const over = orders.durationMS > 0 && end - begin >= orders.durationMS;
    if (over || seen.length === orders.ops) return measured(seen, end - begin);
  }
}

function measured(milliseconds, elapsed) {
  const seen = Float64Array.from(milliseconds).sort();
  const at = (per1000) => seen[Math.max(0, Math.ceil((seen.length * per1000) / 1000) - 1)] * 1e6;
  return { ops: seen.length, elapsedNS: Math.round(elapsed * 1e6), p50: at(500), p99: at(990), p999: at(999), longest: at(1000) };
}

function expect(got, want, what) {
  if (got !== want) throw new Error(`the store gave ${got} ${what} instead of ${want}`);
}
