package serve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/serve/lock"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/form"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/quoting"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/skills"
)

// lockFlags are the flags of the lock commands.
type lockFlags struct {
	files   dialing.ConfigFlags
	path    string
	timeout time.Duration
	digest  string // of the differences to accept
}

func (f *lockFlags) add(cmd *cobra.Command) {
	f.files.Add(cmd)
	cmd.Flags().StringVar(&f.path, "lock", "", "lock `file` (default mcp.lock next to a configuration file)")
	cmd.Flags().DurationVar(&f.timeout, "timeout", time.Minute,
		"`time` for the servers to start and list their definitions")
}

func NewLock() *cobra.Command {
	var flags lockFlags
	cmd := &cobra.Command{
		Use:   "lock [flags]",
		Short: "Record what servers offer, to notice changes",
		Long: `Connect to each server of a configuration file, and write the definitions of its tools, prompts and resources
to a new lock file, mcp.lock. From then on, parley up withholds definitions that are new or have changed, until you
accept them; see parley help audit.`,
		Example: `
parley lock --config mcp.json
parley lock diff --config mcp.json
parley lock accept --config mcp.json files
parley lock accept --config mcp.json files read_text_file`,
		Args: program.UnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return createLock(cmd, &flags) },
	}
	flags.add(cmd)
	cmd.Flags().Lookup("lock").Usage = "lock `file` (default mcp.lock next to a configuration file); - prints it"
	cmd.AddCommand(newLockDiff(), newLockAccept())
	return cmd
}

func newLockDiff() *cobra.Command {
	var flags lockFlags
	cmd := &cobra.Command{
		Use:   "diff [SERVER [NAME]] [flags]",
		Short: "Show the definitions that differ from the lock file",
		Long: `Connect to the servers, and show how their definitions differ from the lock file, with the command that accepts
the differences. The exit code is 1 if there are any.`,
		Example: "parley lock diff --config mcp.json",
		RunE:    func(cmd *cobra.Command, args []string) error { return diffLock(cmd, &flags, args) },
	}
	flags.add(cmd)
	return cmd
}

func newLockAccept() *cobra.Command {
	var flags lockFlags
	cmd := &cobra.Command{
		Use:   "accept [SERVER [NAME]] [flags]",
		Short: "Accept the current definitions of the servers",
		Long: `Connect to the servers, and write their current definitions to the lock file: everything, or only one SERVER,
or only one NAME of it. parley shows the differences and asks. In a script, --digest accepts exactly the differences
that parley lock diff printed with this digest.`,
		Example: `
parley lock accept --config mcp.json
parley lock accept --config mcp.json files read_text_file`,
		RunE: func(cmd *cobra.Command, args []string) error { return acceptLock(cmd, &flags, args) },
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&flags.digest, "digest", "", "accept the differences with this `digest`, without a question")
	return cmd
}

// listed are the definitions of servers.
type listed struct {
	servers []string // those that are ready, in their order
	missing []error  // of the others
	byName  map[string][]host.Definition
}

// list starts the servers of the configuration files, or only the one that is named, and returns their definitions.
func (f *lockFlags) list(cmd *cobra.Command, only string) (*listed, error) {
	loaded, err := f.files.Load(cmd)
	if err != nil {
		return nil, err
	}
	if only != "" {
		s, err := loaded.Find(only)
		if err != nil {
			return nil, err
		}
		loaded = &config.Config{Servers: []config.Server{*s}}
	}
	var mu sync.Mutex
	seen := make(map[string]host.Definition)
	record := func(d host.Definition) error {
		mu.Lock()
		defer mu.Unlock()
		seen[d.Server+" "+string(d.Kind)+" "+d.Name] = d
		return nil
	}
	h, failed, err := dialing.StartServers(cmd, &f.files, loaded, f.timeout, record)
	if err != nil {
		return nil, err
	}
	all := &listed{byName: make(map[string][]host.Definition)}
	for _, s := range h.Status() {
		err := f.missing(&s)
		if err == nil {
			err = recordSkills(cmd.Context(), h, &s, record)
		}
		if err != nil {
			all.missing = append(all.missing, err)
		} else {
			all.servers = append(all.servers, s.Name)
		}
	}
	_ = h.Close() // a server that does not end well has no effect
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		all.missing = append(all.missing, fmt.Errorf("server %q: %w", name, failed[name]))
	}
	for _, p := range loaded.Problems {
		all.missing = append(all.missing, p.Err)
	}
	for _, key := range slices.Sorted(maps.Keys(seen)) {
		d := seen[key]
		all.byName[d.Server] = append(all.byName[d.Server], d)
	}
	return all, nil
}

// missing returns an error if a server has not listed all its definitions.
func (f *lockFlags) missing(s *host.ServerStatus) error {
	switch {
	case s.State == host.Ready && s.Incomplete == nil:
		return nil
	case s.Incomplete != nil:
		return fmt.Errorf("server %q: %w", s.Name, s.Incomplete)
	case s.Err != nil:
		return fmt.Errorf("server %q: %s", s.Name, failure.Explain(s.Err))
	}
	return fmt.Errorf("server %q has not started within %v", s.Name, f.timeout)
}

// complete returns an error if servers are missing.
func (l *listed) complete() error {
	if len(l.missing) == 0 {
		return nil
	}
	return failure.Unreachable(fmt.Errorf("cannot list the definitions of all servers: %w", errors.Join(l.missing...)))
}

func createLock(cmd *cobra.Command, flags *lockFlags) error {
	path, err := lockPath(flags.path, &flags.files)
	if err != nil {
		return err
	}
	printed := flags.path == "-" // for a container without a file system to write to
	if !printed && exists(path) {
		return lockExists(path)
	}
	all, err := flags.list(cmd, "")
	if err == nil {
		err = all.complete()
	}
	if err != nil {
		return err
	}
	f, n := lock.New(), 0
	for _, server := range all.servers {
		f.Accept(server, "", all.byName[server])
		n += len(all.byName[server])
	}
	if printed {
		text, err := f.Text()
		if err == nil {
			_, err = cmd.OutOrStdout().Write(text)
		}
		return err
	}
	switch err := f.Create(cmd.Context(), path); {
	case errors.Is(err, os.ErrExist):
		return lockExists(path)
	case err != nil:
		return fmt.Errorf("cannot write the lock file: %w", err)
	}
	written := struct {
		Path        string   `json:"path"`
		Servers     []string `json:"servers"`
		Definitions int      `json:"definitions"` // the number
	}{path, append([]string{}, all.servers...), n}
	return output.Print(cmd, written, "Wrote %s of %s to %s.\n", terminal.Count(n, "definition"),
		terminal.Count(len(all.servers), "server"), path)
}

func lockExists(path string) error {
	return fmt.Errorf("lock file %s exists; see the changes with parley lock diff, and accept them with parley lock "+
		"accept", path)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// load reads the lock file, whose path it returns, and the definitions of the servers.
func (f *lockFlags) load(cmd *cobra.Command, only string) (path string, file *lock.File, all *listed, err error) {
	if path, err = lockPath(f.path, &f.files); err != nil {
		return "", nil, nil, err
	}
	file, err = lock.Load(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil, nil, fmt.Errorf("lock file %s does not exist; create it with parley lock", path)
	}
	if err == nil {
		all, err = f.list(cmd, only)
	}
	return path, file, all, err
}

// errDiffer is the error of parley lock diff if there are differences, which the text output has.
var errDiffer = failure.Reported(errors.New("definitions differ from the lock file"))

// difference is a change of a definition of a server.
type difference struct {
	Server string `json:"server"`
	Change string `json:"change"`
	Diff   string `json:"diff,omitempty"`
}

// differences are changes of definitions of servers, and their digest.
type differences struct {
	Differences []difference `json:"differences"`
	Digest      string       `json:"digest,omitempty"` // empty if there are none
}

// differences returns how the definitions of all servers, of the server only or of one name differ from the lock file.
func (l *listed) differences(file *lock.File, only, name string) *differences {
	found := &differences{Differences: []difference{}}
	var all []lock.Change
	for _, server := range l.servers {
		for _, c := range file.Compare(server, l.byName[server]) {
			if name == "" || c.Definition.Name == name {
				found.Differences = append(found.Differences, difference{server, c.String(), c.Diff()})
				all = append(all, c)
			}
		}
	}
	for _, server := range slices.Sorted(maps.Keys(file.Servers)) {
		if only == "" && len(l.missing) == 0 && !slices.Contains(l.servers, server) {
			found.Differences = append(found.Differences,
				difference{Server: server, Change: "- the configuration has no such server"})
			all = append(all, file.Compare(server, nil)...)
		}
	}
	if len(all) > 0 {
		found.Digest = lock.Digest(all)
	}
	return found
}

// text describes the differences.
func (d *differences) text() string {
	var text strings.Builder
	for _, d := range d.Differences {
		fmt.Fprintf(&text, "%s: %s\n", terminal.Line(d.Server), terminal.Line(d.Change))
		if d.Diff != "" {
			text.WriteString(indentedBlock(d.Diff) + "\n")
		}
	}
	return text.String()
}

// atMostTwo returns the arguments SERVER and NAME, which can be empty.
func atMostTwo(cmd *cobra.Command, args []string) (server, name string, err error) {
	if len(args) > 2 {
		return "", "", fmt.Errorf("unexpected argument %q; see %s --help", args[2], cmd.CommandPath())
	}
	args = append(slices.Clone(args), "", "")
	return args[0], args[1], nil
}

func diffLock(cmd *cobra.Command, flags *lockFlags, args []string) error {
	only, name, err := atMostTwo(cmd, args)
	if err != nil {
		return err
	}
	_, file, all, err := flags.load(cmd, only)
	if err != nil {
		return err
	}
	found := all.differences(file, only, name)
	text := found.text()
	if found.Digest != "" && len(all.missing) == 0 {
		text += "Accept these differences with:\n  " + terminal.Verbatim(flags.acceptCommand(found.Digest, args)) + "\n"
	}
	if err := output.Print(cmd, found, "%s", text); err != nil {
		return err
	}
	if err := all.complete(); err != nil {
		return err
	}
	if len(found.Differences) > 0 {
		return errDiffer
	}
	return nil
}

// acceptCommand returns the command that accepts differences with a digest.
func (f *lockFlags) acceptCommand(digest string, args []string) string {
	words := append([]string{"lock", "accept"}, f.files.Words()...)
	if f.path != "" {
		words = append(words, "--lock", f.path)
	}
	return quoting.OfUser().Command(append(words, "--digest", digest), args...)
}

// indentedBlock indents the lines of a text of a server.
func indentedBlock(text string) string {
	var b strings.Builder
	for line := range strings.Lines(terminal.JSON(text)) {
		b.WriteString("    " + line)
	}
	return b.String()
}

func acceptLock(cmd *cobra.Command, flags *lockFlags, args []string) error {
	only, name, err := atMostTwo(cmd, args)
	if err != nil {
		return err
	}
	path, file, all, err := flags.load(cmd, only)
	if err == nil {
		err = all.complete()
	}
	if err != nil {
		return err
	}
	found := all.differences(file, only, name)
	if agreed, err := flags.review(cmd, found, args); err != nil || !agreed {
		return err
	}
	if name != "" && len(found.Differences) == 0 && !all.has(name) {
		return fmt.Errorf("server %q does not list %q", only, name)
	}
	accepted, removed := []string{}, 0
	accept := func(file *lock.File) error {
		if all.differences(file, only, name).Digest != found.Digest {
			return errors.New("another program has changed it meanwhile; run the command again")
		}
		accepted, removed = all.accept(file, only, name)
		return nil
	}
	if found.Digest != "" {
		if err := lock.Update(cmd.Context(), path, accept); err != nil {
			return fmt.Errorf("cannot write the lock file: %w", err)
		}
	}
	result := struct {
		Accepted []string `json:"accepted"`
		Removed  int      `json:"removed"` // servers that the configuration does not have
	}{accepted, removed}
	return output.Text(cmd, result, func(text *strings.Builder) {
		for _, a := range accepted {
			fmt.Fprintf(text, "Accepted the definitions of %s.\n", a)
		}
		if len(accepted)+removed == 0 {
			text.WriteString("Nothing has changed.\n")
		}
	})
}

// has reports whether a server has a definition with a name.
func (l *listed) has(name string) bool {
	for _, server := range l.servers {
		if slices.ContainsFunc(l.byName[server], func(d host.Definition) bool { return d.Name == name }) {
			return true
		}
	}
	return false
}

// accept writes the definitions of the servers to a lock file: those of one name if name is not empty. Unless only one
// server was listed, it removes the servers that the configuration does not have, and returns their number.
func (l *listed) accept(file *lock.File, only, name string) (accepted []string, removed int) {
	accepted = []string{}
	for _, server := range l.servers {
		if file.Accept(server, name, l.byName[server]) {
			accepted = append(accepted, strings.TrimSpace(server+" "+name))
		}
	}
	if only == "" {
		for server := range file.Servers {
			if !slices.Contains(l.servers, server) {
				delete(file.Servers, server)
				removed++
			}
		}
	}
	return accepted, removed
}

// review reports whether the differences match --digest. Without that flag, it shows them and asks.
func (f *lockFlags) review(cmd *cobra.Command, found *differences, args []string) (agreed bool, err error) {
	switch {
	case f.digest != "" && f.digest != found.Digest:
		return false, errors.New("the differences do not match --digest; review them again with parley lock diff")
	case f.digest != "" || found.Digest == "":
		return true, nil
	}
	fmt.Fprint(cmd.ErrOrStderr(), found.text())
	if !form.Interactive(cmd) {
		return false,
			fmt.Errorf("nothing was written, because parley cannot ask without a terminal; if you accept these "+
				"differences, run: %s", f.acceptCommand(found.Digest, args))
	}
	return form.Confirm(cmd, false, "Accept these differences?")
}

// recordSkills calls record with the skills of a server.
func recordSkills(ctx context.Context, h *host.Host, s *host.ServerStatus, record func(host.Definition) error) error {
	if _, declared := s.Server.Extension(mcp.ExtensionSkills); !declared {
		return nil
	}
	for skill, err := range skills.List(ctx, h.Client(s.Name)) {
		if err != nil {
			return fmt.Errorf("server %q: %w", s.Name, err)
		}
		raw, err := skill.MarshalJSON()
		if err == nil {
			raw, err = digest.Canonical(raw)
		}
		if err == nil {
			err = record(host.Definition{Server: s.Name, Kind: "skill", Name: skill.URI, JSON: raw})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
