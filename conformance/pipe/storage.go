package pipe

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"unicode/utf8"

	"pistore"
)

// storage is a session that another process has open.
type storage struct {
	b    *Backend
	info pistore.Info

	p *process

	mu     sync.Mutex // guards closed; held while a call is under way
	closed bool
}

// call asks the store, unless the context has ended already. A closed session's
// process belongs to whoever opens the next.
func (s *storage) call(ctx context.Context, method string, params pistore.JSON) (reader, error) {
	if err := ctx.Err(); err != nil {
		return reader{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return reader{}, closedError(method)
	}
	return s.p.call(method, params)
}

func closedError(method string) error { return fmt.Errorf("pipe: %s: %w", method, pistore.ErrClosed) }

func (s *storage) Info() pistore.Info { return s.info }

// Commit sends a transaction. What cannot stand in a line of JSON is refused
// here.
func (s *storage) Commit(ctx context.Context, tx pistore.Tx) (pistore.Receipt, error) {
	writes := make([]pistore.Write, len(tx.Writes))
	for i, w := range tx.Writes {
		var err error
		if writes[i], err = sendable(w); err != nil {
			return pistore.Receipt{}, fmt.Errorf("pipe: commit: write %d: %w", i, err)
		}
	}
	for i, e := range tx.Expect {
		if !utf8.ValidString(e.Namespace + e.Key) {
			return pistore.Receipt{}, fmt.Errorf("pipe: commit: precondition %d: %w: not UTF-8", i, pistore.ErrInvalid)
		}
	}
	var params object
	params.put("writes", array(writes, encodeWrite))
	if len(tx.Expect) > 0 {
		params.put("expect", array(tx.Expect, encodePrecondition))
	}
	r, err := s.call(ctx, "commit", params.end())
	if err != nil {
		return pistore.Receipt{}, err
	}
	stats, err := decodeStats(r.fields["stats"])
	if err != nil {
		return pistore.Receipt{}, fmt.Errorf("pipe: commit: %w", err)
	}
	receipt := pistore.Receipt{
		FirstSeq: r.seq("firstSeq"), Timestamp: pistore.UnixMS(r.number("timestamp")), Stats: stats,
		Seqs: list(&r, "seqs", func(j pistore.JSON) (pistore.Seq, error) {
			n, err := fields{"seq": j}.number("seq")
			return pistore.Seq(n), err
		}),
	}
	return receipt, r.err
}

func (s *storage) Entries(ctx context.Context, ids []pistore.ID) ([]pistore.Entry, error) {
	var params object
	params.put("ids", array(ids, func(id pistore.ID) pistore.JSON { return pistore.QuoteJSON(string(id)) }))
	r, err := s.call(ctx, "entries", params.end())
	if err != nil {
		return nil, err
	}
	return list(&r, "entries", decodeEntry), r.err
}

// Registers asks for one address at a time, as the protocol does, and lets
// nothing in between: a batch is a snapshot.
func (s *storage) Registers(ctx context.Context, at []pistore.Address) ([]pistore.Register, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, closedError("register")
	}
	var found []pistore.Register
	seen := map[pistore.Address]bool{}
	for _, a := range at {
		if seen[a] {
			continue
		}
		seen[a] = true
		var params object
		params.text("namespace", a.Namespace)
		params.text("key", a.Key)
		r, err := s.p.call("register", params.end())
		if err != nil {
			return nil, err
		}
		if r.has("register") {
			g, err := decodeRegister(r.fields["register"])
			if err != nil {
				return nil, fmt.Errorf("pipe: register: %w", err)
			}
			found = append(found, g)
		}
	}
	return found, nil
}

func (s *storage) RegistersByPrefix(ctx context.Context, namespace, prefix string) iter.Seq2[pistore.Register, error] {
	var params object
	params.text("namespace", namespace)
	params.text("prefix", prefix)
	return sequence(ctx, s, "registers", params.end(), "registers", decodeRegister)
}

func (s *storage) Branch(ctx context.Context, q pistore.BranchQuery) iter.Seq2[pistore.Entry, error] {
	if err := q.Check(); err != nil {
		return fail[pistore.Entry](fmt.Errorf("pipe: branch: %w", err))
	}
	var params object
	params.text("start", string(q.Start))
	params.textIf("stopAtType", string(q.StopAtType))
	params.textIf("stopAtId", string(q.StopAtID))
	params.textIf("type", string(q.Type))
	params.textIf("customType", q.CustomType)
	if q.Order == pistore.Reversed {
		params.text("order", "oldestFirst")
	}
	if q.Cursor != 0 {
		var cursor object
		cursor.number("seq", int64(q.Cursor))
		params.put("cursor", cursor.end())
	}
	params.numberIf("limit", int64(q.Limit))
	if q.StructureOnly {
		return sequence(ctx, s, "branchStructure", params.end(), "entries", decodeStructure)
	}
	return sequence(ctx, s, "branch", params.end(), "entries", decodeEntry)
}

// decodeStructure reads an entry that has no payload; one that comes with it
// keeps it, for the kit to see.
func decodeStructure(j pistore.JSON) (pistore.Entry, error) {
	e, err := decodeEntry(j)
	if e.Payload == "{}" {
		e.Payload = ""
	}
	return e, err
}

func (s *storage) ScanEntries(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.Entry, error] {
	if q.StructureOnly { // a branch alone has words for it
		return scan(ctx, s, "scanEntries", q, "entries", decodeBare)
	}
	return scan(ctx, s, "scanEntries", q, "entries", decodeEntry)
}

// decodeBare reads an entry and forgets its payload.
func decodeBare(j pistore.JSON) (pistore.Entry, error) {
	e, err := decodeEntry(j)
	e.Payload = ""
	return e, err
}

func (s *storage) ScanUsage(ctx context.Context, q pistore.ScanQuery) iter.Seq2[pistore.UsageRow, error] {
	return scan(ctx, s, "scanUsage", q, "rows", decodeUsage)
}

func scan[T any](ctx context.Context, s *storage, method string, q pistore.ScanQuery, name string, decode func(pistore.JSON) (T, error)) iter.Seq2[T, error] {
	if err := q.Check(); err != nil {
		return fail[T](fmt.Errorf("pipe: %s: %w", method, err))
	}
	var params object
	params.textIf("type", string(q.Type))
	params.textIf("customType", q.CustomType)
	params.numberIf("fromSeq", int64(q.FromSeq))
	params.numberIf("toSeq", int64(q.ToSeq))
	if q.Order == pistore.Reversed {
		params.text("order", "desc")
	}
	params.numberIf("limit", int64(q.Limit))
	return sequence(ctx, s, method, params.end(), name, decode)
}

// sequence asks when it is ranged over, each time anew.
func sequence[T any](ctx context.Context, s *storage, method string, params pistore.JSON, name string, decode func(pistore.JSON) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		r, err := s.call(ctx, method, params)
		if err != nil {
			yield(none, err)
			return
		}
		all := list(&r, name, decode)
		if r.err != nil {
			yield(none, fmt.Errorf("pipe: %s: %w", method, r.err))
			return
		}
		for _, v := range all {
			if err := ctx.Err(); err != nil {
				yield(none, err)
				return
			}
			if !yield(v, nil) {
				return
			}
		}
	}
}

func (s *storage) Stats(ctx context.Context) (pistore.Stats, error) {
	r, err := s.call(ctx, "stats", "{}")
	if err != nil {
		return pistore.Stats{}, err
	}
	var o object
	for _, name := range []string{"entryCount", "messageCount", "usage"} {
		if r.has(name) {
			o.put(name, r.fields[name])
		}
	}
	return decodeStats(o.end())
}

// Export is not part of the protocol.
func (s *storage) Export(context.Context) iter.Seq2[pistore.Row, error] {
	return fail[pistore.Row](unsupported("export"))
}

// Sync implements pistore.Syncer.
func (s *storage) Sync(ctx context.Context) error {
	_, err := s.call(ctx, "sync", "{}")
	return err
}

// Compact implements pistore.Compacter.
func (s *storage) Compact(ctx context.Context) (pistore.CompactResult, error) {
	r, err := s.call(ctx, "compact", "{}")
	if err != nil {
		return pistore.CompactResult{}, err
	}
	return pistore.CompactResult{BytesBefore: r.number("bytesBefore"), BytesAfter: r.number("bytesAfter")}, r.err
}

// Close closes the session twice over, since the protocol promises that the
// second time is no error, and that nothing else is answered in between.
func (s *storage) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	_, err := s.p.call("close", "{}")
	if err == nil {
		_, err = s.p.call("close", "{}")
	}
	s.b.release(s.p)
	return err
}
