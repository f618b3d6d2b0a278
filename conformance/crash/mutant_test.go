package crash

// defect is what a broken store does wrong.
type defect string

const (
	sound            defect = ""
	bufferWrites     defect = "keeps writes in a buffer of its process"
	ackFirst         defect = "acknowledges before it writes"
	noSync           defect = "does not sync a commit at Power"
	swallowSync      defect = "swallows the error of a sync"
	retrySync        defect = "tries a failed sync again"
	noDirSync        defect = "does not sync the directory"
	renameUnsynced   defect = "renames a new file before it is synced"
	swallowNewSync   defect = "swallows the error of syncing a new file"
	removeFirst      defect = "removes the old file before the new one has its name"
	buildInPlace     defect = "builds a session under its own name, bit by bit"
	ignoreShortWrite defect = "takes a short write for a whole one"
	noPoison         defect = "goes on after a failed write"
	plainError       defect = "gives an admitted commit's failure as a plain error"
	faultUnwrapped   defect = "hides the cause of a fault"
	halfTx           defect = "applies the part of a torn transaction that it can read"
	noChecksum       defect = "compares no checksum"
	truncateSilently defect = "takes everything behind the first damage for torn"
	appendBehindTorn defect = "appends behind a torn tail"
	repairOnLook     defect = "repairs when it is opened to look"
	panicOnDamage    defect = "panics on damage"
	placeless        defect = "does not say where the damage is"
	syncDoesNothing  defect = "does nothing on Sync"
	keepLock         defect = "keeps its lock when it is closed"
)

// defectEnv tells a child which defect it has.
const defectEnv = "PISTORE_CRASH_DEFECT"

// mutant is a broken store and rows that have to notice.
type mutant struct {
	defect defect
	rows   []string
}

func mutants() []mutant {
	return []mutant{
		{bufferWrites, []string{}},
		{ackFirst, []string{}},
		{noSync, []string{}},
		{swallowSync, []string{}},
		{retrySync, []string{}},
		{noDirSync, []string{}},
		{renameUnsynced, []string{}},
		{swallowNewSync, []string{}},
		{removeFirst, []string{}},
		{buildInPlace, []string{}},
		{ignoreShortWrite, []string{}},
		{noPoison, []string{}},
		{plainError, []string{}},
		{faultUnwrapped, []string{}},
		{halfTx, []string{}},
		{noChecksum, []string{}},
		{truncateSilently, []string{}},
		{appendBehindTorn, []string{}},
		{repairOnLook, []string{}},
		{panicOnDamage, []string{}},
		{placeless, []string{}},
		{syncDoesNothing, []string{}},
		{keepLock, []string{}},
	}
}
