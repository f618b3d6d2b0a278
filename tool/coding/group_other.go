//go:build !unix

package coding

import (
	"os"
	"os/exec"
)

// ownGroup does nothing: there are no process groups here.
func ownGroup(*exec.Cmd) {}

// killGroup kills the process alone; what it started lives on.
func killGroup(p *os.Process) { _ = p.Kill() }
