package inspect

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/quoting"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/recording"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// recent keeps the latest lines of a recording of all servers. It is the io.Writer of its recording.Writer, which
// writes each line with one call, the header first.
type recent struct {
	mu    sync.Mutex
	lines [][]byte
	bytes int
}

// Write implements io.Writer.
func (r *recent) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, bytes.Clone(line))
	r.bytes += len(line)
	for len(r.lines) > maxMessages || r.bytes > maxTexts {
		r.bytes -= len(r.lines[0])
		r.lines[0] = nil
		r.lines = r.lines[1:]
	}
	return len(line), nil
}

func (r *recent) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines, r.bytes = nil, 0
}

// recorded records an event of a server. Headers with credentials are not recorded.
func (h *hub) recorded(s *server, e recording.Event) {
	h.record(s.Name, e)
	e.Peer = s.Name
	if t, ok := s.Target.(*client.HTTPTarget); ok {
		secret := h.secretHeaders(t.Header)
		if e.Request != nil {
			e.Request = &recording.Request{Method: e.Request.Method, URL: withoutUser(e.Request.URL),
				Header: redacted(e.Request.Header, secret)}
		}
		if e.Response != nil {
			e.Response = &recording.Response{Status: e.Response.Status, Header: redacted(e.Response.Header, secret)}
		}
	}
	_ = h.recording.Write(e) // to memory
}

// serveExport serves the latest traffic as a recording, or as a HTTP archive. Neither has credentials.
func (h *hub) serveExport(w http.ResponseWriter, r *http.Request) {
	target := ""
	if servers := h.allServers(); len(servers) == 1 {
		target = servers[0].Target.String()
		if at, ok := servers[0].Target.(*client.HTTPTarget); ok {
			target = withoutUser(at.URL)
		}
	}
	var b bytes.Buffer
	_, err := recording.NewWriter(&b, recording.WriterOptions{Program: "parley " + h.hello.Version, Target: target,
		Now: h.now})
	h.recent.mu.Lock()
	b.Write(bytes.Join(h.recent.lines, nil))
	h.recent.mu.Unlock()
	name, kind := "recording.jsonl", "application/x-ndjson"
	if err == nil && r.URL.Query().Get("format") == "har" {
		name, kind = "recording.har", "application/json"
		var header recording.Header
		var entries []recording.Entry
		if header, entries, err = recording.ReadAll(bytes.NewReader(b.Bytes())); err == nil {
			b.Reset()
			err = recording.WriteHAR(&b, header, entries)
		}
	}
	if errors.Is(err, recording.ErrNoHTTP) {
		err = errors.New("the log contains no HTTP traffic; export a recording instead")
	}
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	_, _ = w.Write(b.Bytes())
}

// errNoCopy is the error of a copy of a message that is not a request, or that the other form cannot express.
var errNoCopy = errors.New("this message cannot be copied in that form")

// serveCopy serves a request as a command of parley or curl.
func (h *hub) serveCopy(w http.ResponseWriter, r *http.Request) {
	e, x, ok := h.log.find(numberOf(r))
	s := h.server(e.Server)
	if !ok || s == nil {
		writeError(w, fmt.Errorf("message: %w; it is too old and no longer in the log", errNotFound))
		return
	}
	text, err := "", errNoCopy
	m, parseErr := jsonrpc.Parse(e.text, jsonrpc.Limits{})
	if parseErr == nil && e.Sent && e.Kind == kindRequest {
		switch r.URL.Query().Get("as") {
		case "parley":
			text, err = asParley(&s.Server, &m)
		case "curl":
			text, err = asCurl(e.text, x)
		}
	}
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text))
}

// commandLine returns a command of parley for the server.
func (s *Server) commandLine(words []string, names ...string) string {
	dialect := quoting.OfUser()
	if len(s.Words) > 0 && s.Words[0] == "--" {
		return dialect.CommandWith(words, s.Words[1:], names...)
	}
	return dialect.Command(slices.Concat(words, s.Flags), slices.Concat(s.Words, names)...)
}

// asParley returns the command of parley that sends the same request.
func asParley(s *Server, m *jsonrpc.Message) (string, error) {
	arguments, has := m.Params.Get("arguments")
	switch name := stringOf(m.Params.Get("name")); m.Method {
	case mcp.MethodCallTool:
		if has && string(compact(arguments)) != "{}" {
			return s.commandLine([]string{"call", "--json", string(compact(arguments))}, name), nil
		}
		return s.commandLine([]string{"call"}, name), nil
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
		return s.commandLine([]string{"prompt"}, words...), nil
	case mcp.MethodReadResource:
		return s.commandLine([]string{"read"}, stringOf(m.Params.Get("uri"))), nil
	case mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListResourceTemplates,
		mcp.MethodInitialize, mcp.MethodDiscover:
		return s.commandLine([]string{"ls"}), nil
	case mcp.MethodPing:
		return s.commandLine([]string{"ping"}), nil
	case mcp.MethodGetTask, mcp.MethodCancelTask:
		verb, _ := strings.CutPrefix(m.Method, "tasks/")
		return s.commandLine([]string{"task", verb}, stringOf(m.Params.Get("taskId"))), nil
	}
	return "", fmt.Errorf("%w: parley has no command for %s", errNoCopy, m.Method)
}

// asCurl returns the command of curl that sends the same bytes. Credentials are variables of the shell.
func asCurl(text []byte, x *exchange) (string, error) {
	if x == nil {
		return "", fmt.Errorf("%w: it was not sent over HTTP", errNoCopy)
	}
	dialect := quoting.OfUser()
	lines := []string{"curl -sS -X " + dialect.Quote(x.Method) + " " + dialect.Quote(x.URL)}
	for _, name := range slices.Sorted(maps.Keys(x.RequestHeader)) {
		for _, value := range x.RequestHeader[name] {
			header := dialect.Quote(name + ": " + value)
			switch {
			case value == hidden && name == "Authorization":
				header = `"Authorization: Bearer ` + dialect.Variable("TOKEN") + `"`
			case value == hidden && !otherThanName.MatchString(name):
				header = `"` + name + ": " + dialect.Variable(strings.ToUpper(strings.ReplaceAll(name, "-", "_"))) + `"`
			}
			lines = append(lines, "-H "+header)
		}
	}
	lines = append(lines, "--data-raw "+dialect.Quote(string(text)))
	return strings.Join(lines, dialect.NextLine()) + "\n", nil
}

// otherThanName matches characters that a shell could read within the name of a header.
var otherThanName = regexp.MustCompile(`[^A-Za-z0-9-]`)
