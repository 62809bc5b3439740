package servers

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/login/credstore"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/registry"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/form"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/quoting"
	"github.com/parley-mcp/parley/cmd/parley/internal/use/listing"
	"github.com/parley-mcp/parley/cmd/parley/internal/use/toolargs"
	"github.com/parley-mcp/parley/host"
)

func NewRegistry() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "registry",
		Short: "Find servers in an MCP registry, and add them",
		Long: `Find servers in an MCP registry, and add them to your configuration. The registry is the official one, or one with
the same API (v0.1) that --registry names. The official registry does not review servers: look at what a server runs
before you add it.`,
		Example: `
parley registry search weather
parley registry add io.github.example/weather --name weather`,
		Args: program.UnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newRegistrySearch(), newRegistryAdd())
	return cmd
}

// registryFlags are the flags of all registry commands.
type registryFlags struct{ url string }

func (f *registryFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.url, "registry", registry.DefaultURL, "`URL` of the registry")
	completion.Add(cmd, new(dialing.ConfigFlags), completion.Nothing)
}

func (f *registryFlags) client() (*registry.Client, error) {
	if !dialing.IsURL(f.url) {
		return nil, errors.New("--registry must begin with https:// or http://")
	}
	return &registry.Client{URL: f.url, UserAgent: "parley/" + program.Version()}, nil
}

func newRegistrySearch() *cobra.Command {
	var flags registryFlags
	limit := 20
	cmd := &cobra.Command{
		Use:     "search WORD [flags]",
		Short:   "Search the names of servers",
		Long:    "Print the servers of the registry whose names contain a word, in their latest versions.",
		Example: "parley registry search weather",
		RunE: func(cmd *cobra.Command, args []string) error {
			word, err := program.OneArgument(cmd, args, "WORD")
			if err != nil {
				return err
			}
			if limit <= 0 {
				return errors.New("--limit must be positive")
			}
			return registrySearch(cmd, &flags, word, limit)
		},
	}
	flags.add(cmd)
	cmd.Flags().IntVar(&limit, "limit", limit, "maximum `number` of servers")
	return cmd
}

func registrySearch(cmd *cobra.Command, flags *registryFlags, word string, limit int) error {
	c, err := flags.client()
	if err != nil {
		return err
	}
	found, more, err := c.Search(cmd.Context(), word, limit)
	if err != nil {
		return failure.Unreachable(err)
	}
	return output.Show(cmd, append([]registry.Entry{}, found...), func(w io.Writer) error {
		if len(found) == 0 {
			_, err := fmt.Fprintln(cmd.ErrOrStderr(), "No server of the registry has such a name.")
			return err
		}
		var rows [][]string
		for _, e := range found {
			description := e.Server.Description
			if status := statusOfEntry(&e); status != "" {
				description = status + ": " + description
			}
			rows = append(rows, []string{terminal.Line(e.Server.Name), terminal.Line(e.Server.Version),
				terminal.Line(description)})
		}
		if err := terminal.Table(w, terminal.Width(w), []string{"NAME", "VERSION", "DESCRIPTION"}, rows); err != nil {
			return err
		}
		if more {
			cmd.PrintErrln("parley: the registry lists more servers; search for a longer WORD, or set --limit")
		}
		return nil
	})
}

// statusOfEntry returns the status of an entry that is not active.
func statusOfEntry(e *registry.Entry) string {
	if o := e.Meta.Official; o != nil && o.Status != "active" {
		return o.Status
	}
	return ""
}

// get returns a version of a server.
func (f *registryFlags) get(cmd *cobra.Command, name, version string) (*registry.Entry, error) {
	c, err := f.client()
	if err != nil {
		return nil, err
	}
	e, err := c.Get(cmd.Context(), name, version)
	if errors.Is(err, registry.ErrNotFound) {
		return nil,
			fmt.Errorf("the registry has no version %s of the server %q; find servers with parley registry search",
				version, name)
	}
	if err != nil {
		return nil, failure.Unreachable(err)
	}
	return e, nil
}

// whatRuns describes what a configuration entry runs or connects to, in lines, so that the user can decide about it.
func whatRuns(s *config.Server) (lines []string) {
	if s.URL != "" {
		lines = append(lines, "connects to "+s.URL)
	} else {
		lines = append(lines, "runs "+config.CommandText(s.Command, s.Args))
	}
	for _, h := range s.Headers {
		lines = append(lines, "with the header "+h.Name+": "+h.Value)
	}
	for _, e := range s.Env {
		lines = append(lines, "with the variable "+e.Name+"="+e.Value)
	}
	if s.EnvFile != "" {
		lines = append(lines, "with the variables of the file "+s.EnvFile)
	}
	if s.Dir != "" {
		lines = append(lines, "in the directory "+s.Dir)
	}
	others := shownMembers(s).Without("command", "args", "url", "env", "headers", "envFile", "cwd", "origin")
	if len(others) > 0 {
		lines = append(lines, "with the settings "+inWords(others))
	}
	return lines
}

// registryAddFlags are the flags of parley registry add.
type registryAddFlags struct {
	registryFlags
	file    editedFile
	version string
	name    string
	kind    string
	set     []string
	yes     bool
	replace bool
	login   config.LoginSettings
}

func newRegistryAdd() *cobra.Command {
	var flags registryAddFlags
	cmd := &cobra.Command{
		Use:   "add NAME [flags]",
		Short: "Add a server of the registry to your configuration",
		Long: `Add a server of the registry to your configuration. parley asks for the values that the server requires,
shows what the entry runs or connects to, and asks before it writes. It starts nothing. Secrets go to the system's
keyring; without one, the entry refers to an environment variable that you set.

If the registry offers a server in several forms, --package chooses: remote, npm, pypi, nuget or oci. parley help
configuration says more.`,
		Example: `
parley registry add io.github.example/weather --name weather
parley registry add io.github.example/files --package npm --set directory=/srv`,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := program.OneArgument(cmd, args, "NAME")
			if err != nil {
				return err
			}
			return registryAdd(cmd, &flags, name)
		},
	}
	flags.add(cmd)
	flags.file.add(cmd)
	f := cmd.Flags()
	f.StringVar(&flags.version, "server-version", "latest", "`version` of the server")
	f.StringVar(&flags.name, "name", "", "`name` of the entry (default the end of NAME)")
	f.StringVar(&flags.kind, "package", "", "`kind` of the package, or remote")
	f.Var((*program.Repeated)(&flags.set), "set", "value that the server asks for, as `NAME=VALUE` (repeatable)")
	f.BoolVarP(&flags.yes, "yes", "y", false, "do not ask before writing")
	f.BoolVar(&flags.replace, "replace", false, "replace the server that has the name")
	dialing.AddLoginFlags(cmd, &flags.login)
	return cmd
}

var notInName = regexp.MustCompile(`[^A-Za-z0-9-]+`)

func registryAdd(cmd *cobra.Command, flags *registryAddFlags, name string) error {
	set, err := toolargs.ParseStrings(flags.set)
	if err != nil {
		return fmt.Errorf("--set: %w", err)
	}
	e, err := flags.get(cmd, name, flags.version)
	if err != nil {
		return err
	}
	switch status := statusOfEntry(e); status {
	case "":
	case "deleted":
		return fmt.Errorf("the server %s was deleted from the registry", name)
	default:
		cmd.PrintErrf("parley: warning: the registry says that this version is %s\n", terminal.Line(status))
	}
	if flags.name == "" {
		flags.name = strings.Trim(notInName.ReplaceAllString(name[strings.LastIndexByte(name, '/')+1:], "-"), "-")
	}
	if err := (&host.ServerConfig{Name: flags.name}).Check(); err != nil {
		return fmt.Errorf("%w; choose the name with --name", err)
	}
	file, existing, err := flags.file.open()
	if err != nil {
		return err
	}
	if other, err := existing.Find(flags.name); err == nil && !flags.replace {
		return fmt.Errorf("%s has a server %q already; choose another name with --name, or add --replace", other.Source,
			flags.name)
	}
	choice, err := flags.choose(cmd, &e.Server)
	if err != nil {
		return err
	}
	asked := &registryValues{cmd: cmd, server: flags.name, set: set}
	s, err := choice.Entry(flags.name, slices.Sorted(maps.Keys(set)), asked.ask)
	if err != nil {
		return err
	}
	if given := flags.login.Flags(); given != nil && s.URL == "" {
		return fmt.Errorf("%s requires a server with a URL: it is a setting of logins", given[0])
	}
	s.LoginSettings = flags.login
	if s, err = config.Set(file, s); err != nil {
		return err
	}
	for _, line := range whatRuns(s) {
		cmd.PrintErrln("  " + terminal.Verbatim(line))
	}
	for _, note := range asked.notes {
		cmd.PrintErrln("  " + terminal.Line(note))
	}
	if agreed, err := form.Confirm(cmd, flags.yes,
		fmt.Sprintf("Add %s to %s?", flags.name, terminal.Line(file.Path()))); err != nil || !agreed {
		return err
	}
	if err := asked.secrets.store(); err != nil {
		return err
	}
	if err := file.Save(cmd.Context()); err != nil {
		return err
	}
	return output.Print(cmd, listing.NewServer(s), "Added %s to %s.\n", flags.name, terminal.Line(file.Path()))
}

// choose returns the way to use a server that the user chooses, or the only one.
func (f *registryAddFlags) choose(cmd *cobra.Command, s *registry.Server) (*registry.Choice, error) {
	usable, reasons := registry.Choices(s)
	var kinds, labels []string
	for _, c := range usable {
		kinds, labels = append(kinds, c.Kind()), append(labels, c.Label())
	}
	if f.kind != "" {
		at := slices.Index(kinds, f.kind)
		if at < 0 {
			return nil, fmt.Errorf("the server has no package of the kind %q; it has %s", f.kind,
				strings.Join(kinds, ", "))
		}
		return usable[at], nil
	}
	switch {
	case len(usable) == 0:
		return nil, errors.Join(append([]error{errors.New("parley cannot use the server from a configuration file")},
			reasons...)...)
	case len(usable) == 1:
		return usable[0], nil
	case !form.Interactive(cmd):
		return nil, fmt.Errorf("the server can be used in several ways; choose one with --package: %s",
			strings.Join(kinds, ", "))
	}
	chosen, err := form.ScreenOf(cmd).Choose(cmd.Context(), "Which one?", labels, labels[0])
	if err != nil {
		return nil, err
	}
	return usable[slices.Index(labels, chosen)], nil
}

// registryValues are the values that the user enters for a server.
type registryValues struct {
	cmd     *cobra.Command
	server  string
	set     map[string]string
	secrets keyringSecrets
	notes   []string
}

// ask returns the value of an input, or a reference to it if it is secret.
func (v *registryValues) ask(name string, in registry.Input) (string, error) {
	value, isSet := v.set[name]
	interactive := form.Interactive(v.cmd)
	switch {
	case isSet:
	case in.IsSecret && credstore.System() == nil:
		// The user sets the variable, so that the secret is not stored as plain text.
	case !interactive && in.Default != "":
		value = in.Default
	case !interactive && !in.IsRequired:
		return "", nil
	case !interactive:
		return "", fmt.Errorf("%s has no value; add --set %s, or run parley at a terminal", name,
			quoting.OfUser().Quote(name+"=VALUE"))
	default:
		var err error
		if value, err = dialing.Enter(v.cmd, v.server,
			&config.Input{ID: name, Description: strings.TrimSuffix(name+": "+in.Description, ": "),
				Default: in.Default,
				Options: in.Choices, Secret: in.IsSecret}); err != nil {
			return "", err
		}
	}
	if len(in.Choices) > 0 && value != "" && !slices.Contains(in.Choices, value) {
		return "", fmt.Errorf("%s must be one of %s", name, strings.Join(in.Choices, ", "))
	}
	switch {
	case !in.IsSecret || strings.HasPrefix(value, "${"):
		return value, nil
	case credstore.System() == nil:
		reference := strings.Trim(strings.ToUpper(regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(name, "_")), "_")
		if value != "" {
			return "",
				fmt.Errorf("the system has no keyring for the secret %s; add --set '%s=${%s}' instead, and set the "+
					"environment variable", name, name, reference)
		}
		v.notes = append(v.notes, "set the environment variable "+reference+" to the secret "+name)
		if !in.IsRequired {
			reference += ":-"
		}
		return "${" + reference + "}", nil
	case value == "":
		return "", nil
	}
	account := v.server + "." + name
	v.secrets = append(v.secrets, [2]string{account, value})
	return "${keyring:parley/" + account + "}", nil
}
