package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/parley-mcp/parley/cmd/parley/internal/connection"
)

// runtimeDir gives a script a directory for the sockets of connections. The paths of other directories of a script can
// be too long. The end of the script ends the connections.
func runtimeDir(env *testscript.Env) error {
	base, err := os.MkdirTemp("", "p")
	if err != nil {
		return err
	}
	env.Setenv("PARLEY_RUNTIME_DIR", filepath.Join(base, "run"))
	env.Defer(func() {
		ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
		defer cancel()
		dir := connection.New(filepath.Join(base, "run"))
		for _, name := range dir.Names() {
			_ = dir.Stop(ctx, name) // it may have ended
		}
		_ = os.RemoveAll(base)
	})
	return nil
}

// killed NAME kills the process of a connection, and waits until it has ended.
func killed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: killed NAME")
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	dir := connection.New(ts.Getenv("PARLEY_RUNTIME_DIR"))
	info, err := dir.Info(ctx, args[0])
	ts.Check(err)
	process, err := os.FindProcess(info.PID)
	ts.Check(err)
	ts.Check(process.Kill())
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		conn, err := dir.Dial(ctx, args[0])
		if errors.Is(err, connection.ErrNotConnected) {
			return
		}
		ts.Check(err)
		conn.Close()
		select {
		case <-poll.C:
		case <-ctx.Done():
			ts.Fatalf("the process %d has not ended", info.PID)
		}
	}
}
