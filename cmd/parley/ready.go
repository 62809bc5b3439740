package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/schema"
)

const (
	defaultAdmin = "127.0.0.1:7778"
	readyTimeout = 5 * time.Second
	maxReport    = 1 << 20 // bytes
)

func newReady() *cobra.Command {
	return &cobra.Command{
		Use:   "ready [HOST:PORT]",
		Short: "Check whether parley up or parley serve is ready",
		Long: `Request /readyz at the address of --admin of parley up or parley serve, which is ` + defaultAdmin + ` by default, and
print the state of each server. It is the health check of a container, and takes at most five seconds.`,
		Annotations: map[string]string{exitCodesKey: "0 ready, 1 not ready and other errors, 4 no response, 130 interrupted"},
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
				return fmt.Errorf("unexpected argument %q; ready has one address", args[1])
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
		return unreachable(fmt.Errorf("%v; check that parley runs with --admin %s", err, addr))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReport))
	if err != nil {
		return unreachable(err)
	}
	var report readinessReport
	if err := schema.Decode(body, &report); err != nil {
		return fmt.Errorf("response of %s must be that of /readyz, got status %d", addr, resp.StatusCode)
	}
	err = show(cmd, &report, func(w io.Writer) error {
		_, err := io.WriteString(w, report.text())
		return err
	})
	if err != nil {
		return err
	}
	if !report.Ready {
		return &reportedError{errors.New("not ready")}
	}
	return nil
}

// text returns the report for the user.
func (r *readinessReport) text() string {
	var b strings.Builder
	state := "ready"
	switch {
	case r.Draining:
		state = "draining"
	case !r.Ready:
		state = "not ready"
	}
	fmt.Fprintln(&b, state)
	if r.Store != "" {
		fmt.Fprintln(&b, "store: "+terminal.Line(r.Store))
		for _, missing := range r.Missing {
			fmt.Fprintln(&b, terminal.Line("store: cannot "+missing))
		}
	}
	for _, s := range r.Servers {
		required := ""
		if s.Required {
			required = " (required)"
		}
		fmt.Fprintln(&b, terminal.Line(s.Name+": "+s.State+required))
	}
	return b.String()
}
