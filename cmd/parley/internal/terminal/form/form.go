// Package form shows the questions of servers at a terminal: forms, and requests for consent
// to open a URL (2026-07-28, client/elicitation).
package form

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/huh/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/auth/oauth/browser"
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
}

// ErrInterrupted is the error of a question at which the user presses Ctrl-C.
var ErrInterrupted = errors.New("interrupted")

// Fill asks the user to fill in a form. from is the user's name for the server. The user can
// decline. A form that is only one choice is sent when the user chooses. Fill returns an error for a form that it
// cannot show, and ErrInterrupted.
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

// run shows fields until they are filled in.
func (s *Screen) run(ctx context.Context, fields ...huh.Field) (mcp.ElicitAction, error) {
	return s.runIn(ctx, new(window), fields...)
}

func (s *Screen) runIn(ctx context.Context, w *window, fields ...huh.Field) (mcp.ElicitAction, error) {
	err := newForm(w, fields...).
		WithInput(s.In).
		WithOutput(s.Out).
		WithProgramOptions(tea.WithoutSignalHandler(), tea.WithInput(s.In), tea.WithOutput(s.Out),
			tea.WithFilter(w.observe)).
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

// layout is a layout whose view fits a window. The form puts the title of the focused field first, but an empty line
// before the help is more than fits, and a terminal shows the end of a view that does not fit.
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

// Line asks the user for one line of text. A secret is not echoed. Line returns ErrInterrupted for Ctrl-C.
func (s *Screen) Line(ctx context.Context, title string, secret bool) (text string, err error) {
	field := huh.NewInput().Title(title).Value(&text)
	if secret {
		field.EchoMode(huh.EchoModePassword)
	}
	if _, err = s.run(ctx, field); err != nil {
		return "", err
	}
	return text, nil
}

// Choose asks the user to choose one of several texts. The initial choice is selected first. Choose returns
// ErrInterrupted for Ctrl-C.
func (s *Screen) Choose(ctx context.Context, title string, texts []string, initial string) (chosen string, err error) {
	var options []huh.Option[string]
	for _, text := range texts {
		o := huh.NewOption(terminal.Line(text), text)
		if text == initial {
			options = slices.Insert(options, 0, o)
		} else {
			options = append(options, o)
		}
	}
	picked := options[0].Value
	action, err := s.run(ctx, huh.NewSelect[string]().Title(title).Options(options...).Value(&picked))
	if err != nil || action != mcp.ElicitAccept {
		return "", err
	}
	return picked, nil
}

// ScreenOf returns the screen on which a command asks the user.
func ScreenOf(cmd *cobra.Command) *Screen {
	return &Screen{In: cmd.InOrStdin(), Out: cmd.ErrOrStderr(), Open: browser.Open}
}

// Interactive reports whether a command can ask the user at the terminal.
func Interactive(cmd *cobra.Command) bool {
	return terminal.Is(cmd.InOrStdin()) && terminal.Is(cmd.ErrOrStderr())
}

// Confirm asks the user a question, unless yes is set. Without a terminal it returns an error that says what to do.
func Confirm(cmd *cobra.Command, yes bool, question string) (bool, error) {
	if yes {
		return true, nil
	}
	if !Interactive(cmd) {
		return false, errors.New("nothing was written, because parley cannot ask without a terminal; add --yes")
	}
	answer, err := ScreenOf(cmd).Choose(cmd.Context(), question, []string{"Yes", "No"}, "No")
	if err != nil && !errors.Is(err, ErrInterrupted) {
		return false, err
	}
	if err != nil || answer != "Yes" {
		fmt.Fprintln(cmd.ErrOrStderr(), "Nothing was written.")
		return false, nil
	}
	return true, nil
}

// Consent asks the user to open a URL for a server. It shows the whole URL, highlights the host, and warns about
// deceptive hosts. It opens the page with Screen.Open, only after the user has chosen to, and does not fetch it in any
// other way. It returns an error for a URL that is not a web page's, and ErrInterrupted.
func (s *Screen) Consent(ctx context.Context, from string, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	address, err := parseAddress(params.URL)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(s.Out, "\n%s asks you to open a page at %s:\n\n%s\n\n  %s\n\n",
		terminal.Line(from), address.Hostname(), terminal.Block(params.Message), highlighted(params.URL))
	for _, warning := range warnings(address) {
		fmt.Fprintf(s.Out, "  warning: %s\n\n", warning)
	}
	const opens, copies, declines = "Open it in the browser", "I will copy the address into a browser", "Decline"
	texts := []string{opens, copies, declines, "Cancel"}
	if s.Open == nil {
		texts = texts[1:]
	}
	switch chosen, err := s.Choose(ctx, "Open this page?", texts, ""); {
	case err != nil:
		return &mcp.ElicitResult{Action: mcp.ElicitCancel}, err
	case chosen == declines:
		return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
	case chosen == opens:
		if err := s.Open(ctx, params.URL); err != nil {
			fmt.Fprintf(s.Out, "  parley: %s; copy the address into a browser\n\n",
				terminal.Line(err.Error()))
		}
	case chosen != copies:
		return &mcp.ElicitResult{Action: mcp.ElicitCancel}, nil
	}
	return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
}

// highlighted returns the URL with its host in reverse video, so that the user cannot
// mistake another part of the URL for the host.
func highlighted(address string) string {
	start := strings.Index(address, "://") + len("://")
	end := start + len(address[start:])
	if i := strings.IndexAny(address[start:], "/?#"); i >= 0 {
		end = start + i
	}
	return address[:start] + "\x1b[1;7m" + address[start:end] + "\x1b[0m" + address[end:]
}

// parseAddress parses a URL. It returns an error if the URL contains characters that cannot be shown unchanged.
func parseAddress(text string) (*url.URL, error) {
	u, err := mcp.ParseElicitURL(text)
	if err == nil && terminal.Line(text) != text {
		err = errors.New("url must not contain control characters")
	}
	if err != nil {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "elicitation/create: %s", err)
	}
	return u, nil
}

// warnings returns the reasons why the host of a URL may deceive the user.
func warnings(u *url.URL) []string {
	var found []string
	host := strings.ToLower(u.Hostname())
	var foreign []string
	for _, r := range host {
		if r > 0x7E {
			foreign = append(foreign, fmt.Sprintf("%c (U+%04X)", r, r))
		}
	}
	if foreign != nil {
		found = append(found, "the host contains letters that can look like other letters: "+
			strings.Join(foreign, ", "))
	}
	if strings.HasPrefix(host, "xn--") || strings.Contains(host, ".xn--") {
		found = append(found,
			"the host is in Punycode (xn--); a browser can show it as letters that look like other letters")
	}
	return found
}
