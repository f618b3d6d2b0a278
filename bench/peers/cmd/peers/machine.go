package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"pistore/bench/peers/rows"
)

// machineOf says what the measuring is done on. What a system does not tell is
// left empty.
func machineOf(dir string) rows.Machine {
	memoryKB, _ := strconv.ParseInt(strings.TrimSuffix(fieldOf("/proc/meminfo", "MemTotal"), " kB"), 10, 64)
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return rows.Machine{
		CPU: fieldOf("/proc/cpuinfo", "model name"), Cores: runtime.NumCPU(), MemoryBytes: memoryKB << 10,
		Kernel: strings.TrimSpace(runtime.GOOS + " " + string(kernel)), FileSystem: fileSystemOf(dir),
		Go: strings.TrimPrefix(runtime.Version(), "go") + " " + runtime.GOARCH,
	}
}

// fieldOf is what stands behind "name:" in a file of the kernel's.
func fieldOf(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// fileSystemOf is the kind of the file system that a folder is on: that of the
// longest mount point above it.
func fileSystemOf(dir string) string {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return ""
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return ""
	}
	best, kind := "", ""
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if len(f) < 3 || len(f[1]) < len(best) {
			continue
		}
		if f[1] == "/" || dir == f[1] || strings.HasPrefix(dir, f[1]+"/") {
			best, kind = f[1], f[2]
		}
	}
	return kind
}
