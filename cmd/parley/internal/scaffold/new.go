// Package scaffold creates projects in Go: a server, a client or a gateway.
package scaffold

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/quoting"
)

// templates contains the files of the projects. The Go files are packages of this module, so its tests compile and run
// them.
//
//go:embed all:template
var templates embed.FS

// placeholder is the name of the project in the templates.
const placeholder = "myproject"

const library = "github.com/parley-mcp/parley"

// kinds says which folders of templates a project consists of, and a command that tries it.
var kinds = map[string]struct {
	folders []string
	try     string
}{
	"server":  {[]string{"common", "served", "server"}, "parley call greet name=Ada -- go run ."},
	"client":  {[]string{"common", "client"}, "go run . https://mcp.example.com/mcp"},
	"gateway": {[]string{"common", "served", "gateway"}, "parley call demo__greet name=Ada -- go run ."},
}

// project has the arguments and flags of the command.
type project struct {
	kind, dir, module, checkout string
}

// NewNew returns the command new.
func NewNew() *cobra.Command {
	var p project
	cmd := &cobra.Command{
		Use:   "new server|client|gateway DIR",
		Short: "Create a project in Go: a server, a client or a gateway",
		Long: `Create a project in Go in DIR, a new or empty folder: the program with a test and a workflow for GitHub. A server
or gateway also gets a Dockerfile, and the files from which editors start it. If Go is installed, parley runs go mod
tidy in the folder.

The program and its module are named after the folder; --module sets another module path. The project requires the
library in the version of this program, or, with --checkout, uses a clone of Parley's repository.`,
		Example: `
parley new server hello
parley new gateway tools --module example.com/tools`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("name the kind of project and a folder, as in parley new server hello; see %s --help",
					cmd.CommandPath())
			}
			p.kind, p.dir = args[0], args[1]
			return p.create(cmd)
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion,
			cobra.ShellCompDirective) {
			if len(args) == 0 {
				return kindNames(), cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	cmd.Flags().StringVar(&p.module, "module", "", "`path` of the module (default the name of the folder)")
	cmd.Flags().StringVar(&p.checkout, "checkout", "", "use the clone of Parley's repository in this `folder`")
	return cmd
}

func kindNames() []string { return []string{"server", "client", "gateway"} }

// result is the output of the command with -o json.
type result struct {
	Dir   string   `json:"dir"`
	Files []string `json:"files"`
	Tidy  bool     `json:"tidy"` // go mod tidy has run
}

func (p *project) create(cmd *cobra.Command) error {
	kind, ok := kinds[p.kind]
	if !ok {
		return fmt.Errorf("unknown kind of project %q; use server, client or gateway", p.kind)
	}
	name, err := p.name()
	if err != nil {
		return err
	}
	goMod, err := p.goMod(name)
	if err != nil {
		return err
	}
	files := map[string]string{"go.mod": goMod}
	for _, folder := range kind.folders {
		if err := read(path.Join("template", folder), name, files); err != nil {
			return err
		}
	}
	if err := write(p.dir, files); err != nil {
		return err
	}
	made := result{Dir: p.dir}
	for file := range files {
		made.Files = append(made.Files, file)
	}
	slices.Sort(made.Files)
	if made.Tidy, err = tidy(cmd.Context(), p.dir); err != nil {
		return fmt.Errorf("created %s, but go mod tidy failed there: %w", p.dir, err)
	}
	first := ""
	if !made.Tidy {
		first = "    go mod tidy        # needs Go; see https://go.dev/dl\n"
	}
	return output.Print(cmd, made, "Created a %s in %s. Go on with:\n\n    cd %s\n%s    go test ./...\n    %s\n",
		p.kind, terminal.Line(p.dir), quoting.OfUser().Quote(p.dir), first, kind.try)
}

var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)

// name returns the name of the project, from its folder.
func (p *project) name() (string, error) {
	dir, err := filepath.Abs(p.dir)
	if err != nil {
		return "", err
	}
	name := filepath.Base(dir)
	if !validName.MatchString(name) {
		return "", fmt.Errorf("the folder %q must have a name of lower-case letters, digits, _ and -, because it is "+
			"also the name of the program", name)
	}
	return name, nil
}

// goMod returns the go.mod of the project.
func (p *project) goMod(name string) (string, error) {
	module := cmp.Or(p.module, name)
	version, replace := "v"+program.Version(), ""
	if p.checkout != "" {
		checkout, err := filepath.Abs(p.checkout)
		if err != nil {
			return "", err
		}
		text, err := os.ReadFile(filepath.Join(checkout, "go.mod"))
		if err != nil {
			return "", err
		}
		if !strings.Contains(string(text), "module "+library+"\n") {
			return "", fmt.Errorf("%s is not a checkout of Parley: its go.mod must have the line %q", checkout,
				"module "+library)
		}
		version, replace = "v0.0.0", fmt.Sprintf("\nreplace %s => %q\n", library, filepath.ToSlash(checkout))
	} else if version == "v0.0.0-dev" || strings.Contains(version, "+dirty") {
		return "", errors.New("parley was built from a checkout, so no released version of the library goes with it; " +
			"set --checkout to the folder of the checkout")
	}
	return fmt.Sprintf("module %s\n\ngo 1.26.0\n\nrequire %s %s\n%s", module, library, version, replace), nil
}

// read adds the files of a template to files, by their paths in the project.
func read(folder, name string, files map[string]string) error {
	return fs.WalkDir(templates, folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := templates.ReadFile(file)
		files[strings.TrimPrefix(file, folder+"/")] = strings.ReplaceAll(string(text), placeholder, name)
		return err
	})
}

// write writes the files of a project. The folder must be empty or not exist.
func write(dir string, files map[string]string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty; name a new folder", dir)
	}
	for file, text := range files {
		file = filepath.Join(dir, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// tidy runs go mod tidy in the folder, if Go is installed.
func tidy(ctx context.Context, dir string) (done bool, err error) {
	goCommand, err := exec.LookPath("go")
	if err != nil {
		return false, nil
	}
	cmd := exec.CommandContext(ctx, goCommand, "mod", "tidy")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if text, err := cmd.CombinedOutput(); err != nil {
		return false, fmt.Errorf("%w\n%s", err, strings.TrimSpace(string(text)))
	}
	return true, nil
}
