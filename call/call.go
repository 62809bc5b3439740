// Package call has the types that middleware is written with.
package call

import (
	"github.com/parley-mcp/parley/internal/rpc"
)

// The types and functions of middleware.
type (
	Call            = rpc.Call
	Handler         = rpc.Handler
	Middleware      = rpc.Middleware
	Outcome         = rpc.Outcome
	Progress        = rpc.Progress
	ChangeKind      = rpc.ChangeKind
	CapabilityError = rpc.CapabilityError
	StatusError     = rpc.StatusError
	RateLimit       = rpc.RateLimit
	Retry           = rpc.Retry
	Timing          = rpc.Timing
	PanicError      = rpc.PanicError
	Peer            = rpc.Peer
	TimeoutError    = rpc.TimeoutError
	SilentError     = rpc.SilentError
	Engine          = rpc.Engine
)

// Functions of package rpc.
var (
	Fail          = rpc.Fail
	From          = rpc.From
	NewEngine     = rpc.NewEngine
	LogCalls      = rpc.LogCalls
	LimitRate     = rpc.LimitRate
	RecoverCalls  = rpc.RecoverCalls
	RetryRequests = rpc.RetryRequests
	TimeCalls     = rpc.TimeCalls

	ErrClosed          = rpc.ErrClosed
	ErrConnectionLost  = rpc.ErrConnectionLost
	ErrInvalidResponse = rpc.ErrInvalidResponse
	ErrNotSent         = rpc.ErrNotSent
	ErrRevision        = rpc.ErrRevision
	ErrUnauthorized    = rpc.ErrUnauthorized
)
