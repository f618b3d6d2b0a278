package harness

import "pistore"

// reserve mints ids for one event and gives the same ones again after rewind,
// so that a transaction that was shown at the gate, or met a conflict, is
// planned again with the ids it had.
type reserve struct {
	h    *Harness
	now  pistore.UnixMS // 0: the clock was not read yet
	ids  []pistore.ID
	used int
}

func (r *reserve) rewind() { r.used = 0 }

func (r *reserve) Now() pistore.UnixMS {
	if r.now == 0 {
		r.now = r.h.clock.Read()
	}
	return r.now
}

func (r *reserve) New() pistore.ID { return r.At(r.Now()) }

func (r *reserve) At(t pistore.UnixMS) pistore.ID {
	if r.used == len(r.ids) {
		r.ids = append(r.ids, r.h.ids.At(t))
	}
	r.used++
	return r.ids[r.used-1]
}
