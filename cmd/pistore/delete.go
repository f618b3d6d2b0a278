package main

import (
	"context"
	"errors"
	"fmt"

	"pistore"
)

var deleteCommand = command{
	name: "delete", args: "STORE[#SESSION] [flags]",
	short: "remove a session for good",
	long: `Removes a session from a logstore, or a session file with the original that an
upgrade has kept beside it. It asks first. What is no session is not touched, and
neither is one that somebody has open for writing.`,
	examples: []string{"pistore delete './store#0195c8d1-52a1-7c3e-8f00-1234567890ab' --yes", "pistore delete session.jsonl --yes"},
	run:      runDelete,
}

// deleteReport is the JSON of delete.
type deleteReport struct {
	Session pistore.SessionID `json:"session"`
	Format  string            `json:"format"`
}

func runDelete(ctx context.Context, in *invocation) (err error) {
	yes := in.flags.Bool("yes", false, "do not ask")
	arg, err := in.parseStore()
	if err != nil {
		return err
	}
	place, info, err := lookUp(ctx, arg)
	if err != nil {
		return err
	}
	if err := in.confirm(*yes, fmt.Sprintf("Delete session %s of %s for good?", info.ID, place)); err != nil {
		return err
	}
	o, err := openOwned(ctx, arg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.backend.Close()) }()
	if err := o.backend.Delete(ctx, o.info.ID); err != nil {
		return o.refuse(ctx, err)
	}
	if err := o.giveBack(ctx, "without the session"); err != nil {
		return err
	}
	if in.json {
		return in.out.object(deleteReport{Session: o.info.ID, Format: o.info.Format})
	}
	in.out.line(bold("session "), plain(string(o.info.ID)), plain("  "), green("deleted"))
	return nil
}
