package dialing

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/transport"
)

// SetProgress sets the progress of the command, above which log messages appear.
func (f *Flags) SetProgress(p *terminal.Progress) { f.progress = p }

// stderr returns where log messages are written. At a terminal, they appear above the progress.
func (f *Flags) stderr(cmd *cobra.Command) io.Writer {
	w := cmd.ErrOrStderr()
	if !terminal.Is(w) {
		return w
	}
	if f.progress == nil {
		f.progress = terminal.NewProgress(w, "")
	}
	return f.progress
}

// Await shows at a terminal that d dials a server, until the returned function is called with the error of the Dial. It
// returns the error with the last line of a program that has not exited: it can be why the program does not answer.
func (f *Flags) Await(d *client.Dialer, to client.Target) func(error) error {
	detail, stop := func(string) {}, func() {}
	if f.progress != nil {
		detail, stop = f.progress.Await("waiting for " + to.String() + " to answer")
	}
	var mu sync.Mutex
	last := ""
	if p, ok := to.(*client.CommandTarget); ok && p.Stderr == nil {
		p.Logger = cmp.Or(p.Logger, d.Logger)
		p.Stderr = func(line string) {
			if line = strings.TrimSpace(line); line == "" {
				return
			}
			mu.Lock()
			last = line
			mu.Unlock()
			detail(line)
		}
	}
	return func(err error) error {
		dial, ok := errors.AsType[*client.DialError](err)
		if ok {
			dial.Wait() // no process outlives the program
		}
		stop()
		mu.Lock()
		defer mu.Unlock()
		if ok && last != "" && !errors.As(err, new(*transport.ExitError)) {
			dial.Err = fmt.Errorf("%w; last line of stderr: %q", dial.Err, last)
		}
		return err
	}
}
