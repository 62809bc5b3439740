package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/serve/endpoint"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/output"
	"github.com/parley-mcp/parley/schema"
)

const (
	defaultAdmin = "127.0.0.1:7778"
	readyTimeout = 5 * time.Second
	maxReport    = 1 << 20 // bytes
)

func NewReady() *cobra.Command {
	return &cobra.Command{
		Use:   "ready [HOST:PORT]",
		Short: "Check whether parley up or parley serve is ready",
		Long: `Ask a running parley up or parley serve whether it is ready, and print the state of each server. HOST:PORT is
its --admin address (default ` + defaultAdmin + `). Use it as the health check of a container; it takes at most five
seconds.`,
		Annotations: map[string]string{program.ExitCodesKey: "0 ready, 1 not ready and other errors, 4 no response, " +
			"130 interrupted"},
		Example: `
parley up --config mcp.json --admin 127.0.0.1:7778
parley ready 127.0.0.1:7778`,
		RunE: func(cmd *cobra.Command, args []string) error {
			addr := defaultAdmin
			switch len(args) {
			case 0:
			case 1:
				addr = args[0]
			default:
				return fmt.Errorf("unexpected argument %q; ready takes one address", args[1])
			}
			return ready(cmd, addr)
		},
	}
}

func ready(cmd *cobra.Command, addr string) error {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return fmt.Errorf("address %q must be HOST:PORT, such as %s", addr, defaultAdmin)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), readyTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		// err is not wrapped, because explain would add advice for MCP servers.
		return failure.Unreachable(fmt.Errorf("%v; check that parley runs with --admin %s", err, addr))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReport))
	if err != nil {
		return failure.Unreachable(err)
	}
	var report endpoint.ReadinessReport
	if err := schema.Decode(body, &report); err != nil {
		return fmt.Errorf("%s must serve /readyz of parley, got status %d", addr, resp.StatusCode)
	}
	err = output.Print(cmd, &report, "%s", report.Text())
	if err != nil {
		return err
	}
	if !report.Ready {
		return failure.Reported(errors.New("not ready"))
	}
	return nil
}
