package sim

import (
	"fmt"
	"slices"

	"pistore"
	"pistore/registers"
)

// Rules about what waits for its place.

// A queued id has exactly one of register and entry until it is placed or
// cancelled.
func judgeQueues(c *commit) string {
	for at, value := range c.sets {
		if at.Namespace != registers.PendingEntryNS {
			continue
		}
		id := pistore.ID(at.Key)
		before, placed := c.before(at), c.inserted(id)
		switch {
		case value != "" && placed != nil, value != "" && c.o.entries[id] != nil:
			return fmt.Sprintf("%s is queued and placed at once", id)
		case value == "" && placed == nil && !c.mayDrop(id):
			return fmt.Sprintf("the queued %s is deleted and neither placed nor cancelled", id)
		case value == "" && placed != nil:
			want, err := registers.DecodePendingEntry(before)
			if err != nil || want.Type != placed.Type || want.CustomType != placed.CustomType || want.Payload != placed.Payload {
				return fmt.Sprintf("%s is placed with other content than was queued", id)
			}
		}
	}
	for _, n := range c.entries {
		at := pistore.Address{Namespace: registers.PendingEntryNS, Key: string(n.ID)}
		if c.before(at) != "" && c.after(at) != "" {
			return fmt.Sprintf("%s is placed and stays queued", n.ID)
		}
	}
	return judgeOrphans(c)
}

// mayDrop: content may go without being placed when its queueing is cancelled,
// and at the end of an operation that drained it or is ended from outside; writes
// only in the first case.
func (c *commit) mayDrop(id pistore.ID) bool {
	if c.o.call.cancelling == id {
		return true
	}
	return slices.ContainsFunc(c.ops, func(ch change) bool {
		if ch.before == nil || ch.after != nil {
			return false
		}
		if run, ok := ch.before.(*registers.RunState); ok && c.finalizes(ch) && !slices.Contains(run.Inbox.Writes, id) {
			return true
		}
		control := registers.ControlOf(ch.before)
		return slices.Contains(control.DrainedSteer, id) || slices.Contains(control.DrainedFollowUp, id)
	})
}

// judgeOrphans looks for content that nobody names any more.
func judgeOrphans(c *commit) string {
	for _, ch := range c.ops {
		if ch.before == nil {
			continue
		}
		var after []pistore.ID
		if ch.after != nil {
			after = registers.QueuedIDs(ch.after)
		}
		for _, id := range registers.QueuedIDs(ch.before) {
			at := pistore.Address{Namespace: registers.PendingEntryNS, Key: string(id)}
			if !slices.Contains(after, id) && c.after(at) != "" {
				return fmt.Sprintf("the queued %s is named no more, and its register stays", id)
			}
		}
	}
	return ""
}

// What waits is placed in the order in which it came, and of steering and
// follow-ups no more at a time than the run's mode says.
func judgeOrder(c *commit) string {
	for _, ch := range c.ops {
		run, ok := ch.before.(*registers.RunState)
		if !ok {
			continue
		}
		for _, q := range []struct {
			name string
			ids  []pistore.ID
			mode registers.QueueMode
		}{
			{"writes", run.Inbox.Writes, registers.All},
			{"steering", run.Inbox.Steer, run.Settings.SteeringMode},
			{"follow-ups", run.Inbox.FollowUp, run.Settings.FollowUpMode},
		} {
			n := 0
			for n < len(q.ids) && c.inserted(q.ids[n]) != nil {
				n++
			}
			for _, id := range q.ids[n:] {
				if c.inserted(id) != nil {
					return fmt.Sprintf("of the %s, %s is placed before its turn", q.name, id)
				}
			}
			if q.mode == registers.OneAtATime && n > 1 || q.mode == registers.All && 0 < n && n < len(q.ids) {
				return fmt.Sprintf("of the %s, %d of %d are placed in mode %s", q.name, n, len(q.ids), q.mode)
			}
		}
	}
	return ""
}

// A run starts with everything that waited for it, in order, and then with its
// prompt.
func judgeNextRun(c *commit) string {
	for _, ch := range c.ops {
		if ch.before != nil || ch.after == nil {
			continue
		}
		if _, ok := ch.after.(*registers.RunState); !ok {
			continue
		}
		before, _ := registers.DecodeLaneState(c.before(pistore.Address{Namespace: registers.LaneStateNS, Key: ch.lane}))
		for i, id := range before.PendingNextRun {
			if i >= len(c.entries) || c.entries[i].ID != id {
				return fmt.Sprintf("the run %s does not start with %s, which waited for it", ch.id, id)
			}
		}
	}
	return ""
}
