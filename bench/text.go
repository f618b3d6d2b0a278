package bench

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// writer makes text like that of a coding agent: words of a language in their
// uneven frequency (Zipf's law), paths, numbers, marks, phrases that come again,
// and now and then a hash that was never seen before. That matters where bytes on
// disk are measured: in blocks of 32 KB zstd makes 0.37 of it, between the 0.30
// that it makes of this module's source and the 0.39 of its documents.
type writer struct {
	random *rand.Rand
	words  []string
	common *rand.Zipf
	again  []string // phrases
}

const (
	vocabulary = 6000
	phrases    = 100
)

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
	for range phrases {
		w.again = append(w.again, w.word()+" "+w.word()+"("+w.word()+", "+w.word()+") {")
	}
	return w
}

func (w *writer) word() string { return w.words[w.common.Uint64()] }

// text returns so many bytes of text, or a few more.
func (w *writer) text(bytes int) string {
	var b strings.Builder
	for b.Len() < bytes {
		word := w.word()
		switch w.random.IntN(24) {
		case 0:
			fmt.Fprintf(&b, "%s/%s.go:%d", word, w.word(), w.random.IntN(900))
		case 1:
			fmt.Fprintf(&b, "%s := %s(%d)", word, w.word(), w.random.IntN(100))
		case 2:
			fmt.Fprintf(&b, "`%s`", word)
		case 3:
			fmt.Fprintf(&b, "%07x", w.random.Uint32()>>4)
		case 4:
			b.WriteString(word + ".\n")
			continue
		case 5:
			b.WriteString(word + ",")
		case 6, 7:
			b.WriteString(w.again[w.random.IntN(phrases)])
		default:
			b.WriteString(word)
		}
		b.WriteByte(' ')
	}
	return b.String()
}
