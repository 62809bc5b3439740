package gateway

import (
	"bytes"
	"encoding/json"
	"log/slog"
)

// shelf is what is offered of one kind of thing, of all servers.
type shelf[E any] struct {
	kind     string                             // for the log
	key      func(e *E) string                  // what identifies one on its server
	offer    func(server string, e *E) string   // registers one, and returns its name here; "" if it cannot be offered
	withdraw func(name string)                  // undoes that
	offered  map[string]map[string]registration // by server, and key
}

// registration is one thing as it was registered.
type registration struct {
	name       string // here; empty if it could not be offered
	definition []byte
	tried      bool // it was registered, or could not be
}

// update makes what is offered of a server what it has. What has not changed stays as
// it is, so that clients are told of no change, nor the log again of what is left out.
func (s *shelf[E]) update(logger *slog.Logger, server string, elements []E) {
	before := s.offered[server]
	now := make(map[string]registration, len(elements))
	for i := range elements {
		key := s.key(&elements[i])
		definition, err := json.Marshal(&elements[i])
		if err != nil {
			logger.Warn(s.kind+" left out: it cannot be encoded", "server", server, s.kind, key, "error", err)
			continue
		}
		if r, ok := before[key]; ok && bytes.Equal(r.definition, definition) {
			now[key] = r
		} else if _, twice := now[key]; twice {
			logger.Warn(s.kind+" left out: the server lists it twice", "server", server, s.kind, key)
		} else {
			now[key] = registration{definition: definition}
		}
	}
	for key, r := range before {
		if r.name != "" && now[key].name != r.name {
			s.withdraw(r.name)
		}
	}
	for i := range elements {
		key := s.key(&elements[i])
		if r, ok := now[key]; ok && !r.tried {
			r.name, r.tried = s.offer(server, &elements[i]), true
			now[key] = r
		}
	}
	if s.offered == nil {
		s.offered = make(map[string]map[string]registration)
	}
	s.offered[server] = now
}
