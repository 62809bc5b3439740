package calling

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/connection"
	"github.com/parley-mcp/parley/cmd/parley/internal/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/nearest"
	"github.com/parley-mcp/parley/cmd/parley/internal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/quoting"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/internal/link"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

const defaultIdle = 30 * time.Minute

// connectFlags are the flags of parley connect.
type connectFlags struct {
	dialing.Flags
	name       string
	idle       time.Duration
	foreground bool
	background bool // this is the background process
}

func NewConnect() *cobra.Command {
	var flags connectFlags
	cmd := &cobra.Command{
		Use:   "connect TARGET [--name NAME] [flags]",
		Short: "Keep a server connected in a background process",
		Long: `Start or connect to a server in a background process, and give the connection a name. Commands whose TARGET is
the name use the connection, so that the server keeps its state between them. The name comes before a server of your
configuration that has the same. The process ends after --idle without a command, and with parley disconnect;
parley ls shows it. Only you can access it.

` + dialing.TargetHelp,
		Example: `
parley connect files
parley call files read_text_file path=notes.txt
parley disconnect files

parley connect --name browser --idle 2h -- npx -y @playwright/mcp
parley call browser browser_navigate url=https://example.com`,
		RunE: dialing.WithTarget(func(cmd *cobra.Command, target []string) error {
			return connectAs(cmd, &flags, target)
		}),
	}
	flags.AddTo(cmd, "end a call if the server sends nothing for this `time`, such as 90s (default 10m)")
	f := cmd.Flags()
	f.StringVar(&flags.name, "name", "", "`name` of the connection (default TARGET)")
	f.DurationVar(&flags.idle, "idle", defaultIdle, "end after this `time` without a command")
	f.BoolVar(&flags.foreground, "foreground", false, "serve the name until interrupted, instead of in the background")
	f.BoolVar(&flags.background, backgroundFlag, false, "")
	_ = f.MarkHidden(backgroundFlag) // the flag exists
	completion.Add(cmd, &flags, completion.Target, completion.Nothing)
	return cmd
}

// backgroundFlag is the flag with which parley connect starts itself.
const backgroundFlag = "background"

func connectAs(cmd *cobra.Command, flags *connectFlags, target []string) error {
	if flags.name == "" {
		if dialing.CommandAt(cmd) >= 0 || dialing.IsURL(target[0]) {
			return errors.New("--name is missing; it is the name of the connection")
		}
		flags.name = target[0]
	}
	if err := link.CheckServerName(flags.name); err != nil {
		return err
	}
	if flags.idle <= 0 {
		return errors.New("--idle must be positive")
	}
	dir, err := connection.Default()
	if err != nil {
		return err
	}
	if flags.foreground || flags.background {
		return serveConnection(cmd, flags, dir, target)
	}
	if conn, err := dir.Dial(cmd.Context(), flags.name); err == nil {
		conn.Close()
		return inUse(flags.name)
	}
	stderr := cmd.ErrOrStderr()
	progress := terminal.NewProgress(stderr, "")
	if terminal.Is(stderr) {
		stderr = progress
	}
	_, stop := progress.Await("waiting for " + describeTarget(cmd, target) + " to answer")
	err = connection.Start(cmd.Context(), backgroundArgs(os.Args[1:]), stderr)
	stop()
	if err != nil {
		if exit := new(connection.ExitError); errors.As(err, &exit) {
			return failure.WithCode(exit.Code, failure.Reported(err))
		}
		return err
	}
	info, err := dir.Info(cmd.Context(), flags.name)
	if err != nil {
		return err
	}
	return output.Print(cmd, info, "Connected %s. It ends after %v without a command, or with: %s\n", flags.name,
		flags.idle,
		disconnectCommand(flags.name))
}

// backgroundArgs returns the arguments of the background process: those of this one, with the flag for it.
func backgroundArgs(args []string) []string {
	at := slices.Index(args, "connect") + 1
	return slices.Insert(slices.Clone(args), at, "--"+backgroundFlag)
}

func disconnectCommand(name string) string {
	return quoting.OfUser().Command([]string{"disconnect"}, name)
}

func inUse(name string) error {
	return fmt.Errorf("%s is connected already; end it with %s, or choose another name with --name", name,
		disconnectCommand(name))
}

// serveConnection connects to the target, and serves the name.
func serveConnection(cmd *cobra.Command, flags *connectFlags, dir *connection.Dir, words []string) error {
	process := new(connection.Background)
	if flags.background {
		cmd.SetErr(process)
	}
	flags.Unconnected = true
	d, target, err := flags.Dialer(cmd, words)
	if err != nil {
		return err
	}
	info := connection.Info{Name: flags.name, Target: describeTarget(cmd, words), PID: os.Getpid(),
		Started: time.Now().UTC().Truncate(time.Second), Idle: flags.idle.String()}
	names := &connection.Server{Info: info, Idle: flags.idle}
	defer names.Close() // after the server has ended
	h, err := connection.OpenHost(cmd.Context(), d, target, new(false))
	if err != nil {
		return failure.Unreachable(err)
	}
	defer h.Close()
	return connection.ServeHost(cmd, h, flags.Timeout, func(ctx context.Context, s *server.Server) error {
		listener, err := dir.Listen(ctx, flags.name)
		if errors.Is(err, connection.ErrInUse) {
			return inUse(flags.name)
		}
		if err != nil {
			return fmt.Errorf("cannot serve %s: %w", flags.name, err)
		}
		names.Serve = func(ctx context.Context, conn net.Conn) {
			_ = s.ServeConn(ctx, transport.Stream(conn, transport.StreamOptions{})) // the client sees an error
		}
		if flags.background {
			if err := process.Ready(); err != nil {
				return errors.Join(err, listener.Close())
			}
		} else {
			fmt.Fprintf(cmd.ErrOrStderr(), "Serving %s. Stop with Ctrl-C.\n", flags.name)
		}
		return names.Run(ctx, listener)
	})
}

// describeTarget returns a TARGET without secrets.
func describeTarget(cmd *cobra.Command, words []string) string {
	if dialing.CommandAt(cmd) < 0 {
		return config.WithoutSecrets(words[0])
	}
	return config.MaskedCommand(words[0], words[1:])
}

func NewDisconnect() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "disconnect NAME... [flags]",
		Short: "End connections of parley connect",
		Long: "End the background processes of parley connect that have the names, with the servers that they " +
			"have\nstarted, and wait for them.",
		Example: "parley disconnect files",
		RunE:    func(cmd *cobra.Command, names []string) error { return disconnect(cmd, names) },
	}
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return connection.Names(), cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

func disconnect(cmd *cobra.Command, names []string) error {
	if len(names) == 0 {
		return fmt.Errorf("no NAME; see %s --help", cmd.CommandPath())
	}
	dir, err := connection.Default()
	if err != nil {
		return err
	}
	for _, name := range names {
		err := dir.Stop(cmd.Context(), name)
		if errors.Is(err, connection.ErrNotConnected) {
			if near := nearest.Name(name, connection.Names()); near != "" && near != name {
				return fmt.Errorf("%s is not connected; did you mean %s?", name, near)
			}
			return fmt.Errorf("%s is not connected; see parley ls", name)
		}
		if err != nil {
			return err
		}
	}
	return output.Print(cmd, names, "Disconnected %s.\n", terminal.Line(strings.Join(names, ", ")))
}
