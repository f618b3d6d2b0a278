package session

import (
	"context"
	"fmt"

	"pistore"
	"pistore/registers"
)

// Lane is what the registers of a lane held at one moment.
type Lane struct {
	Name string

	Leaf    pistore.ID // empty: the lane stands before any entry
	LeafSeq pistore.Seq

	State    registers.LaneState
	StateSeq pistore.Seq

	// Config is nil on a lane that is not configured yet, as main is until it
	// first accepts an operation.
	Config    *registers.LaneConfiguration
	ConfigSeq pistore.Seq
}

// Idle reports whether the lane has no open operation.
func (l Lane) Idle() bool { return l.State.CurrentOperationID == "" }

// Lane reads the registers of a lane in one batch. A lane that does not exist is
// ErrNotFound, one whose registers cannot be read ErrCorrupt.
func (s *Session) Lane(ctx context.Context, name string) (Lane, error) {
	if err := registers.CheckLane(name); err != nil {
		return Lane{}, wrap("lane", err)
	}
	found, err := s.storage.Registers(ctx, []pistore.Address{
		{Namespace: registers.LaneLeafNS, Key: name}, {Namespace: registers.LaneStateNS, Key: name}, {Namespace: registers.LaneConfigNS, Key: name},
	})
	if err != nil {
		return Lane{}, wrap("lane", err)
	}
	l := Lane{Name: name}
	for _, r := range found {
		var err error
		switch r.Namespace {
		case registers.LaneLeafNS:
			l.LeafSeq = r.Seq
			l.Leaf, err = registers.DecodeLaneLeaf(r.Value)
		case registers.LaneStateNS:
			l.StateSeq = r.Seq
			l.State, err = registers.DecodeLaneState(r.Value)
		case registers.LaneConfigNS:
			var c registers.LaneConfiguration
			c, err = registers.DecodeLaneConfiguration(r.Value)
			l.Config, l.ConfigSeq = &c, r.Seq
		}
		if err != nil {
			return Lane{}, s.corrupt(r.Namespace, name, 21, err.Error())
		}
	}
	switch {
	case l.LeafSeq == 0 && l.StateSeq == 0:
		return Lane{}, wrap("lane", fmt.Errorf("%w: lane %q", pistore.ErrNotFound, name))
	case l.LeafSeq == 0:
		return Lane{}, s.corrupt(registers.LaneLeafNS, name, 21, "is missing beside lane.state")
	case l.StateSeq == 0:
		return Lane{}, s.corrupt(registers.LaneStateNS, name, 21, "is missing beside lane.leaf")
	}
	return l, nil
}

// Lanes returns the name of every lane, by bytewise order.
func (s *Session) Lanes(ctx context.Context) ([]string, error) {
	var names []string
	for r, err := range s.storage.RegistersByPrefix(ctx, registers.LaneLeafNS, "") {
		if err != nil {
			return nil, wrap("lanes", err)
		}
		names = append(names, r.Key)
	}
	return names, nil
}

// CreateLane makes a lane that stands on anchor, empty for before any entry,
// with a configuration and nothing to do. A name in use is ErrConflict, an
// unknown anchor ErrNotFound.
func (s *Session) CreateLane(ctx context.Context, name string, anchor pistore.ID, config registers.LaneConfiguration) error {
	if err := registers.CheckLane(name); err != nil {
		return wrap("create lane", err)
	}
	if anchor != "" {
		// Entries are never deleted, so what is there now is there at the commit.
		if err := s.hasEntry(ctx, anchor); err != nil {
			return wrap("create lane", err)
		}
	}
	tx := newLane(name, anchor)
	tx.Writes = append(tx.Writes, pistore.SetRegister{
		Namespace: registers.LaneConfigNS, Key: name, Value: registers.EncodeLaneConfiguration(config),
	})
	tx.Expect = append(tx.Expect, pistore.Precondition{Namespace: registers.LaneConfigNS, Key: name})
	_, err := s.storage.Commit(ctx, tx)
	return wrap("create lane", err)
}

// SetConfiguration replaces the whole configuration of a lane. If it was changed
// after lane was read, nothing is written and the error is ErrConflict, so that
// of two changes to different parts none is lost.
func (s *Session) SetConfiguration(ctx context.Context, lane Lane, config registers.LaneConfiguration) error {
	if lane.LeafSeq == 0 {
		panic("session: a Lane that was not read")
	}
	_, err := s.storage.Commit(ctx, pistore.Tx{
		Writes: []pistore.Write{pistore.SetRegister{
			Namespace: registers.LaneConfigNS, Key: lane.Name, Value: registers.EncodeLaneConfiguration(config),
		}},
		Expect: []pistore.Precondition{{Namespace: registers.LaneConfigNS, Key: lane.Name, Seq: lane.ConfigSeq}},
	})
	return wrap("set configuration", err)
}

// LastResult returns how the newest ended operation of a lane ended, and
// whether there was one.
func (s *Session) LastResult(ctx context.Context, lane string) (registers.LastResult, bool, error) {
	value, there, err := s.register(ctx, registers.LaneLastResultNS, lane)
	if err != nil || !there {
		return registers.LastResult{}, false, err
	}
	r, err := registers.DecodeLastResult(value)
	if err != nil {
		return registers.LastResult{}, false, s.corrupt(registers.LaneLastResultNS, lane, 21, err.Error())
	}
	return r, true, nil
}

// Append places content at the tail of an idle lane, in order, in one
// transaction: all of it or nothing. A lane with an open operation is
// ErrLaneBusy; one that changed meanwhile is ErrConflict.
func (s *Session) Append(ctx context.Context, lane string, contents ...Content) (pistore.Receipt, error) {
	if len(contents) == 0 {
		return pistore.Receipt{}, wrap("append", fmt.Errorf("%w: nothing to append", pistore.ErrInvalid))
	}
	l, err := s.Lane(ctx, lane)
	if err != nil {
		return pistore.Receipt{}, err
	}
	if !l.Idle() {
		return pistore.Receipt{}, wrap("append", fmt.Errorf("%w: lane %q, operation %s", ErrLaneBusy, lane, l.State.CurrentOperationID))
	}
	r, err := s.storage.Commit(ctx, pistore.Tx{
		Writes: Place(lane, l.Leaf, contents...),
		Expect: []pistore.Precondition{
			{Namespace: registers.LaneLeafNS, Key: lane, Seq: l.LeafSeq},
			{Namespace: registers.LaneStateNS, Key: lane, Seq: l.StateSeq},
		},
	})
	return r, wrap("append", err)
}
