package logstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"pistore"
)

// RepairOptions say what a repair keeps.
type RepairOptions struct {
	// KeepGoing saves of a session that has lost rows what still fits: entries
	// whose parents are there, usage rows, and registers that nothing would be
	// started from. Else such a session is left out. One that has lost nothing is
	// saved whole either way.
	KeepGoing bool
}

// RepairReport is the result of a repair.
type RepairReport struct {
	// Damage is what is wrong with the files and with the catalog of sessions.
	Damage []*pistore.CorruptError
	// OmittedBytes of logs and MANIFEST were not read: what stands behind the
	// first damaged place, and later logs. It came after all that was kept, so
	// what sessions miss of it are their newest transactions.
	OmittedBytes int64
	// StrayTables are tables that the MANIFEST does not name in front of its
	// damage. They were not read: sessions may miss more than their newest
	// transactions, and whole sessions may be missing.
	StrayTables []string
	Sessions    []RepairedSession // by id
}

// RepairedSession is what became of a session.
type RepairedSession struct {
	// Info describes the new session, which has another generation, or the
	// damaged one if it was not saved.
	Info  pistore.Info
	Stats pistore.Stats // of the new session
	Saved bool
	// Unnamed: the row of the catalog was lost that named the session. It is saved
	// as "recovered-N", and what else Info says was lost.
	Unnamed bool
	// Damage is what is wrong in the session, up to a hundred places. Indexes
	// and statistics are built anew, so damage in them alone costs nothing.
	Damage []*pistore.CorruptError
	// Lost tells that rows could not be read, or are not there.
	Lost bool
	// LeftEntries could be read and hang on a lost one; LeftRegisters could be
	// read and would have started something, or lead to what was lost.
	LeftEntries   []pistore.ID
	LeftRegisters []pistore.Address
}

// Repair salvages a damaged database into a new one at a folder where nothing may
// stand yet, and leaves the damaged one alone, down to its times. Logs and
// MANIFEST count up to the first damaged place; a session all rows of which can be
// read is saved with them. Of the options it takes what a new database needs; its
// writes are durable when it returns, at either level. A folder of which nothing
// can be read is the error that says why, mostly ErrCorrupt; a failure leaves
// nothing at to.
func Repair(ctx context.Context, from, to string, o Options, r RepairOptions) (RepairReport, error) {
	o, err := o.complete()
	if err != nil {
		return RepairReport{}, err
	}
	report, err := repair(ctx, from, to, o, r)
	if err != nil {
		return RepairReport{}, fmt.Errorf("logstore: repair: %w", err)
	}
	return report, nil
}

func repair(ctx context.Context, from, to string, o Options, r RepairOptions) (rep RepairReport, err error) {
	if err := ctx.Err(); err != nil {
		return rep, err
	}
	if onDisk(o.fs) {
		if from, err = resolveFolder(from); err != nil {
			return rep, err
		}
		if to, err = resolveFolder(to); err != nil {
			return rep, err
		}
	}
	inside := from + string(filepath.Separator)
	if strings.HasPrefix(to+string(filepath.Separator), inside) {
		return rep, fmt.Errorf("%w: %s lies in the damaged folder", pistore.ErrInvalid, to)
	}
	partial, err := freePlace(o.fs, to)
	if errors.Is(err, fs.ErrExist) {
		err = errors.Join(err, pistore.ErrInvalid)
	}
	if err != nil {
		return rep, err
	}
	damaged, err := openDamaged(from, o, &rep)
	if err != nil {
		return rep, err
	}
	defer damaged.Close() // read only: nothing can be lost
	if rep.StrayTables, err = strayTables(o.fs, from); err != nil {
		return rep, err
	}
	o.Durability, o.ReadOnly = pistore.Power, false
	if err := salvageInto(ctx, damaged, partial, o, r, &rep); err != nil {
		return rep, errors.Join(err, o.fs.RemoveAll(partial))
	}
	if err := publishFolder(o.fs, partial, to); err != nil {
		return rep, errors.Join(err, o.fs.RemoveAll(partial))
	}
	return rep, nil
}

// openDamaged opens a database read-only and goes on over damage of its files,
// which it reports.
func openDamaged(dir string, o Options, rep *RepairReport) (*Store, error) {
	over := func(damage *pistore.CorruptError) error {
		rep.Damage = append(rep.Damage, damage)
		return nil
	}
	ours, err := checkFolder(o.fs, dir)
	if errors.Is(err, pistore.ErrCorrupt) { // a marker is missing
		ours, err = true, checkEngineFormatOf(o.fs, dir)
	}
	if err == nil && !ours || errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s: %w", dir, pistore.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	codec, err := newPayloadCodec(o.CompressAboveBytes)
	if err != nil {
		return nil, err
	}
	o.ReadOnly = true
	cfg := o.engineConfig(dir, nil)
	cfg.over = over
	eng, err := openEngine(cfg)
	if err != nil {
		return nil, err
	}
	rep.OmittedBytes = eng.omitted
	return newStore(dir, o, eng, codec), nil
}

func checkEngineFormatOf(base vfs.FS, dir string) error {
	names, err := base.List(dir)
	if err != nil {
		return err
	}
	return checkEngineFormat(dir, names)
}

// strayTables returns the tables that a damaged MANIFEST does not lead to. Of a
// sound one they would be leftovers.
func strayTables(base vfs.FS, dir string) (stray []string, err error) {
	m, _ := readManifest(base, dir) // its damage was told on opening
	if m.end < 0 {
		return nil, nil
	}
	names, err := base.List(dir)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for _, name := range names {
		if _, known := m.files[name]; !known && strings.HasSuffix(name, ".sst") {
			stray = append(stray, base.PathJoin(dir, name))
		}
	}
	return stray, nil
}

// salvageInto builds the new database.
func salvageInto(ctx context.Context, damaged *Store, dir string, o Options, r RepairOptions, rep *RepairReport) error {
	rows, faults := damaged.salvageCatalog()
	rep.Damage = append(rep.Damage, faults...)
	if len(rows) == 0 && len(faults) > 0 {
		return faults[0] // no session can be found
	}
	if n := len(rep.StrayTables); len(rows) == 0 && n > 0 {
		return &pistore.CorruptError{Backend: backendName, Place: damaged.dir, Problem: fmt.Sprintf(
			"the MANIFEST leads to no session in front of its damage, and %d tables behind it cannot be read without; restore a backup", n)}
	}
	to, err := Open(dir, o)
	if err != nil {
		return err
	}
	for _, row := range rows {
		saved, err := salvageSession(ctx, damaged, to, row, r)
		if err != nil {
			return errors.Join(err, to.Close())
		}
		rep.Sessions = append(rep.Sessions, saved)
	}
	return to.Close()
}
