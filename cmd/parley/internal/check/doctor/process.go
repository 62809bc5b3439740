package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/confine"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// exitGrace is how long a server may take to exit after its standard input was closed.
const exitGrace = 5 * time.Second

// process examines a server that is a command: what it writes to standard output, whether it survives an invalid line,
// and whether it ends. Without supported revisions, it only examines the output.
func (e *Examination) process(ctx context.Context, supported []mcp.Revision) {
	target, ok := e.Target.(*client.CommandTarget)
	if !ok {
		return
	}
	e.confinement(target.Args)
	var mu sync.Mutex
	var stderr []string
	options := target.CommandOptions
	options.ExitGrace, options.TermGrace, options.Logger = cmp.Or(e.grace, exitGrace), time.Second, nil
	options.Stderr = func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if len(stderr) < maxNames {
			stderr = append(stderr, line)
		}
	}
	conn, err := transport.StartCommand(options)
	if err != nil {
		return // the connection has reported it
	}
	defer conn.Close()
	first := initialize(string(mcp.V20251125))
	if len(supported) > 0 && supported[0] == mcp.V20260728 {
		first = stateless(1, string(mcp.V20260728), mcp.MethodDiscover)
	}
	junk, answered := e.converse(ctx, conn, first)
	if junk != "" {
		e.report("process", Problem, "write log messages to standard error, in Python with print(…, file=sys.stderr) "+
			"or logging; standard output is for messages of the protocol only",
			"writes a line to standard output that is not an MCP message: %.120q", junk)
	}
	if len(supported) == 0 {
		mu.Lock()
		defer mu.Unlock()
		if len(stderr) > 0 {
			e.report("process", Note, "", "writes to standard error: %s", strings.Join(stderr, " / "))
		}
		return
	}
	if answered && junk == "" {
		e.report("process", OK, "", "writes only messages to standard output")
	}
	if answered {
		e.invalidLine(ctx, conn, supported)
	}
	e.exit(conn)
}

// confinement examines whether the system can enforce what a confined program must not do.
func (e *Examination) confinement(args []string) {
	rules := confine.Of(args)
	if rules == nil {
		return
	}
	switch err := rules.Check(); {
	case err == nil:
		e.report("confine", OK, "", "the system enforces the rules of \"confine\"")
	case rules.BestEffort:
		e.report("confine", Problem, `remove "bestEffort" from "confine", and use a newer kernel`,
			"the system enforces a part of the rules only: %v", err)
	default:
		e.report("confine", Problem, "", "cannot confine a program: %v", err)
	}
}

// converse sends a message and reads up to the response. It returns the first line that is no message, and whether
// there was a response.
func (e *Examination) converse(ctx context.Context, conn transport.Conn, message string) (junk string, answered bool) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := conn.Write(ctx, []byte(message)); err != nil {
		return "", false
	}
	for {
		line, err := conn.Read(ctx)
		var invalid *jsonrpc.InvalidMessageError
		if err != nil {
			return junk, false
		}
		m, err := jsonrpc.Parse(line, jsonrpc.Limits{})
		switch {
		case errors.As(err, &invalid) && junk == "":
			junk = string(line)
		case err == nil && m.Kind == jsonrpc.Response:
			return junk, true
		}
	}
}

// invalidLine examines whether a server keeps running after a line that is not JSON.
func (e *Examination) invalidLine(ctx context.Context, conn transport.Conn, supported []mcp.Revision) {
	next := pingMessage
	if supported[0] == mcp.V20260728 {
		next = stateless(2, string(mcp.V20260728), mcp.MethodDiscover)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := conn.Write(ctx, []byte("{not JSON"))
	if err == nil {
		err = conn.Write(ctx, []byte(next))
	}
	for err == nil {
		var line []byte
		if line, err = conn.Read(ctx); err != nil {
			break
		}
		if m, invalid := jsonrpc.Parse(line, jsonrpc.Limits{}); invalid == nil && m.Kind == jsonrpc.Response &&
			fmt.Sprint(m.ID) == "2" {
			e.report("process", OK, "", "keeps running after an invalid line")
			return
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		e.report("process", Warning, "answer an invalid line with a parse error, and read on",
			"exits after a line that is not JSON")
		return
	}
	e.report("process", Warning, "answer an invalid line with a parse error, and read on",
		"answers nothing after a line that is not JSON")
}

// exit closes the standard input of a server and examines how it ends.
func (e *Examination) exit(conn *transport.CommandConn) {
	start := time.Now()
	err := conn.Close()
	took, grace := time.Since(start), cmp.Or(e.grace, exitGrace)
	var killed *transport.ExitError
	signalled := errors.As(conn.Err(), &killed) && killed.Signal != nil
	switch {
	case took >= grace: // Close has sent SIGTERM, which the server may handle
		how := "after SIGTERM"
		if signalled {
			how = fmt.Sprintf("by the signal %v", killed.Signal)
		}
		e.report("process", Warning, "exit when standard input ends, so that hosts need not kill the server",
			"does not exit within %v after its standard input was closed; it ended %s", grace, how)
	case signalled:
		e.report("process", Warning, "find out why it crashes", "is ended by the signal %v when its standard input is "+
			"closed", killed.Signal)
	case err != nil:
		e.report("process", Note, "", "exits with an error when its standard input is closed: %s", e.text(err))
	default:
		e.report("process", OK, "", "exits %v after its standard input was closed", terminal.Duration(took))
	}
}
