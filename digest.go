package pistore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"iter"
)

// Digest returns the digest of a session's logical state, in hex: SHA-256 over
// every live row in seq order. Stores of any backend that hold the same rows
// have the same digest; the header (names, nextSeq, generation) is left out.
func Digest(ctx context.Context, s Storage) (string, error) { return DigestRows(s.Export(ctx)) }

// DigestRows returns the digest of rows as Export yields them.
func DigestRows(rows iter.Seq2[Row, error]) (string, error) {
	d := digester{sha256.New()}
	for row, err := range rows {
		if err != nil {
			return "", err
		}
		if err := d.row(row); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(d.Sum(nil)), nil
}

type digester struct{ hash.Hash }

// row hashes the kind as one byte, numbers as 8 bytes big-endian, and each text
// behind its length, so that no two rows have the same bytes.
func (d digester) row(row Row) error {
	switch r := row.(type) {
	case Header:
	case Entry:
		d.kind('e', r.Seq)
		d.number(int64(r.Timestamp))
		d.text(string(r.ID), string(r.ParentID), string(r.Type), r.CustomType, string(r.Payload))
	case Register:
		d.kind('r', r.Seq)
		d.text(r.Namespace, r.Key, string(r.Value))
	case UsageRow:
		d.kind('u', r.Seq)
		adjustment := int64(0)
		if r.Adjustment {
			adjustment = 1
		}
		d.number(adjustment)
		d.text(string(r.ID), string(r.EntryID), string(r.Usage), string(r.Details))
	default:
		return fmt.Errorf("pistore: unknown kind of row %T", row)
	}
	return nil
}

func (d digester) kind(k byte, seq Seq) {
	d.Write([]byte{k})
	d.number(int64(seq))
}

func (d digester) number(n int64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	d.Write(b[:])
}

func (d digester) text(parts ...string) {
	for _, s := range parts {
		d.number(int64(len(s)))
		d.Write([]byte(s))
	}
}
