package logstore

import (
	"fmt"

	"github.com/klauspost/compress/zstd"

	"pistore"
)

const (
	// maxRawSize bounds what one record holds uncompressed: a usage row has two
	// payloads.
	maxRawSize = 2 * pistore.MaxPayloadBytes
	// maxRatio bounds how much a compressed payload may grow, so that a damaged
	// or planted record cannot ask for memory out of proportion. What would
	// shrink further is stored as it is; the engine compresses its blocks.
	maxRatio = 1024
)

// payloadCodec compresses payloads above a threshold. It is safe for concurrent
// use.
type payloadCodec struct {
	threshold int // in bytes; 0: never compress
	enc       *zstd.Encoder
	dec       *zstd.Decoder
}

func newPayloadCodec(threshold int) (*payloadCodec, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithLowerEncoderMem(true),
		zstd.WithWindowSize(1<<20), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxRawSize), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, err
	}
	return &payloadCodec{threshold: threshold, enc: enc, dec: dec}, nil
}

// worthwhile reports whether a payload of that size is to be compressed.
func (c *payloadCodec) worthwhile(size int) bool { return c.threshold > 0 && size > c.threshold }

// compress appends the compressed form of raw to dst and reports whether it is
// the one to store.
func (c *payloadCodec) compress(dst, raw []byte) ([]byte, bool) {
	if !c.worthwhile(len(raw)) {
		return dst, false
	}
	out := c.enc.EncodeAll(raw, dst)
	n := len(out) - len(dst)
	return out, n < len(raw) && len(raw) <= n*maxRatio
}

// expand is the inverse: it returns exactly rawSize bytes or an error.
func (c *payloadCodec) expand(stored []byte, rawSize int) ([]byte, error) {
	if rawSize > len(stored)*maxRatio {
		return nil, fmt.Errorf("payload of %d bytes claims to hold %d", len(stored), rawSize)
	}
	raw, err := c.dec.DecodeAll(stored, make([]byte, 0, rawSize))
	if err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	if len(raw) != rawSize {
		return nil, fmt.Errorf("payload holds %d bytes, the record says %d", len(raw), rawSize)
	}
	return raw, nil
}
