package inspect

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	"github.com/parley-mcp/parley/mcp"
)

const (
	eventPause    = 40 * time.Millisecond // between two updates
	eventInterval = 15 * time.Second      // of empty updates, which find lost connections
	eventTimeout  = 10 * time.Second      // of each write
	maxEventLines = 500                   // messages of one update
)

// update is a line of the event stream: what has changed since the previous one.
type update struct {
	Hello    *hello  `json:"hello,omitempty"` // in the first one
	State    *state  `json:"state,omitempty"`
	Calls    []call  `json:"calls,omitempty"`
	Messages []entry `json:"messages,omitempty"`
	Oldest   uint64  `json:"oldest"` // number of the oldest message in the log
}

// hello is what does not change.
type hello struct {
	Version   string         `json:"version"`
	Revisions []mcp.Revision `json:"revisions"`
	Apps      string         `json:"apps,omitempty"` // origin of the frames of MCP Apps
}

// state is what is sent as a whole when it has changed.
type state struct {
	Servers   []serverState `json:"servers"`
	Questions []*question   `json:"questions"`
	Logins    []loginState  `json:"logins"`
}

// serveEvents serves the changes of the state, one JSON object per line, until the page closes the connection.
func (h *hub) serveEvents(w http.ResponseWriter, r *http.Request) {
	changed, end := h.listen()
	defer end()
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := http.NewResponseController(w)
	alive := time.NewTicker(eventInterval)
	defer alive.Stop()
	u := update{Hello: &h.hello}
	var sent struct {
		state   []byte
		calls   uint64
		message uint64
	}
	for {
		raw, now := h.state()
		if !bytes.Equal(raw, sent.state) {
			sent.state, u.State = raw, now
		}
		u.Calls, sent.calls = h.callsAfter(sent.calls)
		messages, oldest := h.log.after(sent.message)
		u.Oldest = oldest
		for first := true; first || len(messages) > 0; first = false {
			n := min(len(messages), maxEventLines)
			u.Messages, messages = messages[:n], messages[n:]
			if n > 0 {
				sent.message = u.Messages[n-1].Number
			}
			line, err := json.Marshal(&u)
			if err != nil {
				return
			}
			_ = out.SetWriteDeadline(time.Now().Add(eventTimeout))
			if _, err := w.Write(append(line, '\n')); err != nil {
				return
			}
			u = update{Oldest: oldest}
		}
		if out.Flush() != nil {
			return
		}
		pause := time.NewTimer(eventPause)
		select {
		case <-pause.C:
		case <-r.Context().Done():
			pause.Stop()
			return
		}
		select {
		case <-changed:
		case <-alive.C:
		case <-r.Context().Done():
			return
		case <-h.ctx.Done():
			return
		}
	}
}

// state returns the state and its JSON.
func (h *hub) state() ([]byte, *state) {
	now := state{Servers: []serverState{}, Questions: h.openQuestions(), Logins: h.allLogins()}
	for _, s := range h.allServers() {
		now.Servers = append(now.Servers, s.snapshot())
	}
	raw, _ := json.Marshal(now)
	return raw, &now
}
