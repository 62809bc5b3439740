package servers

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/login/credstore"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/editors"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/jsonedit"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/form"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/quoting"
	"github.com/parley-mcp/parley/cmd/parley/internal/use/listing"
	"github.com/parley-mcp/parley/host"
)

// importFlags are the flags of parley import.
type importFlags struct {
	file    editedFile
	only    []string
	yes     bool
	replace bool
}

func NewImport() *cobra.Command {
	var flags importFlags
	cmd := &cobra.Command{
		Use:   "import [CLIENT|FILE]... [flags]",
		Short: "Copy the servers of other clients to your configuration",
		Long: `Copy the servers of other programs to your configuration. parley reads your files of these clients, and
those in the current directory: ` + strings.Join(editors.Names(), ", ") + `.
Name clients or files to import only their servers.

parley shows what each server runs or connects to, warns about secrets in plain text, and asks. --yes skips files in the
current directory, which may be somebody else's; name such a FILE to import it. A server whose name is taken is
only replaced with --replace. parley help configuration says more.`,
		Example: `
parley import
parley import cursor vscode
parley import claude --only filesystem --yes
parley import ~/project/.mcp.json`,
		RunE: func(cmd *cobra.Command, args []string) error { return importServers(cmd, &flags, args) },
	}
	flags.file.add(cmd)
	cmd.Flags().Var((*program.Repeated)(&flags.only), "only", "import only this `SERVER` (repeatable)")
	cmd.Flags().BoolVarP(&flags.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&flags.replace, "replace", false, "replace servers whose names are taken")
	completion.Add(cmd, new(dialing.ConfigFlags), completion.Words(editors.Names()...))
	return cmd
}

// importedServer is a server of another program, and what happens to it.
type importedServer struct {
	*listing.Server
	Action  string   `json:"action"` // add, replace, same, taken, unseen or unusable
	Detail  string   `json:"detail,omitempty"`
	Secrets []string `json:"secrets,omitempty"` // that are copied as plain text

	runs []string // what the entry runs or connects to, if it would be added
}

// printRuns prints what an entry runs or connects to, and which of its values would be copied as plain text.
func (s *importedServer) printRuns(cmd *cobra.Command) {
	if len(s.runs) > 0 {
		cmd.PrintErrln(terminal.Line(s.Name))
	}
	for _, line := range s.runs {
		cmd.PrintErrln("  " + terminal.Verbatim(line))
	}
	for _, secret := range s.Secrets {
		cmd.PrintErrf("parley: warning: %s: %s would be copied as plain text\n", terminal.Line(s.Name),
			terminal.Line(secret))
	}
}

func importServers(cmd *cobra.Command, flags *importFlags, args []string) error {
	sources, err := sourcesOf(args)
	if err != nil {
		return err
	}
	file, existing, err := flags.file.open()
	if err != nil {
		return err
	}
	workspace, err := os.Getwd()
	if err != nil {
		return err
	}
	plan, err := editors.Plan(existing, workspace, sources)
	if err != nil {
		if len(plan) == 0 {
			return err
		}
		cmd.PrintErrln("parley: warning: " + terminal.Line(err.Error()))
	}
	shown := []*importedServer{}
	var names []string
	write := 0
	for _, p := range plan {
		names = append(names, p.Name)
		if len(flags.only) > 0 && !slices.Contains(flags.only, p.Name) {
			continue
		}
		s := newImportedServer(p, flags)
		if s.Action == "add" || s.Action == "replace" {
			_, err := config.Set(file, p.Server)
			if err := errors.Join(err, config.AddInputs(file, p.Server)); err != nil {
				return err
			}
			write++
		}
		shown = append(shown, s)
	}
	for _, name := range flags.only {
		if !slices.Contains(names, name) {
			return terminal.Unknown("server", name, names, "the servers are "+strings.Join(names, ", "))
		}
	}
	if output.Of(cmd) == output.Table {
		if err := printImport(cmd, shown, sources); err != nil || write == 0 {
			return err
		}
	}
	if write == 0 {
		return output.Show(cmd, shown, nil)
	}
	for _, s := range shown {
		s.printRuns(cmd)
	}
	if agreed, err := form.Confirm(cmd, flags.yes,
		fmt.Sprintf("Add %s to %s?", terminal.Count(write, "server"), terminal.Line(file.Path()))); err != nil ||
		!agreed {
		return err
	}
	if err := file.Save(cmd.Context()); err != nil {
		return err
	}
	return output.Print(cmd, shown, "Added %s to %s.\n", terminal.Count(write, "server"), terminal.Line(file.Path()))
}

// sourcesOf returns the files that the arguments name: clients, or files. Without arguments it returns the files of all
// clients.
func sourcesOf(args []string) ([]editors.Source, error) {
	here, err := editors.Here()
	if err != nil {
		return nil, err
	}
	if len(args) == 0 {
		sources := editors.Sources(here, editors.Clients())
		if len(sources) == 0 {
			return nil, fmt.Errorf("found no file of %s; name a FILE", strings.Join(editors.Names(), ", "))
		}
		return sources, nil
	}
	var sources []editors.Source
	for _, arg := range args {
		c := editors.Find(arg)
		if c == nil {
			if dialing.IsURL(arg) {
				return nil, fmt.Errorf("%q is not a file; add the server with %s", arg,
					quoting.OfUser().Command([]string{"add"}, "SERVER", arg))
			}
			if _, err := os.Stat(arg); err != nil {
				if near := terminal.Nearest(arg, editors.Names()); near != "" {
					return nil, fmt.Errorf("%w; did you mean %s?", err, near)
				}
				return nil, fmt.Errorf("%w; name a file, or one of %s", err, strings.Join(editors.Names(), ", "))
			}
			sources = append(sources, editors.Source{Path: arg})
			continue
		}
		found := editors.Sources(here, []*editors.Client{c})
		if len(found) == 0 {
			return nil, fmt.Errorf("%s has no file at %s", c.Title, strings.Join(c.Files(here), " or "))
		}
		sources = append(sources, found...)
	}
	return sources, nil
}

func newImportedServer(p *editors.Import, flags *importFlags) *importedServer {
	if p.Server == nil {
		return &importedServer{Server: &listing.Server{Name: p.Name, Origin: p.Source.Origin()}, Action: "unusable",
			Detail: p.Err.Error()}
	}
	s := &importedServer{Server: listing.NewServer(p.Server), Action: "add"}
	switch {
	case p.Err != nil:
		s.Action, s.Detail = "unusable", p.Err.Error()
	case p.Same != "":
		s.Action, s.Detail = "same", s.Name+" is the same as "+p.Same
	case p.Source.Project && flags.yes:
		s.Action, s.Detail = "unseen", s.Name+
			" is in a file of the project; run parley import without --yes, or name the file"
	case p.Taken != "" && flags.replace:
		s.Action, s.Detail = "replace", s.Name+" replaces "+p.Taken
	case p.Taken != "":
		s.Action, s.Detail = "taken", "the name "+s.Name+" is taken by "+p.Taken+"; add --replace, or rename one"
	}
	if s.Action == "add" || s.Action == "replace" {
		for _, secret := range config.PlainSecrets(p.Server) {
			s.Secrets = append(s.Secrets, secret.Where)
		}
		s.runs = whatRuns(withMaskedValues(p.Server)) // arguments with secrets, because each can decide what runs
	}
	return s
}

// printImport prints the servers and what happens to them.
func printImport(cmd *cobra.Command, shown []*importedServer, sources []editors.Source) error {
	w := cmd.OutOrStdout()
	if len(shown) == 0 {
		var files []string
		for _, s := range sources {
			files = append(files, s.Path)
		}
		_, err := fmt.Fprintf(cmd.ErrOrStderr(), "No servers in %s.\n", terminal.Line(strings.Join(files, ", ")))
		return err
	}
	var rows [][]string
	var notes strings.Builder
	for _, s := range shown {
		rows = append(rows, []string{terminal.Line(s.Name), s.Action, terminal.Line(s.Origin),
			terminal.Verbatim(s.Target)})
		if s.Detail != "" {
			fmt.Fprintln(&notes, terminal.Line(s.Detail))
		}
	}
	return terminal.NotedTable(w, []string{"SERVER", "ACTION", "ORIGIN", "TARGET"}, rows, notes.String())
}

// installFlags are the flags of parley install.
type installFlags struct {
	config  dialing.ConfigFlags
	client  string
	name    string
	project bool
	bridge  bool
	direct  bool
	remove  bool
	replace bool
	yes     bool
}

func NewInstall() *cobra.Command {
	var flags installFlags
	cmd := &cobra.Command{
		Use:   "install TARGET --client CLIENT [flags]",
		Short: "Add a server to the configuration of another client",
		Long: `Add a server to the configuration file of a client: ` + strings.Join(editors.Names(), ", ") + `.
parley shows how the file will change, and asks. It leaves the rest of the file as it is, and only replaces an entry of
the same name if you agree or set --replace. --remove removes the entry.

If the client cannot use the server's own entry, it gets one that starts parley bridge, which uses your configuration
and login; --direct or --bridge forces one of the two. TARGET is the name of a server in your configuration, or, with
--name, a URL or -- and a command. parley help configuration says more.`,
		Example: `
parley install files --client cursor
parley install github --client claude --yes
parley install https://example.com/mcp --name example --client vscode
parley install files --client zed --remove`,
		RunE: func(cmd *cobra.Command, args []string) error { return install(cmd, &flags, args) },
	}
	flags.config.Add(cmd)
	f := cmd.Flags()
	f.StringVar(&flags.client, "client", "", "`client` whose file is changed")
	f.StringVar(&flags.name, "name", "", "`name` of the entry (default TARGET)")
	f.BoolVar(&flags.project, "project", false, "change the file of the project in this directory")
	f.BoolVar(&flags.bridge, "bridge", false, "write an entry that starts parley bridge")
	f.BoolVar(&flags.direct, "direct", false, "write the server's own entry")
	f.BoolVar(&flags.remove, "remove", false, "remove the entry")
	f.BoolVar(&flags.replace, "replace", false, "replace the entry that has the name")
	f.BoolVarP(&flags.yes, "yes", "y", false, "do not ask")
	cmd.MarkFlagsMutuallyExclusive("bridge", "direct", "remove")
	cmd.MarkFlagsMutuallyExclusive("remove", "replace")
	completion.Add(cmd, &flags.config, completion.Target, completion.Nothing)
	program.CompleteFlag(cmd, "client", editors.Names())
	return cmd
}

// installed is the result of parley install.
type installed struct {
	Client string `json:"client"`
	File   string `json:"file"`
	Name   string `json:"name"`
	Bridge bool   `json:"bridge"`
	Reason string `json:"reason,omitempty"` // why the client starts parley bridge
	Entry  any    `json:"entry,omitempty"`
	taken  bool   // the file had an entry with the name
}

func install(cmd *cobra.Command, flags *installFlags, args []string) error {
	target, err := dialing.OnlyTarget(cmd, args)
	if err != nil {
		return err
	}
	c := editors.Find(flags.client)
	switch {
	case flags.client == "":
		return fmt.Errorf("--client is missing; use one of %s", strings.Join(editors.Names(), ", "))
	case c == nil:
		return fmt.Errorf("unknown --client %q; use one of %s", flags.client, strings.Join(editors.Names(), ", "))
	}
	file, err := flags.open(c)
	if err != nil {
		return err
	}
	result := &installed{Client: c.Title, File: file.Path()}
	if flags.remove {
		result.Name = target[0]
		if flags.name != "" {
			result.Name = flags.name
		}
		if !c.Remove(file, result.Name) {
			return fmt.Errorf("%s has no server %q", file.Path(), result.Name)
		}
	} else if err := flags.set(cmd, c, file, target, result); err != nil {
		return err
	}
	if !file.Changed() {
		return output.Print(cmd, result, "%s has this entry already.\n", terminal.Line(file.Path()))
	}
	question := "Write " + terminal.Line(file.Path()) + "?"
	if result.taken && !flags.replace {
		if flags.yes || !form.Interactive(cmd) {
			return fmt.Errorf("%s has a server %q already; choose another name with --name, or add --replace",
				file.Path(), result.Name)
		}
		question = fmt.Sprintf("Replace the entry %s of %s?", terminal.Line(result.Name), terminal.Line(file.Path()))
	}
	fmt.Fprint(cmd.ErrOrStderr(), terminal.Block(file.Diff()))
	if result.Reason != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "\n%s starts parley bridge: %s.\n", c.Title, terminal.Line(result.Reason))
	}
	if agreed, err := form.Confirm(cmd, flags.yes, question); err != nil || !agreed {
		return err
	}
	if err := file.Save(cmd.Context()); err != nil {
		return err
	}
	return output.Show(cmd, result, func(w io.Writer) error {
		done := "Wrote the entry %s to %s."
		if flags.remove {
			done = "Removed the entry %s from %s."
		}
		_, err := fmt.Fprintf(w, done+" Restart %s if it does not notice the change.\n", terminal.Line(result.Name),
			terminal.Line(file.Path()), c.Title)
		return err
	})
}

// open opens the file of the client.
func (f *installFlags) open(c *editors.Client) (*jsonedit.File, error) {
	here, err := editors.Here()
	if err != nil {
		return nil, err
	}
	path := c.UserFile(here)
	if f.project {
		if path = c.ProjectFile(here); path == "" {
			return nil, fmt.Errorf("%s has no files of projects; remove --project", c.Title)
		}
	}
	return jsonedit.Open(path)
}

// set sets the entry of the target.
func (f *installFlags) set(cmd *cobra.Command, c *editors.Client, file *jsonedit.File, words []string,
	result *installed) error {
	s, bridge, err := f.server(cmd, words)
	if err != nil {
		return err
	}
	result.Name = s.Name
	entry, err := c.Entry(s)
	switch {
	case f.direct && err != nil:
		return fmt.Errorf("%w; remove --direct", err)
	case f.direct:
	case f.bridge:
		result.Bridge = true
	case err != nil:
		result.Bridge, result.Reason = true, err.Error()
	default:
		result.Bridge = hasLogin(cmd, s)
		if result.Bridge {
			result.Reason = "it has your login to " + config.WithoutSecrets(s.URL)
		}
	}
	if result.Bridge {
		program, err := os.Executable()
		if err != nil {
			return err
		}
		entry, s = c.Start(program, bridge, environment()), nil
	}
	result.Entry, result.taken = entry, c.Get(file, result.Name) != nil
	return c.Set(file, result.Name, entry, s)
}

// server returns the server that TARGET describes, and the arguments with which parley serves it.
func (f *installFlags) server(cmd *cobra.Command, words []string) (s *config.Server, bridge []string, err error) {
	isCommand := dialing.CommandAt(cmd) >= 0
	if !isCommand && !dialing.IsURL(words[0]) {
		if s, err = f.config.Find(cmd, words[0]); err != nil {
			return nil, nil, err
		}
		if err := s.Detach(); err != nil {
			return nil, nil, err
		}
		bridge = []string{"bridge", s.Name}
		for _, path := range f.config.Paths {
			absolute, err := filepath.Abs(path)
			if err != nil {
				return nil, nil, err
			}
			bridge = append(bridge, "--config", absolute)
		}
		if f.name != "" {
			s.Name = f.name
		}
		return s, bridge, nil
	}
	if f.name == "" {
		return nil, nil, errors.New("no name; add --name NAME, the name of the new entry")
	}
	if err := (&host.ServerConfig{Name: f.name}).Check(); err != nil {
		return nil, nil, err
	}
	s = &config.Server{Name: f.name, Original: f.name}
	if !isCommand {
		s.URL = words[0]
		return s, []string{"bridge", s.URL}, nil
	}
	s.Command, s.Args = words[0], words[1:]
	if strings.ContainsRune(s.Command, filepath.Separator) {
		s.Command, err = filepath.Abs(s.Command)
	}
	if err == nil {
		err = resolvePaths(cmd, f.yes, s)
	}
	return s, append([]string{"bridge", "--", s.Command}, s.Args...), err
}

// environment returns the variables that say where parley has its configuration and logins.
func environment() (env []config.Pair) {
	for _, name := range []string{"PARLEY_CONFIG_DIR", "PARLEY_NO_KEYRING"} {
		if value := os.Getenv(name); value != "" {
			env = append(env, config.Pair{Name: name, Value: value})
		}
	}
	return env
}

// hasLogin reports whether the user has logged in to a server.
func hasLogin(cmd *cobra.Command, s *config.Server) bool {
	if u, err := url.Parse(s.URL); err != nil || u.Host == "" {
		return false
	}
	stored, err := credstore.OpenClient(cmd.Context())
	if err != nil {
		return false
	}
	status, err := stored.Status(cmd.Context(), s.URL)
	return err == nil && status != nil
}
