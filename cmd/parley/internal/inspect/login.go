package inspect

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/cmd/parley/internal/loginsteps"
)

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
func (h *hub) startLogin(r *http.Request, in struct {
	Scopes       string `json:"scopes"`
	ClientID     string `json:"clientId"`
	ClientSecret string `json:"clientSecret"`
	RedirectURI  string `json:"redirectUri"`
	Cancel       bool   `json:"cancel"`
}) (none, error) {
	s, err := h.serverOf(r)
	switch {
	case err != nil:
		return none{}, err
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
		h.runLogin(ctx, s, l, LoginOptions{Scopes: strings.Fields(in.Scopes), ClientID: in.ClientID, ClientSecret: in.ClientSecret, RedirectURI: in.RedirectURI})
	})
	return none{}, nil
}

// runLogin logs in, and connects to the server afterwards.
func (h *hub) runLogin(ctx context.Context, s *server, l *loginState, o LoginOptions) {
	o.Open = func(_ context.Context, url string) error {
		h.changeLogin(func() { l.Page = url })
		return nil
	}
	o.Step = func(step oauth.Step) {
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
			l.State, l.Error = loginFailed, s.Explain(err)
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
