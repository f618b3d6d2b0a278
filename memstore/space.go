package memstore

import (
	"slices"
	"strings"

	"pistore"
)

// space holds the registers of one namespace by bytewise key order. A register
// is replaced, never changed, so what a reader took stays as it was. Keys come
// in rising order as a rule, being UUIDv7, so that an insertion moves little.
type space []*pistore.Register

func (sp space) find(key string) (int, bool) {
	return slices.BinarySearchFunc(sp, key, func(r *pistore.Register, key string) int {
		return strings.Compare(r.Key, key)
	})
}

func (sp space) get(key string) (*pistore.Register, bool) {
	i, ok := sp.find(key)
	if !ok {
		return nil, false
	}
	return sp[i], true
}

func (sp space) set(r *pistore.Register) space {
	i, ok := sp.find(r.Key)
	if ok {
		sp[i] = r
		return sp
	}
	return slices.Insert(sp, i, r)
}

func (sp space) remove(key string) space {
	i, ok := sp.find(key)
	if !ok {
		return sp
	}
	return slices.Delete(sp, i, i+1)
}

// withPrefix returns the part of sp whose keys start with prefix.
func (sp space) withPrefix(prefix string) space {
	from, _ := sp.find(prefix)
	sp = sp[from:]
	n, _ := slices.BinarySearchFunc(sp, prefix, func(r *pistore.Register, prefix string) int {
		if strings.HasPrefix(r.Key, prefix) {
			return -1
		}
		return 1
	})
	return sp[:n]
}

func (sp space) clone() space { return slices.Clone(sp) }
