package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"pistore"
	"pistore/jsonl"
	"pistore/logstore"
	"pistore/search"
	"pistore/session"
)

// searchPlace is a place with sessions that are searched.
type searchPlace struct {
	dir      string
	files    bool // a folder of files; else a logstore
	sessions []search.Session
	skipped  []skippedView
	omitted  int64
	close    func() error
}

func openPlace(ctx context.Context, dir string) (*searchPlace, error) {
	repo, done, err := openRepo(dir)
	if err != nil {
		return nil, err
	}
	if is, err := isLogstore(dir); err == nil && is {
		// The sessions are read through a backend of our own.
		if err := done(); err != nil {
			return nil, refused(dir, err)
		}
		return openStorePlace(ctx, dir)
	}
	p := &searchPlace{dir: dir, files: true, skipped: []skippedView{}, close: done}
	l, err := repo.List(ctx, session.ListQuery{})
	if err != nil {
		return nil, errors.Join(refused(dir, err), done())
	}
	damaged, skipped := damagedAtStart(l)
	for _, s := range append(l.Sessions, damaged...) {
		if one, err := p.file(s); err == nil {
			p.sessions = append(p.sessions, one)
		}
	}
	p.skipped, p.omitted = skippedViews(skipped), l.Omitted
	return p, nil
}

func openStorePlace(ctx context.Context, dir string) (*searchPlace, error) {
	db, err := logstore.Open(dir, logstore.Options{ReadOnly: true})
	if err != nil {
		return nil, refused(dir, err)
	}
	p := &searchPlace{dir: dir, skipped: []skippedView{}, close: db.Close}
	for info, err := range db.List(ctx) {
		if err != nil {
			return nil, errors.Join(refused(dir, err), db.Close())
		}
		p.sessions = append(p.sessions, search.Session{
			Key: string(info.ID), Info: info,
			Open: func(ctx context.Context) (search.Reader, error) {
				s, err := db.Open(ctx, info.ID, pistore.ReadOnly)
				if err != nil {
					return search.Reader{}, err
				}
				return search.Reader{Storage: s, Close: s.Close}, nil
			},
		})
	}
	return p, nil
}

// file is a session file. One that has neither changed its size, its time nor
// its header is as it was. In files other than ours an entry has no seq of its
// own, so that a change may renumber them.
func (p *searchPlace) file(s session.Listed) (search.Session, error) {
	info, err := os.Stat(s.Path)
	if err != nil {
		return search.Session{}, err // removed meanwhile
	}
	key, err := filepath.Rel(p.dir, s.Path)
	if err != nil {
		return search.Session{}, err
	}
	header := sha256.Sum256(fmt.Appendf(nil, "%+v", s.Info))
	return search.Session{
		Key: key, Info: s.Info, Whole: s.Info.Format != string(jsonl.V4),
		Mark: fmt.Sprintf("%d %d %s", info.Size(), info.ModTime().UnixNano(), hex.EncodeToString(header[:8])),
		Open: func(ctx context.Context) (search.Reader, error) {
			f, err := jsonl.OpenFile(ctx, s.Path, pistore.ReadOnly, jsonl.Options{})
			if err != nil {
				return search.Reader{}, refusedFile(ctx, s.Path, err)
			}
			legacy := func(id pistore.ID) string { l, _ := f.LegacyID(id); return l }
			return search.Reader{Storage: f, LegacyID: legacy, Close: f.Close}, nil
		},
	}, nil
}
