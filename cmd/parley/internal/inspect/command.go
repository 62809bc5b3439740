package inspect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/auth/oauth/browser"
	"github.com/parley-mcp/parley/auth/oauth/trace"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/login/credstore"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/serve/endpoint"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/quoting"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/recording"
	"github.com/parley-mcp/parley/mcp"
)

// inspectFlags are the flags of parley inspect.
type inspectFlags struct {
	config   dialing.ConfigFlags
	env      dialing.EnvFlags
	revision string
	headers  []string
	port     int
	printURL bool
	record   recording.Flags
}

func New() *cobra.Command {
	var flags inspectFlags
	cmd := &cobra.Command{
		Use:   "inspect [TARGET…] [flags]",
		Short: "Inspect servers in a web page",
		Long: `Open a web page in which you can try servers: call tools with forms, get prompts, read and watch
resources, answer the questions of servers, log in, and see every message with its HTTP headers.

Each TARGET is a URL or the name of a server in your configuration; after --, write a command that starts one more
server. Without TARGET, the page shows all servers of your configuration. It connects to a server when you select it.

Whoever opens the page can use your servers with your logins, so do not share its address. It works on 127.0.0.1 only,
for the first browser that opens it. parley help terminal says more.`,
		Example: `
parley inspect http://127.0.0.1:7777/mcp
parley inspect notes files --record session.jsonl
parley inspect --config mcp.json
parley inspect -- uv run server.py`,
		RunE: func(cmd *cobra.Command, args []string) error { return runInspect(cmd, &flags, args) },
	}
	flags.config.Add(cmd)
	flags.env.Add(cmd)
	f := cmd.Flags()
	f.StringVar(&flags.revision, "revision", "",
		"start with this `revision` of the protocol, such as 2025-11-25; the page can choose another")
	f.VarP((*program.Repeated)(&flags.headers), "header", "H",
		"HTTP `header` for the URLs, as 'Name: value' (repeatable)")
	f.IntVar(&flags.port, "port", 0, "`port` of this machine for the page (default: a free port)")
	f.BoolVar(&flags.printURL, "print-url", false, "print the address instead of opening the browser")
	flags.record.Add(cmd)
	return cmd
}

func runInspect(cmd *cobra.Command, flags *inspectFlags, args []string) error {
	revision := mcp.Revision(flags.revision)
	switch {
	case revision != "" && !revision.Known():
		return fmt.Errorf("unknown revision %q; parley supports %s", flags.revision, program.Commas(mcp.Revisions()))
	case flags.port < 0 || flags.port > 65535:
		return errors.New("--port must be from 1 to 65535")
	}
	servers, err := flags.servers(cmd, args)
	if err != nil {
		return err
	}
	page, err := endpoint.ListenTCP(cmd, "--port", fmt.Sprintf("127.0.0.1:%d", flags.port))
	if err != nil {
		return err
	}
	defer page.Close()
	apps, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("cannot serve the frames of apps: %w", err)
	}
	defer apps.Close()
	target := "" // of a recording of several servers
	if len(servers) == 1 {
		target = recording.RecordedTarget(servers[0].Target)
	}
	r, err := flags.record.Start(target, flags.config.CallerHeaders())
	if err != nil {
		return err
	}
	inspector := &Inspector{
		Servers: servers, Version: program.Version(), Revision: revision, Record: r.Report,
		CallerHeaders: flags.config.CallerHeaders(),
		Add: func(_ context.Context, url string) (Server, error) {
			if !dialing.IsURL(url) {
				return Server{}, fmt.Errorf("%q is not a URL; write http:// or https://", url)
			}
			return inspectedURL(cmd, &client.HTTPTarget{URL: url}), nil
		},
	}
	opening, opened := context.WithCancel(cmd.Context())
	defer opened()
	inspector.Opened = opened
	cmd.PrintErrf("The inspector is at\n\n  %s\n\nOpen it in one browser only. Press Ctrl-C to stop.\n",
		inspector.URL(page))
	if !flags.printURL && terminal.Is(cmd.ErrOrStderr()) {
		if err := browser.Open(opening, inspector.URL(page)); err != nil {
			cmd.PrintErrf("parley: warning: %s\n", terminal.Line(err.Error()))
		}
	}
	return inspector.Run(cmd.Context(), page, apps)
}

// servers returns the servers of a command line.
func (f *inspectFlags) servers(cmd *cobra.Command, args []string) ([]Server, error) {
	header, err := dialing.ParseHeaders(f.headers)
	if err != nil {
		return nil, err
	}
	names, command := args, []string(nil)
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		if names, command = args[:dash], args[dash:]; len(command) == 0 {
			return nil, errors.New("no command after --; write the command that starts the server")
		}
	} else if f.env.Given() {
		return nil,
			errors.New("--env and --env-all require -- and a command; for a server in a configuration file, write " +
				"the variables to its env")
	}
	if len(args) == 0 {
		if names, err = f.configured(cmd); err != nil {
			return nil, err
		}
	}
	var servers []Server
	for _, name := range names {
		if dialing.IsURL(name) {
			servers = append(servers, inspectedURL(cmd, &client.HTTPTarget{URL: name, Header: header.Clone()}))
			continue
		}
		target, err := f.config.Target(cmd, name)
		if err != nil {
			return nil, err
		}
		s := inspected(cmd, name, []string{name}, target, f.config.Revision, f.config.Login)
		s.Flags = f.config.Words()
		servers = append(servers, s)
	}
	if len(command) > 0 {
		options, err := f.env.Command(command)
		if err != nil {
			return nil, err
		}
		servers = append(servers, inspected(cmd, command[0], append([]string{"--"}, command...),
			&client.CommandTarget{CommandOptions: options}, "", config.LoginSettings{}))
	}
	return servers, nil
}

// configured returns the names of the enabled servers of the configuration.
func (f *inspectFlags) configured(cmd *cobra.Command) (names []string, err error) {
	loaded, err := f.config.Load(cmd)
	if err != nil {
		return nil, err
	}
	for i := range loaded.Servers {
		if s := &loaded.Servers[i]; !s.Disabled {
			names = append(names, s.Name)
		}
	}
	return names, nil
}

// inspectedURL returns the server at a URL for the page, which shows its host and path as its name.
func inspectedURL(cmd *cobra.Command, target *client.HTTPTarget) Server {
	name := target.String()
	if _, rest, ok := strings.Cut(name, "://"); ok {
		name = rest
	}
	return inspected(cmd, name, []string{target.URL}, target, "", dialing.LoginSettingsOf(target.URL))
}

// inspected returns a server for the page. Revision is the only one to use; empty means any.
func inspected(cmd *cobra.Command, name string, words []string, target client.Target,
	revision mcp.Revision, login config.LoginSettings) Server {
	s := Server{
		Name: name, Words: words, Target: target,
		Dialer: func(ctx context.Context) (*client.Dialer, error) {
			d := &client.Dialer{Name: "parley", Version: program.Version(), Revision: revision,
				Logger: slog.New(slog.DiscardHandler)}
			var err error
			// reads the logins, which may have changed
			d.Auth, err = credstore.AuthorizerFor(ctx, target, login.Flags())
			return d, err
		},
	}
	if at, ok := target.(*client.HTTPTarget); ok {
		s.Login = func(ctx context.Context, o LoginOptions) error {
			o.LoginSettings = login
			return LogIn(ctx, cmd, at.URL, o)
		}
	}
	return s
}

// explain returns the text of an error for the page, which has a button instead of the advice to run parley
// login.
func explain(err error) string {
	if login := new(credstore.LoginError); errors.As(err, &login) {
		message, _ := failure.Explained(err)
		return message
	}
	return failure.Explain(err)
}

// LogIn logs in to a server for the page.
func LogIn(ctx context.Context, cmd *cobra.Command, url string, o LoginOptions) error {
	stored, err := credstore.Open()
	if err != nil {
		return err
	}
	own := credstore.Registration{Server: url, ID: o.ClientID, Secret: o.ClientSecret, RedirectURI: o.RedirectURI}
	c, redirectURI, err := stored.ClientFor(ctx, program.NewLogger(cmd.ErrOrStderr(), slog.LevelWarn), own)
	if err != nil {
		return err
	}
	c.NoResource, c.AssumePKCE = o.NoResource, o.AssumePKCE
	r := &trace.Recorder{Record: o.Step}
	c.Wrap, c.Interaction = r.Wrap, r.Interaction(&browser.Loopback{RedirectURI: redirectURI, Open: o.Open})
	err = c.Login(ctx, url, o.Scopes...)
	switch rejected, flag := new(oauth.ServerError), credstore.NeededFlag(err); {
	case flag != "":
		return fmt.Errorf("%w; run: %s", err, quoting.OfUser().Command([]string{"login", flag}, url))
	case errors.As(err, &rejected) && rejected.Code == "invalid_redirect_uri":
		return fmt.Errorf(`%w; open "Client and redirect URI" and enter another redirect URI, such as `+
			`http://localhost:3118/callback`, err)
	case errors.Is(err, oauth.ErrRegistration):
		return fmt.Errorf(`%w; open "Client and redirect URI" and enter a client that you have registered`, err)
	case err == nil:
		return stored.SaveRegistration(ctx, own)
	}
	return err
}
