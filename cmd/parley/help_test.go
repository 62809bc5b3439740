package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	pages "github.com/parley-mcp/parley/docs/program"
)

// helpOf returns what parley prints with arguments.
func helpOf(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetArgs(args)
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// forCommands runs a test for each command that the help shows.
func forCommands(t *testing.T, test func(t *testing.T, words []string)) {
	var walk func(cmd *cobra.Command, words []string)
	walk = func(cmd *cobra.Command, words []string) {
		t.Run(strings.Join(append([]string{"parley"}, words...), " "), func(t *testing.T) { test(t, words) })
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				walk(c, append(words[:len(words):len(words)], c.Name()))
			}
		}
	}
	walk(newRoot(), nil)
}

func TestHelpFitsTheTerminal(t *testing.T) {
	forCommands(t, func(t *testing.T, words []string) {
		text := helpOf(t, append(words, "--help")...)
		lines, most := 0, 45
		for line := range strings.Lines(text) {
			lines += max(1, (ansi.StringWidth(strings.TrimSuffix(line, "\n"))+79)/80)
		}
		if strings.Join(words, " ") == "up" {
			most = 30
		}
		if lines > most {
			t.Errorf("the help has %d lines of 80 columns, want at most %d:\n%s", lines, most, text)
		}
		if before, _, found := strings.Cut(text, "\nFlags:"); found && len(words) > 0 && !strings.Contains(before, "\nUsage: ") {
			t.Errorf("the usage does not come before the flags:\n%s", text)
		}
	})
}

func TestHelpDescribesAllFlags(t *testing.T) {
	forCommands(t, func(t *testing.T, words []string) {
		cmd, _, err := newRoot().Find(words)
		if err != nil {
			t.Fatal(err)
		}
		short, all := helpOf(t, append(words, "--help")...), helpOf(t, append([]string{"help"}, words...)...)
		for line := range strings.Lines(cmd.LocalFlags().FlagUsages()) {
			flag := regexp.MustCompile(`--[a-z-]+`).FindString(line)
			if flag != "--help" && !strings.Contains(all, flag+" ") || len(words) > 0 && flag != "--help" && !strings.Contains(short, flag) {
				t.Errorf("the help does not have %s:\n%s", flag, all)
			}
			if regexp.MustCompile(`--[a-z-]+ (string|int|uint|float|duration)`).MatchString(line) {
				t.Errorf("the value of %s has no name, but a type: %s", flag, line)
			}
		}
	})
}

func TestTopicsOfHelpTextsExist(t *testing.T) {
	topic := regexp.MustCompile(`parley\s+help\s+([a-z-]+)`)
	known := topicNames(newRoot())
	var texts strings.Builder
	forCommands(t, func(t *testing.T, words []string) { texts.WriteString(helpOf(t, append(words, "--help")...)) })
	for _, p := range pages.Pages() {
		texts.WriteString(p.Text)
	}
	found := topic.FindAllStringSubmatch(texts.String(), -1)
	for _, m := range found {
		if !strings.Contains(" "+strings.Join(known, " ")+" ", " "+m[1]+" ") {
			t.Errorf("%s: there is no such topic", m[0])
		}
	}
	if len(found) < 30 || strings.Contains(texts.String(), "\nparley help X") {
		t.Errorf("found %d topics", len(found))
	}
}

func TestHelpPrintsPages(t *testing.T) {
	topics := helpOf(t, "help", "topics")
	for _, p := range pages.Pages() {
		if !strings.Contains(topics, "\n"+p.Name+" ") || strings.Contains(p.Title, "\n") {
			t.Errorf("the list has no line for %s:\n%s", p.Name, topics)
		}
		text := helpOf(t, "help", p.Name)
		if !strings.HasPrefix(text, strings.ReplaceAll(p.Title, "**", "")+"\n===") || strings.Contains(text, "](") {
			t.Errorf("%s:\n%.2000s", p.Name, text)
		}
	}
	// up is a page and a command.
	if text := helpOf(t, "help", "up"); !strings.Contains(text, "\nToolsets\n--------\n") || !strings.Contains(text, "--drain-delay time") {
		t.Error(text)
	}
}
