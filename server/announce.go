package server

import (
	"context"
	"errors"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// changesTopic is the topic of the Bus on which replicas announce changes to each other.
const changesTopic = "server/changes"

// maxAnnouncements limits the announcements that wait. Above it they become one of any change.
const maxAnnouncements = 1024

// announcement is a change of a list or a resource at one replica, for the others.
type announcement struct {
	Kind   changes.Kind `json:"k,omitzero"`
	Name   string       `json:"n,omitzero"` // of the entry that was added or removed
	Hidden bool         `json:"h,omitzero"` // the entry has VisibleTo
	URI    string       `json:"u,omitzero"` // of a resource that was updated
	All    bool         `json:"a,omitzero"` // any list and resource may have changed
	Caller string       `json:"c,omitzero"` // the key of the only principal that may learn of it; empty for all
	Again  bool         `json:"r,omitzero"` // of a replica that had the previous lists of Caller
}

type announcementMessage struct {
	Origin string `json:"o"`
	announcement
}

// announce notifies the other replicas of a change. It does not block.
func (r *replicas) announce(c announcement) { r.changes.add(c) }

// publishAnnouncements publishes announcements until ctx ends. It repeats those that fail.
func (r *replicas) publishAnnouncements(ctx context.Context) {
	r.changes.publish(ctx, func(ctx context.Context, c announcement) error {
		return r.publish(ctx, changesTopic, announcementMessage{r.origin, c})
	}, func(c announcement, err error) (announcement, bool) {
		if errors.Is(err, store.ErrInvalidArgument) { // a URI that is too long for a message
			c = announcement{All: true}
		}
		r.server.logger().ErrorContext(ctx, "cannot announce a change to the other replicas", "error", err)
		return c, true
	})
}

// receiveAnnouncement notifies the clients of this replica of a change at another.
func (r *replicas) receiveAnnouncement(_ context.Context, data []byte) {
	var c announcementMessage
	if jsonv2.Unmarshal(data, &c) == nil && c.Origin != r.origin {
		r.server.apply(c.announcement)
	}
}

// resyncAll notifies the clients of this replica that anything may have changed.
func (s *Server) resyncAll() {
	if s.PersonalOutdated != nil {
		s.PersonalOutdated("")
	}
	s.changes.ResyncAll()
}

// apply notifies the clients of this replica of a change at another.
func (s *Server) apply(c announcement) {
	if c.Caller != "" {
		if s.PersonalOutdated != nil && c.URI == "" && !c.Again && s.PersonalOutdated(c.Caller) {
			// A client that was notified before may have got the previous lists of this replica.
			again := c
			again.Again = true
			s.replicas.announce(again)
		}
		s.changes.PublishTo(func(who principal.Principal) bool { return who.Key() == c.Caller }, changes.Change{Kind: c.Kind, URI: c.URI})
		return
	}
	var e entry
	var known bool
	switch c.Kind {
	case changes.ToolsChanged:
		e, known = s.tools.get(c.Name)
	case changes.PromptsChanged:
		e, known = s.prompts.get(c.Name)
	case changes.ResourcesChanged:
		if e, known = s.resources.get(c.Name); !known {
			e, known = s.templates.get(c.Name)
		}
	case changes.ResourceUpdated:
		s.changes.PublishTo(s.notifiedOf(c.URI), changes.Change{Kind: c.Kind, URI: c.URI})
		return
	default:
		if c.All {
			s.resyncAll()
		}
		return
	}
	switch {
	case known:
		s.changes.PublishTo(e.audience(), changes.Change{Kind: c.Kind})
	case !c.Hidden: // otherwise it is not known here who may learn of it
		s.changes.Publish(changes.Change{Kind: c.Kind})
	}
}
