package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/httpguard"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/seal"
	"github.com/parley-mcp/parley/internal/serve/httpserver"
	"github.com/parley-mcp/parley/internal/serve/legacy"
	"github.com/parley-mcp/parley/internal/serve/modern"
	"github.com/parley-mcp/parley/internal/serve/streamserver"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/store"
	"github.com/parley-mcp/parley/transport"
)

// Check returns an error if a field of the server is invalid; the error names the field and says what it must be. The
// methods that serve return the same error, and ServeHTTP answers with status 500. The fields must not be changed after
// Check.
func (s *Server) Check() error {
	_, err := s.ready()
	return err
}

// ready builds the core on its first call.
func (s *Server) ready() (*core, error) {
	s.once.Do(func() { s.coreErr = s.build() })
	if s.coreErr != nil {
		return nil, s.coreErr
	}
	return &s.core, nil
}

func (s *Server) build() error {
	logger := s.logger()
	identity, err := json.Marshal(s.implementation())
	if err != nil {
		return fmt.Errorf("server: cannot encode Name, Version or Info: %w", err)
	}
	if err := s.checkFields(); err != nil {
		return err
	}
	seals, err := seal.New(s.Keys...)
	if err != nil {
		return fmt.Errorf("server: Keys: %w", err)
	}
	if s.Auth != nil {
		if err := s.Auth.Check(); err != nil {
			return fmt.Errorf("server: Auth: %w", err)
		}
	}
	if s.Catalogs != nil {
		s.tools.offer()
		s.prompts.offer()
		s.resources.offer()
	}
	if err := s.extensions.check(s.capabilities()); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	c := &s.core
	shared := s.Store != nil
	plain := store.NewMemory() // for values that are encrypted already
	if shared {
		c.guard.Logger = logger
		plain = c.guard.Store(s.Store)
	}
	stored := plain
	if shared && len(s.Keys) > 0 {
		stored = seals.Store(plain, logger)
	}
	c.seals, c.cursors = seals, cursors{seals}
	c.engine = rpc.NewEngine(newFeatures(s), logger, s.middleware(plain)...)
	c.engine.Opaque = len(s.Middleware) == 0 // the rate limit passes results on
	c.engine.Store, c.engine.Auth, c.engine.Identity = stored, s.Auth, identity
	s.followers.start(s)
	s.attach(s)
	s.changes.OnSubscribersChanged(s.followers.changed)
	c.lease.KV, c.lease.Shared, c.lease.Logger = plain, shared, logger
	s.buildTasks(stored)
	peers := &rpc.PeerCache{}
	inflight := orDefault(s.Limits.Inflight, 128)
	modernEra := &modern.Server{Engine: c.engine, Peers: peers, Seals: seals, WatchTasks: s.watchTasks,
		Rechecks: s.rechecks.wait}
	if shared { // an entry in the memory of this process would be lost with it, and the retry with the entry
		modernEra.Store = plain
	}
	legacyEra := &legacy.Server{Engine: c.engine, Peers: peers, Logger: logger, Describe: s.describe,
		Changes: &s.changes, MaxInflight: inflight}
	c.http = httpserver.Server{
		Modern: modernEra,
		Legacy: legacyEra,
		Sessions: legacy.NewSessions(legacyEra, stored, legacy.SessionLimits{
			Idle:       s.Limits.SessionIdle,
			PerOwner:   s.Limits.SessionsPerPrincipal,
			PerAddress: s.Limits.SessionsPerAddress,
			Total:      s.Limits.Sessions,
		}),
		Streams:   httpserver.NewStreams(stored, logger),
		Guard:     httpguard.Guard{Origins: s.AllowedOrigins, Hosts: s.AllowedHosts},
		Auth:      s.Auth,
		Logger:    logger,
		MaxBody:   int64(orDefault(s.Limits.MaxMessage, transport.DefaultServerMaxMessage)),
		KeepAlive: orDefault(s.Limits.KeepAlive, 15*time.Second),
		Ping:      s.Limits.KeepAlive >= 0,

		Headers: s.Headers,

		PerOwner:   orDefault(s.Limits.InflightPerPrincipal, 1024),
		PerAddress: orDefault(s.Limits.InflightPerAddress, 4096),
	}
	c.stream = streamserver.Server{
		Modern:      modernEra,
		Legacy:      legacyEra,
		Logger:      logger,
		MaxInflight: inflight,
		KeepAlive:   max(s.Limits.KeepAlive, 0),
		Grace:       orDefault(s.Limits.Grace, 2*time.Second),
	}
	c.base, c.cancel = context.WithCancel(context.Background())
	c.draining, c.drain = context.WithCancel(context.Background())
	if s.runsTasks.Load() || s.Catalogs != nil { // of another replica, too
		s.tasks.runner.Start()
	}
	if shared {
		c.http.Sessions.Replicas = &s.replicas
		c.http.Forward = s.replicas.forward
		c.http.Streams.Lease, c.http.Streams.Notify = &c.lease, s.replicas.notifyStream
		c.lease.Renewed = c.http.Streams.TerminateStreams
		s.replicas.start(s, plain)
	}
	return nil
}

// middleware returns the program's middleware with the rate limits inside of it, so that
// the program's middleware sees rejected calls as well. Replicas count calls in kv.
func (s *Server) middleware(kv store.KV) []call.Middleware {
	limit := call.RateLimit{PerSecond: s.Limits.CallsPerSecond, Logger: s.Logger}
	if limit.PerSecond == 0 {
		limit.PerSecond = 1000
	}
	lists := call.RateLimit{
		Name: "requests for lists", PerSecond: s.Limits.ListsPerSecond, Logger: s.Logger,
		Methods: []string{
			mcp.MethodDiscover, mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources,
			mcp.MethodListResourceTemplates,
		},
	}
	limit.Burst, lists.Burst = burst(limit.PerSecond), burst(lists.PerSecond)
	if s.Store != nil {
		limit.KV, lists.KV = kv, kv
	}
	if lists.PerSecond <= 0 {
		return append(slices.Clip(s.Middleware), call.LimitRate(limit))
	}
	return append(slices.Clip(s.Middleware), call.LimitRate(limit), call.LimitRate(lists))
}

// burst returns the number of calls that may arrive at once.
func burst(perSecond float64) int { return int(min(max(2*perSecond, 1), math.MaxInt32)) }

// errConfiguration is the answer to HTTP requests while the fields of the server are wrong.
var errConfiguration = errors.New("the server is not configured correctly: see its log")
