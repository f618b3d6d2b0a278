package pipe

import (
	"context"
	"fmt"
	"iter"

	"pistore"
)

// method answers a request to an open session.
type method func(ctx context.Context, s pistore.Storage, r *reader) (pistore.JSON, error)

// methods are those of an open session, by name.
var methods = map[string]method{
	"commit":    commit,
	"entries":   entries,
	"register":  register,
	"registers": registers,
	"branch": func(ctx context.Context, s pistore.Storage, r *reader) (pistore.JSON, error) {
		return branch(ctx, s, r, false)
	},
	"branchStructure": func(ctx context.Context, s pistore.Storage, r *reader) (pistore.JSON, error) {
		return branch(ctx, s, r, true)
	},
	"scanEntries": scanEntries,
	"scanUsage":   scanUsage,
	"stats":       stats,
	"sync":        syncAll,
	"compact":     compact,
}

func commit(ctx context.Context, s pistore.Storage, r *reader) (pistore.JSON, error) {
	tx := pistore.Tx{Writes: list(r, "writes", decodeWrite), Expect: list(r, "expect", decodePrecondition)}
	if r.err != nil {
		return "", r.err
	}
	receipt, err := s.Commit(ctx, tx)
	if err != nil {
		return "", err
	}
	var o object
	o.number("firstSeq", int64(receipt.FirstSeq))
	o.put("seqs", array(receipt.Seqs, func(n pistore.Seq) pistore.JSON { return pistore.JSON(fmt.Sprint(int64(n))) }))
	o.number("timestamp", int64(receipt.Timestamp))
	o.put("stats", encodeStats(receipt.Stats))
	return o.end(), nil
}

func entries(ctx context.Context, s pistore.Storage, r *reader) (pistore.JSON, error) {
	ids := list(r, "ids", func(j pistore.JSON) (pistore.ID, error) {
		id, err := fields{"id": j}.text("id")
		return pistore.ID(id), err
	})
	if r.err != nil {
		return "", r.err
	}
	found, err := s.Entries(ctx, ids)
	return one("entries", array(found, encodeEntry)), err
}

func register(ctx context.Context, s pistore.Storage, r *reader) (pistore.JSON, error) {
	at := pistore.Address{Namespace: r.text("namespace"), Key: r.text("key")}
	if r.err != nil {
		return "", r.err
	}
	found, err := s.Registers(ctx, []pistore.Address{at})
	if err != nil || len(found) == 0 {
		return one("register", "null"), err
	}
	return one("register", encodeRegister(found[0])), nil
}

func registers(ctx context.Context, s pistore.Storage, r *reader) (pistore.JSON, error) {
	ns, prefix := r.text("namespace"), r.text("prefix")
	if r.err != nil {
		return "", r.err
	}
	return collect("registers", s.RegistersByPrefix(ctx, ns, prefix), encodeRegister)
}

func branch(ctx context.Context, s pistore.Storage, r *reader, structure bool) (pistore.JSON, error) {
	q := pistore.BranchQuery{
		Start: pistore.ID(r.text("start")), StopAtType: pistore.EntryType(r.text("stopAtType")), StopAtID: pistore.ID(r.text("stopAtId")),
		Type: pistore.EntryType(r.text("type")), CustomType: r.text("customType"),
		Order: order(r, "newestFirst", "oldestFirst"), Limit: int(r.number("limit")), StructureOnly: structure,
	}
	if r.has("cursor") {
		f, err := fieldsOf("cursor", r.fields["cursor"])
		if err != nil {
			return "", err
		}
		cursor := reader{fields: f, err: r.err}
		q.Cursor, r.err = cursor.seq("seq"), cursor.err
	}
	if r.err != nil {
		return "", r.err
	}
	return collect("entries", s.Branch(ctx, q), encodeEntry)
}

func scanEntries(ctx context.Context, s pistore.Storage, r *reader) (pistore.JSON, error) {
	q := scanQuery(r)
	if r.err != nil {
		return "", r.err
	}
	return collect("entries", s.ScanEntries(ctx, q), encodeEntry)
}

func scanUsage(ctx context.Context, s pistore.Storage, r *reader) (pistore.JSON, error) {
	q := scanQuery(r)
	if r.err != nil {
		return "", r.err
	}
	return collect("rows", s.ScanUsage(ctx, q), encodeUsage)
}

func scanQuery(r *reader) pistore.ScanQuery {
	return pistore.ScanQuery{
		Type: pistore.EntryType(r.text("type")), CustomType: r.text("customType"),
		FromSeq: r.seq("fromSeq"), ToSeq: r.seq("toSeq"),
		Order: order(r, "asc", "desc"), Limit: int(r.number("limit")),
	}
}

// order reads the order of a query by the names of its two.
func order(r *reader, natural, reversed string) pistore.Order {
	switch name := r.text("order"); name {
	case reversed:
		return pistore.Reversed
	case natural, "":
	default:
		if r.err == nil {
			r.err = fmt.Errorf("%w: order %.40q is neither %s nor %s", pistore.ErrInvalid, name, natural, reversed)
		}
	}
	return pistore.Natural
}

func stats(ctx context.Context, s pistore.Storage, _ *reader) (pistore.JSON, error) {
	found, err := s.Stats(ctx)
	if err != nil {
		return "", err
	}
	return encodeStats(found), nil
}

// syncAll of a store that has no durability to offer is unsupported.
func syncAll(ctx context.Context, s pistore.Storage, _ *reader) (pistore.JSON, error) {
	a, ok := pistore.Find[pistore.Syncer](s)
	if !ok {
		return "", unsupported("sync")
	}
	return "{}", a.Sync(ctx)
}

func compact(ctx context.Context, s pistore.Storage, _ *reader) (pistore.JSON, error) {
	a, ok := pistore.Find[pistore.Compacter](s)
	if !ok {
		return "", unsupported("compact")
	}
	result, err := a.Compact(ctx)
	if err != nil {
		return "", err
	}
	var o object
	o.number("bytesBefore", result.BytesBefore)
	o.number("bytesAfter", result.BytesAfter)
	return o.end(), nil
}

// collect makes a list of a sequence.
func collect[T any](name string, seq iter.Seq2[T, error], encode func(T) pistore.JSON) (pistore.JSON, error) {
	var all []T
	for v, err := range seq {
		if err != nil {
			return "", err
		}
		all = append(all, v)
	}
	return one(name, array(all, encode)), nil
}

// one is an object of one member.
func one(name string, value pistore.JSON) pistore.JSON {
	var o object
	o.put(name, value)
	return o.end()
}
