package conformance

import (
	"maps"
	"slices"

	"pistore"
)

// wantModel compares everything that reads show of a session with the model.
func (s *session) wantModel(m *model, when string) {
	namespaces := map[string]bool{}
	for at := range m.registers {
		namespaces[at.Namespace] = true
	}
	names := slices.Sorted(maps.Keys(namespaces))
	want := state{Entries: m.entries, Usage: m.usage, Stats: m.stats()}
	for _, ns := range names {
		want.Registers = append(want.Registers, m.prefix(ns, "")...)
	}
	equal(s.p, "the session "+when, s.state(names...), want)
	s.wantExport(m, when)
}

// wantExport compares an export and its digest with the model.
func (s *session) wantExport(m *model, when string) {
	if s.p.cfg.lacks(NoExport) {
		return
	}
	_, rows := s.export()
	equal(s.p, "exported rows "+when, rows, m.rows())
	equal(s.p, "digest "+when, s.digest(), m.digest())
}

// modelled is a session beside its model: commits go to both.
type modelled struct {
	*session
	m *model
}

func (p *probe) modelled() modelled { return modelled{p.session(), newModel()} }

func (s modelled) commit(writes ...pistore.Write) pistore.Receipt {
	r := s.session.commit(writes...)
	s.p.noError("receipt", s.m.apply(txOf(writes...), r))
	return r
}

// rich commits something of every kind, deleted registers among it.
func (s modelled) rich() {
	s.commit(
		pistore.InsertEntry{ID: "e1", Type: pistore.TypeMessage, Payload: `{"role":"user","n":[1.0,-0,1e2]}`},
		pistore.InsertUsage{ID: "u1", Usage: `{"input":0.1,"cost":{"total":1e-9}}`, EntryID: "e1", Details: `null`},
		set("", `null`), set("a", `1`), set("b", `"\ud800"`),
	)
	s.commit(pistore.InsertEntry{ID: "e2", ParentID: "e1", Type: pistore.TypeCompaction, Payload: "{\"z\":\"\u2028\",\"a\":\"\\u0000\"}"})
	s.commit(
		pistore.InsertEntry{ID: "e3", ParentID: "e2", Type: pistore.TypeCustom, CustomType: "note"},
		pistore.InsertEntry{ID: "e4", ParentID: "e1", Type: pistore.TypeBranchSummary, Payload: `{}`},
		pistore.SetRegister{Namespace: "other", Key: "\U0001f600", Value: `{"b":1,"a":2,"b":3}`},
		pistore.InsertUsage{ID: "u2", Usage: `{"input":-7,"output":null}`, Adjustment: true},
		del("a"), set("c", `[]`),
	)
	s.commit(set("d", `1`), del("absent"))
	s.commit(del("d"))
}
