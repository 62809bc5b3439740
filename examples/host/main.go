// Command host keeps several servers at once, and lists what each of them offers. One that
// does not start does the others no harm.
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

// list prints what becomes of the servers, which are programs, until each is ready or has
// failed.
func list(ctx context.Context, out io.Writer, programs []string) error {
	h := &host.Host{Logger: slog.New(slog.DiscardHandler)} // Watch says it
	for _, program := range programs {
		name := strings.TrimSuffix(filepath.Base(program), ".exe")
		h.Servers = append(h.Servers, host.Server{Name: name, Target: client.Command(program)})
	}
	if err := h.Start(); err != nil {
		return err
	}
	defer h.Close()
	settled := make(map[string]bool)
	for status := range h.Watch(ctx) {
		switch {
		case settled[status.Name]:
		case status.State == host.Ready:
			settled[status.Name] = true
			for _, tool := range status.Tools {
				fmt.Fprintf(out, "%s has %s\n", status.Name, tool.Name)
			}
		case status.GivenUp:
			settled[status.Name] = true
			fmt.Fprintf(out, "%s does not start\n", status.Name)
		}
		if len(settled) == len(programs) {
			break
		}
	}
	return ctx.Err()
}

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: host program…")
	}
	if err := list(context.Background(), os.Stdout, os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}
