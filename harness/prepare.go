package harness

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

// What a summary is made of: which messages it stands for, and which stay as
// they are. It is frozen in op.preparation before anybody is asked, so that what
// a hook approves is what the model sees.

// limits are the sizes that a compaction works with, in tokens. Settings that
// are too large for the window of a model are brought down to it: at least half
// of the window stays usable, and at most half of that is kept.
type limits struct {
	threshold int64 // more than this is too full; 0: no limit is known
	keep      int64
}

func limitsOf(s registers.CompactionSettings, window int64) limits {
	if window <= 0 {
		return limits{keep: s.KeepRecentTokens}
	}
	usable := window - min(s.ReserveTokens, window/2)
	return limits{threshold: usable, keep: min(s.KeepRecentTokens, usable/2)}
}

// prepareCompaction splits a projected context: the newest messages, up to keep
// tokens, are retained, and what comes before them is to be summarized. It is
// nil when that is nothing. The newest message is retained whatever its size,
// and so are the results of its calls: the split is always before a turn or an
// input, never between a call and its result.
func prepareCompaction(messages []session.ProjectedMessage, tokensBefore, keep int64) *registers.Preparation {
	prep := &registers.Preparation{TokensBefore: tokensBefore}
	messages = withoutSummary(prep, messages)
	cut := len(messages)
	size := 0
	for i := len(messages) - 1; i >= 0; i-- {
		size += messageBytes(messages[i].Message)
		if _, result := messages[i].Message.(*session.ToolResultMessage); result {
			continue
		}
		if cut < len(messages) && session.EstimateTokens(size) > keep {
			break
		}
		cut = i
	}
	if !worthSummarizing(messages[:cut]) {
		return nil
	}
	freeze(prep, messages[:cut])
	for _, m := range messages[cut:] {
		prep.RetainedTail = append(prep.RetainedTail, m.Raw)
	}
	return prep
}

// prepareBranch takes the whole of a branch that is left; nil when there is
// nothing on it.
func prepareBranch(messages []session.ProjectedMessage, from, ancestor pistore.ID) *registers.Preparation {
	prep := &registers.Preparation{
		TokensBefore: session.EstimateTokens(projectedBytes(messages)), FromID: from, CommonAncestorID: ancestor,
	}
	messages = withoutSummary(prep, messages)
	if prep.PreviousSummary == "" && !worthSummarizing(messages) {
		return nil
	}
	freeze(prep, messages)
	return prep
}

// withoutSummary takes out the summary of the compaction that a context starts
// with: the new summary goes on from it.
func withoutSummary(prep *registers.Preparation, messages []session.ProjectedMessage) []session.ProjectedMessage {
	out := make([]session.ProjectedMessage, 0, len(messages))
	for _, m := range messages {
		if s, ok := m.Message.(*session.SummaryMessage); ok && s.Kind == session.RoleCompactionSummary {
			prep.PreviousSummary = s.Summary
			continue
		}
		out = append(out, m)
	}
	return out
}

// worthSummarizing: system messages are not summarized, they stay in force.
func worthSummarizing(messages []session.ProjectedMessage) bool {
	return slices.ContainsFunc(messages, func(m session.ProjectedMessage) bool {
		return m.Role != session.RoleSystem && messageBytes(m.Message) > 0
	})
}

// freeze writes down the messages that a summary will stand for. Of an image
// only its kind remains: no summary is made of pixels, and the register would
// soon be too large.
func freeze(prep *registers.Preparation, messages []session.ProjectedMessage) {
	for _, m := range messages {
		raw := m.Raw
		if bare, changed := withoutImages(m.Message); changed {
			raw = session.EncodeMessage(bare)
		}
		prep.MessagesToSummarize = append(prep.MessagesToSummarize, raw)
	}
}

func withoutImages(m session.Message) (session.Message, bool) {
	switch m := m.(type) {
	case *session.UserMessage:
		out := *m
		changed := namedImages(&out.Content)
		return &out, changed
	case *session.ToolResultMessage:
		out := *m
		changed := namedImages(&out.Content)
		return &out, changed
	case *session.CustomMessage:
		out := *m
		changed := namedImages(&out.Content)
		return &out, changed
	default:
		return m, false
	}
}

func namedImages(content *[]session.Block) (changed bool) {
	for i, b := range *content {
		if img, ok := b.(session.Image); ok {
			if !changed {
				*content, changed = slices.Clone(*content), true
			}
			(*content)[i] = session.Text{Text: fmt.Sprintf("[image, %s]", img.MIMEType)}
		}
	}
	return changed
}

// checkPreparation says why a preparation cannot be stored: it is too large, or
// nested deeper than its messages are where they stand now.
func checkPreparation(prep *registers.Preparation) error {
	value := registers.EncodePreparation(*prep)
	if len(value) > pistore.MaxPayloadBytes {
		return &pistore.LimitError{Limit: "bytes of what is to be summarized", Got: int64(len(value)), Max: pistore.MaxPayloadBytes}
	}
	_, err := pistore.CompactJSON(string(value))
	return err
}

// leftBranch reads what a navigation leaves behind: the entries behind the
// common ancestor of leaf and target, up to the leaf, oldest first, and of them
// those since the newest compaction, inclusive. The ancestor is empty when the
// two have none.
func (h *Harness) leftBranch(ctx context.Context, leaf, target pistore.ID) (left []*session.View, ancestor pistore.ID, err error) {
	if ancestor, err = commonAncestor(ctx, h.storage, leaf, target); err != nil {
		return nil, "", err
	}
	for e, err := range h.storage.Branch(ctx, pistore.BranchQuery{Start: leaf, StopAtType: pistore.TypeCompaction}) {
		if err != nil {
			return nil, "", err
		}
		if e.ID == ancestor {
			break
		}
		left = append(left, session.ViewOf(e))
	}
	slices.Reverse(left)
	return left, ancestor, nil
}

// commonAncestor is the newest entry that two branches share, empty if they
// share none. A parent is older than its children: so the newer of the two
// entries is never the one, and nothing is read beyond the fork.
func commonAncestor(ctx context.Context, storage pistore.Storage, a, b pistore.ID) (pistore.ID, error) {
	nextA, stopA := iter.Pull2(storage.Branch(ctx, pistore.BranchQuery{Start: a, StructureOnly: true}))
	defer stopA()
	nextB, stopB := iter.Pull2(storage.Branch(ctx, pistore.BranchQuery{Start: b, StructureOnly: true}))
	defer stopB()
	x, errX, moreX := nextA()
	y, errY, moreY := nextB()
	for moreX && moreY && errX == nil && errY == nil && x.ID != y.ID {
		if x.Seq > y.Seq {
			x, errX, moreX = nextA()
		} else {
			y, errY, moreY = nextB()
		}
	}
	switch {
	case errX != nil:
		return "", errX
	case errY != nil:
		return "", errY
	case moreX && moreY:
		return x.ID, nil
	default:
		return "", nil
	}
}
