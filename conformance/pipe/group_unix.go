//go:build unix

package pipe

import (
	"os/exec"
	"syscall"
)

// ownGroup starts a store as the first of a group of processes, so that what it
// starts ends with it.
func ownGroup(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
}

// killGroup kills the processes of a store, whether the first of them has ended
// or not.
func killGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
