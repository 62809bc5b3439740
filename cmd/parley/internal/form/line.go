package form

import (
	"context"
	"slices"

	"charm.land/huh/v2"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
)

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
	var options []option[string]
	for _, text := range texts {
		o := option[string]{terminal.Line(text), text}
		if text == initial {
			options = slices.Insert(options, 0, o)
		} else {
			options = append(options, o)
		}
	}
	return choose(ctx, s, title, options)
}
