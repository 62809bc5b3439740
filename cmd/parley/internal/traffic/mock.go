package traffic

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/serve/endpoint"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/mock"
)

// mockFlags are the flags of parley mock.
type mockFlags struct {
	http   endpoint.Flags
	schema bool
}

func NewMock() *cobra.Command {
	flags := mockFlags{http: endpoint.Flags{Stdio: true}}
	cmd := &cobra.Command{
		Use:   "mock FILE [flags]",
		Short: "Serve a recording, or a server that a file describes",
		Long: `Serve a server whose responses come from a file, to test a client. Without --addr, it serves standard input and
output. It works in every revision of the protocol, and always answers in the same way.

FILE is a recording (see parley tap) or a YAML file. The mock answers the requests of a recording as the server did. A
YAML file lists tools, resources and prompts, each with its responses (parley help testing):

  tools:
    - name: forecast
      responses:
        - {when: {city: Atlantis}, text: "There is no ${city}.", isError: true}
        - {latency: 200ms, text: "Sunny in ${city}"}

` + endpoint.Help,
		Example: `
parley mock weather.yaml --addr 127.0.0.1:8080
parley mock session.jsonl
parley ls -- parley mock weather.yaml
parley mock --schema > mock.schema.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 || flags.schema && len(args) == 0 {
				return nil
			}
			return fmt.Errorf("mock needs one FILE; see %s --help", cmd.CommandPath())
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if flags.schema {
				_, err := cmd.OutOrStdout().Write(mock.Schema)
				return err
			}
			if err := flags.http.Apply(cmd, flags.http.Addr == "", "add --addr"); err != nil {
				return err
			}
			return serveMock(cmd, &flags, args[0])
		},
	}
	flags.http.Add(cmd)
	cmd.Flags().BoolVar(&flags.schema, "schema", false, "print the JSON Schema of files in YAML, and exit")
	return cmd
}

func serveMock(cmd *cobra.Command, flags *mockFlags, path string) error {
	m, err := mock.Load(path, program.NewLogger(cmd.ErrOrStderr(), slog.LevelWarn))
	if err != nil {
		return err
	}
	return flags.http.ServeAlone(cmd, m.Server(), func(status *endpoint.Status, _ string, _ bool) {
		status.Print("  %s: %s\n\n", terminal.Line(path), m.Summary())
	})
}
