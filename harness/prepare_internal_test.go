package harness

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/registers"
	"pistore/session"
	"pistore/tool"
)

// entriesOf makes a path of message payloads.
func entriesOf(t *testing.T, raws ...string) *pathEntry {
	t.Helper()
	var path *pathEntry
	for i, raw := range raws {
		e := pistore.Entry{ID: pistore.ID(fmt.Sprintf("E%d", i)), Type: pistore.TypeMessage, Payload: pistore.JSON(`{"message":` + raw + `}`), Seq: pistore.Seq(i + 1)}
		if strings.HasPrefix(raw, "compaction ") {
			e.Type, e.Payload = pistore.TypeCompaction, pistore.JSON(strings.TrimPrefix(raw, "compaction "))
		}
		path = path.add(e)
	}
	return path
}

func user(text string) string { return fmt.Sprintf(`{"role":"user","content":%q}`, text) }

func reply(text, usage string) string {
	return fmt.Sprintf(`{"role":"assistant","content":[{"type":"text","text":%q}],"stopReason":"stop","usage":%s}`, text, usage)
}

func testEnvironment(t *testing.T) *environment {
	t.Helper()
	tools, err := tool.NewSet()
	if err != nil {
		t.Fatal(err)
	}
	return &environment{tools: tools, system: session.TextContent(strings.Repeat("s", 40))}
}

func TestContextTokens(t *testing.T) {
	const failed = `{"role":"assistant","content":[{"type":"text","text":"cut off"}],"stopReason":"error","usage":{"totalTokens":999}}`
	for name, c := range map[string]struct {
		path []string
		want int64
	}{
		"nothing but the system prompt":            {nil, 10},
		"all estimated":                            {[]string{user("12345678")}, 12},
		"rounded up":                               {[]string{user("1")}, 11},
		"an image":                                 {[]string{`{"role":"user","content":[{"type":"image","data":"AAAA","mimeType":"image/png"}]}`}, 1210},
		"reported in total":                        {[]string{user("a"), reply("b", `{"input":1,"totalTokens":100}`)}, 100},
		"reported in parts":                        {[]string{user("a"), reply("b", `{"input":1,"output":2,"cacheRead":30,"cacheWrite":400}`)}, 433},
		"reported, and what came after":            {[]string{reply("b", `{"totalTokens":100}`), user("12345678")}, 102},
		"the newest report counts":                 {[]string{reply("b", `{"totalTokens":100}`), reply("b", `{"totalTokens":50}`)}, 50},
		"a report of nothing is none":              {[]string{reply("12345678", `{"input":0}`)}, 12},
		"a report that is no number is none":       {[]string{reply("12345678", `{"totalTokens":"many","input":-3}`)}, 12},
		"a failed response is not there":           {[]string{reply("b", `{"totalTokens":100}`), failed, user("1234")}, 101},
		"a summary, and the tail without a report": {[]string{user("before"), `compaction {"summary":"12345678","retainedTail":[` + reply("1234", `{"totalTokens":9000}`) + `]}`}, session.EstimateTokens(40 + len(summaryText(&session.SummaryMessage{Kind: session.RoleCompactionSummary})) + 8 + 4)},
		"a report beyond every number":             {[]string{reply("b", `{"totalTokens":1e300}`)}, pistore.MaxSeq},
	} {
		t.Run(name, func(t *testing.T) {
			p := &position{config: &registers.LaneConfiguration{}}
			if got := contextTokens(p, entriesOf(t, c.path...), testEnvironment(t)); got != c.want {
				t.Errorf("%d tokens, want %d", got, c.want)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	for _, c := range []struct{ reserve, keep, window, threshold, kept int64 }{
		{16384, 20000, 200000, 183616, 20000},
		{16384, 20000, 0, 0, 20000},
		{16384, 20000, 8000, 4000, 2000},
		{1000, 300, 4000, 3000, 300},
	} {
		s := registers.CompactionSettings{ReserveTokens: c.reserve, KeepRecentTokens: c.keep}
		if got, want := limitsOf(s, c.window), (limits{c.threshold, c.kept}); got != want {
			t.Errorf("a window of %d: %+v, want %+v", c.window, got, want)
		}
	}
}

// Where a context is cut.
func TestPrepareCompaction(t *testing.T) {
	call := func(id, text string) string {
		return fmt.Sprintf(`{"role":"assistant","content":[{"type":"toolCall","id":%q,"name":"t","arguments":{"x":%q}}],"stopReason":"toolUse"}`, id, text)
	}
	result := func(id, text string) string {
		return fmt.Sprintf(`{"role":"toolResult","toolCallId":%q,"toolName":"t","content":[{"type":"text","text":%q}]}`, id, text)
	}
	long := strings.Repeat("x", 4000)
	const system = `{"role":"system","content":"be kind"}`
	for name, c := range map[string]struct {
		path     []string
		keep     int64
		head     []int // indexes into path
		tail     []int
		previous string
	}{
		"a short conversation":               {[]string{user("a"), user("b")}, 100, nil, nil, ""},
		"nothing":                            {nil, 100, nil, nil, ""},
		"one message, however long":          {[]string{user(long)}, 1, nil, nil, ""},
		"the newest is kept, however long":   {[]string{user("a"), user(long)}, 1, []int{0}, []int{1}, ""},
		"as much as fits is kept":            {[]string{user(long), user("a"), user("b"), user("c")}, 100, []int{0}, []int{1, 2, 3}, ""},
		"a result stays with its call":       {[]string{user("a"), call("1", "x"), result("1", long), user("b")}, 500, []int{0, 1, 2}, []int{3}, ""},
		"a long batch is kept whole":         {[]string{user("a"), call("1", "x"), result("1", long)}, 1, []int{0}, []int{1, 2}, ""},
		"nothing but system messages before": {[]string{system, user(long)}, 1, nil, nil, ""},
		"system messages go with the rest":   {[]string{system, user(long), user("b")}, 1, []int{0, 1}, []int{2}, ""},
		"a retained tail is summarized when its time comes": {
			[]string{`compaction {"summary":"old","retainedTail":[` + user("k") + `]}`, user(long), user("c")}, 1, []int{-1, 1}, []int{2}, "old"},
		"a tail that is all there is": {[]string{`compaction {"summary":"old","retainedTail":[` + user("k") + `]}`}, 1, nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := entriesOf(t, c.path...)
			messages, err := testEnvironment(t).project(path.views())
			if err != nil {
				t.Fatal(err)
			}
			prep := prepareCompaction(messages, 77, c.keep)
			if len(c.tail) == 0 {
				if prep != nil {
					t.Fatalf("prepared %+v of nothing", prep)
				}
				return
			}
			if prep == nil {
				t.Fatal("nothing prepared")
			}
			at := func(indexes []int) (out []pistore.JSON) {
				for _, i := range indexes {
					if i < 0 {
						out = append(out, pistore.JSON(user("k")))
					} else {
						out = append(out, pistore.JSON(c.path[i]))
					}
				}
				return out
			}
			want := &registers.Preparation{
				MessagesToSummarize: at(c.head), RetainedTail: at(c.tail), TokensBefore: 77, PreviousSummary: c.previous,
			}
			if diff := cmp.Diff(want, prep); diff != "" {
				t.Errorf("preparation (-want +got):\n%s", diff)
			}
		})
	}
}

// No image data in what is summarized; all of it in what is kept.
func TestPreparationNamesImages(t *testing.T) {
	image := `{"role":"user","content":[{"type":"image","data":"AAAA","mimeType":"image/png"},{"type":"text","text":"see"}],"timestamp":1}`
	messages, err := testEnvironment(t).project(entriesOf(t, image, image).views())
	if err != nil {
		t.Fatal(err)
	}
	prep := prepareCompaction(messages, 0, 1)
	want := &registers.Preparation{
		MessagesToSummarize: []pistore.JSON{`{"role":"user","content":[{"type":"text","text":"[image, image/png]"},{"type":"text","text":"see"}],"timestamp":1}`},
		RetainedTail:        []pistore.JSON{pistore.JSON(image)},
	}
	if diff := cmp.Diff(want, prep); diff != "" {
		t.Errorf("preparation (-want +got):\n%s", diff)
	}
}

// What is shown fits the window, whatever is in the conversation, and nothing
// is lost but what a cut says that it left out.
func TestSummaryPartsFit(t *testing.T) {
	long := strings.Repeat("é", 30_000)
	prep := &registers.Preparation{MessagesToSummarize: []pistore.JSON{
		pistore.JSON(user(long)), `{"role":"system","content":"unseen"}`, `{"role":"toolResult","toolCallId":"1","toolName":"t","isError":true,"content":[{"type":"text","text":"` + pistore.JSON(long) + `"}]}`,
		pistore.JSON(user("last")), `{"role":"branchSummary","summary":"elsewhere","fromId":"x"}`,
	}}
	const window, output = 8000, 1000
	parts := summaryParts(prep, "be brief", output, window)
	whole := strings.Join(parts, "")
	for i, part := range parts {
		prompt := summaryPrompt(part, strings.Repeat("s", output*session.BytesPerToken), "be brief", true)
		if n := session.EstimateTokens(len(prompt)+len(summarySystemText)) + summaryOutputTokens(output, window); n > window {
			t.Errorf("part %d comes to %d tokens", i, n)
		}
	}
	for _, text := range []string{long, "[Error of t]", "bytes left out", "[User]\nlast", "elsewhere"} {
		if !strings.Contains(whole, text) {
			t.Errorf("the parts do not hold %.40q", text)
		}
	}
	if strings.Contains(whole, "unseen") || strings.Contains(whole, "\uFFFD") {
		t.Error("the parts hold what they must not")
	}
	if got := summaryParts(&registers.Preparation{}, "", 0, 0); len(got) != 1 || got[0] != "" {
		t.Errorf("parts of nothing: %q", got)
	}
}

func TestSystemInForce(t *testing.T) {
	one := pistore.JSON(`{"role":"system","content":"x","unknown":1}`)
	if got := systemInForce([]pistore.JSON{pistore.JSON(user("a")), one}); got != one {
		t.Errorf("one: %s", got)
	}
	if got := systemInForce([]pistore.JSON{pistore.JSON(user("a"))}); got != "" {
		t.Errorf("none: %s", got)
	}
	two := systemInForce([]pistore.JSON{one, `{"role":"system","content":"y","sections":{"a":"1"},"timestamp":2}`})
	if two != `{"role":"system","content":"y","sections":{"a":"1"},"timestamp":2}` {
		t.Errorf("two: %s", two)
	}
}
