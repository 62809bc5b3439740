package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/apps"
	"github.com/parley-mcp/parley/auth/oauth/trace"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/login/credstore"
	"github.com/parley-mcp/parley/cmd/parley/internal/login/loginsteps"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/recording"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// The states of the connection to a server.
const (
	stateIdle       = "idle"
	stateConnecting = "connecting"
	stateReady      = "ready"
	stateFailed     = "failed"
)

const (
	dialTimeout = time.Minute
	settleTime  = 10 * time.Second // after a connection is opened
	maxChanges  = 100              // of lists and resources that the page shows
)

// Settings are what the client offers to a server. The page can change them before it connects.
type Settings struct {
	// Revision is the only revision to use; empty means the newest that the server supports.
	Revision mcp.Revision `json:"revision"`
	// Elicitation, URLElicitation, Sampling, SamplingTools, Roots, Tasks and Apps are the capabilities that the
	// client declares.
	Elicitation    bool `json:"elicitation"`
	URLElicitation bool `json:"urlElicitation"`
	Sampling       bool `json:"sampling"`
	SamplingTools  bool `json:"samplingTools"`
	Roots          bool `json:"roots"`
	Tasks          bool `json:"tasks"`
	Apps           bool `json:"apps"`
	// Extensions are the settings of other extensions to declare, by their names.
	Extensions map[string]json.RawMessage `json:"extensions,omitempty"`
}

// defaultSettings declare everything that the page supports.
func defaultSettings(r mcp.Revision) Settings {
	return Settings{Revision: r, Elicitation: true, URLElicitation: true, Sampling: true, SamplingTools: true,
		Roots: true, Tasks: true, Apps: true}
}

// server is a server of the page, with at most one connection.
type server struct {
	Server
	hub *hub

	mu       sync.Mutex
	settings Settings
	state    string
	problem  string // of the last connection attempt or the lost connection
	login    bool   // the server requires a login
	client   *client.Client
	stop     context.CancelFunc // ends the goroutine of the connection
	done     chan struct{}      // closed when that goroutine has ended; nil if there is none
	opened   time.Time          // when the client was connected
	lists    [3]int             // versions of the lists of tools, prompts and resources
	changes  []change
	watched  []string           // URIs of the watched resources
	roots    []mcp.Root         // the previous answer of the user
	rewatch  context.CancelFunc // starts the watch again

	connection int // how many connections there have been
}

// change is a change that a server has reported.
type change struct {
	Time time.Time `json:"time"`
	Kind string    `json:"kind"`
	URI  string    `json:"uri,omitempty"`
}

// serverState is the state of a server for the page.
type serverState struct {
	Name         string                  `json:"name"`
	Target       string                  `json:"target"`
	HTTP         bool                    `json:"http"`
	State        string                  `json:"state"`
	Problem      string                  `json:"problem,omitempty"`
	Login        bool                    `json:"login,omitempty"`    // the server requires a login
	CanLogIn     bool                    `json:"canLogIn,omitempty"` // the page can log in
	Settings     Settings                `json:"settings"`
	Revision     mcp.Revision            `json:"revision,omitempty"`
	Info         *mcp.Implementation     `json:"info,omitempty"`
	Capabilities *mcp.ServerCapabilities `json:"capabilities,omitempty"`
	Instructions string                  `json:"instructions,omitempty"`
	Skills       bool                    `json:"skills,omitempty"` // it declares the extension
	Lists        [3]int                  `json:"lists"`
	Connection   int                     `json:"connection"` // how many connections there have been
	Changes      []change                `json:"changes"`
	Watched      []string                `json:"watched"`
}

// snapshot returns the state for the page.
func (s *server) snapshot() serverState {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, isHTTP := s.Target.(*client.HTTPTarget)
	state := serverState{
		Name: s.Name, Target: s.Target.String(), HTTP: isHTTP, State: s.state, Problem: s.problem, Login: s.login,
		CanLogIn: s.Login != nil, Settings: s.settings, Lists: s.lists, Connection: s.connection,
		Changes: slices.Clone(s.changes), Watched: slices.Clone(s.watched),
	}
	if s.client != nil {
		details := s.client.Server()
		state.Revision, state.Info = s.client.Revision(), &details.Info
		state.Capabilities, state.Instructions = &details.Capabilities, details.Instructions
		_, state.Skills = details.Extension(mcp.ExtensionSkills)
	}
	return state
}

// errBusy is the error of a second connection attempt at the same time.
var errBusy = errors.New("the connection is being opened; wait or disconnect")

// connect starts to connect with the settings. It closes the connection before.
func (s *server) connect(settings Settings) error {
	if r := settings.Revision; r != "" && !r.Known() {
		return fmt.Errorf("unknown revision %q", r)
	}
	s.disconnect()
	dialer, err := s.dialer(settings)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done != nil {
		return errBusy
	}
	ctx, cancel := context.WithCancel(s.hub.ctx)
	done := make(chan struct{})
	s.settings, s.state, s.problem, s.login, s.stop, s.done = settings, stateConnecting, "", false, cancel, done
	go func() {
		defer close(done)
		s.run(ctx, dialer)
	}()
	s.hub.wake()
	return nil
}

// dialer returns a Dialer for the settings.
func (s *server) dialer(settings Settings) (*client.Dialer, error) {
	dialer, err := s.Dialer(s.hub.ctx)
	if err != nil {
		return nil, err
	}
	d := *dialer
	record := recorder{log: s.hub.log, server: s.Name, observe: s.observe}
	d.Revision, d.NoTasks = cmp.Or(settings.Revision, d.Revision), !settings.Tasks
	// The user sees how long a call takes and can cancel it; the server may stand at a breakpoint.
	d.Timeouts.Tool, d.Timeouts.Max, d.Timeouts.Ping = -1, -1, -1
	d.OnConnectionLost = func(err error) { s.lost(err) }
	if t, ok := s.Target.(*client.HTTPTarget); ok {
		exchanges := &httpRecorder{recorder: record, secret: s.hub.secretHeaders(t.Header),
			open: make(map[int64]*exchange)}
		d.HTTPClient = &http.Client{Transport: &recording.Transport{Base: s.hub.transport, Exchanges: &s.hub.exchanges,
			Report: func(e recording.Event) {
				s.hub.recorded(s, e)
				exchanges.report(e)
			}}}
	} else {
		d.Trace = func(sent bool, text []byte) {
			s.hub.recorded(s, recording.StdioMessage(sent, text))
			record.message(sent, text, nil)
		}
	}
	s.ask(&d, settings)
	for id, value := range settings.Extensions {
		if err := mcp.CheckExtensionID(id); err != nil {
			return nil, err
		}
		if jsonrpc.Check(value, jsonrpc.Limits{}) != nil || value[0] != '{' {
			return nil, fmt.Errorf("the settings of the extension %s must be a JSON object", id)
		}
		d.Extensions = append(d.Extensions, client.Extension{ID: id, Settings: value})
	}
	if settings.Apps {
		d.Extensions = append(d.Extensions, apps.Extension())
	}
	return &d, nil
}

// run connects, and watches the lists until the connection is closed.
func (s *server) run(ctx context.Context, dialer *client.Dialer) {
	dialing, cancel := context.WithTimeout(ctx, dialTimeout)
	c, err := dialer.Dial(dialing, s.Target)
	cancel()
	if failed, ok := errors.AsType[*client.DialError](err); ok {
		defer failed.Wait()
	}
	s.mu.Lock()
	switch {
	case ctx.Err() != nil:
		s.state = stateIdle
	case err != nil:
		s.fail(err)
	default:
		s.state, s.client, s.opened = stateReady, c, s.hub.now()
		s.connection++
		for i := range s.lists {
			s.lists[i]++
		}
	}
	kept := s.client
	s.mu.Unlock()
	s.hub.wake()
	if kept == nil {
		if c != nil {
			_ = c.Close()
		}
		return
	}
	s.watch(ctx, kept)
}

// fail records an error of the connection. It is called with mu held.
func (s *server) fail(err error) {
	s.state, s.problem = stateFailed, explain(err)
	s.login = errors.As(err, new(*credstore.LoginError))
}

// lost records the end of the connection. The client reconnects with the next request.
func (s *server) lost(err error) {
	s.mu.Lock()
	s.problem = explain(err)
	s.mu.Unlock()
	s.hub.wake()
}

// disconnect closes the connection and waits for its goroutines.
func (s *server) disconnect() {
	s.mu.Lock()
	c, stop, done := s.client, s.stop, s.done
	s.client = nil
	s.mu.Unlock()
	if done == nil {
		return
	}
	stop()
	if c != nil {
		_ = c.Close()
	}
	<-done
	s.mu.Lock()
	if s.done == done {
		s.state, s.problem, s.login, s.watched, s.done = stateIdle, "", false, nil, nil
	}
	s.mu.Unlock()
	s.hub.wake()
}

// errNotConnected is the error of requests without a connection.
var errNotConnected = errors.New("the server is not connected; connect first")

// connected returns the client.
func (s *server) connected() (*client.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		return nil, errNotConnected
	}
	return s.client, nil
}

// watch records the changes of the lists until ctx ends.
func (s *server) watch(ctx context.Context, c *client.Client) {
	for ctx.Err() == nil {
		watching, cancel := context.WithCancel(ctx)
		s.mu.Lock()
		capabilities := c.Server().Capabilities
		filter := client.WatchFilter{
			Tools:     capabilities.Tools != nil && capabilities.Tools.ListChanged,
			Prompts:   capabilities.Prompts != nil && capabilities.Prompts.ListChanged,
			Resources: capabilities.Resources != nil && capabilities.Resources.ListChanged,
			URIs:      slices.Clone(s.watched),
		}
		s.rewatch = cancel
		s.mu.Unlock()
		if !filter.Tools && !filter.Prompts && !filter.Resources && len(filter.URIs) == 0 {
			<-watching.Done()
			cancel()
			continue
		}
		for found, err := range c.Watch(watching, filter) {
			if err != nil && found.URI != "" { // the rest is watched
				continue
			}
			if err != nil {
				s.lost(err)
				<-watching.Done()
				break
			}
			s.record(found)
		}
		cancel()
	}
}

// record records a change of a list or resource.
func (s *server) record(found client.Change) {
	s.mu.Lock()
	if found.Resync && s.hub.now().Sub(s.opened) < settleTime { // the watch begins; the lists are new
		s.mu.Unlock()
		return
	}
	switch found.Kind {
	case client.ToolsChanged:
		s.lists[0]++
	case client.PromptsChanged:
		s.lists[1]++
	case client.ResourcesChanged:
		s.lists[2]++
	}
	if !found.Resync {
		if len(s.changes) == maxChanges {
			s.changes = slices.Delete(s.changes, 0, 1)
		}
		s.changes = append(s.changes, change{s.hub.now(), found.Kind.String(), found.URI})
	}
	s.mu.Unlock()
	s.hub.wake()
}

// subscribe replaces the resources that are watched.
func (s *server) subscribe(_ *http.Request, in struct {
	URIs []string `json:"uris"`
}) (none, error) {
	s.mu.Lock()
	if s.client == nil {
		s.mu.Unlock()
		return none{}, errNotConnected
	}
	s.watched = in.URIs
	if s.rewatch != nil {
		s.rewatch()
	}
	s.mu.Unlock()
	s.hub.wake()
	return none{}, nil
}

// loginTimeout limits a login, with the time that the user takes.
const loginTimeout = 5 * time.Minute

// The states of a login.
const (
	loginRunning = "running"
	loginDone    = "done"
	loginFailed  = "failed"
)

// loginState is the latest login to a server. The mutex of the hub guards it.
type loginState struct {
	Server string            `json:"server"`
	State  string            `json:"state"`
	Page   string            `json:"page,omitempty"` // the page that the user opens
	Error  string            `json:"error,omitempty"`
	Steps  []loginsteps.Step `json:"steps"`

	cancel context.CancelFunc
}

// startLogin starts a login, or cancels the one that runs.
func (h *hub) startLogin(s *server, _ *http.Request, in struct {
	Scopes       string `json:"scopes"`
	ClientID     string `json:"clientId"`
	ClientSecret string `json:"clientSecret"`
	RedirectURI  string `json:"redirectUri"`
	Cancel       bool   `json:"cancel"`
}) (none, error) {
	switch {
	case s.Login == nil:
		return none{}, errors.New("logins require a server at a URL")
	case in.ClientSecret != "" && in.ClientID == "":
		return none{}, errors.New("a client secret requires a client ID")
	}
	h.mu.Lock()
	before := h.logins[s.Name]
	running := before != nil && before.State == loginRunning
	if running && in.Cancel {
		before.cancel()
	}
	if running || in.Cancel {
		h.mu.Unlock()
		if !in.Cancel {
			return none{}, errors.New("a login to this server is running; finish or cancel it")
		}
		return none{}, nil
	}
	ctx, cancel := context.WithTimeout(h.ctx, loginTimeout)
	l := &loginState{Server: s.Name, State: loginRunning, Steps: []loginsteps.Step{}, cancel: cancel}
	h.logins[s.Name] = l
	h.mu.Unlock()
	h.wake()
	h.background.Go(func() {
		defer cancel()
		h.runLogin(ctx, s, l, LoginOptions{Scopes: strings.Fields(in.Scopes), ClientID: in.ClientID,
			ClientSecret: in.ClientSecret, RedirectURI: in.RedirectURI})
	})
	return none{}, nil
}

// runLogin logs in, and connects to the server afterwards.
func (h *hub) runLogin(ctx context.Context, s *server, l *loginState, o LoginOptions) {
	o.Open = func(_ context.Context, url string) error {
		h.changeLogin(func() { l.Page = url })
		return nil
	}
	o.Step = func(step trace.Step) {
		h.changeLogin(func() {
			if n := len(l.Steps); n < maxSteps {
				l.Steps = append(l.Steps, loginsteps.New(n+1, step))
			}
		})
	}
	err := s.Login(ctx, o)
	h.changeLogin(func() {
		l.Page, l.State = "", loginDone
		switch {
		case err == nil:
		case ctx.Err() == context.Canceled:
			l.State, l.Error = loginFailed, "the login was cancelled"
		default:
			l.State, l.Error = loginFailed, explain(err)
		}
	})
	if err == nil {
		s.mu.Lock()
		settings := s.settings
		s.mu.Unlock()
		_ = s.connect(settings)
	}
}

func (h *hub) changeLogin(change func()) {
	h.mu.Lock()
	change()
	h.mu.Unlock()
	h.wake()
}

// allLogins returns copies of the latest logins, ordered by server.
func (h *hub) allLogins() []loginState {
	h.mu.Lock()
	defer h.mu.Unlock()
	logins := []loginState{}
	for _, l := range h.logins {
		copied := *l
		copied.Steps = slices.Clone(l.Steps)
		logins = append(logins, copied)
	}
	sort.Slice(logins, func(i, j int) bool { return logins[i].Server < logins[j].Server })
	return logins
}
