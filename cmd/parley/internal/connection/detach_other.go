//go:build !(unix || windows)

package connection

import "os/exec"

// detach does nothing.
func detach(*exec.Cmd) {}
