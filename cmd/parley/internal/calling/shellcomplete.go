package calling

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/listing"
	"github.com/parley-mcp/parley/cmd/parley/internal/quoting"
	linesh "github.com/parley-mcp/parley/cmd/parley/internal/shell"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/mcp"
)

const (
	tabTimeout = 2 * time.Second  // for what the server lists or completes
	listsAge   = 10 * time.Second // for which completion uses lists again
)

// shellLists keeps the lists of a shell's server for completion. It is safe for concurrent use.
type shellLists struct {
	mu    sync.Mutex
	lists *listing.Names
	until time.Time
}

// Names implements dialShell. It returns empty lists if the server does not answer.
func (s *shell) Names(ctx context.Context) *listing.Names {
	l := &s.lists
	l.mu.Lock()
	lists, until := l.lists, l.until
	l.mu.Unlock()
	if lists != nil && time.Now().Before(until) {
		return lists
	}
	listed, _ := listing.All(ctx, s.Client) // incomplete lists are better than none
	if listed == nil {
		return new(listing.Names)
	}
	lists = listed.Names()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lists, l.until = lists, time.Now().Add(listsAge)
	return lists
}

// forget makes get ask the server again.
func (l *shellLists) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lists = nil
}

// Values implements dialShell.
func (s *shell) Values(ctx context.Context, params mcp.CompleteParams) []string {
	if s.Server().Capabilities.Completions == nil {
		return nil
	}
	completion, err := s.Complete(ctx, params)
	if err != nil {
		return nil
	}
	return completion.Values
}

// complete returns the candidates for the current word of a line. It implements the function of shell.NewEditor.
func (s *shell) complete(line string) linesh.Candidates {
	ctx, cancel := context.WithTimeout(s.cmd.Context(), tabTimeout)
	defer cancel()
	before, current, start := linesh.Cursor(line)
	offered, directive := s.words(ctx, before, current)
	found := linesh.Candidates{Start: start, Open: directive&cobra.ShellCompDirectiveNoSpace != 0}
	for _, w := range offered {
		word, _, _ := strings.Cut(w, "\t")
		if !strings.HasPrefix(word, current) || terminal.Line(word) != word {
			continue
		}
		if name, isName := strings.CutSuffix(word, "="); isName {
			word = quoting.Unix.Quote(name) + "="
		} else {
			word = quoting.Unix.Quote(word)
		}
		found.Words = append(found.Words, word)
	}
	slices.Sort(found.Words)
	found.Words = slices.Compact(found.Words)
	return found
}

// longFlag matches the names of flags in their help.
var longFlag = regexp.MustCompile(`(?m)--[a-z-]+`)

// words returns the words that can follow others, as the completion of the commands in other shells does.
func (s *shell) words(ctx context.Context, before []string, current string) ([]cobra.Completion,
	cobra.ShellCompDirective) {
	root := newShellRoot(s.cmd)
	root.InitDefaultHelpCmd()
	cmd, rest, err := root.Find(before)
	switch {
	case err != nil:
		return nil, cobra.ShellCompDirectiveError
	case strings.HasPrefix(current, "-"):
		return longFlag.FindAllString(cmd.Flags().FlagUsages()+root.PersistentFlags().FlagUsages(), -1),
			cobra.ShellCompDirectiveDefault
	case cmd.HasSubCommands() && len(rest) == 0:
		var names []cobra.Completion
		for _, sub := range cmd.Commands() {
			names = append(names, sub.Name())
		}
		return names, cobra.ShellCompDirectiveDefault
	case cmd.ValidArgsFunction == nil || cmd.ParseFlags(rest) != nil:
		return nil, cobra.ShellCompDirectiveError
	}
	cmd.SetContext(dialing.WithShell(ctx, s))
	return cmd.ValidArgsFunction(cmd, cmd.Flags().Args(), current)
}
