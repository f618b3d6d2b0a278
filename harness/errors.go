package harness

import "errors"

// Rejections. A rejected call writes nothing.
var (
	// ErrLaneBusy: the lane has an open operation.
	ErrLaneBusy = errors.New("lane busy")
	// ErrNoActiveRun: the lane has no open run that takes input.
	ErrNoActiveRun = errors.New("no active run")
	// ErrNoActiveOperation: the lane has no open operation.
	ErrNoActiveOperation = errors.New("no active operation")
	// ErrSuspended: the lane's operation waits for a Resume.
	ErrSuspended = errors.New("suspended")
	// ErrMissingIdentities: a model or tool that the lane's configuration
	// names is not there; the error says which.
	ErrMissingIdentities = errors.New("missing identities")
	// ErrNothingToResume: the lane has no suspended operation.
	ErrNothingToResume = errors.New("nothing to resume")
	// ErrNothingToCompact: the conversation of the lane is as short as a
	// compaction would leave it.
	ErrNothingToCompact = errors.New("nothing to compact")
	// ErrUnknownTarget: there is no entry of that id to navigate to.
	ErrUnknownTarget = errors.New("unknown target")
	// ErrInvalidNavigation: a navigation to nowhere, or to where the lane stands.
	ErrInvalidNavigation = errors.New("invalid navigation")
	// ErrInvalidMessage: a prompt without content, or with a message that no
	// prompt may hold.
	ErrInvalidMessage = errors.New("invalid message")
	// ErrInvalidLane: a lane name that is empty, too long, or has control
	// characters.
	ErrInvalidLane = errors.New("invalid lane")
	// ErrLaneExists: the name of a lane to be created is that of one that exists.
	ErrLaneExists = errors.New("lane exists")
	// ErrUnknownLane: the session has no such lane.
	ErrUnknownLane = errors.New("unknown lane")
	// ErrUnknownOutcome: the operation was ended by another owner, and a later
	// one has overwritten its outcome.
	ErrUnknownOutcome = errors.New("unknown outcome")
	// ErrNotParked: Step found no effect waiting to be released.
	ErrNotParked = errors.New("no effect is parked")
)
