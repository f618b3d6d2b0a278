package logstore

import "strings"

// idTexts makes the text of ids for a run of rows. Rows that follow one another
// name each other as parents, so of the two ids of a row one was made for the row
// before; and a piece of memory holds the text of many. One that is kept keeps
// its piece.
type idTexts struct {
	piece  strings.Builder
	recent [2]struct {
		raw  [16]byte
		text string
	}
	oldest int // of recent
}

const idsPerPiece = 32

// text returns the canonical form of a UUID.
func (t *idTexts) text(raw []byte) string {
	key := [16]byte(raw)
	for i := range t.recent {
		if r := &t.recent[i]; r.raw == key && r.text != "" {
			return r.text
		}
	}
	if t.piece.Cap()-t.piece.Len() < uuidTextBytes {
		t.piece.Reset()
		t.piece.Grow(idsPerPiece * uuidTextBytes)
	}
	at := t.piece.Len()
	text := uuidText(raw)
	t.piece.Write(text[:])
	made := &t.recent[t.oldest]
	made.raw, made.text = key, t.piece.String()[at:]
	t.oldest = 1 - t.oldest
	return made.text
}
