package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/cmd/parley/internal/form"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
)

const loginsHelp = `Logins are kept in one encrypted file in parley's directory of your configuration, or in the
directory that PARLEY_CONFIG_DIR names. Its key is in the keyring of your system. Where there
is none, or PARLEY_NO_KEYRING is set, the key is in a file beside it: that protects what is
copied without the key, and nothing from who can read all your files.`

// loginFlags are the flags of parley login.
type loginFlags struct {
	scopes     []string
	clientID   string
	secretFile string
	port       int
	printURL   bool
	timeout    time.Duration
}

func newLogin() *cobra.Command {
	var flags loginFlags
	cmd := &cobra.Command{
		Use:   "login URL [flags]",
		Short: "Log in to a server",
		Long: `Log in to the MCP server at a URL, for all commands that dial it from then on. The server says
who issues tokens for it; you are taken there with your browser, and back to a port of this
machine. Logging in again, as with more of --scope, replaces the login.

Without a terminal no browser is opened: the address is printed, as it is with --print-url.
Is your browser at another machine? Then open the second address that --print-url shows, and
paste the one at which your browser ends up, which it cannot open.

An authorization server that lets no program register by itself knows parley by a client that
you register there, as a native or desktop application whose redirect URI is
http://127.0.0.1:PORT/callback. Name it with --client-id; where ports have to be registered,
with --port. A client id that is an https URL is that of a client id metadata document. Both
are remembered with the login.

` + loginsHelp,
		Example: `
parley login https://example.com/mcp
parley login --scope notes:write https://example.com/mcp
parley login --print-url https://example.com/mcp`,
		RunE: func(cmd *cobra.Command, args []string) error {
			url, err := oneURL(cmd, args)
			if err != nil {
				return err
			}
			return login(cmd, &flags, url)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&flags.scopes, "scope", nil, "scope to ask for, beside what the server wants (repeatable)")
	f.StringVar(&flags.clientID, "client-id", "", "client that the authorization server knows")
	f.StringVar(&flags.secretFile, "client-secret-file", "", "file with the secret of that client")
	f.IntVar(&flags.port, "port", 0, "port of this machine that the browser comes back to (default: one that is free)")
	f.BoolVar(&flags.printURL, "print-url", false, "print where to log in, and open no browser")
	f.DurationVar(&flags.timeout, "timeout", 5*time.Minute, "how long to wait for you")
	return cmd
}

// oneURL is the argument of commands that are for servers at URLs only.
func oneURL(cmd *cobra.Command, args []string) (string, error) {
	switch {
	case len(args) == 0:
		return "", fmt.Errorf("no URL: see %s --help", cmd.CommandPath())
	case len(args) > 1:
		return "", fmt.Errorf("unexpected %q: %s takes one URL", args[1], cmd.Name())
	case !isURL(args[0]):
		return "", fmt.Errorf("%q is not a URL: logins are for servers at http:// and https://", args[0])
	}
	return args[0], nil
}

func isURL(word string) bool {
	return strings.HasPrefix(word, "http://") || strings.HasPrefix(word, "https://")
}

func login(cmd *cobra.Command, flags *loginFlags, url string) error {
	if flags.timeout <= 0 {
		return errors.New("--timeout must be more than nothing")
	}
	own, err := flags.registration(url)
	if err != nil {
		return err
	}
	kept, err := openLogins()
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	c, err := kept.client(ctx, newLogger(cmd.ErrOrStderr(), slog.LevelWarn))
	if err != nil {
		return err
	}
	port := flags.port
	if port == 0 && own == nil {
		if port, err = kept.port(ctx, url); err != nil {
			return err
		}
	}
	at := &loginScreen{cmd: cmd, printURL: flags.printURL}
	c.Interaction = &oauth.Loopback{Port: port, Timeout: flags.timeout, Open: at.open}
	if at.interactive() {
		c.Interaction.(*oauth.Loopback).Paste = at.paste
		c.PromptRegistration = at.askRegistration
	}
	if own != nil {
		c.Registrations = append([]oauth.Registration{{Server: url, ClientID: own.ID, ClientSecret: own.Secret}}, c.Registrations...)
	}
	var scopes []string
	for _, words := range flags.scopes {
		scopes = append(scopes, strings.Fields(words)...)
	}
	if err := c.Login(ctx, url, scopes...); err != nil {
		return notLoggedIn(err)
	}
	status, err := c.Status(ctx, url)
	switch {
	case err != nil:
		return err
	case status == nil:
		return errors.New("the login could not be kept")
	}
	if own != nil {
		if err := kept.remember(ctx, *own); err != nil {
			return err
		}
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "Logged in to %s\n", terminal.Line(status.Server))
	printLogin(out, status)
	fmt.Fprintf(cmd.ErrOrStderr(), "The login is kept in %s.\n", kept.store.Location())
	return nil
}

func (f *loginFlags) registration(url string) (*registration, error) {
	switch {
	case f.port < 0 || f.port > 65535:
		return nil, errors.New("--port must be a port: 1 to 65535")
	case f.clientID == "" && f.secretFile != "":
		return nil, errors.New("--client-secret-file is for a client: name it with --client-id")
	case f.clientID == "":
		return nil, nil
	}
	r := &registration{Server: url, ID: f.clientID, Port: f.port}
	if f.secretFile == "" {
		return r, nil
	}
	secret, err := os.ReadFile(f.secretFile)
	if err != nil {
		return nil, fmt.Errorf("--client-secret-file: %w", err)
	}
	if r.Secret = strings.TrimSpace(string(secret)); r.Secret == "" {
		return nil, fmt.Errorf("--client-secret-file: %s is empty", f.secretFile)
	}
	return r, nil
}

// notLoggedIn adds to the errors of a login what the user can do about them.
func notLoggedIn(err error) error {
	if errors.Is(err, oauth.ErrRegistration) {
		return fmt.Errorf("%w; with parley, that is --client-id: see parley login --help", err)
	}
	return err
}

// loginScreen is where the user is told where to go.
type loginScreen struct {
	cmd      *cobra.Command
	printURL bool
	opened   bool // in a browser of this machine
	pasted   bool // something that was no answer
}

// interactive reports whether there is somebody at a terminal.
func (l *loginScreen) interactive() bool {
	return terminal.Is(l.cmd.InOrStdin()) && terminal.Is(l.cmd.ErrOrStderr())
}

func (l *loginScreen) open(ctx context.Context, url string) error {
	w := l.cmd.ErrOrStderr()
	if l.interactive() && !l.printURL {
		err := oauth.OpenBrowser(ctx, url) // which looks whether that has failed
		if l.opened = err == nil; l.opened {
			_, err = fmt.Fprintf(w, "Your browser opens this address to log in:\n\n  %s\n\n", url)
			return err
		}
		fmt.Fprintf(w, "No browser could be opened: %s\n", terminal.Line(err.Error()))
	}
	_, err := fmt.Fprintf(w, "To log in, open this address in a browser of this machine:\n\n  %s\n\n", url)
	return err
}

// paste is for a browser at another machine.
func (l *loginScreen) paste(ctx context.Context, url string) (string, error) {
	if l.opened {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}
	if l.pasted {
		fmt.Fprint(l.cmd.ErrOrStderr(), "That is not the address at which this login ends.\n\n")
	} else {
		fmt.Fprintf(l.cmd.ErrOrStderr(), "Or open this one in a browser of another machine:\n\n  %s\n\n", terminal.Line(url))
	}
	l.pasted = true
	return l.ask(ctx, "At the end that browser cannot open an address that begins with http://127.0.0.1. Paste it here:", false)
}

// askRegistration asks for a client where none can be registered.
func (l *loginScreen) askRegistration(ctx context.Context, issuer string) (*oauth.Registration, error) {
	fmt.Fprintf(l.cmd.ErrOrStderr(), "%s lets no program register by itself. Register parley there, as a native application\nwith the redirect URI http://127.0.0.1/callback.\n\n", terminal.Line(issuer))
	id, err := l.ask(ctx, "Its client id:", false)
	if err != nil {
		return nil, err
	}
	secret, err := l.ask(ctx, "Its client secret, if it has one:", true)
	return &oauth.Registration{Issuer: issuer, ClientID: strings.TrimSpace(id), ClientSecret: strings.TrimSpace(secret)}, err
}

func (l *loginScreen) ask(ctx context.Context, title string, secret bool) (string, error) {
	screen := &form.Screen{In: l.cmd.InOrStdin(), Out: l.cmd.ErrOrStderr()}
	answer, answered, err := screen.Line(ctx, title, secret)
	if err == nil && !answered { // by Ctrl-C, which the form has seen instead of us
		err = &codeError{exitInterrupted, context.Canceled}
	}
	return answer, err
}

// printLogin prints what is known of a login.
func printLogin(w io.Writer, s *oauth.Status) {
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(w, "  %-8s %s\n", name, terminal.Line(text))
		}
	}
	line("as", s.Subject)
	line("issuer", s.Issuer)
	line("scopes", strings.Join(s.Scopes, " "))
	line("expires", expiry(s))
}

func expiry(s *oauth.Status) string {
	var text string
	switch now := time.Now(); {
	case s.Expires.IsZero():
		return ""
	case now.After(s.Expires):
		text = s.Expires.Local().Format("2006-01-02 15:04:05") + ", it is over"
	default:
		text = s.Expires.Local().Format("2006-01-02 15:04:05") + ", in " + s.Expires.Sub(now).Round(time.Second).String()
	}
	if s.Renewable {
		text += "; renewed when used"
	}
	return text
}
