package servers

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/editors"
	"github.com/parley-mcp/parley/cmd/parley/internal/form"
	"github.com/parley-mcp/parley/cmd/parley/internal/listing"
	"github.com/parley-mcp/parley/cmd/parley/internal/nearest"
	"github.com/parley-mcp/parley/cmd/parley/internal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
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
		Short: "Add the servers of editors to your configuration",
		Long: `Add the servers of other programs to the user's configuration file. parley finds the files of these
clients, those of the current directory among them: ` + strings.Join(editors.Names(), ", ") + `.
Name clients or files to import only theirs.

parley shows what each entry runs or connects to, with its variables, header fields and references, and asks. It names
values that look like secrets. --yes does not add servers of files found in the current directory, because you have
not seen them; name such a FILE to add them. A server whose name is taken is not added, unless --replace is set.
parley help targets says more.`,
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
			return nearest.Unknown("server", name, names, "the servers are "+strings.Join(names, ", "))
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
	if err := file.Save(); err != nil {
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
			if _, err := os.Stat(arg); err != nil {
				if near := nearest.Name(arg, editors.Names()); near != "" {
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
