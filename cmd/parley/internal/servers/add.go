// Package servers implements the commands for configuration files: add, rm, import, install, registry and config.
package servers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/zalando/go-keyring"

	"github.com/parley-mcp/parley/cmd/parley/internal/login/credstore"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/confine"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/jsonedit"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/form"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/quoting"
	"github.com/parley-mcp/parley/cmd/parley/internal/use/listing"
	"github.com/parley-mcp/parley/host"
)

// addFlags are the flags of parley add.
type addFlags struct {
	file    editedFile
	env     []string
	headers []string
	dir     string
	plain   bool
	replace bool
	confine bool
	login   config.LoginSettings
}

func NewAdd() *cobra.Command {
	var flags addFlags
	cmd := &cobra.Command{
		Use:   "add SERVER URL|-- COMMAND [flags]",
		Short: "Add a server to your configuration",
		Long: `Add a server to your configuration, so that every command knows it by the name SERVER. parley does not connect to
it, and leaves the rest of the file as it is; parley help configuration says where the file is.

The URL, headers, arguments and variables can contain references such as ${NAME}. If a value looks like a secret, parley
offers to store it in the system's keyring. Without a keyring or a terminal, it rejects the value, unless it is a
reference or you set --plain.

With --confine, parley works out what the command needs and denies it everything else. Read the entry before you rely on
it; parley help confine describes it.`,
		Example: `
parley add demo http://127.0.0.1:7777/mcp
parley add github https://example.com/mcp -H 'Authorization: Bearer ${TOKEN}'
parley add files -- npx -y @modelcontextprotocol/server-filesystem .
parley add search --env SEARCH_KEY -- search-server --stdio
parley add notes --confine -- npx -y @modelcontextprotocol/server-filesystem ~/notes`,
		RunE: func(cmd *cobra.Command, args []string) error { return addServer(cmd, &flags, args) },
	}
	flags.file.add(cmd)
	cmd.Flags().VarP((*program.Repeated)(&flags.env), "env", "e",
		"pass the environment `variable` NAME or NAME=VALUE (repeatable)")
	cmd.Flags().VarP((*program.Repeated)(&flags.headers), "header", "H", "HTTP `header`, as 'Name: value' (repeatable)")
	cmd.Flags().StringVar(&flags.dir, "cwd", "", "`directory` in which the command starts")
	dialing.AddLoginFlags(cmd, &flags.login)
	cmd.Flags().BoolVar(&flags.plain, "plain", false, "store secrets as plain text")
	cmd.Flags().BoolVar(&flags.replace, "replace", false, "replace the server that has the name")
	cmd.Flags().BoolVar(&flags.confine, "confine", false, "restrict what the command may access, on Linux")
	return cmd
}

func addServer(cmd *cobra.Command, flags *addFlags, args []string) error {
	s, err := flags.server(cmd, args)
	if err != nil {
		return err
	}
	if s.Dir == "" { // otherwise the paths are relative to it
		if err := resolvePaths(cmd, false, s); err != nil {
			return err
		}
	}
	if flags.confine {
		if err := proposeConfine(cmd, s); err != nil {
			return err
		}
	}
	var secrets keyringSecrets
	if !flags.plain {
		if secrets, err = offerKeyring(cmd, s); err != nil {
			return err
		}
	}
	file, existing, err := flags.file.open()
	if err != nil {
		return err
	}
	if other, err := existing.Find(s.Name); err == nil && !flags.replace {
		return fmt.Errorf("%s has a server %q already; choose another name, or add --replace", other.Source, s.Name)
	}
	if s, err = config.Set(file, s); err != nil {
		return err
	}
	if _, err := s.Target(anyValues()); err != nil { // for example because of an invalid reference
		return fmt.Errorf("server %q: %w", s.Name, err)
	}
	if err := failure.CheckCommand(s.Command); err != nil {
		return err
	}
	if err := secrets.store(); err != nil {
		return err
	}
	if err := file.Save(cmd.Context()); err != nil {
		return err
	}
	return output.Text(cmd, listing.NewServer(s), func(b *strings.Builder) {
		fmt.Fprintf(b, "Added %s to %s:\n", s.Name, terminal.Line(file.Path()))
		shown := withMaskedValues(s)
		shown.Args = config.Masked(s.Args)
		for _, line := range whatRuns(shown) {
			b.WriteString("  " + terminal.Verbatim(line) + "\n")
		}
	})
}

// proposeConfine adds what a command may access, and the variables that it needs with that. Variables of the user win.
func proposeConfine(cmd *cobra.Command, s *config.Server) error {
	if s.Command == "" {
		return errors.New("--confine requires -- and a command")
	}
	cache, err := listing.CacheDir()
	if err != nil {
		return err
	}
	words := slices.Clone(s.Args)
	for _, v := range s.Env {
		words = append(words, v.Value)
	}
	rules, variables, err := confine.Propose(s.Command, words, filepath.Join(cache, "servers", s.Name))
	if err != nil {
		return err
	}
	if err := rules.Check(); err != nil {
		cmd.PrintErrln("parley: warning: this machine cannot start the server: " + terminal.Line(err.Error()))
	}
	s.Confine = rules
	for _, variable := range variables {
		name, value, _ := strings.Cut(variable, "=")
		if !slices.ContainsFunc(s.Env, func(p config.Pair) bool { return p.Name == name }) {
			s.Env = append(s.Env, config.Pair{Name: name, Value: value})
		}
	}
	cmd.PrintErrf("parley: check what \"confine\" allows; to let %s change files, move their paths from \"read\" to "+
		"\"write\"; parley doctor %[1]s shows whether it works\n", s.Name)
	return nil
}

// withMaskedValues returns a copy of a server with … instead of the secrets of its URL, header fields and variables.
func withMaskedValues(s *config.Server) *config.Server {
	masked := *s
	masked.Args, masked.Env, masked.Headers = nil, slices.Clone(s.Env), slices.Clone(s.Headers)
	for _, secret := range slices.Backward(config.PlainSecrets(&masked)) {
		secret.Replace("…")
	}
	masked.Args = s.Args
	return &masked
}

// resolvePaths makes relative paths among the arguments of a command absolute, because the command will be started in
// other directories. At a terminal it asks, unless yes is set.
func resolvePaths(cmd *cobra.Command, yes bool, s *config.Server) error {
	args := slices.Clone(s.Args)
	changed := false
	for i, arg := range args {
		at := 0
		if strings.HasPrefix(arg, "-") {
			at = strings.IndexByte(arg, '=') + 1 // as in --root=./documents
		}
		path := arg[at:]
		first, _, nested := strings.Cut(filepath.ToSlash(path), "/")
		if first != "." && first != ".." {
			if _, err := os.Stat(arg); err == nil && !filepath.IsAbs(arg) && first != "" {
				cmd.PrintErrf("parley: warning: %s is in the current directory; add --cwd . to run the command here, "+
					"or write .%c%[1]s if the argument is a path\n", terminal.Line(arg), filepath.Separator)
			}
			continue
		}
		absolute, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		if nested && strings.HasSuffix(filepath.ToSlash(path), "/") {
			absolute += string(filepath.Separator)
		}
		cmd.PrintErrf("parley: %s is a relative path: %s\n", terminal.Line(path), terminal.Line(absolute))
		args[i], changed = arg[:at]+absolute, true
	}
	if !changed {
		return nil
	}
	if form.Interactive(cmd) && !yes {
		answer, err := form.ScreenOf(cmd).Choose(cmd.Context(),
			"Write absolute paths? The command may be started in other directories.", []string{"Yes", "No"}, "Yes")
		if err != nil || answer != "Yes" {
			return err
		}
	}
	s.Args = args
	return nil
}

// keyringSecrets are accounts and secrets to store in the system's keyring.
type keyringSecrets [][2]string

func (k keyringSecrets) store() error {
	for _, s := range k {
		if err := keyring.Set("parley", s[0], s[1]); err != nil {
			return fmt.Errorf("cannot store the secret %s in the system's keyring: %w", s[0], err)
		}
	}
	return nil
}

// offerKeyring replaces the secrets of a server by references to the system's keyring, if the user agrees.
func offerKeyring(cmd *cobra.Command, s *config.Server) (stored keyringSecrets, err error) {
	secrets := config.PlainSecrets(s)
	if len(secrets) == 0 {
		return nil, nil
	}
	plain := fmt.Errorf("%s would be stored as plain text; %s", secrets[0].Where, referenceAdvice(secrets[0].Name))
	if credstore.System() == nil || !form.Interactive(cmd) {
		return nil, plain
	}
	for _, secret := range secrets {
		cmd.PrintErrf("parley: %s looks like a secret\n", terminal.Line(secret.Where))
	}
	if agreed, err := form.Confirm(cmd, false, "Store in the system's keyring, and write references?"); err != nil ||
		!agreed {
		return nil, errors.Join(err, plain)
	}
	for i, secret := range slices.Backward(secrets) {
		account := s.Name + "." + notInAccount.ReplaceAllString(secret.Name, "-")
		if i > 0 {
			account += fmt.Sprintf(".%d", i+1)
		}
		stored = append(stored, [2]string{account, secret.Replace("${keyring:parley/" + account + "}")})
	}
	return stored, nil
}

var notInAccount = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// server returns the server that the command line describes.
func (f *addFlags) server(cmd *cobra.Command, args []string) (*config.Server, error) {
	dash := cmd.ArgsLenAtDash()
	named := func(words ...string) string { return quoting.OfUser().Command([]string{"add"}, words...) }
	switch {
	case dash == 0 && len(args) > 0:
		return nil, fmt.Errorf("give the server a name: parley add SERVER -- %s …",
			quoting.OfUser().Quote(args[0]))
	case len(args) == 0:
		return nil, fmt.Errorf("no SERVER; see %s --help", cmd.CommandPath())
	case dash < 0 && len(args) == 1 && dialing.IsURL(args[0]):
		return nil, fmt.Errorf("give the server a name: %s", named("SERVER", args[0]))
	case dash < 0 && len(args) == 2 && dialing.IsURL(args[0]) && !dialing.IsURL(args[1]):
		return nil, fmt.Errorf("the name comes before the URL; write %s", named(args[1], args[0]))
	case dash > 1:
		return nil, fmt.Errorf("unexpected argument %q; write the command after --", args[1])
	case dash < 0 && len(args) == 1, dash == 1 && len(args) == 1:
		return nil, fmt.Errorf("no URL and no command; write %s URL, or %[1]s -- COMMAND",
			quoting.OfUser().Command([]string{"add"}, args[0]))
	case dash < 0 && len(args) > 2:
		return nil, fmt.Errorf("unexpected argument %q; write -- before a command", args[2])
	case dash < 0 && !dialing.IsURL(args[1]) && !strings.Contains(args[1], "${"):
		return nil, fmt.Errorf("%q is not a URL; write https:// before a host, or -- before a command", args[1])
	}
	s := &config.Server{Name: args[0], Original: args[0]}
	if err := (&host.ServerConfig{Name: s.Name}).Check(); err != nil {
		return nil, err
	}
	if dash < 0 {
		s.URL = args[1]
		if len(f.env) > 0 || f.dir != "" {
			return nil, errors.New("--env and --cwd require -- and a command")
		}
		headers, err := headerPairs(f.headers)
		s.Headers, s.LoginSettings = headers, f.login
		return s, err
	}
	if flags := f.login.Flags(); flags != nil {
		return nil, fmt.Errorf("%s requires a URL: it is a setting of logins", flags[0])
	}
	if len(f.headers) > 0 {
		return nil, errors.New("--header requires a URL; pass values to a command with --env")
	}
	s.Command, s.Args = args[1], args[2:]
	var err error
	if strings.ContainsRune(s.Command, filepath.Separator) && !strings.Contains(s.Command, "${") {
		if s.Command, err = filepath.Abs(s.Command); err != nil { // the command is started in other directories, too
			return nil, err
		}
	}
	if f.dir != "" && !strings.HasPrefix(f.dir, "${") {
		if s.Dir, err = filepath.Abs(f.dir); err != nil {
			return nil, err
		}
		if info, err := os.Stat(s.Dir); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("--cwd %s must be a directory", s.Dir)
		}
	} else {
		s.Dir = f.dir
	}
	for _, v := range f.env {
		name, value, hasValue := strings.Cut(v, "=")
		if name == "" {
			return nil, errors.New("--env must be NAME or NAME=VALUE")
		}
		if !hasValue {
			value = "${" + name + "}"
		}
		s.Env = append(s.Env, config.Pair{Name: name, Value: value})
	}
	return s, nil
}

// headerPairs parses headers in the notation of curl, in their order.
func headerPairs(lines []string) (pairs []config.Pair, err error) {
	for _, line := range lines {
		if _, err := dialing.ParseHeaders([]string{line}); err != nil {
			return nil, err
		}
		name, value, _ := strings.Cut(line, ":")
		pairs = append(pairs, config.Pair{Name: name, Value: strings.TrimSpace(value)})
	}
	return pairs, nil
}

func NewRm() *cobra.Command {
	var file editedFile
	cmd := &cobra.Command{
		Use:     "rm SERVER... [flags]",
		Short:   "Remove servers from your configuration",
		Long:    "Remove servers from your configuration file, with the comments about them.",
		Example: "parley rm demo",
		RunE:    func(cmd *cobra.Command, names []string) error { return removeServers(cmd, &file, names) },
	}
	file.add(cmd)
	return cmd
}

func removeServers(cmd *cobra.Command, edited *editedFile, names []string) error {
	if len(names) == 0 {
		return fmt.Errorf("no SERVER; see %s --help", cmd.CommandPath())
	}
	file, existing, err := edited.open()
	if err != nil {
		return err
	}
	var known []string
	for i := range existing.Servers {
		known = append(known, existing.Servers[i].Original)
	}
	for _, p := range existing.Problems { // an entry that cannot be used can be removed
		known = append(known, p.Name)
	}
	for _, name := range names {
		if file.Remove(config.ServersMember, name) {
			continue
		}
		if near := terminal.Nearest(name, known); near != "" && near != name {
			return fmt.Errorf("%s has no server %q; did you mean %s?", file.Path(), name, near)
		}
		return fmt.Errorf("%s has no server %q in %q; see parley ls", file.Path(), name, config.ServersMember)
	}
	if err := file.Save(cmd.Context()); err != nil {
		return err
	}
	return output.Print(cmd, names, "Removed %s from %s.\n", terminal.Line(program.Commas(names)),
		terminal.Line(file.Path()))
}

// editedFile is the configuration file that a command changes.
type editedFile struct {
	path string // empty: the user's
}

func (f *editedFile) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.path, "config", "c", "", "change this `file` instead of your configuration")
}

// open reads the file, and the servers that it has.
func (f *editedFile) open() (*jsonedit.File, *config.Config, error) {
	path := f.path
	if path == "" {
		var err error
		if path, err = dialing.UserFile(); err != nil {
			return nil, nil, err
		}
	}
	file, err := jsonedit.Open(path)
	if err != nil {
		return nil, nil, err
	}
	workspace, err := os.Getwd()
	if err != nil {
		return nil, nil, err
	}
	loaded, err := config.Load(workspace, path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, config.ErrNoServers):
		return file, new(config.Config), nil
	case loaded == nil:
		return nil, nil, err
	}
	return file, loaded, nil
}

// referenceAdvice says how to store a secret.
func referenceAdvice(name string) string {
	variable := strings.ToUpper(strings.NewReplacer("-", "_", " ", "_").Replace(name))
	quote := quoting.OfUser().Quote
	return fmt.Sprintf("write a reference, such as %s or %s, or add --plain", quote("${"+variable+"}"),
		quote("${keyring:parley/"+name+"}"))
}
