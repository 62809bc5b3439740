//go:build integration

package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/cmd/parley/demo"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/quoting"
	"github.com/parley-mcp/parley/internal/must"
)

// shellSetup is the start of an interactive shell whose prompt is READY>.
type shellSetup struct {
	args  []string
	files map[string]string // in the home directory; ROOT is the directory of the unpacked packages
}

var shellSetups = map[string]shellSetup{
	"bash": {[]string{"--noprofile", "--rcfile", ".rc", "-i"}, map[string]string{
		".rc": "PS1='READY> '\nsource ROOT/usr/share/bash-completion/bash_completion\nsource <(parley completion " +
			"bash)\n",
	}},
	"zsh": {[]string{"-i"}, map[string]string{
		".zshenv": "module_path=(ROOT/usr/lib/*-linux-gnu/zsh/*)\nfpath=(ROOT/usr/share/zsh/functions/**/*(/))\n",
		".zshrc":  "autoload -U compinit\ncompinit -u -D\nsource <(parley completion zsh)\nPS1='READY> '\n",
	}},
	"fish": {[]string{"--no-config", "-i", "-C", "source .fish"}, map[string]string{
		".fish": "function fish_prompt; echo 'READY> '; end\nparley completion fish | source\n",
	}},
}

// The user presses Tab in each shell, and the shell runs the completed command.
func TestShellsCompleteCommandLines(t *testing.T) {
	root, err := filepath.Abs("../../.tools/shells/root")
	must.Do(t, err)
	must.Do(t, must.Err(os.Stat(root)), "run make tools")
	s := httptest.NewServer(demo.New("0"))
	t.Cleanup(s.Close)
	hostile := httptest.NewServer(http.HandlerFunc(hostileServer))
	t.Cleanup(hostile.Close)
	for name, setup := range shellSetups {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := filepath.Join(filepath.Dir(root), name)
			if name == "bash" {
				program = "bash"
			}
			shell := startShell(t, program, root, setup)
			shell.run(t, "parley ls "+s.URL+"\r", `PROMPT +ARGUMENTS`)
			// Tools, names and values of arguments, a value of the server, a resource of a template, a URL, a flag.
			shell.run(t, "parley cal\t"+s.URL+" wea\tcity=Oslo un\tf\t\r", `"unit":"fahrenheit"`)
			shell.run(t, "parley prompt "+s.URL+" postc\tcit\tOsl\t\r", `(?s)user:.*Oslo`)
			shell.run(t, "parley read "+s.URL+" demo://cit\tKyo\t\r", `"name":"Kyoto"`)
			shell.run(t, "parley ping htt\t\r", `connected in .* ping answered`)
			shell.run(t, "parley ls --conf\tmcp.json thir\t\r", `PROMPT +ARGUMENTS`)
			// A word in quotation marks, a variable, and a flag after =.
			shell.run(t, "export U="+s.URL+"\rparley call $U 'gre\tna\tAda --output=js\t\r", `"Hello, Ada!"`)
			// Nothing is offered for an unknown tool.
			shell.run(t, "parley call "+s.URL+" nothi\t\r", `unknown tool "nothi"`)

			// Names of a server are words in which the shell finds no command: when it completes them up to the end
			// that two have in common, when it completes the rest, and when the user pastes a command that parley has
			// printed.
			expect := func(what, name string, arguments ...string) string {
				object := make(map[string]string)
				for i := 0; i+1 < len(arguments); i += 2 {
					object[arguments[i]] = arguments[i+1]
				}
				return regexp.QuoteMeta(what + " " + name + " " + inJSON(object))
			}
			shell.run(t, "parley call "+hostile.URL+" t\tA\t a\tA\t1 a\tv\t\r",
				expect("CALLED", named("t")+"A", named("a")+"A", "1", named("a")+"B", named("v")))
			shell.run(t, "parley call "+hostile.URL+" t\tB\t\r", expect("CALLED", named("t")+"B"))
			shell.run(t, "parley prompt "+hostile.URL+" p\tb\tc\t\r", expect("GOT", named("p"), named("b"), named("c")))
			shell.run(t, "parley read "+hostile.URL+" r\t\r", "READ "+regexp.QuoteMeta(named("r:")))
			shell.run(t, "parley call "+hostile.URL+" -- -\t\r", expect("CALLED", named("-f")))
			shell.run(t, "parley ls --config f\ts\t\r", `cannot start the server: exec: "absent"`)
			for _, tool := range []string{named("t") + "A", named("-f")} {
				pasted := quoting.Unix.Command([]string{"call"}, hostile.URL, tool, named("a")+"A="+named("x"))
				shell.run(t, pasted+"\r", expect("CALLED", tool, named("a")+"A", named("x")))
			}
			_, err := os.Stat(filepath.Join(shell.home, "ran"))
			must.CheckThat(t, err != nil, "the shell has executed a name")
		})
	}
}

// PowerShell inserts what parley offers into the line, and lists it. Package quoting tests how PowerShell reads it.
func TestPowerShellIsOfferedNamesInQuotationMarks(t *testing.T) {
	hostile := httptest.NewServer(http.HandlerFunc(hostileServer))
	t.Cleanup(hostile.Close)
	t.Setenv("PARLEY_CACHE_DIR", t.TempDir())
	t.Setenv("PARLEY_CONFIG_DIR", t.TempDir())
	t.Setenv("PARLEY_NO_KEYRING", "1")
	var line []string
	for _, word := range []string{"call", hostile.URL, "t"} {
		line = append(line, base64.StdEncoding.EncodeToString([]byte(word)))
	}
	out, err := exec.Command("parley", "__offer", "powershell", "words:"+strings.Join(line, ",")).Output()
	must.Do(t, err)
	want := "nofiles described\n"
	for _, name := range []string{named("t") + "A", named("t") + "B"} {
		shown := string([]rune(name)[:79]) + "… "
		if len([]rune(name)) <= 80 {
			shown = name + " "
		}
		for i, field := range []string{quoting.PowerShell.Quote(name), name, shown} {
			if i > 0 {
				want += ","
			}
			want += base64.StdEncoding.EncodeToString([]byte(field))
		}
		want += "\n"
	}
	must.CheckEqual(t, string(out), want)
}

// named returns a name with the beginning given, at which shells that evaluate it create the file "ran".
func named(beginning string) string {
	return beginning + "$(>ran)`>ran`;>ran;>ran|>ran&>ran (>ran) {a,b}~ $HOME *?[a] !! 'q' \\ ^# %1 é"
}

// hostileServer is a server whose names are commands of shells.
func hostileServer(w http.ResponseWriter, r *http.Request) {
	var message struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Name, URI       string
			Arguments       json.RawMessage
			ProtocolVersion string
		}
	}
	if json.NewDecoder(r.Body).Decode(&message) != nil || message.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	arguments := map[string]any{named("a") + "A": map[string]any{"type": "string"},
		named("a") + "B": map[string]any{"enum": []string{named("v")}}}
	tool := func(name string) map[string]any {
		return map[string]any{"name": name, "description": name,
			"inputSchema": map[string]any{"type": "object", "properties": arguments}}
	}
	text := func(text string) map[string]any { return map[string]any{"type": "text", "text": text} }
	result, known := map[string]any{
		"initialize": map[string]any{
			"protocolVersion": message.Params.ProtocolVersion,
			"serverInfo":      map[string]any{"name": "h", "version": "1"},
			"capabilities": map[string]any{"tools": map[string]any{}, "prompts": map[string]any{},
				"resources": map[string]any{}, "completions": map[string]any{}},
		},
		"tools/list": map[string]any{"tools": []any{tool(named("t") + "A"), tool(named("t") + "B"), tool(named("-f"))}},
		"prompts/list": map[string]any{"prompts": []any{
			map[string]any{"name": named("p"), "arguments": []any{map[string]any{"name": named("b")}}},
		}},
		"resources/list":           map[string]any{"resources": []any{map[string]any{"uri": named("r:"), "name": "r"}}},
		"resources/templates/list": map[string]any{"resourceTemplates": []any{}},
		"completion/complete":      map[string]any{"completion": map[string]any{"values": []string{named("c")}}},
		"tools/call": map[string]any{"content": []any{text("CALLED " + message.Params.Name + " " +
			string(message.Params.Arguments))}},
		"prompts/get": map[string]any{"messages": []any{
			map[string]any{"role": "user", "content": text("GOT " + message.Params.Name + " " +
				string(message.Params.Arguments))},
		}},
		"resources/read": map[string]any{"contents": []any{map[string]any{"uri": message.Params.URI,
			"text": "READ " + message.Params.URI}}},
	}[message.Method]
	answer := map[string]any{"jsonrpc": "2.0", "id": message.ID, "result": result}
	if !known {
		answer = map[string]any{"jsonrpc": "2.0", "id": message.ID,
			"error": map[string]any{"code": -32601, "message": "no such method"}}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, inJSON(answer)) // the client has gone
}

func inJSON(value any) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// testShell is an interactive shell at a terminal.
type testShell struct {
	*atTerminal
	ctx  context.Context
	home string
	seen int // bytes of the text that were before the last command
}

func startShell(t *testing.T, program, root string, setup shellSetup) *testShell {
	t.Helper()
	home := t.TempDir()
	for name, text := range setup.files {
		must.Do(t, os.WriteFile(filepath.Join(home, name), []byte(strings.ReplaceAll(text, "ROOT", root)), 0o600))
	}
	must.Do(t, os.WriteFile(filepath.Join(home, "mcp.json"),
		[]byte(`{"mcpServers":{"first":{"command":"x"},"third":{"command":"parley","args":["serve","--stdio"]}}}`),
		0o600))
	if err := os.WriteFile(filepath.Join(home, named("f")),
		[]byte(inJSON(map[string]any{"mcpServers": map[string]any{named("s"): map[string]string{"command": "absent"}}})),
		0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*waitLimit) // t.Context ends before the shell exits
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, setup.args...)
	cmd.Dir = home
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "ZDOTDIR=" + home, "TERM=xterm", "LANG=C.UTF-8",
		"PARLEY_NO_KEYRING=1", "PARLEY_CONFIG_DIR=" + filepath.Join(home, "config"),
		"PARLEY_CACHE_DIR=" + filepath.Join(home, "cache")}
	s := &testShell{ctx: ctx, home: home, atTerminal: startAtTerminal(t, cmd, false)}
	t.Cleanup(func() {
		s.enter("exit\r")
		if err := s.wait(); err != nil && ctx.Err() != nil {
			t.Errorf("the shell does not exit: %v, the terminal shows %.4000q", err, s.shown)
		}
	})
	s.shown.find(ctx, t, `READY> `)
	return s
}

// run types keys, and waits until the terminal shows the pattern and another prompt.
func (s *testShell) run(t *testing.T, keys, pattern string) {
	t.Helper()
	s.enter(keys)
	_, s.seen = s.shown.after(s.ctx, t, s.seen, `(?s:`+pattern+`.*READY> )`)
}
