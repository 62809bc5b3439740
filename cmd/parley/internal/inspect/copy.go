package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// errNoCopy is the error of a copy of a message that is not a request, or that the other form cannot express.
var errNoCopy = errors.New("there is no such copy of this message")

// serveCopy serves a request as a command of parley or curl, or as a Go program.
func (h *hub) serveCopy(w http.ResponseWriter, r *http.Request) {
	e, x, ok := h.log.find(numberOf(r))
	s := h.server(e.Server)
	if !ok || s == nil {
		writeError(w, fmt.Errorf("message: %w; the log has dropped it", errNotFound))
		return
	}
	text, err := "", errNoCopy
	m, parseErr := jsonrpc.Parse(e.text, jsonrpc.Limits{})
	if parseErr == nil && e.Sent && e.Kind == kindRequest {
		switch r.URL.Query().Get("as") {
		case "parley":
			text, err = asParley(s.Words, &m)
		case "curl":
			text, err = asCurl(e.text, x)
		case "go":
			text, err = asGo(s.Target, &m)
		}
	}
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text))
}

// commandLine returns a command of parley. target are the words that name the server; a command after -- comes last.
func commandLine(target []string, command string, words ...string) string {
	all := append([]string{"parley"}, strings.Fields(command)...)
	if len(target) > 0 && target[0] == "--" {
		all = slices.Concat(all, words, target)
	} else {
		all = slices.Concat(all, target, words)
	}
	for i, word := range all {
		all[i] = quoted(word)
	}
	return strings.Join(all, " ")
}

// quoted quotes a word for a shell if necessary.
func quoted(word string) string {
	plain := func(r rune) bool {
		return '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || strings.ContainsRune("-._:/@%+,=", r)
	}
	if word != "" && word[0] != '=' && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// asParley returns the command of parley that sends the same request.
func asParley(target []string, m *jsonrpc.Message) (string, error) {
	arguments, has := m.Params.Get("arguments")
	switch name := stringOf(m.Params.Get("name")); m.Method {
	case mcp.MethodCallTool:
		words := []string{name}
		if has && string(compact(arguments)) != "{}" {
			words = append(words, "--json", string(compact(arguments)))
		}
		return commandLine(target, "call", words...), nil
	case mcp.MethodGetPrompt:
		words := []string{name}
		var texts map[string]string
		if has && schema.Decode(arguments, &texts) != nil {
			return "", errNoCopy
		}
		for key, text := range texts {
			words = append(words, key+"="+text)
		}
		slices.Sort(words[1:])
		return commandLine(target, "prompt", words...), nil
	case mcp.MethodReadResource:
		return commandLine(target, "read", stringOf(m.Params.Get("uri"))), nil
	case mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListResourceTemplates, mcp.MethodInitialize, mcp.MethodDiscover:
		return commandLine(target, "ls"), nil
	case mcp.MethodPing:
		return commandLine(target, "ping"), nil
	case mcp.MethodGetTask, mcp.MethodCancelTask:
		verb, _ := strings.CutPrefix(m.Method, "tasks/")
		return commandLine(target, "task "+verb, stringOf(m.Params.Get("taskId"))), nil
	}
	return "", fmt.Errorf("%w: parley has no command for %s", errNoCopy, m.Method)
}

// asCurl returns the command of curl that sends the same bytes. Credentials are variables of the shell.
func asCurl(text []byte, x *exchange) (string, error) {
	if x == nil {
		return "", fmt.Errorf("%w: it was not sent over HTTP", errNoCopy)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "curl -sS -X %s %s", x.Method, quoted(x.URL))
	names := make([]string, 0, len(x.RequestHeader))
	for name := range x.RequestHeader {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range x.RequestHeader[name] {
			switch {
			case value == hidden && name == "Authorization":
				fmt.Fprintf(&b, " \\\n  -H \"Authorization: Bearer $TOKEN\"")
			case value == hidden:
				fmt.Fprintf(&b, " \\\n  -H \"%s: $%s\"", name, strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
			default:
				fmt.Fprintf(&b, " \\\n  -H %s", quoted(name+": "+value))
			}
		}
	}
	fmt.Fprintf(&b, " \\\n  --data-raw %s\n", quoted(string(text)))
	return b.String(), nil
}

// asGo returns a Go program that sends the same request.
func asGo(target client.Target, m *jsonrpc.Message) (string, error) {
	dial := ""
	switch t := target.(type) {
	case *client.HTTPTarget:
		dial = "client.URL(" + strconv.Quote(t.URL) + ")"
	case *client.CommandTarget:
		words := []string{strconv.Quote(t.Path)}
		for _, word := range t.Args {
			words = append(words, strconv.Quote(word))
		}
		dial = "client.Command(" + strings.Join(words, ", ") + ")"
	default:
		return "", errNoCopy
	}
	name := strconv.Quote(stringOf(m.Params.Get("name")))
	arguments, has := m.Params.Get("arguments")
	if !has {
		arguments = []byte("{}")
	}
	raw := "json.RawMessage(" + goText(compact(arguments)) + ")"
	call := ""
	switch m.Method {
	case mcp.MethodCallTool:
		call = "c.CallTool(ctx, " + name + ", " + raw + ")"
	case mcp.MethodGetPrompt:
		call = "c.GetPrompt(ctx, " + name + ", " + raw + ")"
	case mcp.MethodReadResource:
		call = "c.ReadResource(ctx, " + strconv.Quote(stringOf(m.Params.Get("uri"))) + ")"
	case mcp.MethodListTools:
		return goList(dial, "Tools", "Name"), nil
	case mcp.MethodListPrompts:
		return goList(dial, "Prompts", "Name"), nil
	case mcp.MethodListResources:
		return goList(dial, "Resources", "URI"), nil
	case mcp.MethodListResourceTemplates:
		return goList(dial, "ResourceTemplates", "URITemplate"), nil
	default:
		return "", fmt.Errorf("%w: the client sends %s by itself", errNoCopy, m.Method)
	}
	return goProgram([]string{"context", "encoding/json", "fmt", "log"}, dial, fmt.Sprintf(`	result, err := %s
	if err != nil {
		log.Fatal(err)
	}
	text, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(text))
`, call)), nil
}

func goList(dial, method, field string) string {
	return goProgram([]string{"context", "fmt", "log"}, dial, fmt.Sprintf(`	for entry, err := range c.%s(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(entry.%s)
	}
`, method, field))
}

// goProgram returns a program that connects, with the statements body.
func goProgram(imports []string, dial, body string) string {
	var b strings.Builder
	b.WriteString("package main\n\nimport (\n")
	for _, path := range imports {
		fmt.Fprintf(&b, "\t%q\n", path)
	}
	fmt.Fprintf(&b, "\n\t\"github.com/parley-mcp/parley/client\"\n)\n\nfunc main() {\n\tctx := context.Background()\n\tc, err := client.Dial(ctx, %s)\n", dial)
	b.WriteString("\tif err != nil {\n\t\tlog.Fatal(err)\n\t}\n\tdefer c.Close()\n\n")
	b.WriteString(body)
	b.WriteString("}\n")
	return b.String()
}

// goText returns a Go literal of a text.
func goText(text []byte) string {
	if !bytes.ContainsRune(text, '`') && json.Valid(text) {
		return "`" + string(text) + "`"
	}
	return strconv.Quote(string(text))
}
