//go:build !linux

package confine

import (
	"fmt"
	"runtime"
)

// become reports that the system is not supported.
func (r *Rules) become(string, []string) error {
	return fmt.Errorf("%s cannot confine a program, only Linux can; remove \"confine\" and run the server in a "+
		"container, or set \"bestEffort\": true to start it without restrictions", runtime.GOOS)
}

// Check reports that the system is not supported.
func (r *Rules) Check() error { return r.become("", nil) }
