//go:build !unix

package transport

import "os"

// guard does nothing: on Windows the system ends a job when this process dies, and other systems have no
// process groups.
type guard struct{}

func newGuard(*os.Process) *guard { return nil }

func (*guard) release() {}
