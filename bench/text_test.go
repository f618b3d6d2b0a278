package bench

import (
	"testing"

	"github.com/klauspost/compress/zstd"
)

// Text compresses as the comment at writer says, so that bytes on disk are
// neither better nor worse than in earnest.
func TestTextCompressesLikeTheRealThing(t *testing.T) {
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(3) {
		w := newWriter(seed)
		var text []byte
		for range 200 {
			text = append(text, w.turn().payloads[0]...)
		}
		const block = 32 << 10
		packed, of := 0, 0
		for ; len(text) >= block; text = text[block:] {
			packed += len(encoder.EncodeAll(text[:block], nil))
			of += block
		}
		if ratio := float64(packed) / float64(of); ratio < 0.35 || ratio > 0.39 {
			t.Errorf("seed %d: zstd makes %.3f of it", seed, ratio)
		}
	}
}
