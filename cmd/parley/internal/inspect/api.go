package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/use/listing"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
	"github.com/parley-mcp/parley/skills"
)

// maxRequest is the maximum size of a request of the page, in bytes.
const maxRequest = 16 << 20

// api returns the handler of the requests of the page.
func (h *hub) api() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/events", h.serveEvents)
	mux.HandleFunc("POST /api/servers", post(h.addServer))
	mux.HandleFunc("POST /api/servers/{name}/connect",
		ofServer(h, func(s *server, _ *http.Request, in Settings) (none, error) { return none{}, s.connect(in) }))
	mux.HandleFunc("POST /api/servers/{name}/disconnect",
		ofServer(h, func(s *server, _ *http.Request, _ none) (none, error) { s.disconnect(); return none{}, nil }))
	mux.HandleFunc("POST /api/servers/{name}/login", ofServer(h, h.startLogin))
	mux.HandleFunc("POST /api/servers/{name}/subscribe", ofServer(h, (*server).subscribe))
	mux.HandleFunc("POST /api/servers/{name}/complete", ofServer(h, (*server).complete))
	mux.HandleFunc("POST /api/servers/{name}/level", ofServer(h, (*server).setLevel))
	mux.HandleFunc("GET /api/servers/{name}/skills", ofServer(h, (*server).listSkills))
	mux.HandleFunc("POST /api/servers/{name}/skill", ofServer(h, (*server).readSkill))
	mux.HandleFunc("GET /api/servers/{name}/{list}", ofServer(h, (*server).list))
	mux.HandleFunc("POST /api/servers/{name}/calls",
		ofServer(h, func(s *server, _ *http.Request, in callRequest) (out struct {
			Call uint64 `json:"call"`
		}, err error) {
			out.Call, err = h.startCall(s, in)
			return out, err
		}))
	mux.HandleFunc("POST /api/frames", post(h.newFrame))
	mux.HandleFunc("POST /api/calls/{number}/cancel", post(h.postCancel))
	mux.HandleFunc("GET /api/calls/{number}/result", h.serveResult)
	mux.HandleFunc("POST /api/questions/{number}", post(h.postAnswer))
	mux.HandleFunc("POST /api/validate", post(validate))
	mux.HandleFunc("GET /api/messages/{number}", h.serveMessage)
	mux.HandleFunc("GET /api/messages/{number}/copy", h.serveCopy)
	mux.HandleFunc("GET /api/search", h.serveSearch)
	mux.HandleFunc("POST /api/clear", post(h.postClear))
	mux.HandleFunc("GET /api/export", h.serveExport)
	return mux
}

// none is the request or the response of an operation without data.
type none struct{}

// post returns a handler that decodes a request, and encodes the response.
func post[In, Out any](serve func(*http.Request, In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
		if err == nil && len(body) > 0 {
			err = schema.Decode(body, &in)
		}
		if err != nil {
			writeError(w, fmt.Errorf("cannot read the request: %w", err))
			return
		}
		out, err := serve(r, in)
		if err != nil {
			writeError(w, err)
			return
		}
		writeJSON(w, http.StatusOK, out)
	}
}

// errorBody is the body of an error.
type errorBody struct {
	Error  string         `json:"error"`
	Issues []schema.Issue `json:"issues,omitempty"`
}

func writeError(w http.ResponseWriter, err error) {
	f := errorBody{Error: err.Error()}
	if invalid := new(schema.ValidationError); errors.As(err, &invalid) {
		f.Issues = invalid.Issues
	}
	status := http.StatusBadRequest
	if errors.Is(err, errNotFound) {
		status = http.StatusNotFound
	}
	writeJSON(w, status, f)
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	raw, err := json.Marshal(value)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw)
}

// errNotFound is the error of a request for something that does not exist.
var errNotFound = errors.New("not found")

// ofServer returns a handler of a request to the server that its path names.
func ofServer[In, Out any](h *hub, serve func(*server, *http.Request, In) (Out, error)) http.HandlerFunc {
	return post(func(r *http.Request, in In) (out Out, err error) {
		s := h.server(r.PathValue("name"))
		if s == nil {
			return out, fmt.Errorf("server %q: %w", r.PathValue("name"), errNotFound)
		}
		return serve(s, r, in)
	})
}

func (s *server) complete(r *http.Request, params mcp.CompleteParams) (*mcp.Completion, error) {
	c, err := s.connected()
	if err != nil {
		return nil, err
	}
	found, err := c.Complete(r.Context(), params)
	return found, explained(err)
}

// explained returns an error with the text for the user.
func explained(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(explain(err))
}

// entriesOf are the entries of a list. An error after some entries is a part of the response.
type entriesOf struct {
	Entries []any  `json:"entries"`
	Error   string `json:"error,omitempty"`
}

// listSkills serves the valid skills of the server, and the errors of the others.
func (s *server) listSkills(r *http.Request, _ none) (listed entriesOf, err error) {
	c, err := s.connected()
	if err != nil {
		return listed, err
	}
	listed.Entries = []any{}
	var failed error
	for skill, err := range skills.List(r.Context(), c) {
		if err != nil {
			failed = errors.Join(failed, err)
		} else {
			listed.Entries = append(listed.Entries, skill)
		}
	}
	if failed != nil {
		listed.Error = explain(failed)
	}
	return listed, nil
}

// skillFile is a file of a skill, and the entry that the page shows.
type skillFile struct {
	Skill *skills.Skill `json:"skill"`
	URI   string        `json:"uri"`
}

// verifiedFile is a file of a skill.
type verifiedFile struct {
	Text *string `json:"text,omitempty"` // nil if it is no text
	Size int     `json:"size"`
}

// readSkill reads a file of a skill, and verifies it.
func (s *server) readSkill(r *http.Request, in skillFile) (out verifiedFile, err error) {
	c, err := s.connected()
	if err != nil {
		return out, err
	}
	if in.Skill == nil {
		return out, errors.New("skill must be in the list of skills")
	}
	contents, err := skills.Read(r.Context(), c, in.Skill, in.URI)
	if err != nil {
		return out, explained(err)
	}
	if out.Size = len(contents); utf8.Valid(contents) {
		text := string(contents)
		out.Text = &text
	}
	return out, nil
}

// list serves what the server lists.
func (s *server) list(r *http.Request, _ none) (listed entriesOf, err error) {
	c, err := s.connected()
	if err != nil {
		return listed, err
	}
	l := listing.Named(r.PathValue("list"))
	if l == nil {
		return listed, errNotFound
	}
	var options []client.CallOption
	if r.URL.Query().Has("refresh") {
		options = append(options, client.WithRefresh())
	}
	listed.Entries = []any{}
	for item, err := range l.All(c, r.Context(), options...) {
		if err != nil && len(listed.Entries) == 0 {
			return listed, explained(err)
		}
		if err != nil {
			listed.Error = explain(err)
			break
		}
		listed.Entries = append(listed.Entries, item.Definition)
	}
	return listed, nil
}

// numberOf returns the number in the path of a request; 0 if it is not one.
func numberOf(r *http.Request) uint64 {
	n, _ := strconv.ParseUint(r.PathValue("number"), 10, 64)
	return n
}

func (h *hub) postCancel(r *http.Request, _ none) (none, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.find(numberOf(r)); c != nil {
		c.cancel()
	}
	return none{}, nil
}

func (h *hub) serveResult(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	var result json.RawMessage // nil if there is none
	if c := h.find(numberOf(r)); c != nil {
		result = c.result
	}
	h.mu.Unlock()
	if result == nil {
		writeError(w, fmt.Errorf("result: %w", errNotFound))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(result)
}

func (h *hub) postAnswer(r *http.Request, in answer) (none, error) {
	return none{}, h.answer(numberOf(r), in)
}

// validate checks a value against a schema.
func validate(_ *http.Request, in struct {
	Schema json.RawMessage `json:"schema"`
	Value  json.RawMessage `json:"value"`
}) (out struct {
	Issues    []schema.Issue     `json:"issues"`
	Unchecked []schema.Unchecked `json:"unchecked,omitempty"`
	Error     string             `json:"error,omitempty"` // of the schema
}, _ error) {
	out.Issues = []schema.Issue{}
	compiled, err := schema.Compile(in.Schema)
	if err != nil {
		out.Error = err.Error()
		return out, nil
	}
	out.Unchecked = compiled.Unchecked()
	err = compiled.Validate(in.Value)
	if invalid := new(schema.ValidationError); errors.As(err, &invalid) {
		out.Issues = invalid.Issues
	} else if err != nil {
		out.Error = err.Error()
	}
	return out, nil
}

func (h *hub) serveMessage(w http.ResponseWriter, r *http.Request) {
	e, x, ok := h.log.find(numberOf(r))
	if !ok {
		writeError(w, fmt.Errorf("message: %w; it is too old and no longer in the log", errNotFound))
		return
	}
	writeJSON(w, http.StatusOK, struct {
		entry
		Text     string    `json:"text"`
		Cut      bool      `json:"cut,omitempty"` // the text is only the beginning
		Exchange *exchange `json:"exchange,omitempty"`
	}{e, validText(e.text), len(e.text) < e.Size, x})
}

// validText returns bytes as a text.
func validText(text []byte) string {
	if utf8.Valid(text) {
		return string(text)
	}
	return string([]rune(string(text))) // replaces invalid bytes
}

func (h *hub) serveSearch(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, http.StatusOK, h.log.search(r.URL.Query().Get("text")))
}

func (h *hub) postClear(*http.Request, none) (none, error) {
	h.log.clear()
	h.recent.clear()
	return none{}, nil
}
