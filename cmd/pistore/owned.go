package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"pistore"
	"pistore/jsonl"
	"pistore/logstore"
)

// owned is a store that is open for changing one session of it.
type owned struct {
	place   string
	info    pistore.Info // of the session
	backend pistore.Backend
	db      *logstore.Store // nil: a file
}

// lookUp finds the session that an argument names, without opening for writing,
// which changes files of a logstore.
func lookUp(ctx context.Context, arg string) (place string, info pistore.Info, err error) {
	o, err := openAs(ctx, arg, logstore.Options{ReadOnly: true})
	if err != nil {
		return "", info, err
	}
	return o.place, o.info, o.backend.Close()
}

// openOwned opens the store that an argument names, for writing.
func openOwned(ctx context.Context, arg string) (*owned, error) {
	return openAs(ctx, arg, logstore.Options{Durability: pistore.Power})
}

func openAs(ctx context.Context, arg string, opts logstore.Options) (*owned, error) {
	place, id, err := splitStore(arg)
	if err != nil {
		return nil, err
	}
	isFile, err := detect(place)
	if err != nil {
		return nil, err
	}
	o := &owned{place: place}
	if isFile {
		o.backend = jsonl.NewSingle(place, jsonl.Options{Durability: pistore.Power})
	} else {
		o.db, err = logstore.Open(place, opts)
		if err != nil {
			return nil, cannotWrite(place, refused(place, err))
		}
		o.backend = o.db
	}
	if err := o.choose(ctx, id); err != nil {
		return nil, errors.Join(err, o.backend.Close())
	}
	return o, nil
}

// choose finds the session that is named, or else the only one.
func (o *owned) choose(ctx context.Context, id pistore.SessionID) error {
	sessions := 0
	for info, err := range o.backend.List(ctx) {
		if err != nil && o.db == nil {
			return refusedFile(ctx, o.place, err)
		}
		if err != nil {
			return refused(o.place, err)
		}
		if id == "" || info.ID == id {
			sessions++
			o.info = info
		}
	}
	switch {
	case sessions == 1:
		return nil
	case sessions > 1:
		return usageError(fmt.Sprintf("%s holds %d sessions; name one as STORE#SESSION (\"pistore inspect STORE\" lists them)", o.place, sessions))
	case id != "":
		return fmt.Errorf("%s holds no session %s (\"pistore inspect STORE\" lists them)", o.place, id)
	case o.db == nil:
		return fmt.Errorf("%s is a file of no format that pistore knows", o.place)
	default:
		return fmt.Errorf("%s holds no session", o.place)
	}
}

// refuse says why a session could not be changed.
func (o *owned) refuse(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return leftAsItWas(o.place, ctx.Err())
	case errors.Is(err, pistore.ErrNotFound):
		return fmt.Errorf("%s: session %s is gone", o.place, o.info.ID)
	case o.db == nil && !errors.Is(err, pistore.ErrLocked) && !errors.Is(err, pistore.ErrForeignFormat):
		return cannotWrite(o.place, refusedFile(ctx, o.place, err))
	default:
		return cannotWrite(o.place, refused(o.place, err))
	}
}

// confirm asks whether to do what cannot be undone, unless yes says so already.
func (in *invocation) confirm(yes bool, question string) error {
	if yes {
		return nil
	}
	if !isTerminal(os.Stdin) || !isTerminal(in.errors) {
		return usageError(in.command.name + " asks first, and nobody can answer here; say --yes")
	}
	fmt.Fprintf(in.errors, "%s [y/N] ", safe(question))
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n') // without an answer: no
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return &exitError{exitFindings, errors.New("not confirmed; nothing was changed")}
	}
	return nil
}

// giveBack removes the old bytes of what was rewritten or deleted, which stand in
// the tables and logs of a logstore until then.
func (o *owned) giveBack(ctx context.Context, what string) error {
	if o.db == nil {
		return nil
	}
	if _, err := o.db.Compact(context.WithoutCancel(ctx)); err != nil {
		return &exitError{exitFindings, fmt.Errorf("%s is %s, and the old bytes could not be given back: %w; \"pistore compact\" does it", o.place, what, cause(err))}
	}
	return nil
}
