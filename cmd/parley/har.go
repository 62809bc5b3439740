package main

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/recording"
)

func newHAR() *cobra.Command {
	return &cobra.Command{
		Use:   "har RECORDING",
		Short: "Convert a recording of HTTP traffic to a HTTP Archive",
		Long: `Print the HTTP requests and responses of a recording as a HTTP Archive (HAR 1.2), which the developer
tools of browsers and other programs can open. --record writes a recording; see parley tap.`,
		Example: "parley har session.jsonl >session.har",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%s needs one RECORDING; see %[1]s --help", cmd.CommandPath())
			}
			h, entries, err := recording.ReadFile(args[0])
			if err != nil {
				return err
			}
			var out bytes.Buffer
			if err := recording.WriteHAR(&out, h, entries); errors.Is(err, recording.ErrNoHTTP) {
				return fmt.Errorf("%s: %w", args[0], err)
			} else if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(out.Bytes())
			return err
		},
	}
}
