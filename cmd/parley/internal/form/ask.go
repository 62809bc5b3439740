package form

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
)

// ScreenOf returns the screen on which a command asks the user.
func ScreenOf(cmd *cobra.Command) *Screen {
	return &Screen{In: cmd.InOrStdin(), Out: cmd.ErrOrStderr(), Open: oauth.OpenBrowser}
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
