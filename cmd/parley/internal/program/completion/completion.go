// Package completion offers words to shells: the arguments of commands, from the lists of servers.
package completion

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/login/credstore"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/use/listing"
	"github.com/parley-mcp/parley/cmd/parley/internal/use/toolargs"
	"github.com/parley-mcp/parley/mcp"
)

// completing is a command line whose last word a shell completes.
type completing struct {
	ctx    context.Context
	cmd    *cobra.Command
	config *dialing.ConfigFlags
	dial   *dialing.Flags // nil if the command does not connect to a server
	args   []string       // the arguments before the word
	word   string         // the beginning of the word
	dashed bool           // the word comes after --, and can begin with -
}

// Argument returns the words that a shell offers for an argument. It prints nothing, and without words the shell offers
// nothing. A function that may wait does so in within.
type Argument func(*completing) ([]cobra.Completion, cobra.ShellCompDirective)

// ServerFlags are the flags of a command that determine the servers that its arguments can name.
type ServerFlags interface {
	Parts() (*dialing.ConfigFlags, *dialing.Flags)
}

// Add lets shells complete the arguments of a command. Each of kinds completes one argument, and the last one
// also completes all further arguments. After --, shells complete commands and files, unless a word there begins with
// -: such a name is no command.
func Add(cmd *cobra.Command, flags ServerFlags, kinds ...Argument) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion,
		cobra.ShellCompDirective) {
		c := &completing{ctx: cmd.Context(), cmd: cmd, args: args, word: word}
		if dash := dashOf(cmd, args); dash >= 0 {
			names := append(args[dash:len(args):len(args)], word)
			if !strings.HasPrefix(names[0], "-") || slices.Contains(names[:len(names)-1], "--") {
				return nil, cobra.ShellCompDirectiveDefault
			}
			c.dashed = true
		}
		cmd.SetIn(strings.NewReader("")) // completion asks no questions
		cmd.SetErr(io.Discard)
		c.config, c.dial = flags.Parts()
		if c.dial != nil {
			c.dial.Named = true // Cobra adds a -- to a line that a shell completes
		}
		c.parseOnce()
		return kinds[min(len(c.args), len(kinds)-1)](c)
	}
}

// parseOnce removes the second half of the values of flags that can be repeated: Cobra parses a line that a shell
// completes twice.
func (c *completing) parseOnce() {
	once := func(values *[]string) { *values = (*values)[:len(*values)/2] }
	once(&c.config.Paths)
	once(&c.config.Policy)
	once(&c.config.Inputs)
	if c.dial != nil {
		once(&c.dial.Headers)
	}
}

// dashOf returns the index in args of the first word after --, or -1. Cobra has added another -- to the end of the
// arguments, so ArgsLenAtDash alone does not tell if -- is the argument before the word.
func dashOf(cmd *cobra.Command, args []string) int {
	line, ok := cmd.Context().Value(lineKey{}).([]string)
	if !ok {
		line = os.Args
	}
	dash := cmd.ArgsLenAtDash()
	if dash < len(args) || len(line) > 1 && line[len(line)-2] == "--" {
		return dash
	}
	return -1
}

// Bounds of what shells offer.
const (
	maxOffered     = 500 // words
	maxDescription = 80  // characters
)

// offer returns the words that begin like the word of the command line. A word that a terminal would not show unchanged
// is left out, and so is one that parley would take for a flag.
func (c *completing) offer(words []cobra.Completion, directive cobra.ShellCompDirective) ([]cobra.Completion,
	cobra.ShellCompDirective) {
	var offered []cobra.Completion
	for _, w := range words {
		text, _, _ := strings.Cut(w, "\t")
		isFlag := strings.HasPrefix(text, "-") && !c.dashed
		if text != "" && !isFlag && strings.HasPrefix(text, c.word) && terminal.Line(text) == text &&
			len(offered) < maxOffered {
			offered = append(offered, w)
		}
	}
	return offered, directive | cobra.ShellCompDirectiveNoFileComp
}

// described returns a word with a description from a server.
func described(word, description string) cobra.Completion {
	line := []rune(terminal.Line(description))
	if len(line) > maxDescription {
		line = append(line[:maxDescription-1], '…')
	}
	return cobra.CompletionWithDesc(word, string(line))
}

// Target completes the name of a server in the configuration files, and URLs that were used before.
func Target(c *completing) ([]cobra.Completion, cobra.ShellCompDirective) {
	words := c.config.Names()
	if c.dial != nil {
		words = append(words, usedURLs()...)
	}
	return c.offer(words, cobra.ShellCompDirectiveDefault)
}

// URL completes a URL that was used before.
func URL(c *completing) ([]cobra.Completion, cobra.ShellCompDirective) {
	return c.offer(usedURLs(), cobra.ShellCompDirectiveDefault)
}

// Nothing is for arguments that cannot be completed.
func Nothing(*completing) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// Words returns a completion that offers the same words each time.
func Words(words ...cobra.Completion) Argument {
	return func(c *completing) ([]cobra.Completion, cobra.ShellCompDirective) {
		return c.offer(words, cobra.ShellCompDirectiveDefault)
	}
}

// Tool completes the name of a tool, Prompt the name of a prompt, and Entry also a URI or a URI template.
var (
	Tool   = ofLists("tools")
	Prompt = ofLists("prompts")
	Entry  = ofLists("tools", "prompts", "resources", "templates")
)

func ofLists(names ...string) Argument {
	return func(c *completing) ([]cobra.Completion, cobra.ShellCompDirective) {
		return c.offer(entries(c.lists(names...)), cobra.ShellCompDirectiveDefault)
	}
}

// Resource completes a URI. For the variables of a template, it asks the server.
func Resource(c *completing) ([]cobra.Completion, cobra.ShellCompDirective) {
	words := entries(c.lists("resources"))
	directive := cobra.ShellCompDirectiveDefault
	for _, t := range c.lists("templates") {
		uris, whole := c.fill(t.Name)
		if len(uris) > 0 && !whole {
			directive = cobra.ShellCompDirectiveNoSpace
		}
		words = append(words, uris...)
	}
	return c.offer(words, directive)
}

// ToolArguments completes key=value for the tool that is the second argument.
func ToolArguments(c *completing) ([]cobra.Completion, cobra.ShellCompDirective) {
	return c.arguments(c.lists("tools"), c.args[1], func(listing.Argument, string) []string { return nil })
}

// PromptArguments completes key=value for the prompt that is the second argument. It asks the server for values.
func PromptArguments(c *completing) ([]cobra.Completion, cobra.ShellCompDirective) {
	return c.arguments(c.lists("prompts"), c.args[1], func(a listing.Argument, value string) []string {
		others, err := toolargs.ParseStrings(c.args[2:])
		if err != nil {
			return nil
		}
		return c.values(mcp.CompleteReference{Type: mcp.RefPrompt, Name: c.args[1]}, a.Name, value, others)
	})
}

// Task completes the id of a task that parley has started at the server. It does not connect to the server.
func Task(c *completing) ([]cobra.Completion, cobra.ShellCompDirective) {
	var words []cobra.Completion
	for _, r := range c.tasks() {
		words = append(words, described(r.ID, r.Tool))
	}
	return c.offer(words, cobra.ShellCompDirectiveDefault)
}

// arguments completes key=value for the entry called name. values returns the values of an argument that the cache does
// not list.
func (c *completing) arguments(all []listing.Entry, name string,
	values func(a listing.Argument, value string) []string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var words []cobra.Completion
	key, value, hasValue := strings.Cut(c.word, "=")
	for _, e := range all {
		if e.Name != name {
			continue
		}
		for _, a := range e.Arguments {
			switch {
			case !hasValue && (a.Repeats || !c.given(a.Name)):
				words = append(words, described(a.Name+"=", a.Description))
			case hasValue && a.Name == key:
				allowed := a.Values
				if allowed == nil {
					allowed = values(a, value)
				}
				for _, v := range allowed {
					words = append(words, key+"="+v)
				}
			}
		}
	}
	if hasValue {
		return c.offer(words, cobra.ShellCompDirectiveDefault)
	}
	return c.offer(words, cobra.ShellCompDirectiveNoSpace)
}

// given reports whether the command line sets an argument.
func (c *completing) given(name string) bool {
	return slices.ContainsFunc(c.args, func(word string) bool {
		return strings.HasPrefix(word, name+"=") || strings.HasPrefix(word, name+":=")
	})
}

// Reference completes the name of a prompt or a URI template for parley complete, and Variable the name of
// its argument.
func Reference(c *completing) ([]cobra.Completion, cobra.ShellCompDirective) {
	if c.args[1] == "template" {
		return c.offer(entries(c.lists("templates")), cobra.ShellCompDirectiveDefault)
	}
	return Prompt(c)
}

func Variable(c *completing) ([]cobra.Completion, cobra.ShellCompDirective) {
	var words []cobra.Completion
	if c.args[1] == "template" {
		for _, part := range splitTemplate(c.args[2]) {
			words = append(words, part.variable)
		}
	}
	for _, p := range c.lists("prompts") {
		if p.Name == c.args[2] && c.args[1] == "prompt" {
			for _, a := range p.Arguments {
				words = append(words, described(a.Name, a.Description))
			}
		}
	}
	return c.offer(words, cobra.ShellCompDirectiveDefault)
}

func entries(all []listing.Entry) (words []cobra.Completion) {
	for _, e := range all {
		words = append(words, described(e.Name, e.Description))
	}
	return words
}

// Times of completion.
const (
	listsTimeout  = 2 * time.Second // for a server whose lists are unknown
	valuesTimeout = time.Second     // for completion/complete

	retryAfter  = time.Minute            // after a failure
	maxListsAge = time.Hour              // of the lists of a server at a URL
	endTimeout  = 100 * time.Millisecond // for a program that was started for completion
)

// usedURLs returns the URLs of servers in the cache.
func usedURLs() []string {
	cache, err := listing.OpenCache()
	if err != nil {
		return nil
	}
	return cache.URLs()
}

type patienceKey struct{}

// WithPatience returns a context in which completion waits longer than it does for a user, for tests on slow machines.
func WithPatience(ctx context.Context, limit time.Duration) context.Context {
	return context.WithValue(ctx, patienceKey{}, limit)
}

// within returns what f returns, or nothing after a time-out: a shell waits for the program.
func within[V any](c *completing, limit time.Duration, f func(ctx context.Context) V) (v V) {
	if patience, ok := c.ctx.Value(patienceKey{}).(time.Duration); ok {
		limit = patience
	}
	ctx, cancel := context.WithTimeout(c.ctx, limit)
	defer cancel()
	done := make(chan V, 1)
	go func() { done <- f(ctx) }()
	select {
	case v = <-done:
	case <-ctx.Done():
	}
	return v
}

// lists returns the entries of some lists of the server that is the first argument. It connects to the server only if
// they are not known, or if the server is at a URL and they are old.
func (c *completing) lists(names ...string) (entries []listing.Entry) {
	s, _ := c.server()
	if s == nil {
		return nil
	}
	for _, name := range names {
		entries = append(entries, s.Lists[name]...)
	}
	return entries
}

// server returns what the cache has of the server that is the first argument, or nil.
func (c *completing) server() (s *listing.Cached, atURL bool) {
	cache, err := listing.OpenCache()
	if err != nil || c.dial == nil {
		return nil, false
	}
	key, shown, atURL := c.dial.CacheKey(c.args[0])
	if key == "" {
		return nil, false
	}
	s = cache.Get(key)
	switch {
	case s != nil && s.Failed && cache.Age(s.Time) < retryAfter,
		s != nil && s.Lists != nil && (!atURL || cache.Age(s.Time) < maxListsAge):
		return s, atURL
	case !c.mayConnect(s):
		return s, atURL
	}
	within(c, listsTimeout, func(ctx context.Context) any {
		client, err := c.connect(ctx)
		if err != nil {
			return cache.Update(key, cache.SetFailed)
		}
		defer dialing.CloseQuietly(client)
		if listed, _ := listing.All(ctx, client); listed != nil {
			lists := listed.Names()
			lists.Completes = client.Server().Capabilities.Completions != nil
			_ = cache.Update(key, cache.SetNames(shown, lists))
		}
		return nil
	})
	if now := cache.Get(key); now != nil {
		return now, atURL
	}
	_ = cache.Update(key, cache.SetFailed) // the time is over
	return nil, atURL
}

// mayConnect reports whether completion can start or connect to the server that is the first argument. s is its entry
// in the cache. A file that --config names can be of a project, which anyone may have written: the user must have used
// this server of it before.
func (c *completing) mayConnect(s *listing.Cached) bool {
	return dialing.IsURL(c.args[0]) || len(c.dial.Config.Paths) == 0 || s != nil
}

// connect connects to the server that is the first argument.
func (c *completing) connect(ctx context.Context) (*client.Client, error) {
	c.cmd.SetContext(ctx)
	return c.dial.Dial(c.cmd, c.args[:1], func(_ *client.Dialer, to client.Target) error {
		if p, ok := to.(*client.CommandTarget); ok {
			p.ExitGrace, p.TermGrace = endTimeout, endTimeout
		}
		return nil
	})
}

// values returns the values of an argument that begin with value, which the server completes. It does not start a
// program.
func (c *completing) values(ref mcp.CompleteReference, argument, value string, others map[string]string) []string {
	params := mcp.CompleteParams{Ref: ref, Argument: mcp.CompleteArgument{Name: argument, Value: value}}
	if len(others) > 0 {
		params.Context = &mcp.CompleteContext{Arguments: others}
	}
	if s, atURL := c.server(); s == nil || !s.Completes || !atURL {
		return nil
	}
	return within(c, valuesTimeout, func(ctx context.Context) []string {
		client, err := c.connect(ctx)
		if err != nil {
			return nil
		}
		defer dialing.CloseQuietly(client)
		completion, err := client.Complete(ctx, params)
		if err != nil {
			return nil
		}
		return completion.Values
	})
}

// tasks returns the tasks that parley has started at the server that is the first argument.
func (c *completing) tasks() []client.TaskRecord {
	cache, err := listing.OpenCache()
	if err != nil {
		return nil
	}
	if key, _, _ := c.dial.CacheKey(c.args[0]); !c.mayConnect(cache.Get(key)) { // the target can refer to files
		return nil
	}
	return within(c, listsTimeout, func(ctx context.Context) []client.TaskRecord {
		c.cmd.SetContext(ctx)
		server, err := c.dial.Target(c.cmd, c.args[:1])
		if err != nil {
			return nil
		}
		stored, err := credstore.Open()
		if err != nil {
			return nil
		}
		records, _ := stored.TaskStore(nil).Tasks(ctx) // without logins there are no tasks
		return slices.DeleteFunc(records, func(r client.TaskRecord) bool { return r.Server != server.String() })
	})
}

// Files completes the names of files.
func Files(*completing) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}
