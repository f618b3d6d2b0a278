package registers

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"pistore"
)

// MaxLaneBytes bounds a lane name and the kind of a document.
const MaxLaneBytes = 256

// CheckLane returns an error matching ErrInvalid or ErrTooLarge unless name may
// name a lane: 1 to MaxLaneBytes bytes of UTF-8 without control characters.
func CheckLane(name string) error { return checkName("lane name", name) }

func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: empty %s", pistore.ErrInvalid, what)
	case len(name) > MaxLaneBytes:
		return &pistore.LimitError{Limit: what + " bytes", Got: int64(len(name)), Max: MaxLaneBytes}
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: %s %.64q is not UTF-8", pistore.ErrInvalid, what, name)
	}
	for _, r := range name {
		if r < 0x20 || 0x7f <= r && r <= 0x9f {
			return fmt.Errorf("%w: %s %.64q has a control character", pistore.ErrInvalid, what, name)
		}
	}
	return nil
}

// Every id that is a part of a composed key has no colon, so that a key can be
// taken apart. Ids minted here have none.
func checkPart(what string, id pistore.ID) error {
	if err := id.Check(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if strings.Contains(string(id), ":") {
		return fmt.Errorf("%w: %s %.64q has a colon", pistore.ErrInvalid, what, string(id))
	}
	return nil
}

// ToolKey is the key of op.tool_args and op.tool_output for the call with the
// given source index in a step of an operation.
func ToolKey(op, step pistore.ID, index int64) string {
	return string(op) + ":" + string(step) + ":" + strconv.FormatInt(index, 10)
}

// ParseToolKey takes a ToolKey apart.
func ParseToolKey(key string) (op, step pistore.ID, index int64, err error) {
	parts := strings.Split(key, ":")
	if len(parts) != 3 {
		return "", "", 0, fmt.Errorf("%w: key %.64q is not operation:step:index", pistore.ErrInvalid, key)
	}
	op, step = pistore.ID(parts[0]), pistore.ID(parts[1])
	if err = checkPart("operation id", op); err == nil {
		err = checkPart("step id", step)
	}
	if err != nil {
		return "", "", 0, err
	}
	index, err = strconv.ParseInt(parts[2], 10, 64)
	if err != nil || index < 0 || index > pistore.MaxSeq || strconv.FormatInt(index, 10) != parts[2] {
		return "", "", 0, fmt.Errorf("%w: key %.64q ends in no index", pistore.ErrInvalid, key)
	}
	return op, step, index, nil
}

// PreparationKey is the key of op.preparation for a summary of an operation.
func PreparationKey(op, summary pistore.ID) string { return string(op) + ":" + string(summary) }

// ParsePreparationKey takes a PreparationKey apart.
func ParsePreparationKey(key string) (op, summary pistore.ID, err error) {
	a, b, ok := strings.Cut(key, ":")
	op, summary = pistore.ID(a), pistore.ID(b)
	if !ok {
		return "", "", fmt.Errorf("%w: key %.64q is not operation:summary", pistore.ErrInvalid, key)
	}
	if err = checkPart("operation id", op); err == nil {
		err = checkPart("summary id", summary)
	}
	if err != nil {
		return "", "", err
	}
	return op, summary, nil
}

// TimerKey is the key of a timer: bytewise key order is the order of due times.
func TimerKey(due pistore.UnixMS, id string) string { return fmt.Sprintf("%016x:%s", int64(due), id) }

// ParseTimerKey takes a TimerKey apart.
func ParseTimerKey(key string) (due pistore.UnixMS, id string, err error) {
	const digits = 16
	if len(key) <= digits || key[digits] != ':' {
		return 0, "", fmt.Errorf("%w: key %.64q is not due:id", pistore.ErrInvalid, key)
	}
	n, err := strconv.ParseInt(key[:digits], 16, 64)
	if err != nil || n < 0 || n > pistore.MaxSeq || fmt.Sprintf("%016x", n) != key[:digits] {
		return 0, "", fmt.Errorf("%w: key %.64q starts with no instant", pistore.ErrInvalid, key)
	}
	id = key[digits+1:]
	if err := pistore.ID(id).Check(); err != nil {
		return 0, "", err
	}
	return pistore.UnixMS(n), id, nil
}

// DocKey is the key of a document; an empty lane is session scope.
func DocKey(kind, lane string) string {
	if lane == "" {
		return "s:" + kind
	}
	return "l:" + kind + ":" + lane
}

// ParseDocKey takes a DocKey apart; an empty lane is session scope. A kind has
// no colon, a lane may have some.
func ParseDocKey(key string) (kind, lane string, err error) {
	scope, rest, _ := strings.Cut(key, ":")
	switch scope {
	case "s":
		kind = rest
		if strings.Contains(kind, ":") {
			return "", "", fmt.Errorf("%w: document kind %.64q has a colon", pistore.ErrInvalid, kind)
		}
	case "l":
		kind, lane, _ = strings.Cut(rest, ":")
		if err := CheckLane(lane); err != nil {
			return "", "", err
		}
	default:
		return "", "", fmt.Errorf("%w: key %.64q is neither s:KIND nor l:KIND:LANE", pistore.ErrInvalid, key)
	}
	if err := checkName("document kind", kind); err != nil {
		return "", "", err
	}
	return kind, lane, nil
}

// IsApp reports whether a namespace is an application's own.
func IsApp(namespace string) bool { return strings.HasPrefix(namespace, App) && namespace != App }

// ForksDoc reports whether a fork copies a document, by its envelope: its fork
// policy is to copy, and not to start from the initial value.
func ForksDoc(envelope pistore.JSON) bool {
	policy, _ := envelope.Member("fork")
	text, ok := policy.Text()
	return ok && text == "copy"
}
