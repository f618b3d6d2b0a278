package memstore

// list is an append-only sequence. A copy of it is a snapshot: elements are never
// moved or changed, and what is appended later lies beyond the copy's length. It
// grows by chunks, because moving the rows of a long session to a larger slice
// would hold up the readers of one commit for milliseconds.
type list[T any] struct {
	chunks []*[chunkLen]T
	len    int
}

// chunkLen is a compromise: sessions are many and most are short.
const chunkLen = 64

func (l *list[T]) append(v T) {
	if l.len%chunkLen == 0 {
		l.chunks = append(l.chunks, new([chunkLen]T))
	}
	l.chunks[l.len/chunkLen][l.len%chunkLen] = v
	l.len++
}

// at returns an element, to be read only.
func (l *list[T]) at(i int) *T { return &l.chunks[i/chunkLen][i%chunkLen] }
