package bench

import (
	"hash/crc32"
	"strconv"

	"pistore"
)

// appendLine appends the line that a session file of format 4 has for a
// transaction: what a raw log writes are the same bytes as what the JSONL backend
// does. first is the seq of its first write.
func appendLine(b []byte, tx pistore.Tx, first pistore.Seq, at pistore.UnixMS) []byte {
	start := len(b)
	if len(tx.Writes) > 1 {
		b = append(b, '[')
	}
	for i, w := range tx.Writes {
		if i > 0 {
			b = append(b, '}', ',')
		}
		b = appendWrite(b, w, first+pistore.Seq(i), at)
	}
	sum := crc32.Checksum(b[start:], castagnoli)
	b = append(b, `,"sum":"`...)
	for shift := 28; shift >= 0; shift -= 4 {
		b = append(b, "0123456789abcdef"[sum>>shift&15])
	}
	b = append(b, '"', '}')
	if len(tx.Writes) > 1 {
		b = append(b, ']')
	}
	return append(b, '\n')
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendWrite appends the object of a write that a workload makes, without its
// last brace.
func appendWrite(b []byte, w pistore.Write, seq pistore.Seq, at pistore.UnixMS) []byte {
	switch w := w.(type) {
	case pistore.InsertEntry:
		b = strconv.AppendInt(append(b, `{"kind":"entry","seq":`...), int64(seq), 10)
		b = strconv.AppendInt(append(b, `,"timestamp":`...), int64(at), 10)
		b = appendWord(append(b, `,"id":`...), string(w.ID))
		b = append(b, `,"parentId":`...)
		if w.ParentID == "" {
			b = append(b, "null"...)
		} else {
			b = appendWord(b, string(w.ParentID))
		}
		b = appendWord(append(b, `,"type":`...), string(w.Type))
		return append(append(b, ','), w.Payload[1:len(w.Payload)-1]...)
	case pistore.InsertUsage:
		b = strconv.AppendInt(append(b, `{"kind":"usage","seq":`...), int64(seq), 10)
		b = appendWord(append(b, `,"id":`...), string(w.ID))
		b = appendWord(append(b, `,"entryId":`...), string(w.EntryID))
		b = strconv.AppendBool(append(b, `,"adjustment":`...), w.Adjustment)
		return append(append(b, `,"usage":`...), w.Usage...)
	case pistore.SetRegister:
		b = strconv.AppendInt(append(b, `{"kind":"register","op":"set","seq":`...), int64(seq), 10)
		b = appendWord(append(b, `,"namespace":`...), w.Namespace)
		b = appendWord(append(b, `,"key":`...), w.Key)
		return append(append(b, `,"value":`...), w.Value...)
	default:
		panic("bench: a write that no workload makes")
	}
}

// appendWord appends a text of which no character needs an escape.
func appendWord(b []byte, s string) []byte { return append(append(append(b, '"'), s...), '"') }
