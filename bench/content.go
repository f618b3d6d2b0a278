package bench

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"pistore"
)

// The workloads of commits.
const (
	Turn  = "turn"
	Small = "small"
	Bulk  = "bulk"
)

// Content is what a workload of commits writes. It is made before the clock
// starts, and used round and round: only ids and parents are made on the way.
type Content struct {
	seed      uint64
	templates []template
}

// template is a transaction but for its ids. leafKey is the register that gets
// the id of the newest entry.
type template struct {
	payloads  []pistore.JSON // of entries, each the parent of the next
	registers []pistore.SetRegister
	usage     pistore.JSON
}

// kept is how many templates there are. Together they are larger than what a
// store compresses in one piece.
const kept = 128

// NewContent makes the content of the workload Turn, Small or Bulk. Another one
// is pistore.ErrUnsupported.
func NewContent(workload string, seed uint64) (*Content, error) {
	c, w := &Content{seed: seed}, newWriter(seed)
	n, fill := kept, w.turn
	switch workload {
	case Turn:
	case Small:
		fill = w.small
	case Bulk:
		n, fill = kept/16, w.bulk
	default:
		return nil, fmt.Errorf("bench: %w: the workload %.64q commits nothing of its own", pistore.ErrUnsupported, workload)
	}
	for range n {
		c.templates = append(c.templates, fill())
	}
	return c, nil
}

func (w *writer) turn() template {
	return template{
		payloads: []pistore.JSON{w.answer(720 + w.random.IntN(2000))},
		registers: []pistore.SetRegister{
			{Namespace: "op.state", Key: "op", Value: pistore.JSON(`{"kind":"run","resumes":0,"control":{"status":"running"},"note":` + w.quoted(400+w.random.IntN(1000)) + `}`)},
			{Namespace: "lane.state", Key: "main", Value: pistore.JSON(`{"currentOperationId":"op","pendingNextRun":[],"note":` + w.quoted(130+w.random.IntN(100)) + `}`)},
		},
		usage: w.usage(),
	}
}

// small has an entry whose line is 256 bytes.
func (w *writer) small() template {
	return template{payloads: []pistore.JSON{pistore.JSON(`{"message":{"role":"user","content":` + w.quoted(110) + `}}`)}, usage: w.usage()}
}

func (w *writer) bulk() template {
	t := template{usage: w.usage()}
	for range 100 {
		t.payloads = append(t.payloads, w.answer(300+w.random.IntN(1000)))
	}
	return t
}

// answer is the payload of a response that calls a tool.
func (w *writer) answer(bytes int) pistore.JSON {
	return pistore.JSON(`{"message":{"role":"assistant","content":[{"type":"text","text":` + w.quoted(bytes) +
		`},{"type":"toolCall","id":"call_0","name":"read","arguments":{"path":` + w.quoted(20) + `,"limit":200}}],` +
		`"api":"messages","provider":"faux","model":"faux-1","stopReason":"toolUse","timestamp":1700000000000}}`)
}

func (w *writer) usage() pistore.JSON {
	n := w.random.IntN
	return pistore.JSON(fmt.Sprintf(`{"input":%d,"output":%d,"cacheRead":%d,"cacheWrite":0,"totalTokens":%d,`+
		`"cost":{"input":0.%06d,"output":0.%06d,"cacheRead":0,"cacheWrite":0,"total":0.%06d}}`,
		n(5000), n(2000), n(100000), n(100000), n(100000), n(100000), n(100000)))
}

func (w *writer) quoted(bytes int) string { return string(pistore.QuoteJSON(w.text(bytes))) }

// Stream is the transactions of one session, without end. It is for one
// goroutine.
type Stream struct {
	content *Content
	n       int
	ids     *pistore.IDs
	leaf    pistore.ID
	writes  []pistore.Write
}

// Stream returns the transactions of a session, by its number. Sessions differ in
// ids and in where they begin.
func (c *Content) Stream(session int) *Stream {
	now := pistore.UnixMS(epoch)
	return &Stream{
		content: c, n: session * 7,
		ids: pistore.NewIDs(func() pistore.UnixMS { now++; return now }, newRandom(c.seed, uint64(session))),
	}
}

// epoch is when all content is from, in Unix milliseconds.
const epoch = 1_700_000_000_000

// newRandom is a source of random bytes.
func newRandom(seed, stream uint64) *rand.ChaCha8 {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	binary.LittleEndian.PutUint64(key[8:], stream)
	return rand.NewChaCha8(key)
}

// Next returns the next transaction. It is valid until Next is called again.
func (s *Stream) Next() pistore.Tx {
	t := &s.content.templates[s.n%len(s.content.templates)]
	s.n++
	s.writes = s.writes[:0]
	for _, payload := range t.payloads {
		id := s.ids.New()
		s.writes = append(s.writes, pistore.InsertEntry{ID: id, ParentID: s.leaf, Type: pistore.TypeMessage, Payload: payload})
		s.leaf = id
	}
	s.writes = append(s.writes, pistore.SetRegister{Namespace: "lane.leaf", Key: "main", Value: pistore.QuoteJSON(string(s.leaf))})
	for _, r := range t.registers {
		s.writes = append(s.writes, r)
	}
	s.writes = append(s.writes, pistore.InsertUsage{ID: s.ids.New(), EntryID: s.leaf, Usage: t.usage})
	return pistore.Tx{Writes: s.writes}
}

// logicalBytes is what a transaction holds: payloads, names and ids.
func logicalBytes(tx pistore.Tx) int64 {
	n := 0
	for _, w := range tx.Writes {
		switch w := w.(type) {
		case pistore.InsertEntry:
			n += len(w.ID) + len(w.ParentID) + len(w.Payload)
		case pistore.InsertUsage:
			n += len(w.ID) + len(w.EntryID) + len(w.Usage) + len(w.Details)
		case pistore.SetRegister:
			n += len(w.Namespace) + len(w.Key) + len(w.Value)
		case pistore.DeleteRegister:
			n += len(w.Namespace) + len(w.Key)
		}
	}
	return int64(n)
}
