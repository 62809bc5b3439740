// Package use implements the commands that use a server: ls, call, read, prompt, complete, skills, watch, ping
// and task.
package use

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/form"
	"github.com/parley-mcp/parley/cmd/parley/internal/use/toolargs"
	"github.com/parley-mcp/parley/mcp"
)

const questionHelp = `If the server asks the user something, parley shows the question at the terminal. ` + answerHelp

// sessionFlags are the flags of commands during which the server can report progress and ask questions.
type sessionFlags struct {
	dialing.Flags
	roots    []string
	logLevel string
	saveDir  string
	answers  answerFlags
	given    *answers        // of the flags; nil without them
	end      func(err error) // ends the command with an error; set before it runs
}

func (f *sessionFlags) add(cmd *cobra.Command) {
	f.Flags.Add(cmd)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, cancel := context.WithCancelCause(cmd.Context())
		defer cancel(nil)
		f.end = func(err error) { cancel(&endError{err}) }
		cmd.SetContext(ctx)
		err := run(cmd, args)
		if end := new(endError); err != nil && errors.As(context.Cause(ctx), &end) {
			return end.error
		}
		if f.given != nil && err == nil {
			if names := f.given.unused(); names != nil {
				cmd.PrintErrln("parley: note: the server did not ask for " + terminal.Line(strings.Join(names, ", ")))
			}
		}
		return err
	}
	f.answers.add(cmd)
	cmd.Flags().StringVar(&f.saveDir, "save", "", "save images, audio and binary data in this `directory`")
	_ = cmd.MarkFlagDirname("save") // the flag exists
	cmd.Flags().Var((*program.Repeated)(&f.roots), "root",
		"tell the server that it may use this `directory`, an MCP root; not enforced (repeatable)")
	cmd.Flags().StringVar(&f.logLevel, "log-level", "",
		"print the server's log messages of this `level` and above, such as info")
	program.CompleteFlag(cmd, "log-level", mcp.LoggingLevels())
	_ = cmd.MarkFlagDirname("root") // the flag exists
}

// endError is the cause of the end of the context of a command that a question ends.
type endError struct{ error }

// session is a client that shows the progress reports and questions of its server.
type session struct {
	*client.Client
	progress *terminal.Progress
	saveDir  string          // of --save
	end      func(err error) // ends the command with an error
	ending   chan struct{}   // closed when the command has no call in flight
	answers  *answers        // nil to ask at the terminal
	// the questions belong to results of calls, and are no requests of the server
	modern atomic.Bool
}

// close closes the client. It ignores errors, because the user already has the result.
func (s *session) close() {
	close(s.ending)
	if s.Client != nil {
		dialing.CloseQuietly(s.Client)
	}
}

// open connects to the target of a command line. label labels the progress. Each of settings can change the Dialer.
func (f *sessionFlags) open(cmd *cobra.Command, target []string, label string,
	settings ...func(*client.Dialer, client.Target) error) (*session, error) {
	var err error
	if f.given, err = f.answers.read(cmd); err != nil {
		return nil, err
	}
	s := &session{progress: terminal.NewProgress(cmd.ErrOrStderr(), label), saveDir: f.saveDir, end: f.end,
		ending: make(chan struct{}), answers: f.given}
	f.SetProgress(s.progress)
	level := mcp.LoggingLevel(f.logLevel)
	if level != "" && !level.Known() {
		return nil, fmt.Errorf("unknown --log-level %q; use one of %s", f.logLevel, program.Commas(mcp.LoggingLevels()))
	}
	sessionSettings := func(d *client.Dialer, to client.Target) error {
		if level != "" {
			d.OnLog = func(_ context.Context, m mcp.LoggingMessageParams) {
				if level.Enables(m.Level) { // a server can send other levels before it receives the level
					s.progress.Println(logLine(m))
				}
			}
		}
		if form.Interactive(cmd) || f.given != nil {
			s.answerWith(d, form.ScreenOf(cmd), f.serverName(cmd, target, to))
		}
		return dialing.OfferRoots(d, f.roots)
	}
	s.Client, err = f.Dial(cmd, target,
		append([]func(*client.Dialer, client.Target) error{sessionSettings}, settings...)...)
	if err != nil {
		s.close()
		return nil, err
	}
	s.modern.Store(s.Revision().Modern())
	if level == "" {
		return s, nil
	}
	if s.Server().Capabilities.Logging == nil {
		s.progress.Println("parley: warning: --log-level has no effect, because the server does not support logging")
		return s, nil
	}
	if err := s.SetLogLevel(cmd.Context(), level); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// serverName returns the user's name for the server. The name that the server declares is not trustworthy.
func (f *sessionFlags) serverName(cmd *cobra.Command, target []string, to client.Target) string {
	if _, isHTTP := to.(*client.HTTPTarget); dialing.CommandAt(cmd) >= 0 ||
		isHTTP && strings.Contains(target[0], "://") {
		return to.String()
	}
	return "server " + target[0]
}

// onProgress shows the server's progress reports.
func (s *session) onProgress() client.CallOption {
	return client.WithProgress(s.progress.Set)
}

// answerWith answers the server's questions, one at a time: with the answers of the command line, or by a screen that
// shows them. Ctrl-C, and a question without an answer, end the command instead of answering.
func (s *session) answerWith(d *client.Dialer, screen *form.Screen, from string) {
	busy := make(chan struct{}, 1)
	oneAtATime := func(ask func(context.Context, string, *mcp.ElicitParams) (*mcp.ElicitResult,
		error)) func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return func(ctx context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			select {
			case busy <- struct{}{}:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			defer func() { <-busy }()
			var result *mcp.ElicitResult
			var err error
			if s.answers != nil {
				if result, err = s.answers.elicit(params); err == nil {
					return result, nil
				}
				s.end(err)
			} else {
				s.progress.Pause()
				defer s.progress.Resume()
				result, err = ask(ctx, from, params)
				if !errors.Is(err, form.ErrInterrupted) {
					return result, err
				}
				s.end(form.ErrInterrupted)
			}
			if !s.modern.Load() {
				// the call must be cancelled before the server receives an error, with which the tool could go on
				<-s.ending
			}
			return nil, err
		}
	}
	d.Elicit, d.ElicitURL = oneAtATime(screen.Fill), oneAtATime(screen.Consent)
}

// objectFlag is the flag --json, a JSON object.
type objectFlag struct{ text string }

func (f *objectFlag) add(cmd *cobra.Command, what string) {
	cmd.Flags().StringVar(&f.text, "json", "", "all "+what+" as a JSON `object`, @FILE, or - for stdin")
}

// maxObject is the maximum length of an object in a file, in bytes. Servers usually accept less.
const maxObject = 64 << 20

// readInput returns the content of a file, or of standard input for -.
func readInput(cmd *cobra.Command, path string) ([]byte, error) {
	from := cmd.InOrStdin()
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		from = file
	}
	text, err := io.ReadAll(io.LimitReader(from, maxObject+1))
	if err == nil && len(text) > maxObject {
		err = fmt.Errorf("the input must not exceed %d bytes", maxObject)
	}
	return text, err
}

// read returns the object.
func (f *objectFlag) read(cmd *cobra.Command) (json.RawMessage, error) {
	text := f.text
	path, isFile := strings.CutPrefix(text, "@")
	if isFile || text == "-" {
		read, err := readInput(cmd, path)
		if err != nil {
			return nil, fmt.Errorf("--json: %w", err)
		}
		text = string(read)
	}
	object, err := toolargs.ParseObject(text)
	if err != nil {
		return nil, fmt.Errorf("--json: %w", err)
	}
	return object, nil
}
