package crash

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"pistore"
	"pistore/disk"
	"pistore/memstore"
)

// fileStore is a backend that is obviously right: one file for each session,
// whose first record is the session as it was made and each later one a
// transaction. A defect makes it wrong in one way.
type fileStore struct {
	fs     disk.FS
	dir    string
	level  pistore.Durability
	defect defect

	mu   sync.Mutex // guards open
	open []*fileSession
}

// record is what one record of a file says. It stands behind its length and its
// CRC-32C.
type record struct {
	At        pistore.UnixMS
	Header    *pistore.Header
	Entries   []pistore.Entry
	Usage     []pistore.UsageRow
	Registers []pistore.Register
	Writes    []writeRecord
}

// writeRecord is one write: one of its members is set.
type writeRecord struct {
	Entry  *pistore.InsertEntry
	Usage  *pistore.InsertUsage
	Set    *pistore.SetRegister
	Delete *pistore.DeleteRegister
}

const (
	suffix  = ".session"
	tmpName = ".new"
	before  = 8 // bytes of length and checksum
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// store opens the reference store with a defect.
func store(d defect) func(at Place) (pistore.Backend, error) {
	return func(at Place) (pistore.Backend, error) {
		if at.FS == nil {
			at.FS = disk.OS
		}
		return &fileStore{fs: at.FS, dir: at.Dir, level: at.Level, defect: d}, nil
	}
}

func (b *fileStore) path(id pistore.SessionID) string { return path.Join(b.dir, string(id)+suffix) }

func (b *fileStore) frame(r record) []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and numbers
	}
	out := binary.LittleEndian.AppendUint32(nil, uint32(len(text)))
	out = binary.LittleEndian.AppendUint32(out, crc32.Checksum(text, castagnoli))
	return append(out, text...)
}

// readFrame returns the record that begins at a place, and where it ends. What
// is no whole record is not ok.
func (b *fileStore) readFrame(content []byte, at int) (r record, end int, ok bool) {
	if len(content)-at < before {
		return r, 0, false
	}
	size := int(binary.LittleEndian.Uint32(content[at:]))
	sum := binary.LittleEndian.Uint32(content[at+4:])
	if size < 2 || size > len(content)-at-before {
		return r, 0, false
	}
	text := content[at+before : at+before+size]
	if crc32.Checksum(text, castagnoli) != sum && b.defect != noChecksum && b.defect != panicOnDamage {
		return r, 0, false
	}
	err := json.Unmarshal(text, &r)
	if err != nil && b.defect == panicOnDamage {
		panic(err)
	}
	return r, at + before + size, err == nil
}

// writeNew gives a name a file of one record, in one step.
func (b *fileStore) writeNew(name string, r record) error {
	b.sweep(name + tmpName)
	tmp := name + tmpName
	if b.defect == buildInPlace {
		b.sweep(name)
		tmp = name
	}
	f, err := b.fs.Open(tmp, disk.Create)
	if err != nil {
		return err
	}
	err = b.fill(f, b.frame(r))
	if err == nil && b.defect != renameUnsynced {
		err = f.Sync()
	}
	if b.defect == swallowNewSync && errors.Is(err, fs.ErrInvalid) == false && err != nil && strings.Contains(err.Error(), "sync") {
		err = nil
	}
	err = errors.Join(err, f.Close())
	if err == nil && b.defect == removeFirst {
		b.sweep(name)
		b.pause()
	}
	if err == nil && tmp != name {
		err = b.fs.Rename(tmp, name)
	}
	if err == nil && b.defect != noDirSync {
		err = b.fs.SyncDir(b.dir)
	}
	return err
}

func (b *fileStore) fill(f disk.File, text []byte) error {
	step := len(text)
	if b.defect == buildInPlace {
		step = (len(text) + 9) / 10
	}
	for len(text) > 0 {
		n := min(step, len(text))
		if _, err := f.Write(text[:n]); err != nil {
			return err
		}
		if text = text[n:]; b.defect == buildInPlace {
			b.pause()
		}
	}
	return nil
}

// pause gives a kill time to hit.
func (b *fileStore) pause() {
	if b.fs == disk.OS {
		time.Sleep(40 * time.Millisecond)
	}
}

// sweep removes a file that may not be there.
func (b *fileStore) sweep(name string) { _ = b.fs.Remove(name) }

// exported is a session as one record.
func exported(rows iter.Seq2[pistore.Row, error]) (r record, err error) {
	for row, err := range rows {
		if err != nil {
			return r, err
		}
		switch row := row.(type) {
		case pistore.Header:
			r.Header = &row
		case pistore.Entry:
			r.Entries = append(r.Entries, row)
		case pistore.UsageRow:
			r.Usage = append(r.Usage, row)
		case pistore.Register:
			r.Registers = append(r.Registers, row)
		}
	}
	return r, nil
}

// rows is what exported was made of.
func (r record) rows() iter.Seq2[pistore.Row, error] {
	var all []pistore.Row
	for _, e := range r.Entries {
		all = append(all, e)
	}
	for _, u := range r.Usage {
		all = append(all, u)
	}
	for _, g := range r.Registers {
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b pistore.Row) int { return int(seqOf(a) - seqOf(b)) })
	return func(yield func(pistore.Row, error) bool) {
		if !yield(*r.Header, nil) {
			return
		}
		for _, row := range all {
			if !yield(row, nil) {
				return
			}
		}
	}
}

func (b *fileStore) Create(ctx context.Context, info pistore.Info) (pistore.Storage, error) {
	m := memstore.New(memstore.Options{})
	st, err := m.Create(ctx, info)
	if err != nil {
		return nil, err
	}
	id := st.Info().ID
	if _, err := b.Load(ctx, st.Export(ctx)); err != nil {
		return nil, err
	}
	return b.Open(ctx, id, pistore.ReadWrite)
}

func (b *fileStore) Load(ctx context.Context, rows iter.Seq2[pistore.Row, error]) (pistore.Info, error) {
	m := memstore.New(memstore.Options{})
	info, err := m.Load(ctx, rows)
	if err != nil {
		return info, err
	}
	if _, err := b.fs.Stat(b.path(info.ID)); err == nil {
		return info, fmt.Errorf("%w: %s", pistore.ErrDuplicateID, info.ID)
	}
	st, err := m.Open(ctx, info.ID, pistore.ReadOnly)
	if err != nil {
		return info, err
	}
	r, err := exported(st.Export(ctx))
	if err == nil {
		err = b.writeNew(b.path(info.ID), r)
	}
	return info, err
}

func (b *fileStore) Rewrite(ctx context.Context, id pistore.SessionID, make func(pistore.Storage) iter.Seq2[pistore.Row, error]) (pistore.Info, error) {
	st, err := b.Open(ctx, id, pistore.ReadWrite)
	if err != nil {
		return pistore.Info{}, err
	}
	defer st.Close()
	m := memstore.New(memstore.Options{})
	info, err := m.Load(ctx, make(st))
	if err != nil {
		return info, err
	}
	made, err := m.Open(ctx, id, pistore.ReadOnly)
	if err != nil {
		return info, err
	}
	r, err := exported(made.Export(ctx))
	if err == nil {
		err = b.writeNew(b.path(id), r)
	}
	return info, err
}

func (b *fileStore) List(context.Context) iter.Seq2[pistore.Info, error] {
	return func(yield func(pistore.Info, error) bool) {
		all, err := b.fs.List(b.dir)
		if err != nil {
			yield(pistore.Info{}, err)
			return
		}
		for _, e := range all {
			if id, ok := strings.CutSuffix(e.Name, suffix); ok && !yield(pistore.Info{ID: pistore.SessionID(id)}, nil) {
				return
			}
		}
	}
}

func (b *fileStore) Delete(_ context.Context, id pistore.SessionID) error {
	err := b.fs.Remove(b.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s", pistore.ErrNotFound, id)
	}
	if err == nil && b.defect != noDirSync {
		err = b.fs.SyncDir(b.dir)
	}
	return err
}

func (b *fileStore) Open(ctx context.Context, id pistore.SessionID, mode pistore.Mode) (pistore.Storage, error) {
	how := disk.Append
	if mode == pistore.ReadOnly {
		how = disk.Read
	}
	f, err := b.fs.Open(b.path(id), how)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", pistore.ErrNotFound, id)
	}
	if err != nil {
		return nil, err
	}
	s := &fileSession{b: b, file: f, mode: mode}
	if mode == pistore.ReadOnly && b.defect == touchOnLook {
		err = b.touch(id)
	}
	if mode == pistore.ReadWrite {
		err = f.Lock()
	}
	var content []byte
	if err == nil {
		content, err = readFile(b.fs, b.path(id))
	}
	if err == nil {
		err = s.replay(ctx, content)
	}
	if err != nil && b.defect == keepLock {
		return nil, err
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = append(b.open, s)
	return s, nil
}

func (b *fileStore) Close() error {
	b.mu.Lock()
	open := b.open
	b.open = nil
	b.mu.Unlock()
	var errs []error
	for _, s := range open {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// fileSession is a session in memory beside the file that it replays from.
type fileSession struct {
	pistore.Storage // in memory
	b               *fileStore
	file            disk.File
	mode            pistore.Mode
	at              pistore.UnixMS // what the memory's clock says

	mu     sync.Mutex // guards what follows, and orders commits
	end    int64      // of the last whole record
	torn   bool       // something stands behind it
	fault  error
	closed bool
	buffer []byte // of a defect
}

// replay makes the session of its file, up to a torn tail.
func (s *fileSession) replay(ctx context.Context, content []byte) error {
	first, at, ok := s.b.readFrame(content, 0)
	if !ok || first.Header == nil {
		return s.corrupt(0, "no session begins here")
	}
	m := memstore.New(memstore.Options{Clock: func() pistore.UnixMS { return s.at }})
	info, err := m.Load(ctx, first.rows())
	if err == nil {
		s.Storage, err = m.Open(ctx, info.ID, pistore.ReadWrite)
	}
	if err != nil {
		return s.corrupt(0, err.Error())
	}
	for at < len(content) {
		r, end, ok := s.b.readFrame(content, at)
		if !ok {
			break
		}
		s.at = r.At
		if _, err := s.Storage.Commit(ctx, r.tx()); err != nil && s.b.defect != halfTx {
			return s.corrupt(at, err.Error())
		}
		at = end
	}
	s.end, s.torn = int64(at), at < len(content)
	if s.torn && s.b.defect == halfTx {
		s.applyHalf(ctx, content[at:])
	}
	for later := at + 1; s.torn && later < len(content) && s.b.defect != truncateSilently; later++ {
		if _, _, ok := s.b.readFrame(content, later); ok {
			return s.corrupt(at, fmt.Sprintf("no record is here, and one is at byte %d", later))
		}
	}
	if s.b.defect == recoverInPlace && s.mode == pistore.ReadWrite {
		return s.recover(content[:at])
	}
	if s.torn && s.b.defect == repairOnLook {
		return s.repair(content[:at])
	}
	return nil
}

func (s *fileSession) corrupt(at int, problem string) error {
	place := fmt.Sprintf("byte %d", at)
	if s.b.defect == placeless {
		place = ""
	}
	return &pistore.CorruptError{Backend: "file", Place: place, Problem: problem}
}

func (r record) tx() (tx pistore.Tx) {
	for _, w := range r.Writes {
		switch {
		case w.Entry != nil:
			tx.Writes = append(tx.Writes, *w.Entry)
		case w.Usage != nil:
			tx.Writes = append(tx.Writes, *w.Usage)
		case w.Set != nil:
			tx.Writes = append(tx.Writes, *w.Set)
		case w.Delete != nil:
			tx.Writes = append(tx.Writes, *w.Delete)
		}
	}
	return tx
}

func (s *fileSession) Commit(ctx context.Context, tx pistore.Tx) (pistore.Receipt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return pistore.Receipt{}, pistore.ErrClosed
	case s.fault != nil && s.b.defect != noPoison:
		return pistore.Receipt{}, s.fault
	case s.mode == pistore.ReadOnly:
		return pistore.Receipt{}, pistore.ErrReadOnly
	}
	s.at = pistore.SystemClock()
	receipt, err := s.Storage.Commit(ctx, tx) // what can be refused is
	if err != nil {
		return receipt, err
	}
	r := record{At: s.at}
	for _, w := range tx.Writes {
		var one writeRecord
		switch w := w.(type) {
		case pistore.InsertEntry:
			one.Entry = &w
		case pistore.InsertUsage:
			one.Usage = &w
		case pistore.SetRegister:
			one.Set = &w
		case pistore.DeleteRegister:
			one.Delete = &w
		}
		r.Writes = append(r.Writes, one)
	}
	if err := s.append(s.b.frame(r)); err != nil {
		s.fault = fmt.Errorf("%w: %w", pistore.ErrFaulted, err)
		if s.b.defect == faultUnwrapped {
			s.fault = pistore.ErrFaulted
		}
		if s.b.defect == plainError {
			s.fault = nil
			return receipt, err
		}
		return receipt, s.fault
	}
	return receipt, nil
}

// append writes one record behind the last whole one.
func (s *fileSession) append(text []byte) error {
	if s.torn && s.b.defect != appendBehindTorn {
		if err := s.file.Truncate(s.end); err != nil {
			return err
		}
	}
	s.torn = false
	if s.b.defect == bufferWrites || s.b.defect == ackFirst {
		return s.appendLater(text)
	}
	n, err := s.file.Write(text)
	if err != nil && !(s.b.defect == ignoreShortWrite && n > 0) {
		return err
	}
	s.end += int64(len(text))
	return s.sync(s.b.level)
}

// sync makes what was written durable, if a level asks for it.
func (s *fileSession) sync(level pistore.Durability) error {
	if level == pistore.Process || s.b.defect == noSync {
		return nil
	}
	err := s.file.SyncData()
	if err != nil && s.b.defect == retrySync {
		err = s.file.SyncData()
	}
	if s.b.defect == swallowSync {
		return nil
	}
	return err
}

func (s *fileSession) Sync(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != nil {
		return s.fault
	}
	if s.b.defect == syncDoesNothing {
		return nil
	}
	if err := s.sync(pistore.Power); err != nil {
		s.fault = fmt.Errorf("%w: %w", pistore.ErrFaulted, err)
	}
	return s.fault
}

// Compact rewrites the file as what is left of the session.
func (s *fileSession) Compact(ctx context.Context) (pistore.CompactResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != nil {
		return pistore.CompactResult{}, s.fault
	}
	r, err := exported(s.Storage.Export(ctx))
	name := s.b.path(s.Info().ID)
	if err == nil {
		err = s.b.writeNew(name, r)
	}
	var f disk.File
	if err == nil {
		f, err = s.b.fs.Open(name, disk.Append)
	}
	if err == nil {
		err = f.Lock()
	}
	if err != nil {
		// Which of the files has the name is not known.
		if f != nil {
			err = errors.Join(err, f.Close())
		}
		s.fault = fmt.Errorf("%w: %w", pistore.ErrFaulted, err)
		return pistore.CompactResult{}, s.fault
	}
	err = s.file.Close()
	s.file, s.end, s.torn = f, int64(len(s.b.frame(r))), false
	if err != nil {
		s.fault = fmt.Errorf("%w: %w", pistore.ErrFaulted, err)
	}
	return pistore.CompactResult{}, s.fault
}

func (s *fileSession) Stats(ctx context.Context) (pistore.Stats, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != nil && s.b.defect != noPoison {
		return pistore.Stats{}, s.fault
	}
	return s.Storage.Stats(ctx)
}

func (s *fileSession) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return errors.Join(s.flush(), s.file.Close())
}

// What follows is for defects.

// appendLater writes ten records at once, or each one when the next comes.
func (s *fileSession) appendLater(text []byte) error {
	now := s.buffer
	if s.b.defect == ackFirst {
		s.buffer = text
	} else if s.buffer = append(s.buffer, text...); len(s.buffer) > 20_000 {
		now, s.buffer = s.buffer, nil
	} else {
		return nil
	}
	_, err := s.file.Write(now)
	return errors.Join(err, s.sync(s.b.level))
}

func (s *fileSession) flush() error {
	if len(s.buffer) == 0 || s.fault != nil {
		return nil
	}
	_, err := s.file.Write(s.buffer)
	s.buffer = nil
	return errors.Join(err, s.sync(s.b.level))
}

// repair writes what is whole anew, in place.
func (s *fileSession) repair(whole []byte) error {
	f, err := s.b.fs.Open(s.b.path(s.Info().ID), disk.Append)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(int64(len(whole))), f.Close())
}

// touch makes a file beside that of a session.
func (b *fileStore) touch(id pistore.SessionID) error {
	f, err := b.fs.Open(b.path(id)+".look", disk.Create)
	if err != nil {
		return nil // there is one
	}
	return f.Close()
}

// recover writes what is whole anew, record by record.
func (s *fileSession) recover(whole []byte) error {
	err := s.file.Truncate(0)
	s.end, s.torn = int64(len(whole)), false
	for at := 0; at < len(whole) && err == nil; {
		_, end, _ := s.b.readFrame(whole, at)
		if _, err = s.file.Write(whole[at:end]); err == nil {
			err = s.file.Sync()
		}
		at = end
	}
	return err
}

// applyHalf takes the entry of a transaction whose record is torn.
func (s *fileSession) applyHalf(ctx context.Context, torn []byte) {
	at := bytes.Index(torn, []byte(`{"Entry":{`))
	if at < 0 {
		return
	}
	var one writeRecord
	if json.NewDecoder(bytes.NewReader(torn[at:])).Decode(&one) == nil && one.Entry != nil {
		_, _ = s.Storage.Commit(ctx, pistore.Tx{Writes: []pistore.Write{*one.Entry}})
	}
}
