package terminal

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// checkInterval is how often a program looks whether its terminal is still there.
const checkInterval = 10 * time.Second

// Controlling is the controlling terminal of the process, whose end is a SIGHUP like the one with which an operator
// makes a program read its files again. It is not safe for concurrent use.
type Controlling struct {
	attached bool
	ticker   *time.Ticker
}

// NewControlling returns the controlling terminal. It must be called before a function that catches SIGHUP: a process
// that ignores the signal, as nohup starts it, does not depend on a terminal.
func NewControlling() *Controlling {
	c := &Controlling{
		attached: !signal.Ignored(syscall.SIGHUP) && hasControlling(),
		ticker:   time.NewTicker(checkInterval),
	}
	if !c.attached {
		c.ticker.Stop()
	}
	return c
}

// Check returns a channel that receives when Closed should be called. A process that outlives its terminal without a
// signal, because the shell has disowned it, can be sent a SIGHUP later, which is not one of the terminal then.
func (c *Controlling) Check() <-chan time.Time { return c.ticker.C }

// Closed reports whether the terminal has closed since the previous call.
func (c *Controlling) Closed() bool {
	if !c.attached || hasControlling() {
		return false
	}
	c.attached = false
	c.ticker.Stop()
	return true
}

// Stop stops the channel of Check.
func (c *Controlling) Stop() { c.ticker.Stop() }

// hasControlling reports whether the process has a controlling terminal. The system detaches it from all its processes
// before it sends the signal: when the terminal closes, and when the first process of the session ends.
func hasControlling() bool {
	file, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	_ = file.Close()
	return true
}
