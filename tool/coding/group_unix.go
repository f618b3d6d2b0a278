//go:build unix

package coding

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup makes the process lead a group of its own.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills the group that p leads or led. A group whose leader is gone
// keeps its number as long as it has members; of an empty one the number could
// be given to another process only after the system had gone through all others,
// so the moment since the leader's end is not enough.
func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
