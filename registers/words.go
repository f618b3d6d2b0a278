package registers

import "fmt"

// Words says where an operation stands, in the words of its stored state:
// "assistant effect_pending", "tools", "compaction generating retry_wait".
func Words(s OpState) string {
	switch s := s.(type) {
	case *RunState:
		kind, status := phaseWords(s.Phase)
		if p, ok := s.Phase.(*RunCompaction); ok {
			status = summaryWords(&p.Summary)
		}
		if status == "" {
			return kind
		}
		return kind + " " + status
	case *CompactionState:
		return "compaction " + summaryWords(&s.Summary)
	case *NavigationState:
		if s.Summary == nil {
			return "navigation"
		}
		return "navigation " + summaryWords(s.Summary)
	default:
		panic(fmt.Sprintf("registers: unknown operation state %T", s))
	}
}

func summaryWords(s *Summary) string {
	if s.Generating == nil {
		return "deciding"
	}
	switch g := s.Generating.Generation.(type) {
	case *GenerationReady:
		return "generating " + statusReady
	case *GenerationPending:
		return "generating " + statusEffectPending
	case *GenerationRetryWait:
		return "generating " + statusRetryWait
	default:
		panic(fmt.Sprintf("registers: unknown generation %T", g))
	}
}
