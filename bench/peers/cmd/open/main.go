// Command open is the process in which peers opens session files. It holds the
// jsonl backend and no engine of another, as the process of the reference
// implementation holds its stores alone, so that the memory of the two compares.
// It takes its orders from its environment.
package main

import (
	"context"
	"fmt"
	"os"

	"pistore"
	"pistore/bench"
	"pistore/jsonl"
)

func main() {
	open := func(dir string) (pistore.Backend, error) {
		return jsonl.NewFolder(dir, jsonl.Options{Durability: pistore.Process}), nil
	}
	if err := bench.Obey(context.Background(), os.Getenv("PISTORE_PEERS_ORDERS"), open, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
