package main

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/charmbracelet/x/ansi"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	pages "github.com/parley-mcp/parley/docs/program"

	"github.com/parley-mcp/parley/internal/must"
)

// helpOf returns what parley prints with arguments.
func helpOf(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetArgs(args)
	must.Do(t, root.Execute())
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
		must.CheckThat(t, lines <= most, "the help has %d lines of 80 columns, want at most %d:\n%s", lines, most, text)
		before, _, found := strings.Cut(text, "\nFlags:")
		must.CheckThat(t, !found || len(words) == 0 || strings.Contains(before, "\nUsage: "),
			"the usage does not come before the flags:\n%s", text)
	})
}

func TestHelpDescribesAllFlags(t *testing.T) {
	forCommands(t, func(t *testing.T, words []string) {
		cmd, _, err := newRoot().Find(words)
		must.Do(t, err)
		short, all := helpOf(t, append(words, "--help")...), helpOf(t, append([]string{"help"}, words...)...)
		for line := range strings.Lines(cmd.LocalFlags().FlagUsages()) {
			flag := regexp.MustCompile(`--[a-z-]+`).FindString(line)
			if flag != "--help" && !strings.Contains(all, flag+" ") ||
				len(words) > 0 && flag != "--help" && !strings.Contains(short, flag) {
				t.Errorf("the help does not have %s:\n%s", flag, all)
			}
			must.CheckThat(t, !regexp.MustCompile(`--[a-z-]+ (string|int|uint|float|duration)`).MatchString(line),
				"the value of %s has no name, but a type: %s", flag, line)
		}
	})
}

func TestManualPageDescribesAllCommands(t *testing.T) {
	page := helpOf(t, "man")
	escape := strings.NewReplacer("-", `\-`, "…", "...").Replace
	forCommands(t, func(t *testing.T, words []string) {
		cmd, _, err := newRoot().Find(words)
		must.Do(t, err)
		line := strings.TrimSuffix(cmd.UseLine(), " [flags]")
		_, section, found := strings.Cut(page, "\n.SS "+escape(line)+"\n")
		section, _, _ = strings.Cut(section, "\n.S")
		must.That(t, found || len(words) == 0, "the page has no section %q", line)
		for line := range strings.Lines(cmd.LocalNonPersistentFlags().FlagUsages()) {
			flag := regexp.MustCompile(`--[a-z-]+`).FindString(line)
			if len(words) > 0 && flag != "--help" && !strings.Contains(section, `\fB`+escape(flag)+`\fR`) &&
				!strings.Contains(section, `, `+escape(flag)+`\fR`) {
				t.Errorf("the section does not describe %s:\n%s", flag, section)
			}
		}
	})
	for line := range strings.Lines(page) {
		request, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		known := []string{".TH", ".SH", ".SS", ".B", ".I", ".PP", ".TP", ".nf", ".fi"}
		if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !slices.Contains(known, request) {
			t.Errorf("man would read this line of text as a request: %s", line)
		}
		must.CheckThat(t, !strings.ContainsFunc(line, func(r rune) bool { return r > unicode.MaxASCII }),
			"man may be unable to show a character in %s", line)
	}
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
	must.CheckThat(t, len(found) >= 30 && !strings.Contains(texts.String(), "\nparley help X"),
		"found %d topics", len(found))
}

func TestHelpPrintsPages(t *testing.T) {
	topics, all := helpOf(t, "help", "topics"), helpOf(t, "help", "all")
	for _, p := range pages.Pages() {
		must.CheckThat(t, strings.Contains("\n"+all, "\n"+p.Text), "help all does not have %s", p.Name)
		must.CheckThat(t, strings.Contains(topics, "\n"+p.Name+" ") && !strings.Contains(p.Title, "\n"),
			"the list has no line for %s:\n%s", p.Name, topics)
		text := helpOf(t, "help", p.Name)
		must.CheckThat(t, strings.HasPrefix(text, strings.ReplaceAll(p.Title, "**", "")+"\n===") &&
			!strings.Contains(text, "]("), "%s:\n%.2000s", p.Name, text)
	}
	// up is a page and a command.
	text := helpOf(t, "help", "up")
	must.CheckThat(t, strings.Contains(text, "\nToolsets\n--------\n") && strings.Contains(text, "--drain-delay time"),
		"%v", text)
}

// misbehaves NAME KIND sets $NAME to the URL of a server that ends connections (close), redirects, responds with a page
// (html) or a status, chooses an unknown revision, names an authorization server in a private network, has a
// certificate of an unknown issuer (tls), or one for other names (name), whose issuer is in the file cert.pem.
func misbehaves(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: misbehaves NAME close|redirect|html|revision|private|STATUS|tls|name")
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch args[1] {
		case "close":
			panic(http.ErrAbortHandler)
		case "redirect":
			http.Redirect(w, req, "http://other.example/mcp", http.StatusMovedPermanently)
		case "html":
			w.Header().Set("Content-Type", "text/html")
		case "private":
			if metadata := "http://" + req.Host + "/metadata"; req.URL.Path == "/metadata" {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"resource":"http://%s/mcp","authorization_servers":["https://10.0.0.1"]}`, req.Host)
			} else {
				w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+metadata+`"`)
				w.WriteHeader(http.StatusUnauthorized)
			}
		case "revision":
			var request struct{ ID json.RawMessage }
			ts.Check(json.NewDecoder(req.Body).Decode(&request))
			w.Header().Set("Content-Type", "application/json")
			const result = `{"protocolVersion":"2023-01-01","capabilities":{},"serverInfo":{"name":"old",` +
				`"version":"1"}}`
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, request.ID, result)
		case "tls", "name":
		default:
			status, err := strconv.Atoi(args[1])
			ts.Check(err)
			w.WriteHeader(status)
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if args[1] == "tls" || args[1] == "name" {
		s.StartTLS()
	} else {
		s.Start()
	}
	ts.Defer(s.Close)
	ts.Setenv(args[0], s.URL+"/mcp")
	if args[1] == "name" {
		ts.Setenv(args[0], strings.Replace(s.URL, "127.0.0.1", "localhost", 1)+"/mcp")
		certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
		ts.Check(os.WriteFile(ts.MkAbs("cert.pem"), certificate, 0o600))
	}
}

var expectation = regexp.MustCompile(`(?m)^(?:stderr|stdout|await|grep) .*$`)

// Each error at the beginning of a list item of the page is a text that a script, or the test of the explanations,
// expects of the program.
func TestErrorsOfTroubleshootingAreErrorsOfTheProgram(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*/*.txtar")
	must.Do(t, err)
	var expected []string
	for _, name := range append(scripts, "internal/program/failure/explain_test.go") {
		text, err := os.ReadFile(name)
		must.Do(t, err)
		lines := expectation.FindAllString(string(text), -1)
		if filepath.Ext(name) == ".go" {
			lines = strings.Split(string(text), "\n")
		}
		for _, line := range lines {
			expected = append(expected, strings.ReplaceAll(line, `\`, ""))
		}
	}
	errors := 0
	for _, line := range readPage(t, "docs/program/troubleshooting.md").prose {
		quoted, _, _ := strings.Cut(line, "`: ")
		if !strings.HasPrefix(quoted, "- `") {
			continue
		}
		for text := range strings.SplitSeq(strings.TrimPrefix(quoted, "- `"), "`, `") {
			errors++
			pattern := regexp.MustCompile(strings.NewReplacer("NAME", ".*", ` N\b`,
				" .*").Replace(regexp.QuoteMeta(text) + `\b`))
			must.CheckThat(t, slices.ContainsFunc(expected, pattern.MatchString),
				"no script expects the error %q", text)
		}
	}
	must.CheckThat(t, errors >= 40, "%d errors", errors)
}
