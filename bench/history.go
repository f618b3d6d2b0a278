package bench

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

// History is a session with a past, deterministic from its fields. Each turn is
// one entry, whose line in a session file is 0.4 to 1.3 KB long: a question or
// an answer. With several lanes their entries are interleaved, one of each lane
// in turn, behind a first one that they share. A hundred entries before its
// leaf a lane that is long enough has a compaction. The lane main has an open
// run that was killed behind the intent of its request; the others are idle.
type History struct {
	Turns int // of each lane; at least 1
	Lanes int // at least 1
	Seed  uint64

	leaf   pistore.ID
	behind pistore.Seq
	sample []pistore.ID
	bytes  int64
}

// sampled is how many entries a sample has.
const sampled = 100

// compactedBefore is how many entries of a lane stand behind its compaction.
const compactedBefore = 100

// Leaf is the newest entry of the lane main. Like all that follows it is known
// when Rows were read to their end.
func (h *History) Leaf() pistore.ID { return h.leaf }

// Behind is a seq of the lane main behind which it has 50 entries, or as many as
// it has.
func (h *History) Behind() pistore.Seq { return h.behind }

// Sample is up to a hundred entries of the lane main, evenly spread over it.
func (h *History) Sample() []pistore.ID { return h.sample }

// LogicalBytes is how much the session holds in payloads, names and ids.
func (h *History) LogicalBytes() int64 { return h.bytes }

// Rows is the session as Load takes it.
func (h *History) Rows(id pistore.SessionID) iter.Seq2[pistore.Row, error] {
	return func(yield func(pistore.Row, error) bool) {
		*h = History{Turns: h.Turns, Lanes: h.Lanes, Seed: h.Seed}
		t := &teller{h: h, yield: yield, leaves: make([]pistore.ID, h.Lanes)}
		now := pistore.UnixMS(epoch)
		t.ids = pistore.NewIDs(func() pistore.UnixMS { now++; return now }, newRandom(h.Seed, 0))
		t.makeTexts(newWriter(h.Seed))
		t.tell(id)
	}
}

// teller yields the rows of a history.
type teller struct {
	h      *History
	yield  func(pistore.Row, error) bool
	over   bool // nobody wants more
	ids    *pistore.IDs
	seq    pistore.Seq
	leaves []pistore.ID // of each lane

	question, answer [2]string // what stands around the text of a message
	texts            []string  // quoted, without their quotes
}

func (t *teller) makeTexts(w *writer) {
	around := func(m session.Message) [2]string {
		before, after, _ := strings.Cut(string(session.MessagePayload(m)), "@")
		return [2]string{before, after}
	}
	t.question = around(&session.UserMessage{Content: session.TextContent("@")})
	t.answer = around(&session.AssistantMessage{
		Content: session.TextContent("@"), API: "faux", Provider: "faux", Model: "faux-1", Usage: "{}", StopReason: session.StopStop,
	})
	for range kept {
		t.texts = append(t.texts, strings.Trim(w.quoted(150+w.random.IntN(750)), `"`))
	}
}

func (t *teller) emit(r pistore.Row) {
	switch r := r.(type) {
	case pistore.Entry:
		t.h.bytes += int64(len(r.ID) + len(r.ParentID) + len(r.Payload))
	case pistore.Register:
		t.h.bytes += int64(len(r.Namespace) + len(r.Key) + len(r.Value))
	}
	t.over = t.over || !t.yield(r, nil)
}

func (t *teller) tell(id pistore.SessionID) {
	rows := pistore.Seq(t.h.Turns*t.h.Lanes + 3*t.h.Lanes + 2)
	t.emit(pistore.Header{Info: pistore.Info{ID: id}, NextSeq: rows + 1})
	for turn := range t.h.Turns {
		for lane := range t.h.Lanes {
			if t.over {
				return
			}
			if turn == 0 && lane > 0 {
				t.leaves[lane] = t.leaves[0]
				continue
			}
			t.entry(lane, turn)
		}
	}
	t.h.leaf = t.leaves[0]
	for lane := range t.h.Lanes {
		t.lane(lane)
	}
}

// entry adds a turn to a lane.
func (t *teller) entry(lane, turn int) {
	t.seq++
	e := pistore.Entry{ID: t.ids.New(), ParentID: t.leaves[lane], Seq: t.seq, Timestamp: epoch, Type: pistore.TypeMessage}
	t.leaves[lane] = e.ID
	left := t.h.Turns - 1 - turn
	text := fmt.Sprintf("%d of %d. %s", turn, lane, t.texts[(turn*t.h.Lanes+lane)%len(t.texts)])
	switch {
	case left == compactedBefore:
		e.Type = pistore.TypeCompaction
		e.Payload = session.CompactionPayload(session.Compaction{Summary: "What was said before turn " + fmt.Sprint(turn), TokensBefore: int64(200 * turn)})
	case left%2 == 0:
		e.Payload = pistore.JSON(t.question[0] + text + t.question[1])
	default:
		e.Payload = pistore.JSON(t.answer[0] + text + t.answer[1])
	}
	if lane == 0 {
		if turn%max(1, t.h.Turns/sampled) == 0 && len(t.h.sample) < sampled {
			t.h.sample = append(t.h.sample, e.ID)
		}
		if left == 50 {
			t.h.behind = t.seq
		}
	}
	t.emit(e)
}

func (t *teller) set(namespace, key string, value pistore.JSON) {
	t.seq++
	t.emit(pistore.Register{Namespace: namespace, Key: key, Value: value, Seq: t.seq})
}

// configuration is that of every lane.
func configuration(tools ...string) registers.LaneConfiguration {
	return registers.LaneConfiguration{
		Model: registers.ModelRef{Provider: "faux", ModelID: "faux-1"}, ThinkingLevel: "off", ActiveToolNames: append([]string{}, tools...),
	}
}

// idleLane is the lane of a history of several on which nothing runs.
var idleLane = laneName(1)

func laneName(lane int) string { return fmt.Sprintf("lane %d", lane) }

// lane sets the registers of a lane, and those of the open run of the first.
func (t *teller) lane(lane int) {
	name, leaf := registers.MainLane, t.leaves[lane]
	if lane > 0 {
		name = laneName(lane)
	}
	t.set(registers.LaneLeafNS, name, registers.EncodeLaneLeaf(leaf))
	t.set(registers.LaneConfigNS, name, registers.EncodeLaneConfiguration(configuration()))
	if lane > 0 {
		t.set(registers.LaneStateNS, name, registers.EncodeLaneState(registers.LaneState{}))
		return
	}
	op := t.ids.New()
	t.set(registers.LaneStateNS, name, registers.EncodeLaneState(registers.LaneState{CurrentOperationID: op}))
	t.set(registers.OpMetaNS, string(op), registers.EncodeOpMeta(registers.OpMeta{
		OperationID: op, Lane: name, Intent: registers.Intent{Kind: registers.KindRun, PromptEntryIDs: []pistore.ID{leaf}},
	}))
	t.set(registers.OpStateNS, string(op), registers.EncodeOpState(&registers.RunState{
		Settings: registers.Settings{SteeringMode: registers.OneAtATime, FollowUpMode: registers.OneAtATime, ToolExecution: registers.Parallel},
		Phase: &registers.AssistantPending{
			Context: registers.Context{
				StepID: t.ids.New(), TriggerEntryID: leaf, Configuration: configuration(), StreamOptions: "{}",
				RetryPolicy: registers.RetryPolicy{MaxAttempts: 4, BaseDelayMS: 2000},
			},
			Attempt: 1, ResponseEntryID: t.ids.New(), UsageID: t.ids.New(),
		},
	}))
}

// writes makes a write of a row.
func writeOf(row pistore.Row) (pistore.Write, bool) {
	switch r := row.(type) {
	case pistore.Entry:
		return pistore.InsertEntry{ID: r.ID, ParentID: r.ParentID, Type: r.Type, CustomType: r.CustomType, Payload: r.Payload}, true
	case pistore.Register:
		return pistore.SetRegister{Namespace: r.Namespace, Key: r.Key, Value: r.Value}, true
	default:
		return nil, false
	}
}

// commitRows writes the rows of a session in transactions, for a store that
// cannot load.
func commitRows(rows iter.Seq2[pistore.Row, error], commit func(pistore.Tx) error) error {
	var tx pistore.Tx
	for row, err := range rows {
		if err != nil {
			return err
		}
		if w, ok := writeOf(row); ok {
			tx.Writes = append(tx.Writes, w)
		}
		if len(tx.Writes) == 256 {
			if err := commit(tx); err != nil {
				return err
			}
			tx.Writes = slices.Delete(tx.Writes, 0, len(tx.Writes))
		}
	}
	return commit(tx)
}
