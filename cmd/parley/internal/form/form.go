// Package form shows the questions of servers at a terminal: forms, and requests for consent
// to open a URL (2026-07-28, client/elicitation).
package form

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/huh/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Screen is the terminal at which the user answers.
type Screen struct {
	In  io.Reader
	Out io.Writer
	// Open opens a page in the user's browser. If it is nil, the user opens pages.
	Open func(ctx context.Context, address string) error

	accepted map[string]bool // pages that the user has agreed to open, by server and URL
}

// ErrInterrupted is the error of a question at which the user presses Ctrl-C.
var ErrInterrupted = errors.New("interrupted")

// Fill asks the user to fill in a form. from is the user's name for the server. The user can
// decline. A form that is only one choice is sent when the user chooses. Fill returns an error for a form that it cannot
// show, and ErrInterrupted.
func (s *Screen) Fill(ctx context.Context, from string, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	requested, err := mcp.ParseElicitSchema(params.RequestedSchema)
	if err != nil {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "elicitation/create: %s", err)
	}
	questions, err := questionsOf(requested)
	if err != nil {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "elicitation/create: %s", err)
	}
	fmt.Fprintf(s.Out, "\n%s asks:\n\n%s\n\n", terminal.Line(from), terminal.Block(params.Message))
	send := true
	var fields []huh.Field
	for _, q := range questions {
		fields = append(fields, q.field())
	}
	if len(questions) != 1 || !questions[0].isChoice() { // to choose is to send
		fields = append(fields, sendField(from, &send))
	}
	w := &window{question: terminal.Line(from) + " asks:\n" + terminal.Block(params.Message), declines: true}
	switch action, err := s.runIn(ctx, w, fields...); {
	case err != nil || action != mcp.ElicitAccept:
		return &mcp.ElicitResult{Action: action}, err
	case !send:
		return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
	}
	return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: contentOf(questions)}, nil
}

// sendField returns the last field of a form.
func sendField(from string, send *bool) huh.Field {
	return huh.NewConfirm().
		Title("Send the answers to " + terminal.Line(from) + "?").
		Description("shift+tab: back").
		Affirmative("Send").Negative("Decline").
		Value(send)
}

// option is one option of a list.
type option[T comparable] struct {
	text  string
	value T
}

// choose asks the user to choose an option.
func choose[T comparable](ctx context.Context, s *Screen, title string, options []option[T]) (chosen T, err error) {
	var shown []huh.Option[T]
	for _, o := range options {
		shown = append(shown, huh.NewOption(o.text, o.value))
	}
	picked := options[0].value
	action, err := s.run(ctx, huh.NewSelect[T]().Title(title).Options(shown...).Value(&picked))
	if err != nil || action != mcp.ElicitAccept {
		return chosen, err
	}
	return picked, nil
}

// run shows fields until they are filled in.
func (s *Screen) run(ctx context.Context, fields ...huh.Field) (mcp.ElicitAction, error) {
	return s.runIn(ctx, new(window), fields...)
}

func (s *Screen) runIn(ctx context.Context, w *window, fields ...huh.Field) (mcp.ElicitAction, error) {
	err := newForm(w, fields...).
		WithInput(s.In).
		WithOutput(s.Out).
		WithProgramOptions(tea.WithoutSignalHandler(), tea.WithInput(s.In), tea.WithOutput(s.Out), tea.WithFilter(w.observe)).
		RunWithContext(ctx)
	switch {
	case err == nil:
		return mcp.ElicitAccept, nil
	case ctx.Err() != nil:
		return mcp.ElicitCancel, context.Cause(ctx)
	case w.declined:
		return mcp.ElicitDecline, nil
	case errors.Is(err, huh.ErrUserAborted):
		return mcp.ElicitCancel, ErrInterrupted
	}
	return mcp.ElicitCancel, err
}

func newForm(w *window, fields ...huh.Field) *huh.Form {
	keys := huh.NewDefaultKeyMap()
	keys.Select.Filter.SetEnabled(false) // lists are short
	keys.MultiSelect.Filter.SetEnabled(false)
	w.group = huh.NewGroup(fields...)
	w.describe(0)
	return huh.NewForm(w.group).
		WithKeyMap(keys).
		WithTheme(huh.ThemeFunc(huh.ThemeBase16)). // the terminal's own colours
		WithLayout(layout{huh.LayoutDefault, w})
}

// window is the window of a form.
type window struct {
	height   int // 0 is unknown
	group    *huh.Group
	question string // printed above the form
	declines bool   // the user can decline with a key
	declined bool
}

// observe receives the messages of a form, before the form does.
func (w *window) observe(_ tea.Model, msg tea.Msg) tea.Msg {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		w.height = msg.Height
		w.describe(msg.Width)
	case tea.KeyPressMsg:
		if w.declines && msg.String() == "ctrl+d" {
			w.declined = true
			return tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
		}
	}
	return msg
}

// describe says how to decline. If the question scrolls off the screen, it repeats its beginning above the form.
func (w *window) describe(width int) {
	if !w.declines {
		return
	}
	w.group.Title("").Description("ctrl+d: decline · ctrl+c: end the call")
	const around = 8 // lines of the printed question without its text, and of the form without its fields
	lines := strings.Split(ansi.Wrap(w.question, width, ""), "\n")
	most := w.height / 5
	if most < 3 || len(lines)+strings.Count(w.group.Content(), "\n")+around <= w.height {
		return
	}
	if len(lines) > most {
		lines = append(lines[:most-1], "…")
	}
	w.group.Title(strings.Join(lines, "\n"))
}

// layout is a layout whose view fits a window. The form puts the title of the focused field first, but an empty line before
// the help is more than fits, and a terminal shows the end of a view that does not fit.
type layout struct {
	huh.Layout
	window *window
}

// View implements huh.Layout.
func (l layout) View(f *huh.Form) string {
	lines := strings.Split(l.Layout.View(f), "\n")
	for l.window.height > 0 && len(lines) > l.window.height {
		cut := len(lines) - 1
		for i, line := range lines {
			if i > 0 && strings.TrimSpace(ansi.Strip(line)) == "" {
				cut = i // the last empty line
			}
		}
		lines = slices.Delete(lines, cut, cut+1)
	}
	return strings.Join(lines, "\n")
}
