// Package login implements the commands login, logout and whoami.
package login

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/auth/oauth/browser"
	"github.com/parley-mcp/parley/auth/oauth/trace"
	"github.com/parley-mcp/parley/cmd/parley/internal/login/credstore"
	"github.com/parley-mcp/parley/cmd/parley/internal/login/loginsteps"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/form"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/output"
)

const loginTimeout = 5 * time.Minute

// loginFlags are the flags of parley login.
type loginFlags struct {
	scopes      []string
	clientID    string
	secretFile  string
	port        int
	redirectURI string
	printURL    bool
	explain     bool
	timeout     time.Duration
	config.LoginSettings
}

func NewLogin() *cobra.Command {
	var flags loginFlags
	cmd := &cobra.Command{
		Use:   "login URL [flags]",
		Short: "Log in to a server",
		Long: `Log in to the MCP server at a URL with your browser. All commands use the login for that URL.
Another login to the same URL, for example with more scopes, replaces it.

With --print-url, or without a terminal, parley prints the address of the login instead of opening a browser. If your
browser is on another machine, open the second address that parley prints, and paste the address of the page on which
the browser ends up. If the authorization server does not register clients, register parley there and pass its
--client-id. parley help authorization says more, also about --no-resource and --assume-pkce, which Microsoft's and some
other authorization servers need.`,
		Example: `
parley login https://example.com/mcp
parley login --scope notes:write https://example.com/mcp
parley login --print-url https://example.com/mcp
parley login --explain https://example.com/mcp`,
		RunE: func(cmd *cobra.Command, args []string) error {
			url, err := oneURL(cmd, args)
			if err != nil {
				return err
			}
			status, err := login(cmd, &flags, url)
			if err != nil {
				return err
			}
			return output.Print(cmd, statusOf(url, status), "Logged in to %s", describeLogin(url, status))
		},
	}
	f := cmd.Flags()
	f.Var((*program.Repeated)(&flags.scopes), "scope",
		"`scope` to request, in addition to those the server requires (repeatable)")
	f.StringVar(&flags.clientID, "client-id", "",
		"log in with the client of this `ID`, which is registered with the authorization server")
	f.StringVar(&flags.secretFile, "client-secret-file", "", "read the secret of the client from this `file`")
	f.IntVar(&flags.port, "port", 0, "`port` of this machine that the browser returns to (default: a free port)")
	f.StringVar(&flags.redirectURI, "redirect-uri", "",
		"http `address` of this machine that the browser returns to, with host, port and path")
	f.BoolVar(&flags.printURL, "print-url", false, "print the address instead of opening the browser")
	f.BoolVar(&flags.explain, "explain", false, "print each step of the login to stderr, with its request and response")
	dialing.AddLoginFlags(cmd, &flags.LoginSettings)
	f.DurationVar(&flags.timeout, "timeout", loginTimeout, "end the login after this `time`, such as 90s")
	completion.Add(cmd, new(dialing.ConfigFlags), completion.URL, completion.Nothing)
	return cmd
}

// oneURL returns the argument of a command that requires one URL.
func oneURL(cmd *cobra.Command, args []string) (string, error) {
	url, err := program.OneArgument(cmd, args, "URL")
	if err == nil && !dialing.IsURL(url) {
		err = fmt.Errorf("%q is not a URL; logins require http:// or https://", url)
	}
	return url, err
}

// login logs in to the server at url.
func login(cmd *cobra.Command, flags *loginFlags, url string) (*oauth.Status, error) {
	if flags.timeout <= 0 {
		return nil, errors.New("--timeout must be positive")
	}
	registered, err := flags.registration(url)
	if err != nil {
		return nil, err
	}
	stored, err := credstore.Open()
	if err != nil {
		return nil, err
	}
	ctx := cmd.Context()
	c, redirectURI, err := stored.ClientFor(ctx, program.NewLogger(cmd.ErrOrStderr(), slog.LevelWarn), registered)
	if err != nil {
		return nil, err
	}
	own := dialing.LoginSettingsOf(url)
	c.NoResource, c.AssumePKCE = flags.NoResource || own.NoResource, flags.AssumePKCE || own.AssumePKCE
	prompt := &loginPrompt{cmd: cmd, redirectURI: redirectURI, printURL: flags.printURL}
	// the context ends first
	c.Interaction = &browser.Loopback{RedirectURI: redirectURI, Timeout: 2 * flags.timeout, Open: prompt.open}
	if form.Interactive(cmd) {
		c.Interaction.(*browser.Loopback).Paste = prompt.paste
		c.PromptRegistration = prompt.askRegistration
	}
	if flags.explain {
		r := &trace.Recorder{Record: explainSteps(cmd.ErrOrStderr())}
		c.Wrap, c.Interaction = r.Wrap, r.Interaction(c.Interaction)
	}
	var scopes []string
	for _, words := range flags.scopes {
		scopes = append(scopes, strings.Fields(words)...)
	}
	expired := dialing.ExpiredAfter(flags.timeout)
	limited, cancel := context.WithTimeoutCause(ctx, flags.timeout, expired)
	defer cancel()
	if err := c.Login(limited, url, scopes...); err != nil {
		if context.Cause(limited) == expired {
			err = expired
		}
		// No authorization server redirects to an unregistered address.
		if registered.ID != "" && (err == expired || errors.Is(err, oauth.ErrInteraction)) {
			return nil, fmt.Errorf("%w; if the login page has rejected the redirect URI, pass the registered one with "+
				"--redirect-uri", err)
		}
		return nil, loginFailed(err)
	}
	status, err := c.Status(ctx, url)
	switch {
	case err != nil:
		return nil, err
	case status == nil:
		return nil, errors.New("cannot store the login")
	}
	if err := stored.SaveRegistration(ctx, registered); err != nil {
		return nil, err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "The login is stored in %s.\n", stored.Location())
	return status, nil
}

// LoginFor logs in to the server at url for another command, whose output it does not use.
func LoginFor(cmd *cobra.Command, url string) error {
	status, err := login(cmd, &loginFlags{timeout: loginTimeout}, url)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(cmd.ErrOrStderr(), "Logged in to ", describeLogin(url, status))
	return err
}

// registration returns the client of --client-id, or only the redirect URI.
func (f *loginFlags) registration(url string) (r credstore.Registration, err error) {
	switch {
	case f.port < 0 || f.port > 65535:
		return r, errors.New("--port must be from 1 to 65535")
	case f.port != 0 && f.redirectURI != "":
		return r, errors.New("--redirect-uri already contains the port; remove --port")
	case f.clientID == "" && f.secretFile != "":
		return r, errors.New("--client-secret-file requires --client-id")
	}
	r = credstore.Registration{Server: url, ID: f.clientID,
		RedirectURI: cmp.Or(f.redirectURI, credstore.LoopbackURI(f.port))}
	if f.secretFile == "" {
		return r, nil
	}
	secret, err := os.ReadFile(f.secretFile)
	if err != nil {
		return r, fmt.Errorf("--client-secret-file: %w", err)
	}
	if r.Secret = strings.TrimSpace(string(secret)); r.Secret == "" {
		return r, fmt.Errorf("--client-secret-file: file %s is empty", f.secretFile)
	}
	return r, nil
}

// loginFailed adds advice to an error of a login.
func loginFailed(err error) error {
	if rejected := new(oauth.ServerError); errors.As(err, &rejected) && rejected.Code == "invalid_redirect_uri" {
		return fmt.Errorf("%w; pass another with --redirect-uri, such as http://localhost:3118/callback", err)
	}
	switch credstore.NeededFlag(err) {
	case "--no-resource":
		return fmt.Errorf("%w: add --no-resource, and --scope if the scopes must name the server", err)
	case "--assume-pkce":
		return fmt.Errorf("%w: add --assume-pkce", err)
	}
	if errors.Is(err, oauth.ErrRegistration) {
		return fmt.Errorf("%w; pass a registered client with --client-id (see parley login --help)", err)
	}
	return err
}

// explainSteps returns a function that prints the steps of a login.
func explainSteps(w io.Writer) func(trace.Step) {
	var mu sync.Mutex
	last := 0
	return func(s trace.Step) {
		mu.Lock()
		defer mu.Unlock()
		last++
		_ = loginsteps.Print(w, loginsteps.New(last, s)) // the login does not depend on it
	}
}

// loginPrompt shows the login to the user.
type loginPrompt struct {
	cmd         *cobra.Command
	redirectURI string // of the login; empty: a port of 127.0.0.1
	printURL    bool
	opened      bool // the browser of this machine was opened
	pasted      bool // the user has pasted an invalid address
}

func (l *loginPrompt) open(ctx context.Context, url string) error {
	w := l.cmd.ErrOrStderr()
	if form.Interactive(l.cmd) && !l.printURL {
		err := browser.Open(ctx, url) // checks the URL
		if l.opened = err == nil; l.opened {
			_, err = fmt.Fprintf(w, "Opening the browser to log in at\n\n  %s\n\n", url)
			return err
		}
		fmt.Fprintf(w, "parley: %s\n", terminal.Line(err.Error()))
	}
	_, err := fmt.Fprintf(w, "To log in, open this address in a browser on this machine:\n\n  %s\n\n", url)
	return err
}

// paste asks for the address at which a browser on another machine ends.
func (l *loginPrompt) paste(ctx context.Context, url string) (string, error) {
	if l.opened {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}
	if l.pasted {
		fmt.Fprint(l.cmd.ErrOrStderr(), "This is not the address at which the login ends.\n\n")
	} else {
		fmt.Fprintf(l.cmd.ErrOrStderr(), "Or open this address in a browser on another machine:\n\n  %s\n\n",
			terminal.Line(url))
	}
	l.pasted = true
	return l.ask(ctx, "Then paste the address that the browser cannot open (http://127.0.0.1… or http://localhost…):",
		false)
}

// askRegistration asks the user for a client, because the issuer does not let parley register.
func (l *loginPrompt) askRegistration(ctx context.Context, issuer string) (*oauth.Registration, error) {
	fmt.Fprintf(l.cmd.ErrOrStderr(),
		"%s does not support the registration of clients by programs.\nRegister parley there as a native application "+
			"with the redirect URI %s.\n\n", terminal.Line(issuer), cmp.Or(l.redirectURI, "http://127.0.0.1/callback"))
	id, err := l.ask(ctx, "Client ID:", false)
	if err != nil {
		return nil, err
	}
	secret, err := l.ask(ctx, "Client secret, if there is one:", true)
	return &oauth.Registration{Issuer: issuer, ClientID: strings.TrimSpace(id),
		ClientSecret: strings.TrimSpace(secret)}, err
}

func (l *loginPrompt) ask(ctx context.Context, title string, secret bool) (string, error) {
	return form.ScreenOf(l.cmd).Line(ctx, title, secret)
}
