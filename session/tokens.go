package session

import "fmt"

// BytesPerToken is how many bytes of text are taken for a token, whatever the
// language.
const BytesPerToken = 4

// imageBytes make 1,200 tokens of an image, whatever its size.
const imageBytes = 1200 * BytesPerToken

// EstimateTokens returns the tokens of so many bytes of content, rounded up.
func EstimateTokens(sizeBytes int) int64 {
	return int64(sizeBytes+BytesPerToken-1) / BytesPerToken
}

// ContentBytes is the size of content for [EstimateTokens]: that of its text, of
// its calls, and of what stands for an image.
func ContentBytes(content []Block) int {
	size := 0
	for _, b := range content {
		switch b := b.(type) {
		case Text:
			size += len(b.Text)
		case Thinking:
			size += len(b.Thinking)
		case ToolCall:
			size += len(b.Name) + len(b.Arguments)
		case Image:
			size += imageBytes
		case UnknownBlock:
			size += len(b.Raw)
		default:
			panic(fmt.Sprintf("session: block %T", b))
		}
	}
	return size
}
