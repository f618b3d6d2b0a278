package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"pistore"
	"pistore/session/page"
	"pistore/verify"
)

// inspectHTML writes the session as one HTML document.
func inspectHTML(ctx context.Context, in *invocation, o *opened, r inspectReport, name string) error {
	if err := notOver(o.place, name); err != nil {
		return err
	}
	stop := in.progress("writing")
	defer stop()
	src := pageSource(o, r)
	if spent, err := spending(ctx, o.session); err == nil {
		src.Spent = spent
	}
	err := replaceFile(name, func(w io.Writer) error { return page.Write(ctx, w, src, page.DefaultLimits) })
	stop()
	if err != nil {
		return leftAsItWas(name, err)
	}
	if in.json {
		return in.out.object(map[string]string{"html": name})
	}
	in.out.line(plain("wrote "), cyan(name))
	return nil
}

func pageSource(o *opened, r inspectReport) page.Source {
	src := page.Source{
		Storage: o.session, LegacyID: o.legacyID, OmittedFaults: r.OmittedFaults, Incomplete: r.Incomplete,
		MadeAt: pistore.UnixMS(time.Now().UnixMilli()), MadeBy: "pistore",
	}
	if r.Size != nil {
		src.Bytes = r.Size.Bytes
		if r.Size.TornBytes != nil {
			src.TornBytes = *r.Size.TornBytes
		}
	}
	for _, l := range r.Lanes {
		src.Lanes = append(src.Lanes, pageLane(l))
	}
	for _, f := range r.Faults {
		src.Faults = append(src.Faults, page.Fault{
			Warning: f.Severity == string(verify.Warning), Name: f.name(), Place: f.Place, ID: cmp.Or(f.LegacyID, f.ID), Message: f.Message,
		})
	}
	return src
}

func pageLane(l laneView) page.Lane {
	v := page.Lane{Name: l.Name, Leaf: l.LeafID, Doing: "idle", Busy: l.Operation != nil}
	switch {
	case l.problem != "":
		v.Doing = l.problem
	case l.Operation != nil:
		v.Doing = l.Operation.words
	}
	if l.NextRun > 0 {
		v.Doing += "; " + count(int64(l.NextRun), "input waits", "inputs wait") + " for the next run"
	}
	if l.config != nil {
		v.Model = l.config.Model.Provider + "/" + l.config.Model.ModelID
	}
	if l.last != nil {
		v.Result = lastResultWords(*l.last)
	}
	return v
}

// notOver refuses to write over anything but an earlier page: over the store that
// is read, and over any other file.
func notOver(place, name string) error {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return usageError(fmt.Sprintf("--html: %s is no file", name))
	}
	target, err := realPath(name)
	if err != nil {
		return cannotWrite(name, err)
	}
	store, err := realPath(place)
	if err != nil {
		return fmt.Errorf("%s: %w", place, cause(err))
	}
	inside, err := filepath.Rel(store, target)
	if err == nil && filepath.IsLocal(inside) {
		return usageError(fmt.Sprintf("--html: %s is the store itself or in it; name another file", name))
	}
	a, errA := os.Stat(store)
	b, errB := os.Stat(target)
	if errA == nil && errB == nil && os.SameFile(a, b) {
		return usageError(fmt.Sprintf("--html: %s is the store itself; name another file", name))
	}
	return pageOrNothing(target, name)
}

// pageOrNothing checks that a place is free, or has a page that may be replaced.
func pageOrNothing(target, name string) (err error) {
	f, err := os.Open(target)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return usageError(fmt.Sprintf("--html: %s: %v; name another file", name, cause(err)))
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	is, err := page.IsPage(f)
	if err != nil {
		return usageError(fmt.Sprintf("--html: %s: %v; name another file", name, cause(err)))
	}
	if !is {
		return usageError(fmt.Sprintf("--html: %s is there already and is no page that pistore made; name another file", name))
	}
	return nil
}

// realPath resolves a path of which the last element may be missing.
func realPath(name string) (string, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(abs)
	if errors.Is(err, fs.ErrNotExist) {
		dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
		return filepath.Join(dir, filepath.Base(abs)), err
	}
	return real, err
}

// replaceFile writes a file beside its place and moves it there when it is whole,
// so that nothing half-written is ever found under the name.
func replaceFile(name string, write func(io.Writer) error) (err error) {
	if target, err := realPath(name); err == nil {
		name = target
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".pistore-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err := errors.Join(write(f), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
