package jsonl

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestRandomFiles imports files made of records that name each other at random:
// earlier, later, in circles, twice, and not at all.
func TestRandomFiles(t *testing.T) {
	rounds := 400
	if raced || testing.Short() {
		rounds = 60
	}
	base := rand.Uint64()
	for round := range rounds {
		seed := base + uint64(round)
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			text := randomFile(rand.New(rand.NewPCG(seed, 0)))
			src, size := reader([]byte(text))
			f, r, err := read(t.Context(), src, size, noParent)
			if err != nil || f == nil {
				t.Fatalf("%v\n%s", err, text)
			}
			checkFaults(t, r, size)
			checkImported(t, f, []byte(text))
			if t.Failed() {
				t.Logf("the file:\n%s", text)
			}
		})
	}
}

func randomFile(r *rand.Rand) string {
	n := 1 + r.IntN(20)
	id := func() string { return fmt.Sprintf("'%d'", r.IntN(n)) }
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	var lines []string
	for i := range n {
		own, parent := fmt.Sprintf("'%d'", i), fmt.Sprintf("'%d'", i-1)
		if i == 0 || r.IntN(12) == 0 {
			parent = "null"
		}
		if r.IntN(5) == 0 {
			parent = id()
		}
		if r.IntN(15) == 0 {
			own = id()
		}
		rest := pick(
			`message','message':{'role':'user','content':'x'}`,
			`message','message':{'role':'assistant','content':[],'stopReason':'`+pick("stop", "error", "toolUse")+`','usage':{'input':`+pick("1", "-1", "0.5", "null", "1e500")+`}}`,
			`message','message':`+pick("1", "{}", "{'role':'hookMessage'}"),
			`custom_message','customType':'t','content':'y'`,
			`custom','customType':`+pick("'t'", "''", "1"),
			`compaction','summary':'S','firstKeptEntryId':`+id(),
			`compaction','summary':`+pick("'S'", "null"),
			`branch_summary','summary':`+pick("''", "'B'")+`,'fromId':`+pick(id(), "'root'", "'x'"),
			`context_edit','targetId':`+id()+`,'replacement':`+pick("null", "{'content':'z'}", "{'content':[]}", "{}", "7"),
			`label','targetId':`+id()+`,'label':`+pick("'L'", "''", "null", "1"),
			`session_info','name':`+pick("'N'", "''", "[]"),
			`model_change','provider':'p','modelId':'m'`,
			`usage','kind':'k','model':'m','usage':`+pick("{'input':1}", "null", "{'cost':1}"),
			`future','x':{}`,
		)
		lines = append(lines, `{'type':'`+rest+`,'id':`+own+`,'parentId':`+parent+pick(`,@}`, `,@}`, `,'timestamp':'?'}`))
		if r.IntN(25) == 0 {
			lines = append(lines, pick("", "null", "{", lines[r.IntN(len(lines))], strings.TrimSpace(header3)))
		}
	}
	header := pick(header3, strings.Replace(header3, `"version":3`, `"version":2`, 1), strings.Replace(header3, `"version":3,`, "", 1))
	text := fileOf(header, lines...)
	return text[:len(text)-r.IntN(2)*r.IntN(30)]
}
