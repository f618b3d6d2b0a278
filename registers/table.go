package registers

import (
	"fmt"
	"slices"

	"pistore"
)

// Lifetime says how long a register lives, in words.
type Lifetime string

// The lifetimes.
const (
	WithSession   Lifetime = "with the session"
	WithOperation Lifetime = "with the operation"
	WithBatch     Lifetime = "with the batch"
	WithSummary   Lifetime = "until that summary is left"
	UntilPlaced   Lifetime = "until placed or cancelled"
	UntilRemoved  Lifetime = "until removed"
	ByRetention   Lifetime = "by retention"
	WithTask      Lifetime = "with the task"
	UntilFired    Lifetime = "until fired"
	AsAppSays     Lifetime = "as the application says"
)

// Namespace declares a register namespace.
type Namespace struct {
	Name     string
	KeyForm  string // what the key is, in words
	Lifetime Lifetime
	Doc      string // what the value is, in one sentence
	// AnyValue says that nothing is checked of the value here: it belongs to
	// the application, or to a part of the module that judges it itself.
	AnyValue bool

	key   func(key string) error
	value func(key string, value pistore.JSON) error
}

// CheckKey checks a key against the grammar of the namespace. Errors match
// ErrInvalid or ErrTooLarge.
func (n Namespace) CheckKey(key string) error {
	if err := n.key(key); err != nil {
		return fmt.Errorf("%s: key: %w", n.Name, err)
	}
	return nil
}

// CheckValue checks a value that stands under a key of the namespace. Errors
// match ErrInvalid.
func (n Namespace) CheckValue(key string, value pistore.JSON) error { return n.value(key, value) }

// Namespaces returns the declaration of every namespace, in the order of the
// documentation. The namespaces of applications are not among them.
func Namespaces() []Namespace { return slices.Clone(table) }

// Lookup returns the declaration of a namespace, also of one that is an
// application's own.
func Lookup(name string) (Namespace, bool) {
	for _, n := range table {
		if n.Name == name {
			return n, true
		}
	}
	if IsApp(name) {
		return Namespace{
			Name: name, KeyForm: "application key", Lifetime: AsAppSays,
			Doc: "What the application says.", AnyValue: true, key: anyKey, value: anyValue,
		}, true
	}
	return Namespace{}, false
}

var table = []Namespace{
	{
		Name: LaneLeafNS, KeyForm: "lane", Lifetime: WithSession, key: CheckLane, value: checkBy(DecodeLaneLeaf),
		Doc: "The entry that the lane stands on, or null before any entry.",
	}, {
		Name: LaneConfigNS, KeyForm: "lane", Lifetime: WithSession, key: CheckLane, value: checkBy(DecodeLaneConfiguration),
		Doc: "The total configuration of the lane: model, thinking level, active tools.",
	}, {
		Name: LaneStateNS, KeyForm: "lane", Lifetime: WithSession, key: CheckLane, value: checkBy(DecodeLaneState),
		Doc: "The open operation of the lane, or null, and the ids queued for its next run.",
	}, {
		Name: LaneLastResultNS, KeyForm: "lane", Lifetime: WithSession, key: CheckLane, value: checkBy(DecodeLastResult),
		Doc: "How the newest ended operation of the lane ended; recovery never reads it.",
	}, {
		Name: OpMetaNS, KeyForm: "operation id", Lifetime: WithOperation, key: partKey("operation id"), value: checkMeta,
		Doc: "What was accepted, written once.",
	}, {
		Name: OpStateNS, KeyForm: "operation id", Lifetime: WithOperation, key: partKey("operation id"), value: checkBy(DecodeOpState),
		Doc: "The total state of the operation.",
	}, {
		Name: OpToolArgsNS, KeyForm: "operation id:step id:index", Lifetime: WithBatch, key: toolKey,
		value: func(_ string, v pistore.JSON) error { return CheckToolArgs(v) },
		Doc:   "The effective arguments of a started call, written once.",
	}, {
		Name: OpToolOutputNS, KeyForm: "operation id:step id:index", Lifetime: WithBatch, key: toolKey, value: checkBy(DecodeToolOutput),
		Doc: "The partial output of a running call.",
	}, {
		Name: OpPreparationNS, KeyForm: "operation id:summary id", Lifetime: WithSummary, key: preparationKey, value: checkBy(DecodePreparation),
		Doc: "The frozen input of a summary, written once.",
	}, {
		Name: PendingEntryNS, KeyForm: "reserved entry id", Lifetime: UntilPlaced, key: idKey, value: checkBy(DecodePendingEntry),
		Doc: "Queued content: the type, customType and payload of the entry to come.",
	}, {
		Name: FactNameNS, KeyForm: "empty", Lifetime: UntilRemoved, key: emptyKey, value: checkBy(DecodeText),
		Doc: "The name of the session.",
	}, {
		Name: FactLabelNS, KeyForm: "entry id", Lifetime: UntilRemoved, key: idKey, value: checkBy(DecodeText),
		Doc: "The label of the entry.",
	}, {
		Name: FactCustomNS, KeyForm: "application key", Lifetime: UntilRemoved, AnyValue: true, key: anyKey, value: anyValue,
		Doc: "Any JSON of the application, null included.",
	}, {
		Name: RequestNS, KeyForm: "request id", Lifetime: ByRetention, AnyValue: true, key: idKey, value: anyValue,
		Doc: "What a submission became; the value is not checked here.",
	}, {
		Name: DocNS, KeyForm: "s:KIND or l:KIND:LANE", Lifetime: WithSession, AnyValue: true, key: docKey, value: anyValue,
		Doc: "A typed document of the session or of a lane; the value is not checked here.",
	}, {
		Name: TaskMetaNS, KeyForm: "task id", Lifetime: WithTask, AnyValue: true, key: idKey, value: anyValue,
		Doc: "What a durable task was started with; the value is not checked here.",
	}, {
		Name: TaskStateNS, KeyForm: "task id", Lifetime: WithTask, AnyValue: true, key: idKey, value: anyValue,
		Doc: "The checkpoint of a durable task; the value is not checked here.",
	}, {
		Name: TimerNS, KeyForm: "due instant in ms as 16 hex digits:id", Lifetime: UntilFired, AnyValue: true, key: timerKey, value: anyValue,
		Doc: "What to wake at the instant; the value is not checked here.",
	},
}

func checkBy[T any](decode func(pistore.JSON) (T, error)) func(string, pistore.JSON) error {
	return func(_ string, value pistore.JSON) error {
		_, err := decode(value)
		return err
	}
}

// checkMeta also checks that acceptance data stands under its own operation.
func checkMeta(key string, value pistore.JSON) error {
	m, err := DecodeOpMeta(value)
	if err == nil && string(m.OperationID) != key {
		err = &faultError{fmt.Sprintf("%s: operationId: is %.64q under the key %.64q", OpMetaNS, string(m.OperationID), key)}
	}
	return err
}

func anyValue(_ string, value pistore.JSON) error {
	_, err := pistore.CompactJSON(string(value))
	return err
}

func anyKey(key string) error { return pistore.CheckAddress(App, key) }

func emptyKey(key string) error {
	if key != "" {
		return fmt.Errorf("%w: %.64q is not empty", pistore.ErrInvalid, key)
	}
	return nil
}

func idKey(key string) error { return pistore.ID(key).Check() }

func partKey(what string) func(string) error {
	return func(key string) error { return checkPart(what, pistore.ID(key)) }
}

func toolKey(key string) error {
	_, _, _, err := ParseToolKey(key)
	return err
}

func preparationKey(key string) error {
	_, _, err := ParsePreparationKey(key)
	return err
}

func timerKey(key string) error {
	_, _, err := ParseTimerKey(key)
	return err
}

func docKey(key string) error {
	_, _, err := ParseDocKey(key)
	return err
}
