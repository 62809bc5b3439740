package calling

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Flags of the connection have no effect on the commands of a shell, so these do not have them.
func TestCommandsOfAShellHaveNoFlagsOfTheConnection(t *testing.T) {
	of := &cobra.Command{}
	of.SetContext(context.Background())
	root := newShellRoot(of)
	connection := &cobra.Command{RunE: func(*cobra.Command, []string) error { return nil }}
	new(sessionFlags).add(connection)
	names := longFlag.FindAllString(connection.Flags().FlagUsages(), -1)
	for _, path := range [][]string{{"ls"}, {"call"}, {"read"}, {"prompt"}, {"complete"}, {"watch"}, {"ping"},
		{"task", "get"}, {"task", "wait"}, {"task", "ls"}} {
		cmd, _, err := root.Find(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, flag := range longFlag.FindAllString(cmd.Flags().FlagUsages(), -1) {
			if slices.Contains(names, flag) &&
				!slices.Contains([]string{"--timeout", "--save", "--images", "--answer", "--answers", "--decline"},
					flag) &&
				(flag != "--log-level" || path[0] != "watch") {
				t.Errorf("%s has %s", path, flag)
			}
		}
	}
}

func TestLinesWithSecretsAreNotKept(t *testing.T) {
	for line, secret := range map[string]bool{
		"call greet name=Ada":                          false,
		"call count_tokens text=a":                     false,
		"call login password=a":                        true,
		"call login --answer password=a":               true,
		"call login --answer=password=a":               true,
		"call login api_key:=1":                        true,
		`call login --json '{"user": "a", "token":1}'`: true,
		`call login --json='{"user": "a"}'`:            false,
		"call login 'open":                             true,
	} {
		if got := isSecretLine(line); got != secret {
			t.Errorf("%s: %v, want %v", line, got, secret)
		}
	}
}

func TestUnknownToolOfLargeCatalogueNamesTheSearch(t *testing.T) {
	err := unknownName("tool", "files__greet", []string{"call_tool", "describe_tool", "search_tools"})
	if want := "find it with search_tools, and call it with call_tool"; !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
