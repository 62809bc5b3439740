package use

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/form"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/output"
	"github.com/parley-mcp/parley/internal/atomicfile"
	"github.com/parley-mcp/parley/skills"
)

// originFile is the file in the directory of an installed skill that says where it comes from.
const originFile = ".parley-skill.json"

// skillOrigin is the contents of originFile, and the result of parley skills install.
type skillOrigin struct {
	Server string   `json:"server"` // as the user names it, without secrets
	URI    string   `json:"uri"`
	Digest string   `json:"digest"` // see skills.Skill.Digest
	Files  []string `json:"files"`
	Path   string   `json:"path,omitempty"`
}

func newSkillsInstall() *cobra.Command {
	var (
		flags dialing.Flags
		dir   string
		yes   bool
	)
	cmd := &cobra.Command{
		Use:   "install TARGET SKILL --dir DIRECTORY [flags]",
		Short: "Copy a skill to a directory of skills",
		Long: `Copy a skill to a new directory of its name. parley shows every file, and asks before it reads and writes
them. It verifies each file, writes nothing outside of the new directory, replaces no directory, and makes no file
executable. The file ` + originFile + ` in the directory says where the skill comes from.

An agent that finds the skill there trusts it as one of yours: read it first.

` + skillHelp,
		Example: `
parley skills install http://127.0.0.1:7777/mcp pdf-processing --dir ~/.agents/skills`,
	}
	cmd.RunE = withSkill(&flags, func(cmd *cobra.Command, c *client.Client, target []string, s *skills.Skill) error {
		if dir == "" {
			return errors.New("--dir is missing; it is the directory with your skills")
		}
		return installSkill(cmd, c, labelOf(cmd, target), s, dir, yes)
	})
	flags.Add(cmd)
	cmd.Flags().StringVar(&dir, "dir", "", "`directory` of skills, in which the new directory is made")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	_ = cmd.MarkFlagDirname("dir") // the flag exists
	completion.Add(cmd, &flags, completion.Target, completion.Nothing)
	return cmd
}

func installSkill(cmd *cobra.Command, c *client.Client, label string, s *skills.Skill, dir string, yes bool) error {
	if s.Files == nil {
		return errNoFiles
	}
	names, err := namesOf(s)
	if err != nil {
		return err
	}
	root, err := openRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	to := filepath.Join(dir, s.Name)
	if exists(root, s.Name) {
		return errExists(to)
	}
	errOut := cmd.ErrOrStderr()
	fmt.Fprintf(errOut, "%s\n%s\n\n", terminal.Line(s.URI), terminal.Block(s.Description))
	if err := printFiles(errOut, s); err != nil {
		return err
	}
	question := fmt.Sprintf("Copy %s (%s) to %s?", terminal.Count(len(s.Files), "file"), bytesOf(s), terminal.Line(to))
	if agreed, err := form.Confirm(cmd, yes, question); err != nil || !agreed {
		return err
	}
	result := &skillOrigin{Server: label, URI: s.URI, Digest: s.Digest(), Files: names}
	unlock, err := atomicfile.Lock(cmd.Context(), filepath.Join(dir, "."+s.Name+".lock"))
	switch {
	case err == nil:
		defer unlock()
	case !errors.Is(err, errors.ErrUnsupported): // some systems and file systems have no locks
		return err
	}
	if err := writeSkill(cmd, c, s, root, result); err != nil {
		return err
	}
	result.Path = to
	return output.Print(cmd, result, "Installed %s in %s.\n", terminal.Line(s.Name), terminal.Line(to))
}

func exists(root *os.Root, name string) bool {
	_, err := root.Lstat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

func errExists(path string) error {
	return fmt.Errorf("%s exists already; choose another --dir, or move it away if nothing else needs it", path)
}

// namesOf returns the paths of the files of a skill. The error means that a system may take two of them for one, or one
// for something else.
func namesOf(s *skills.Skill) (names []string, err error) {
	if len(s.Files) > skills.MaxFiles {
		return nil, fmt.Errorf("the skill has %d files, the limit is %d", len(s.Files), skills.MaxFiles)
	}
	seen := map[string]bool{originFile: true}
	total := int64(0)
	for _, f := range s.Files {
		name, err := s.Path(f.URI)
		if err != nil {
			return nil, err
		}
		for at := name; at != "."; at = path.Dir(at) { // a file must not be the directory of another one
			key := strings.ToLower(at)
			if is, ok := seen[key]; ok && (is || at == name) {
				return nil, fmt.Errorf("the file %q has the name of another one on some systems", name)
			}
			seen[key] = at == name
		}
		if total += f.Size; total > skills.MaxSize {
			return nil, fmt.Errorf("the skill has more than %d bytes", skills.MaxSize)
		}
		names = append(names, name)
	}
	return names, nil
}

// writeSkill reads the files of a skill, and writes them to a directory that gets its name when it is complete. The
// caller holds the lock of the name, so what another parley has left there was not completed.
func writeSkill(cmd *cobra.Command, c *client.Client, s *skills.Skill, root *os.Root, about *skillOrigin) (err error) {
	temporary := "." + s.Name + ".incomplete"
	if err := root.RemoveAll(temporary); err != nil {
		return fmt.Errorf("cannot remove what an installation has left: %w", err)
	}
	if err := root.Mkdir(temporary, 0o777); err != nil {
		return fmt.Errorf("cannot create a directory: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, root.RemoveAll(temporary))
		}
	}()
	save := func(name string, contents []byte) error {
		name = path.Join(temporary, name)
		if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
			return err
		}
		return writeNew(root, name, contents)
	}
	i := 0
	_, err = readSkill(cmd.Context(), c, s, func(_ skills.File, contents []byte) error {
		i++
		return save(about.Files[i-1], contents)
	})
	if err != nil {
		return err
	}
	raw, err := json.MarshalIndent(about, "", "  ")
	if err != nil {
		return err
	}
	if err := save(originFile, append(raw, '\n')); err != nil {
		return err
	}
	if exists(root, s.Name) { // another program has installed it meanwhile
		return errExists(filepath.Join(root.Name(), s.Name))
	}
	if err := root.Rename(temporary, s.Name); err != nil {
		return fmt.Errorf("cannot rename the directory: %w", err)
	}
	return nil
}
