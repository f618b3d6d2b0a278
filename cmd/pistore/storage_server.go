package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"pistore"
	"pistore/conformance/pipe"
	"pistore/jsonl"
	"pistore/logstore"
	"pistore/memstore"
)

var storageServerCommand = command{
	name: "storage-server", args: "[flags]",
	short: "serve a store over stdin and stdout",
	long: `Speaks the store protocol: a request a line on stdin, an answer a line on
stdout, until stdin ends. "open" names a location: one that ends in .jsonl is a
session file, memory: is memory, anything else a logstore folder.`,
	examples: []string{`echo '{"id":1,"method":"open","params":{"location":"memory:","create":true}}' | pistore storage-server`},
	run:      runStorageServer,
}

func runStorageServer(ctx context.Context, in *invocation) error {
	rest, err := in.parse()
	if err != nil {
		return err
	}
	if len(rest) != 0 {
		return usageError(`storage-server takes no arguments; "open" names the location`)
	}
	s := storeServer{}
	// A read of stdin cannot be interrupted otherwise.
	stop := context.AfterFunc(ctx, func() { _ = os.Stdin.Close() })
	defer stop()
	err = pipe.Serve(ctx, os.Stdin, os.Stdout, s.open)
	if ctx.Err() != nil {
		return &exitError{exitFindings, errors.New("interrupted")}
	}
	return err
}

// storeServer opens what the protocol names.
type storeServer struct {
	memory sync.Map // of locations: the backends that live as long as the process
}

func (s *storeServer) open(ctx context.Context, p pipe.OpenParams) (pistore.Storage, io.Closer, error) {
	switch {
	case strings.HasPrefix(p.Location, "memory:"):
		b, _ := s.memory.LoadOrStore(p.Location, memstore.New(memstore.Options{}))
		st, err := pipe.OpenIn(ctx, b.(pistore.Backend), p)
		return st, nil, err
	case strings.HasPrefix(p.Location, "postgres:"), strings.HasPrefix(p.Location, "postgresql:"), strings.HasSuffix(p.Location, ".db"):
		return nil, nil, fmt.Errorf("%w: this build opens no SQL database", pistore.ErrUnsupported)
	case strings.HasSuffix(p.Location, ".jsonl"):
		b := jsonl.NewSingle(p.Location, jsonl.Options{Durability: p.Durability})
		st, err := pipe.OpenIn(ctx, b, p)
		return st, b, err
	}
	return openFolder(ctx, p)
}

// openFolder opens a session of a logstore.
func openFolder(ctx context.Context, p pipe.OpenParams) (pistore.Storage, io.Closer, error) {
	if _, err := os.Stat(p.Location); errors.Is(err, os.ErrNotExist) && !p.Create {
		return nil, nil, fmt.Errorf("%w: nothing at %s", pistore.ErrNotFound, p.Location)
	}
	db, err := logstore.Open(p.Location, logstore.Options{Durability: p.Durability, ReadOnly: p.Mode == pistore.ReadOnly})
	if err != nil {
		return nil, nil, err
	}
	st, err := pipe.OpenIn(ctx, db, p)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return st, db, nil
}
