package harness

import (
	"fmt"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

// Rows of a navigation: the leaf moves to an entry that exists, and may leave a
// summary of the branch that it came from.

// arrive is a navigation that has nothing more to wait for.
type arrive struct{}

func (arrive) isEvent()  {}
func (arrive) isAction() {}

func nextOfNavigation(p *position, nav *registers.NavigationState, env *environment) action {
	switch {
	case nav.Summary != nil:
		return nextOfSummary(p, env)
	case nav.Control.CancelRequested:
		return abandonSummary{}
	default:
		return arrive{}
	}
}

// applyArrive moves the leaf and ends the navigation.
func applyArrive(p *position, c *change) *position {
	nav := p.op.state.(*registers.NavigationState)
	moved := *p
	moved.leaf = nav.TargetID
	return endNavigation(&moved, nav, c)
}

// applyArriveWith moves the leaf to the target and on to the summary under it.
func applyArriveWith(p *position, id pistore.ID, text string, fromHook bool, c *change) *position {
	nav := p.op.state.(*registers.NavigationState)
	content := session.Content{ID: id, Type: pistore.TypeBranchSummary, Payload: session.BranchSummaryPayload(session.BranchSummary{
		FromID: string(p.op.summary.preparation.FromID), Summary: text, FromHook: fromHook,
	})}
	if _, err := pistore.CheckEntry(content.Type, "", content.Payload); err != nil {
		return failSummary(p, "summary_failed", fmt.Sprintf("The summary cannot be stored: %v", err), c)
	}
	moved := *p
	moved.leaf = nav.TargetID
	return endNavigation(c.place(&moved, content), nav, c)
}

// endNavigation labels where the lane stands now.
func endNavigation(p *position, nav *registers.NavigationState, c *change) *position {
	if nav.Label != "" {
		c.set(registers.FactLabelNS, string(p.leaf), registers.EncodeText(nav.Label))
	}
	return terminate(p, registers.LastResult{Outcome: registers.Completed}, c)
}
