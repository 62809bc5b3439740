//go:build !amd64 && !arm64 && !riscv64

package confine

import (
	"errors"
	"runtime"
)

// checkArchitecture reports that there is no filter of system calls for the architecture.
func checkArchitecture() error {
	return errors.New("the architecture " + runtime.GOARCH + " is not supported; use a machine with amd64 or arm64")
}

func (r *Rules) installFilter() error { return checkArchitecture() }
