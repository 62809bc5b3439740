// Command host runs several servers and lists the tools of all of them. A server that does
// not start does not affect the others.
//
//	go build -o bin/ ./examples/hello ./examples/weather
//	go run ./examples/host bin/hello bin/weather bin/missing
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
)

// list prints the tools of the servers, each of which is a program.
func list(ctx context.Context, out io.Writer, programs []string) error {
	h := &host.Host{Logger: slog.New(slog.DiscardHandler)} // WaitReady returns the errors
	for _, program := range programs {
		name := strings.TrimSuffix(filepath.Base(program), ".exe")
		h.Servers = append(h.Servers, host.ServerConfig{Name: name, Target: client.Command(program)})
	}
	if err := h.Start(); err != nil {
		return err
	}
	defer h.Close()
	if err := h.WaitReady(ctx); err != nil {
		fmt.Fprintln(out, err) // the servers that failed; the others can be used
	}
	for _, tool := range h.Tools() {
		fmt.Fprintln(out, tool.Name)
	}
	return ctx.Err()
}

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: host PROGRAM…")
	}
	if err := list(context.Background(), os.Stdout, os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}
