//lint:file-ignore SA1019 What is deprecated still has to work.

package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/form"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/mcp"
)

const askHelp = `What the server asks meanwhile is shown at the terminal, where you answer or decline. A
page that it wants you to visit is opened in your browser if you say so. If there is no
terminal, the server is told that nobody can be asked.`

// sessionFlags are the flags of commands in whose course the server may report and
// ask.
type sessionFlags struct {
	dialFlags
	roots    []string
	logLevel string
}

func (f *sessionFlags) add(cmd *cobra.Command) {
	f.dialFlags.add(cmd)
	cmd.Flags().StringArrayVar(&f.roots, "root", nil, "directory that the server is told it may work in (repeatable)")
	cmd.Flags().StringVar(&f.logLevel, "log-level", "", "print the server's log messages from this level on, such as info")
}

// session is a client whose server may report and ask while it is called.
type session struct {
	*client.Client
	progress *terminal.Progress
}

// open dials the target of a command line. Progress is labelled with what is done.
func (f *sessionFlags) open(cmd *cobra.Command, target []string, label string) (*session, error) {
	s := &session{progress: terminal.NewProgress(cmd.ErrOrStderr(), label)}
	level := mcp.LoggingLevel(f.logLevel)
	if level != "" && !level.Known() {
		return nil, fmt.Errorf("--log-level %q: use one of %s", f.logLevel, commas(mcp.LoggingLevels()))
	}
	var err error
	s.Client, err = f.dial(cmd, target, func(d *client.Dialer, to client.Target) error {
		if level != "" {
			d.OnLog = func(m mcp.LoggingMessageParams) {
				if level.Enables(m.Level) { // until it has been told the level, a server may send others
					s.progress.Println(logLine(m))
				}
			}
		}
		if terminal.Is(cmd.InOrStdin()) && terminal.Is(cmd.ErrOrStderr()) {
			s.answer(d, &form.Screen{In: cmd.InOrStdin(), Out: cmd.ErrOrStderr(), Open: oauth.OpenBrowser}, f.nameOf(cmd, target, to))
		}
		return offerRoots(d, f.roots)
	})
	if err != nil || level == "" {
		return s, err
	}
	if s.Server().Capabilities.Logging == nil {
		s.progress.Println("parley: --log-level has no effect: the server has no log messages")
		return s, nil
	}
	if err := s.SetLogLevel(cmd.Context(), level); err != nil {
		closeQuietly(s.Client)
		return nil, err
	}
	return s, nil
}

// nameOf returns what the user calls the server: what it says of itself could be
// anything.
func (f *sessionFlags) nameOf(cmd *cobra.Command, target []string, to client.Target) string {
	if _, isHTTP := to.(*client.HTTP); cmd.ArgsLenAtDash() >= 0 || isHTTP && strings.Contains(target[0], "://") {
		return to.String()
	}
	return "server " + target[0]
}

// onProgress shows what the server reports of a request.
func (s *session) onProgress() client.CallOption {
	return client.OnProgress(func(p call.Progress) { s.progress.Set(p.Done, p.Total, p.Message) })
}

// answer has a screen answer the server's questions, one at a time.
func (s *session) answer(d *client.Dialer, screen *form.Screen, from string) {
	turn := make(chan struct{}, 1)
	asked := func(ask func(context.Context, string, *mcp.ElicitParams) (*mcp.ElicitResult, error)) func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return func(ctx context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			select {
			case turn <- struct{}{}:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			defer func() { <-turn }()
			s.progress.Pause()
			defer s.progress.Resume()
			return ask(ctx, from, params)
		}
	}
	d.Elicit, d.ElicitURL = asked(screen.Fill), asked(screen.Consent)
}

// offerRoots tells servers of directories.
func offerRoots(d *client.Dialer, dirs []string) error {
	if len(dirs) == 0 {
		return nil
	}
	var roots []mcp.Root
	for _, dir := range dirs {
		root, err := rootOf(dir)
		if err != nil {
			return fmt.Errorf("--root: %w", err)
		}
		roots = append(roots, root)
	}
	d.Roots = func(context.Context) ([]mcp.Root, error) { return roots, nil }
	return nil
}

func rootOf(dir string) (mcp.Root, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return mcp.Root{}, err
	}
	switch info, err := os.Stat(path); {
	case errors.Is(err, os.ErrNotExist):
		return mcp.Root{}, fmt.Errorf("there is no directory %s", path)
	case err != nil:
		return mcp.Root{}, err
	case !info.IsDir():
		return mcp.Root{}, fmt.Errorf("%s is not a directory", path)
	}
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // C:/…
	}
	return mcp.Root{URI: (&url.URL{Scheme: "file", Path: slashed}).String(), Name: filepath.Base(path)}, nil
}
