package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"

	"pistore"
	"pistore/jsonl"
)

var versionCommand = command{
	name: "version", args: "[flags]",
	short:    "what this build is and what it opens",
	examples: []string{"pistore version"},
	run:      runVersion,
}

// versionReport is the JSON of version.
type versionReport struct {
	Version        string   `json:"version"`
	Revision       string   `json:"revision,omitempty"`
	Time           string   `json:"time,omitempty"` // of the revision
	Modified       bool     `json:"modified"`
	Go             string   `json:"go"`
	Platform       string   `json:"platform"`
	StorageVersion int      `json:"storageVersion"`
	Opens          []string `json:"opens"`
	Writes         []string `json:"writes"`
}

func buildOf(info *debug.BuildInfo) versionReport {
	r := versionReport{
		Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		StorageVersion: pistore.StorageVersion, Opens: append(slices.Clone(fileFormats), "logstore"),
		Writes: []string{string(jsonl.V4), "logstore"},
	}
	if info == nil {
		return r
	}
	if info.Main.Version != "" {
		r.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			r.Revision = s.Value
		case "vcs.time":
			r.Time = s.Value
		case "vcs.modified":
			r.Modified = s.Value == "true"
		}
	}
	return r
}

func runVersion(_ context.Context, in *invocation) error {
	rest, err := in.parse()
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return usageError("version takes no arguments")
	}
	info, _ := debug.ReadBuildInfo()
	r := buildOf(info)
	if in.json {
		return in.out.object(r)
	}
	in.out.line(bold("pistore "), plain(r.Version))
	if r.Revision != "" {
		modified := ""
		if r.Modified {
			modified = ", modified"
		}
		in.out.line(plain(fmt.Sprintf("  revision  %s (%s%s)", r.Revision, r.Time, modified)))
	}
	in.out.line(plain(fmt.Sprintf("  built     with %s for %s", r.Go, r.Platform)))
	in.out.line(plain("  opens     " + joined(r.Opens)))
	in.out.line(plain(fmt.Sprintf("  writes    %s, storage version %d", joined(r.Writes), r.StorageVersion)))
	return nil
}
