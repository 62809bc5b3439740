package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/cmd/parley/internal/form"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
)

// loginPrompt shows the login to the user.
type loginPrompt struct {
	cmd         *cobra.Command
	redirectURI string // of the login; empty: a port of 127.0.0.1
	printURL    bool
	opened      bool // the browser of this machine was opened
	pasted      bool // the user has pasted an invalid address
}

// interactive reports whether the user is at a terminal.
func (l *loginPrompt) interactive() bool {
	return terminal.Is(l.cmd.InOrStdin()) && terminal.Is(l.cmd.ErrOrStderr())
}

func (l *loginPrompt) open(ctx context.Context, url string) error {
	w := l.cmd.ErrOrStderr()
	if l.interactive() && !l.printURL {
		err := oauth.OpenBrowser(ctx, url) // checks the URL
		if l.opened = err == nil; l.opened {
			_, err = fmt.Fprintf(w, "Opening the browser to log in at\n\n  %s\n\n", url)
			return err
		}
		fmt.Fprintf(w, "Cannot open the browser: %s\n", terminal.Line(err.Error()))
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
		fmt.Fprintf(l.cmd.ErrOrStderr(), "Or open this address in a browser on another machine:\n\n  %s\n\n", terminal.Line(url))
	}
	l.pasted = true
	return l.ask(ctx, "Then paste the address that the browser cannot open (http://127.0.0.1… or http://localhost…):", false)
}

// askRegistration asks the user for a client, because the issuer does not let parley register.
func (l *loginPrompt) askRegistration(ctx context.Context, issuer string) (*oauth.Registration, error) {
	fmt.Fprintf(l.cmd.ErrOrStderr(), "%s does not support the registration of clients by programs.\nRegister parley there as a native application with the redirect URI %s.\n\n", terminal.Line(issuer), cmp.Or(l.redirectURI, "http://127.0.0.1/callback"))
	id, err := l.ask(ctx, "Client ID:", false)
	if err != nil {
		return nil, err
	}
	secret, err := l.ask(ctx, "Client secret, if there is one:", true)
	return &oauth.Registration{Issuer: issuer, ClientID: strings.TrimSpace(id), ClientSecret: strings.TrimSpace(secret)}, err
}

func (l *loginPrompt) ask(ctx context.Context, title string, secret bool) (string, error) {
	screen := &form.Screen{In: l.cmd.InOrStdin(), Out: l.cmd.ErrOrStderr()}
	answer, answered, err := screen.Line(ctx, title, secret)
	if err == nil && !answered { // Ctrl-C, which the form handles instead of the signal handler
		err = &codeError{exitInterrupted, context.Canceled}
	}
	return answer, err
}
