package conformance

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"pistore"
)

// filterAfterLimit applies the limit in the sound store, the filters to what comes
// of it.
func filterAfterLimit(s *broken, ctx context.Context, q pistore.BranchQuery) ([]pistore.Entry, error) {
	bare := q
	bare.Type, bare.CustomType = "", ""
	all, err := drain(s.Storage.Branch(ctx, bare))
	return slices.DeleteFunc(all, func(e pistore.Entry) bool { return !passes(e, q.Type, q.CustomType) }), err
}

func readMutants() []mutant {
	type ctx = context.Context
	return []mutant{
		{name: "sorts keys as UTF-16", rows: []string{"REG-08"}, model: true,
			defect: defect{prefix: func(s *broken, c ctx, ns, prefix string) ([]pistore.Register, error) {
				all, err := drain(s.Storage.RegistersByPrefix(c, ns, prefix))
				slices.SortFunc(all, func(a, b pistore.Register) int {
					return slices.Compare(utf16.Encode([]rune(a.Key)), utf16.Encode([]rune(b.Key)))
				})
				return all, err
			}}},
		{name: "takes % for a wildcard in a prefix", rows: []string{"REG-14"}, model: false,
			defect: defect{prefix: func(s *broken, c ctx, ns, prefix string) ([]pistore.Register, error) {
				before, _, _ := strings.Cut(prefix, "%")
				return drain(s.Storage.RegistersByPrefix(c, ns, before))
			}}},
		{name: "ends a prefix before its highest keys", rows: []string{"REG-13"}, model: true,
			defect: defect{prefix: func(s *broken, c ctx, ns, prefix string) ([]pistore.Register, error) {
				all, err := drain(s.Storage.RegistersByPrefix(c, ns, prefix))
				return slices.DeleteFunc(all, func(r pistore.Register) bool {
					return prefix != "" && strings.HasPrefix(r.Key, prefix+"\U0010ffff")
				}), err
			}}},
		{name: "leaves the key that is the prefix out", rows: []string{"REG-12", "REG-13", "REG-14", "LIM-04"}, model: true,
			defect: defect{prefix: func(s *broken, c ctx, ns, prefix string) ([]pistore.Register, error) {
				all, err := drain(s.Storage.RegistersByPrefix(c, ns, prefix))
				return slices.DeleteFunc(all, func(r pistore.Register) bool { return prefix != "" && r.Key == prefix }), err
			}}},
		{name: "returns registers from the caller's slice", rows: []string{"TX-30"}, model: true, defect: aliasing()},
		{name: "reads a batch of registers one by one", rows: []string{"CON-01", "CON-05"}, meets: []string{"CON-01", "CON-05"},
			defect: defect{commit: func(s *broken, c ctx, tx pistore.Tx) (pistore.Receipt, error) {
				r, err := s.Storage.Commit(c, tx)
				s.mu.Lock()
				defer s.mu.Unlock()
				s.n++
				s.came()
				return r, err
			}, registers: func(s *broken, c ctx, at []pistore.Address) ([]pistore.Register, error) {
				var all []pistore.Register
				for _, a := range at {
					one, err := s.Storage.Registers(c, []pistore.Address{a})
					if err != nil {
						return nil, err
					}
					all = append(all, one...)
					s.mu.Lock()
					commits := s.n
					s.meet(func() bool { return s.n > commits+1 })
					s.mu.Unlock()
				}
				return all, nil
			}}},
		{name: "filters a branch after the limit", rows: []string{"QRY-08"}, model: true, defect: defect{branch: filterAfterLimit}},
		{name: "seeks the stop after the filter", rows: []string{"QRY-04", "QRY-05", "QRY-09", "QRY-11"}, model: true,
			defect: defect{branch: func(s *broken, c ctx, q pistore.BranchQuery) ([]pistore.Entry, error) {
				bare := q
				bare.StopAtID, bare.StopAtType, bare.Limit, bare.Cursor = "", "", min(q.Limit, 0), min(q.Cursor, 0)
				all, err := drain(s.Storage.Branch(c, bare))
				if i := slices.IndexFunc(all, q.Stops); i >= 0 {
					all = all[:i+1]
				}
				return limit(slices.DeleteFunc(all, func(e pistore.Entry) bool { return !q.Keeps(e) }), q.Limit), err
			}}},
		{name: "cuts at the cursor after the limit", rows: []string{"QRY-10"}, model: true,
			defect: defect{branch: func(s *broken, c ctx, q pistore.BranchQuery) ([]pistore.Entry, error) {
				bare := q
				bare.Cursor = min(q.Cursor, 0)
				all, err := drain(s.Storage.Branch(c, bare))
				return slices.DeleteFunc(all, func(e pistore.Entry) bool { return !q.Keeps(e) }), err
			}}},
		{name: "stops in front of the stop", rows: []string{"QRY-03", "QRY-05", "QRY-06", "QRY-09", "QRY-11"}, model: true,
			defect: defect{branch: func(s *broken, c ctx, q pistore.BranchQuery) ([]pistore.Entry, error) {
				all, err := drain(s.Storage.Branch(c, q))
				return slices.DeleteFunc(all, q.Stops), err
			}}},
		{name: "heeds one stop of two", rows: []string{"QRY-06"}, model: true,
			defect: defect{branch: func(s *broken, c ctx, q pistore.BranchQuery) ([]pistore.Entry, error) {
				if q.StopAtType != "" {
					q.StopAtID = ""
				}
				return drain(s.Storage.Branch(c, q))
			}}},
		{name: "ignores the customType without a type", rows: []string{"QRY-07"}, model: true,
			defect: defect{branch: func(s *broken, c ctx, q pistore.BranchQuery) ([]pistore.Entry, error) {
				if q.Type == "" {
					q.CustomType = ""
				}
				return drain(s.Storage.Branch(c, q))
			}}},
		{name: "takes the session for the branch", rows: []string{"QRY-01", "QRY-02", "QRY-13", "CON-01", "CON-05"}, model: true,
			defect: defect{branch: func(s *broken, c ctx, q pistore.BranchQuery) ([]pistore.Entry, error) {
				path, err := drain(s.Storage.Branch(c, q))
				if err != nil || len(path) == 0 || q != (pistore.BranchQuery{Start: q.Start}) {
					return path, err
				}
				return drain(s.Storage.ScanEntries(c, pistore.ScanQuery{ToSeq: path[0].Seq, Order: pistore.Reversed}))
			}}},
		{name: "takes a negative limit for none", rows: []string{"QRY-14"}, model: true,
			defect: defect{branch: func(s *broken, c ctx, q pistore.BranchQuery) ([]pistore.Entry, error) {
				q.Limit = max(q.Limit, 0)
				return drain(s.Storage.Branch(c, q))
			}}},
		{name: "takes a negative limit of a scan for none", rows: []string{"QRY-25"}, model: true,
			defect: defect{scan: func(s *broken, c ctx, q pistore.ScanQuery) ([]pistore.Entry, error) {
				q.Limit = max(q.Limit, 0)
				return drain(s.Storage.ScanEntries(c, q))
			}}},
		{name: "returns a repeated id twice", rows: []string{"QRY-26"}, races: []string{"CON-05"}, model: true,
			defect: defect{entries: func(s *broken, c ctx, ids []pistore.ID) ([]pistore.Entry, error) {
				var all []pistore.Entry
				for _, id := range ids {
					one, err := s.Storage.Entries(c, []pistore.ID{id})
					if err != nil {
						return nil, err
					}
					all = append(all, one...)
				}
				return all, nil
			}}},
		{name: "reads the clock for each entry", rows: []string{"TX-01", "TX-03", "QRY-26", "CON-05"}, model: true,
			defect: defect{entries: func(s *broken, c ctx, ids []pistore.ID) ([]pistore.Entry, error) {
				all, err := s.Storage.Entries(c, ids)
				for i := range all {
					all[i].Timestamp += pistore.UnixMS(all[i].Seq)
				}
				return all, err
			}}},
		{name: "forgets the seqs of registers in a batch", rows: []string{"TX-21", "REG-01", "REG-02", "REG-15", "CON-03", "CON-05"}, model: true,
			defect: defect{registers: func(s *broken, c ctx, at []pistore.Address) ([]pistore.Register, error) {
				all, err := s.Storage.Registers(c, at)
				for i := range all {
					all[i].Seq = 1
				}
				return all, err
			}}},
		{name: "lists namespaces that begin alike", rows: []string{"REG-09"}, model: true,
			defect: defect{prefix: func(s *broken, c ctx, ns, prefix string) ([]pistore.Register, error) {
				all, err := drain(s.Storage.RegistersByPrefix(c, ns, prefix))
				if err != nil {
					return all, err
				}
				rows, err := drain(s.Storage.Export(c))
				for _, row := range rows {
					if r, ok := row.(pistore.Register); ok && r.Namespace != ns && strings.HasPrefix(r.Namespace, ns) && strings.HasPrefix(r.Key, prefix) {
						all = append(all, r)
					}
				}
				return all, err
			}}},
		{name: "ends the empty prefix with ASCII", rows: []string{"REG-08", "REG-10", "REG-16", "REO-01", "RO-01", "LOD-01"}, model: true,
			defect: defect{prefix: func(s *broken, c ctx, ns, prefix string) ([]pistore.Register, error) {
				all, err := drain(s.Storage.RegistersByPrefix(c, ns, prefix))
				return slices.DeleteFunc(all, func(r pistore.Register) bool { return prefix == "" && r.Key >= "\x80" }), err
			}}},
		{name: "has no sum of an empty ledger", rows: []string{"LED-01", "LED-08", "LED-11", "QRY-27", "CON-05", "REO-02", "BAK-06", "BAK-09"}, model: true,
			defect: defect{stats: func(_ *broken, st pistore.Stats) pistore.Stats {
				if st.Usage.Rows == 0 {
					st.Usage = pistore.Totals{}
				}
				return st
			}}},
		{name: "scans a page of eight", rows: []string{"TX-06", "QRY-20", "JSN-01", "JSN-04", "LIM-01", "CLO-05", "CON-01", "CON-02", "CON-05", "REO-02", "RO-04"}, races: []string{"CLO-03", "CON-04"}, model: true,
			defect: defect{scan: func(s *broken, c ctx, q pistore.ScanQuery) ([]pistore.Entry, error) {
				if q.Limit == 0 {
					q.Limit = 8
				}
				return drain(s.Storage.ScanEntries(c, q))
			}}},
		{name: "scans what is committed meanwhile", rows: []string{"QRY-32"}, races: []string{"CON-01"}, model: false,
			defect: defect{wrap: func(s *broken, q pistore.ScanQuery, rows iter.Seq2[pistore.Entry, error]) iter.Seq2[pistore.Entry, error] {
				if q != (pistore.ScanQuery{}) {
					return rows
				}
				return func(yield func(pistore.Entry, error) bool) {
					last := pistore.Seq(0)
					for e, err := range rows {
						if !yield(e, err) || err != nil {
							return
						}
						last = e.Seq
					}
					for e, err := range s.Storage.ScanEntries(context.Background(), pistore.ScanQuery{FromSeq: last + 1}) {
						if !yield(e, err) {
							return
						}
					}
				}
			}}},
		{name: "goes on when the caller has left", rows: []string{"QRY-30"}, model: false,
			defect: defect{wrap: func(_ *broken, _ pistore.ScanQuery, rows iter.Seq2[pistore.Entry, error]) iter.Seq2[pistore.Entry, error] {
				return func(yield func(pistore.Entry, error) bool) {
					for e, err := range rows {
						yield(e, err)
					}
				}
			}}},
		{name: "shares the slice of entries between readers", rows: []string{"TX-32"}, model: false,
			defect: defect{entries: func(s *broken, c ctx, ids []pistore.ID) ([]pistore.Entry, error) {
				all, err := s.Storage.Entries(c, ids)
				s.mu.Lock()
				defer s.mu.Unlock()
				if err == nil && len(s.cache) == len(ids) && slices.Equal(s.ids, ids) {
					return s.cache, nil
				}
				s.ids, s.cache = slices.Clone(ids), all
				return all, err
			}}},
		{name: "leaves registers out that were read by the empty key", rows: []string{"REG-11"}, model: true,
			defect: defect{registers: func(s *broken, c ctx, at []pistore.Address) ([]pistore.Register, error) {
				all, err := s.Storage.Registers(c, at)
				return slices.DeleteFunc(all, func(r pistore.Register) bool { return r.Key == "" }), err
			}}},
		{name: "refuses a batch with an absent register", rows: []string{"TX-11", "REG-03", "REG-15", "QRY-27", "CON-05"}, model: true,
			defect: defect{registers: func(s *broken, c ctx, at []pistore.Address) ([]pistore.Register, error) {
				all, err := s.Storage.Registers(c, at)
				if err == nil && len(all) < len(at) {
					err = pistore.ErrNotFound
				}
				return all, err
			}}},
		{name: "keeps payloads in a structure query", rows: []string{"QRY-13"}, model: true,
			defect: defect{branch: func(s *broken, c ctx, q pistore.BranchQuery) ([]pistore.Entry, error) {
				q.StructureOnly = false
				return drain(s.Storage.Branch(c, q))
			}}},
		{name: "keeps payloads in a scan of the structure", rows: []string{"QRY-28"}, model: true,
			defect: defect{scan: func(s *broken, c ctx, q pistore.ScanQuery) ([]pistore.Entry, error) {
				q.StructureOnly = false
				return drain(s.Storage.ScanEntries(c, q))
			}}},
		{name: "answers an unknown start with nothing", rows: []string{"QRY-12"}, model: true,
			defect: defect{branch: func(s *broken, c ctx, q pistore.BranchQuery) ([]pistore.Entry, error) {
				all, err := drain(s.Storage.Branch(c, q))
				if errors.Is(err, pistore.ErrNotFound) {
					err = nil
				}
				return all, err
			}}},
		{name: "filters a scan after the limit", rows: []string{"QRY-23"}, model: true,
			defect: defect{scan: func(s *broken, c ctx, q pistore.ScanQuery) ([]pistore.Entry, error) {
				all, err := drain(s.Storage.ScanEntries(c, pistore.ScanQuery{FromSeq: q.FromSeq, ToSeq: q.ToSeq, Order: q.Order, Limit: q.Limit, StructureOnly: q.StructureOnly}))
				return slices.DeleteFunc(all, func(e pistore.Entry) bool { return !q.Keeps(e) }), err
			}}},
		{name: "ends a scan in front of its last seq", rows: []string{"QRY-21", "QRY-22", "LOD-05"}, model: true,
			defect: defect{scan: func(s *broken, c ctx, q pistore.ScanQuery) ([]pistore.Entry, error) {
				all, err := drain(s.Storage.ScanEntries(c, q))
				return slices.DeleteFunc(all, func(e pistore.Entry) bool { return e.Seq == q.ToSeq }), err
			}}},
		{name: "ignores the limit of a usage scan", rows: []string{"QRY-24"}, model: true,
			defect: defect{usage: func(s *broken, c ctx, q pistore.ScanQuery) ([]pistore.UsageRow, error) {
				q.Limit = min(q.Limit, 0)
				return drain(s.Storage.ScanUsage(c, q))
			}}},
		{name: "yields nothing when ranged over again", rows: []string{"QRY-31"}, model: false,
			defect: defect{wrap: func(_ *broken, _ pistore.ScanQuery, rows iter.Seq2[pistore.Entry, error]) iter.Seq2[pistore.Entry, error] {
				ranged := false
				return func(yield func(pistore.Entry, error) bool) {
					if !ranged {
						ranged = true
						rows(yield)
					}
				}
			}}},
		{name: "counts a branch summary as a message", rows: []string{"LED-11", "REO-01", "RO-01", "LOD-01"}, model: true,
			defect: defect{stats: func(s *broken, st pistore.Stats) pistore.Stats {
				all, err := drain(s.Storage.ScanEntries(context.Background(), pistore.ScanQuery{Type: pistore.TypeBranchSummary}))
				if err == nil {
					st.Messages += int64(len(all))
				}
				return st
			}}},
		{name: "sums usage in binary floating point", rows: []string{"LED-02", "LED-03", "LED-09"}, model: true,
			defect: defect{stats: func(_ *broken, st pistore.Stats) pistore.Stats {
				for _, d := range []*pistore.Decimal{&st.Usage.Input, &st.Usage.CacheRead, &st.Usage.Cost.Total} {
					f, _ := strconv.ParseFloat(string(*d), 64)
					*d = pistore.Decimal(strconv.FormatFloat(f, 'f', -1, 64))
				}
				return st
			}}},
	}
}

// aliasing serves the registers of the last commit from the caller's slice.
func aliasing() defect {
	return defect{
		commit: func(s *broken, ctx context.Context, tx pistore.Tx) (pistore.Receipt, error) {
			r, err := s.Storage.Commit(ctx, tx)
			s.mu.Lock()
			defer s.mu.Unlock()
			if err == nil {
				s.last, s.given, s.seqs = tx.Writes, slices.Clone(tx.Writes), slices.Clone(r.Seqs)
			}
			return r, err
		},
		prefix: func(s *broken, ctx context.Context, ns, prefix string) ([]pistore.Register, error) {
			all, err := drain(s.Storage.RegistersByPrefix(ctx, ns, prefix))
			s.mu.Lock()
			defer s.mu.Unlock()
			for i := range all {
				j := slices.Index(s.seqs, all[i].Seq)
				if j < 0 || s.last[j] == s.given[j] {
					continue
				}
				if set, ok := s.last[j].(pistore.SetRegister); ok {
					all[i].Value = set.Value
				}
			}
			return all, err
		},
	}
}
