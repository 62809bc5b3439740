package editors

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/jsonedit"
	"github.com/parley-mcp/parley/internal/must"
)

func place(system string, env map[string]string) *Place {
	p := &Place{OS: system, Home: "/home/ada", Workspace: "/project",
		Getenv: func(name string) string { return env[name] }}
	switch system {
	case "windows":
		p.Home, p.Workspace = `C:\Users\ada`, `D:\project`
	case "darwin":
		p.Home = "/Users/ada"
	}
	return p
}

func TestFilesAreWhereEachSystemHasThem(t *testing.T) {
	for _, c := range []struct {
		client, system string
		env            map[string]string
		want           string
	}{
		{"claude", "linux", nil, "/home/ada/.config/Claude/claude_desktop_config.json"},
		{"claude", "linux", map[string]string{"XDG_CONFIG_HOME": "/xdg"}, "/xdg/Claude/claude_desktop_config.json"},
		{"claude", "linux", map[string]string{"XDG_CONFIG_HOME": "relative"},
			"/home/ada/.config/Claude/claude_desktop_config.json"},
		{"claude", "darwin", nil, "/Users/ada/Library/Application Support/Claude/claude_desktop_config.json"},
		{"claude", "windows", map[string]string{"APPDATA": `C:\Roaming`},
			`C:\Roaming\Claude\claude_desktop_config.json`},
		{"claude", "windows", nil, `C:\Users\ada\AppData\Roaming\Claude\claude_desktop_config.json`},
		{"claude-code", "linux", nil, "/home/ada/.claude.json /project/.mcp.json"},
		{"claude-code", "linux", map[string]string{"CLAUDE_CONFIG_DIR": "/claude"},
			"/claude/.claude.json /project/.mcp.json"},
		{"claude-code", "darwin", nil, "/Users/ada/.claude.json /project/.mcp.json"},
		{"claude-code", "windows", nil, `C:\Users\ada\.claude.json D:\project\.mcp.json`},
		{"cursor", "linux", nil, "/home/ada/.cursor/mcp.json /project/.cursor/mcp.json"},
		{"cursor", "darwin", nil, "/Users/ada/.cursor/mcp.json /project/.cursor/mcp.json"},
		{"cursor", "windows", nil, `C:\Users\ada\.cursor\mcp.json D:\project\.cursor\mcp.json`},
		{"vscode", "linux", nil, "/home/ada/.config/Code/User/mcp.json /project/.vscode/mcp.json"},
		{"vscode", "darwin", nil,
			"/Users/ada/Library/Application Support/Code/User/mcp.json /project/.vscode/mcp.json"},
		{"vscode", "windows", map[string]string{"APPDATA": `C:\Roaming`},
			`C:\Roaming\Code\User\mcp.json D:\project\.vscode\mcp.json`},
		{"windsurf", "linux", nil, "/home/ada/.codeium/windsurf/mcp_config.json"},
		{"windsurf", "darwin", nil, "/Users/ada/.codeium/windsurf/mcp_config.json"},
		{"windsurf", "windows", nil, `C:\Users\ada\.codeium\windsurf\mcp_config.json`},
		{"zed", "linux", nil, "/home/ada/.config/zed/settings.json /project/.zed/settings.json"},
		{"zed", "linux", map[string]string{"XDG_CONFIG_HOME": "/xdg"},
			"/xdg/zed/settings.json /project/.zed/settings.json"},
		{"zed", "darwin", nil, "/Users/ada/.config/zed/settings.json /project/.zed/settings.json"},
		{"zed", "windows", map[string]string{"APPDATA": `C:\Roaming`},
			`C:\Roaming\Zed\settings.json D:\project\.zed\settings.json`},
		{"gemini", "linux", nil, "/home/ada/.gemini/settings.json /project/.gemini/settings.json"},
		{"codex", "linux", nil, "/home/ada/.codex/config.toml /project/.codex/config.toml"},
		{"codex", "linux", map[string]string{"CODEX_HOME": "/codex"}, "/codex/config.toml /project/.codex/config.toml"},
		{"codex", "windows", nil, `C:\Users\ada\.codex\config.toml D:\project\.codex\config.toml`},
		{"opencode", "linux", nil, "/home/ada/.config/opencode/opencode.json /project/opencode.json"},
		{"opencode", "linux", map[string]string{"OPENCODE_CONFIG": "/o.json"}, "/o.json /project/opencode.json"},
		{"opencode", "darwin", nil, "/Users/ada/.config/opencode/opencode.json /project/opencode.json"},
		{"gemini", "darwin", nil, "/Users/ada/.gemini/settings.json /project/.gemini/settings.json"},
		{"gemini", "windows", nil, `C:\Users\ada\.gemini\settings.json D:\project\.gemini\settings.json`},
	} {
		must.CheckEqual(t, strings.Join(Find(c.client).Files(place(c.system, c.env)), " "), c.want, c.client, c.system,
			c.env)
	}
	must.CheckThat(t, Find("emacs") == nil, "found a client that does not exist")
}

func parse(t *testing.T, file string) *config.Server {
	t.Helper()
	c := must.Get(config.Parse("", "mcp.json", []byte(file)))(t)
	must.Equal(t, len(c.Servers), 1, c)
	return &c.Servers[0]
}

const (
	program = `{"mcpServers": {"a": {"command": "npx", "args": ["-y", "server"], "env": {"KEY": "k"}}}}`
	remote  = `{"mcpServers": {"a": {"url": "https://example.com/mcp", "headers": {"X-A": "b"}}}}`
)

// Each client gets the entry that its documentation describes, or the reason why it can have none.
func TestEntriesHaveTheFormOfEachClient(t *testing.T) {
	reading := func(text string) string {
		return `{"mcpServers": {"a": {"command": "a", "env": {"K": "` + text + `"}}}}`
	}
	for _, c := range []struct{ client, file, want string }{
		{"claude", program, `{"command":"npx","args":["-y","server"],"env":{"KEY":"k"}}`},
		{"claude", remote, "Claude Desktop does not connect to URLs of its configuration file"},
		{"claude", reading("${KEY}"), "Claude Desktop does not support the reference ${KEY}"},
		{"claude-code", program, `{"type":"stdio","command":"npx","args":["-y","server"],"env":{"KEY":"k"}}`},
		{"claude-code", remote, `{"type":"http","url":"https://example.com/mcp","headers":{"X-A":"b"}}`},
		{"claude-code", reading("${env:A} ${B:-c}"), `{"type":"stdio","command":"a","env":{"K":"${A} ${B:-c}"}}`},
		{"claude-code", reading("${workspaceFolder}"), "Claude Code does not support the reference ${workspaceFolder}"},
		{"cursor", remote, `{"url":"https://example.com/mcp","headers":{"X-A":"b"}}`},
		{"cursor", reading("${A}${userHome}${/}"), `{"command":"a","env":{"K":"${env:A}${userHome}${/}"}}`},
		{"cursor", reading("${input:a}"), "Cursor does not support the reference ${input:a}"},
		{"cursor", `{"mcpServers": {"a": {"command": "a", "cwd": "b"}}}`, "Cursor does not support cwd"},
		{"cursor", `{"mcpServers": {"a": {"command": "a", "envFile": ".env"}}}`, `{"command":"a","envFile":".env"}`},
		{"vscode", program, `{"type":"stdio","command":"npx","args":["-y","server"],"env":{"KEY":"k"}}`},
		{"vscode", remote, `{"type":"http","url":"https://example.com/mcp","headers":{"X-A":"b"}}`},
		{"vscode", reading("${input:a} ${B}"), `{"type":"stdio","command":"a","env":{"K":"${input:a} ${env:B}"}}`},
		{"vscode", reading("${B:-c}"), "VS Code does not support the reference ${B:-c}"},
		{"windsurf", remote, `{"serverUrl":"https://example.com/mcp","headers":{"X-A":"b"}}`},
		{"windsurf", reading("${file:/a}${B}"), `{"command":"a","env":{"K":"${file:/a}${env:B}"}}`},
		{"windsurf", reading("${keyring:a/b}"), "Windsurf does not support the reference ${keyring:a/b}"},
		{"windsurf", `{"mcpServers": {"a": {"command": "a", "envFile": ".env"}}}`, "Windsurf does not support envFile"},
		{"zed", program, `{"command":"npx","args":["-y","server"],"env":{"KEY":"k"}}`},
		{"zed", remote, `{"url":"https://example.com/mcp","headers":{"X-A":"b"}}`},
		{"zed", reading("${A}"), "Zed does not support the reference ${A}"},
		{"gemini", remote, `{"httpUrl":"https://example.com/mcp","headers":{"X-A":"b"}}`},
		{"gemini", reading("${env:A}"), `{"command":"a","env":{"K":"${A}"}}`},
		{"codex", program, `{"command":"npx","args":["-y","server"],"env":{"KEY":"k"}}`},
		{"codex", remote, `{"url":"https://example.com/mcp","http_headers":{"X-A":"b"}}`},
		{"codex", reading("${KEY}"), "Codex does not support the reference ${KEY}"},
		{"opencode", program, `{"type":"local","command":["npx","-y","server"],"environment":{"KEY":"k"},"enabled":true}`},
		{"opencode", remote, `{"type":"remote","url":"https://example.com/mcp","headers":{"X-A":"b"},"enabled":true}`},
		{"opencode", reading("${KEY} ${file:/a}"),
			`{"type":"local","command":["a"],"environment":{"K":"{env:KEY} {file:/a}"},"enabled":true}`},
		{"gemini", reading("pa$word"), "Gemini CLI takes $w… for a variable"},
		{"gemini", `{"mcpServers": {"a": {"command": "a", "cwd": "/b"}}}`, `{"command":"a","cwd":"/b"}`},
	} {
		entry, err := Find(c.client).Entry(parse(t, c.file))
		encoded, _ := json.Marshal(entry)
		got := string(encoded)
		if err != nil {
			got = err.Error()
		}
		must.CheckEqual(t, got, c.want, c.client, c.file)
	}
}

// What is installed can be imported again, from the file of each client.
func TestInstalledServersCanBeImported(t *testing.T) {
	for _, client := range Clients() {
		for _, file := range []string{program, remote} {
			s := parse(t, file)
			entry, err := client.Entry(s)
			if err != nil {
				continue
			}
			path := filepath.Join(t.TempDir(), "f"+filepath.Ext(client.UserFile(place("linux", nil))))
			f := must.Get(jsonedit.Open(path))(t)
			must.Do(t, client.Set(f, "a", entry, s))
			must.Do(t, f.Save(t.Context()))
			plan, err := Plan(new(config.Config), "", []Source{{Path: path, Title: client.Title}})
			if err != nil || len(plan) != 1 || !config.Same(plan[0].Server, s) ||
				plan[0].Server.Origin != client.Title+" ("+path+")" {
				t.Errorf("%s: %v, %v, file %s", client.Name, plan, err, f.Bytes())
			}
			if !client.Remove(f, "a") || client.Get(f, "a") != nil || client.Remove(f, "a") {
				t.Errorf("%s: not removed: %s", client.Name, f.Bytes())
			}
		}
	}
}

func TestInputsAreAddedToTheFileOfAClientThatHasThem(t *testing.T) {
	s := parse(t,
		`{"servers": {"a": {"url": "https://example.com/${input:key}"}}, "inputs": [{"id": "key", "type": `+
			`"promptString", "password": true}]}`)
	f := must.Get(jsonedit.Open(filepath.Join(t.TempDir(), "f.json")))(t)
	entry := must.Get(Find("vscode").Entry(s))(t)
	if err := Find("vscode").Set(f, "a", entry, s); err != nil ||
		!strings.Contains(string(f.Get("inputs")), `"id": "key"`) {
		t.Errorf("%v: %s", err, f.Bytes())
	}
}

func TestPlanReportsWhatIsKnownTakenOrUnusable(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	own, err := config.Load(dir,
		write("own.json",
			`{"mcpServers": {"same": {"command": "a", "origin": "elsewhere"}, "taken": {"command": "a"}}}`))
	must.Do(t, err)
	plan, err := Plan(own, dir, []Source{
		{write("one.json",
			`{"mcpServers": {"same": {"type": "stdio", "command": "a"}, "taken": {"command": "b"}, "new": `+
				`{"command": "c", "cwd": "d"}, "bad": {}}}`), "One", false},
		{write("two.json", `{"context_servers": {"new": {"command": "c", "cwd": "`+filepath.ToSlash(dir)+
			`/d"}, "ours": {"command": "c", "args": ["a${file:/etc/passwd}"]}}}`), "", false},
		{write("none.json", `{"theme": "dark"}`), "", false},
		{filepath.Join(dir, "missing.json"), "", false},
		{write("broken.json", `{`), "", false},
	})
	must.CheckThat(t, err != nil && strings.Contains(err.Error(), "broken.json") &&
		!strings.Contains(err.Error(), "none.json") && !strings.Contains(err.Error(), "missing.json"), "error %v", err)
	var got []string
	for _, p := range plan {
		words := p.Name + ":"
		switch {
		case p.Err != nil:
			words += " error"
		case p.Same != "":
			words += " same as " + filepath.Base(p.Same)
		case p.Taken != "":
			words += " taken by " + filepath.Base(p.Taken)
		default:
			words += " new in " + filepath.Base(p.Source.Path)
		}
		got = append(got, words)
	}
	want := "bad: error; same: same as own.json:1; taken: taken by own.json:1; new: new in one.json; new: same as " +
		"one.json:1; ours: error"
	must.CheckEqual(t, strings.Join(got, "; "), want)
}
