package bench

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// writer makes text like that of a coding agent: words of a language in their
// uneven frequency (Zipf's law), paths, numbers, marks, and now and then a name
// or a hash that was never seen before. zstd makes 0.41 of it, in blocks of 32 KB,
// which is what it makes of English prose; so bytes on disk are no better than
// they would be in earnest.
type writer struct {
	random *rand.Rand
	words  []string
	common *rand.Zipf
}

const vocabulary = 6000

func newWriter(seed uint64) *writer {
	w := &writer{random: rand.New(rand.NewPCG(seed, 1))}
	starts := strings.Fields("a al be ca co com con de di do e en ex fi fo ge ha i in le lo ma me mo no o of pa per po pre pro re ro sa se si so sta su ta te to tra un va vi wa")
	middles := strings.Fields("b bl c ck d f g l ll m mm n nd nt p pp r rr s ss st t tt th v x")
	ends := strings.Fields("able al ance ate ed ent er es ing ion ist ity ive le ly ment on or ory s th ure y")
	vowels := strings.Fields("a e i o u ea ou io")
	pick := func(from []string) string { return from[w.random.IntN(len(from))] }
	for i := range vocabulary {
		word := pick(starts)
		for range w.random.IntN(2 + i/2500) { // rarer words are longer
			word += pick(middles) + pick(vowels)
		}
		if i > 40 {
			word += pick(ends)
		}
		w.words = append(w.words, word)
	}
	w.common = rand.NewZipf(w.random, 1.1, 4, vocabulary-1)
	return w
}

// text returns so many bytes of text, or a few more.
func (w *writer) text(bytes int) string {
	var b strings.Builder
	for b.Len() < bytes {
		word := w.words[w.common.Uint64()]
		switch w.random.IntN(24) {
		case 0:
			fmt.Fprintf(&b, "%s/%s.go:%d", word, w.words[w.common.Uint64()], w.random.IntN(900))
		case 1:
			fmt.Fprintf(&b, "%s := %s(%d)", word, w.words[w.common.Uint64()], w.random.IntN(100))
		case 2:
			fmt.Fprintf(&b, "`%s`", word)
		case 3:
			fmt.Fprintf(&b, "%07x", w.random.Uint32()>>4)
		case 4:
			b.WriteString(word + ".\n")
			continue
		case 5:
			b.WriteString(word + ",")
		default:
			b.WriteString(word)
		}
		b.WriteByte(' ')
	}
	return b.String()
}
