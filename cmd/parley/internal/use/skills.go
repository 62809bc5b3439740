package use

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/output"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/skills"
)

func NewSkills() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "skills",
		Short: "List, verify and install the skills of a server",
		Long: `List, verify and install the skills of a server. A skill is a directory with instructions for agents. Its digests
come from the same server as its files, so they show that a file is complete, but not that you can trust it. Read a skill
before an agent does.`,
		Example: `
parley skills ls http://127.0.0.1:7777/mcp
parley skills get docs skill://pdf-processing/SKILL.md
parley skills verify docs
parley skills install docs pdf-processing --dir ~/.agents/skills`,
		Args: program.UnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSkillsLs(), newSkillsGet(), newSkillsVerify(), newSkillsInstall())
	return cmd
}

const skillHelp = `SKILL is the URI of the skill's SKILL.md, or its name if only one listed skill has that name.

` + dialing.TargetHelp

func newSkillsLs() *cobra.Command {
	var flags dialing.Flags
	cmd := &cobra.Command{
		Use:   "ls TARGET [flags]",
		Short: "List the skills of a server",
		Long: "List the skills of a server, without reading their files. A server may have more than it lists.\n\n" +
			dialing.TargetHelp,
		Example: "parley skills ls http://127.0.0.1:7777/mcp",
		RunE: dialing.WithTarget(func(cmd *cobra.Command, target []string) error {
			c, err := flags.Dial(cmd, target)
			if err != nil {
				return err
			}
			defer dialing.CloseQuietly(c)
			all, err := listSkills(cmd, c)
			if err != nil {
				return err
			}
			result := struct {
				Skills []*skills.Skill `json:"skills"`
			}{all}
			return output.Show(cmd, result, func(w io.Writer) error {
				var rows [][]string
				for _, s := range all {
					rows = append(rows, terminal.Row(s.Name, s.URI, filesOf(s), s.Description))
				}
				return terminal.Table(w, terminal.Width(w), []string{"SKILL", "URI", "FILES", "DESCRIPTION"}, rows)
			})
		}),
	}
	flags.Add(cmd)
	completion.Add(cmd, &flags, completion.Target, completion.Nothing)
	return cmd
}

// filesOf describes the files of a skill.
func filesOf(s *skills.Skill) string {
	if s.Files == nil {
		return "generated"
	}
	return fmt.Sprintf("%d, %s", len(s.Files), bytesOf(s))
}

func bytesOf(s *skills.Skill) string {
	total := int64(0)
	for _, f := range s.Files {
		total += f.Size
	}
	return fmt.Sprintf("%d bytes", total)
}

// listSkills lists the valid skills, and prints why others are left out.
func listSkills(cmd *cobra.Command, c *client.Client) ([]*skills.Skill, error) {
	all, problems := []*skills.Skill{}, []error(nil)
	for s, err := range skills.List(cmd.Context(), c) {
		if err != nil {
			problems = append(problems, err)
			continue
		}
		all = append(all, s)
	}
	if len(all) == 0 && len(problems) > 0 {
		return nil, unsupportedSkills(errors.Join(problems...))
	}
	for _, err := range problems {
		cmd.PrintErrln("parley: " + terminal.Line(err.Error()))
	}
	return all, nil
}

// unsupportedSkills says what a server without skills lacks.
func unsupportedSkills(err error) error {
	if errors.Is(err, skills.ErrUnsupported) {
		return fmt.Errorf("the server has no skills: it does not declare the extension %s", mcp.ExtensionSkills)
	}
	return err
}

// findSkill returns the entry of a skill that a URI or a name denotes.
func findSkill(cmd *cobra.Command, c *client.Client, word string) (*skills.Skill, error) {
	if strings.Contains(word, ":") {
		s, err := skills.Get(cmd.Context(), c, word)
		return s, unsupportedSkills(err)
	}
	all, err := listSkills(cmd, c)
	if err != nil {
		return nil, err
	}
	var found *skills.Skill
	for _, s := range all {
		if s.Name != word {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("several skills have the name %q; use the URI of one: %s, %s", word, found.URI,
				s.URI)
		}
		found = s
	}
	if found == nil {
		return nil, fmt.Errorf("the server lists no skill %q; list its skills with parley skills ls, or use a URI",
			word)
	}
	return found, nil
}

// withSkill returns the function of a command with a TARGET and a SKILL.
func withSkill(flags *dialing.Flags,
	run func(cmd *cobra.Command, c *client.Client, target []string,
		s *skills.Skill) error) func(*cobra.Command, []string) error {
	return dialing.WithWords(func(cmd *cobra.Command, target, rest []string) error {
		switch {
		case len(rest) == 0:
			return errors.New("SKILL is missing; list the server's skills with parley skills ls")
		case len(rest) > 1:
			return fmt.Errorf("unexpected argument %q; %s takes one SKILL", rest[1], cmd.Name())
		}
		c, err := flags.Dial(cmd, target)
		if err != nil {
			return err
		}
		defer dialing.CloseQuietly(c)
		s, err := findSkill(cmd, c, rest[0])
		if err != nil {
			return err
		}
		return run(cmd, c, target, s)
	})
}

// labelOf returns the name of a target for the user, without secrets. It is not the one that the server gives itself.
func labelOf(cmd *cobra.Command, target []string) string {
	switch {
	case dialing.CommandAt(cmd) >= 0:
		return filepath.Base(target[0])
	case dialing.IsURL(target[0]):
		return (&client.HTTPTarget{URL: target[0]}).String()
	}
	return target[0]
}

func newSkillsGet() *cobra.Command {
	var flags dialing.Flags
	cmd := &cobra.Command{
		Use:     "get TARGET SKILL [flags]",
		Short:   "Show the frontmatter and the files of a skill",
		Long:    "Show the entry of a skill: its frontmatter and its files, without reading them.\n\n" + skillHelp,
		Example: "parley skills get http://127.0.0.1:7777/mcp skill://pdf-processing/SKILL.md",
		RunE: withSkill(&flags, func(cmd *cobra.Command, _ *client.Client, _ []string, s *skills.Skill) error {
			return output.Show(cmd, s, func(w io.Writer) error {
				fmt.Fprintf(w, "%s\n%s\n\n", terminal.Line(s.URI), terminal.JSON(string(s.Frontmatter)))
				return printFiles(w, s)
			})
		}),
	}
	flags.Add(cmd)
	completion.Add(cmd, &flags, completion.Target, completion.Nothing)
	return cmd
}

func printFiles(w io.Writer, s *skills.Skill) error {
	if s.Files == nil {
		_, err := fmt.Fprintln(w, "The server generates its files, so that they cannot be verified.")
		return err
	}
	var rows [][]string
	for _, f := range s.Files {
		rows = append(rows, terminal.Row(strings.TrimPrefix(f.URI, s.Root()+"/"), fmt.Sprint(f.Size), f.Digest))
	}
	return terminal.Table(w, terminal.Width(w), []string{"FILE", "BYTES", "DIGEST"}, rows)
}

// checked is the result of the verification of a skill.
type checked struct {
	URI    string `json:"uri"`
	Files  int    `json:"files"`
	Digest string `json:"digest,omitempty"`
	Error  string `json:"error,omitempty"`
}

func newSkillsVerify() *cobra.Command {
	var flags dialing.Flags
	cmd := &cobra.Command{
		Use:   "verify TARGET [SKILL] [flags]",
		Short: "Read all files of a skill, and compare them with the list of the server",
		Long: `Read all files of a skill, or of all listed skills, and compare them with the sizes, digests and frontmatter that
the server lists. The exit code is 1 if a file differs.

` + skillHelp,
		Example: `
parley skills verify http://127.0.0.1:7777/mcp
parley skills verify docs skill://pdf-processing/SKILL.md`,
		RunE: dialing.WithWords(func(cmd *cobra.Command, target, rest []string) error {
			if len(rest) > 1 {
				return fmt.Errorf("unexpected argument %q; verify takes one SKILL", rest[1])
			}
			c, err := flags.Dial(cmd, target)
			if err != nil {
				return err
			}
			defer dialing.CloseQuietly(c)
			return verify(cmd, c, rest)
		}),
	}
	flags.Add(cmd)
	completion.Add(cmd, &flags, completion.Target, completion.Nothing)
	return cmd
}

func verify(cmd *cobra.Command, c *client.Client, words []string) (err error) {
	var all []*skills.Skill
	if len(words) == 1 {
		s, err := findSkill(cmd, c, words[0])
		if err != nil {
			return err
		}
		all = append(all, s)
	} else if all, err = listSkills(cmd, c); err != nil {
		return err
	}
	results, failed := make([]checked, 0, len(all)), 0
	for _, s := range all {
		r := checked{URI: s.URI, Digest: s.Digest()}
		err := errNoFiles
		if s.Files != nil {
			r.Files, err = readSkill(cmd.Context(), c, s, func(skills.File, []byte) error { return nil })
		}
		if err != nil {
			r.Error = err.Error()
			failed++
		}
		results = append(results, r)
	}
	err = output.Show(cmd, results, func(w io.Writer) error {
		for _, r := range results {
			text := fmt.Sprintf("ok      %s: %s", terminal.Line(r.URI), terminal.Count(r.Files, "file"))
			if r.Error != "" {
				text = fmt.Sprintf("failed  %s: %s", terminal.Line(r.URI), terminal.Line(r.Error))
			}
			if _, err := fmt.Fprintln(w, text); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d of %s could not be verified", failed, terminal.Count(len(all), "skill"))
	}
	return err
}

var errNoFiles = errors.New("the server generates its files, so that they cannot be verified")

// readSkill reads and verifies all files of a skill, and returns their number.
func readSkill(ctx context.Context, c skills.Source, s *skills.Skill, use func(skills.File, []byte) error) (int,
	error) {
	for i, f := range s.Files {
		contents, err := skills.Read(ctx, c, s, f.URI)
		if err == nil {
			err = use(f, contents)
		}
		if err != nil {
			return i, err
		}
	}
	return len(s.Files), nil
}
