package modern

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// A state that is too large for a client is written to the store. The client receives a sealed reference to it. Each
// principal has a fixed number of slots for such states. A slot is free again when its state expires, and not earlier:
// a client that has lost a response sends the round again.
const (
	stateLifetime   = time.Hour
	maxState        = 48 << 10        // bytes of the text that is sealed; a longer state is stored
	maxStoredBytes  = 1 << 20         // bytes of a state
	maxStoredStates = 64              // per principal, or per address if the caller is anonymous
	storeTimeout    = 5 * time.Second // for all operations that write a state
	storedPurpose   = "requestState kept"
)

// storedState refers to a state in the store. The digest identifies the state, because a
// slot may hold another state later.
type storedState struct {
	Slot   string `json:"p"` // the key without the principal
	Digest string `json:"d"`
}

// storeState writes a state to one of the slots of the call's principal. It seals the
// state, so that a reader of the store cannot decrypt it.
func (s *Server) storeState(ctx context.Context, c *rpc.Call, text []byte) (*storedState, error) {
	if s.Store == nil {
		return nil,
			fmt.Errorf("the answers of the client exceed %d bytes, the limit without a store: ask for less input",
				maxState)
	}
	if len(text) > maxStoredBytes {
		return nil, fmt.Errorf("the answers of the client exceed the limit of %d bytes: ask for less input",
			maxStoredBytes)
	}
	// The handler's context has ended when it asked for input.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	prefix := "requestState/"
	if c.Principal() == principal.Anonymous {
		prefix += digest.Join([]byte(c.Source()))[:22] + "/"
	}
	sealed := []byte(s.Seals.Seal(storedPurpose, text))
	first := rand.IntN(maxStoredStates)
	for i := range maxStoredStates {
		slot := prefix + strconv.Itoa((first+i)%maxStoredStates)
		key := c.Principal().Key() + slot
		// Claim the slot with a small value first: several slots may be taken.
		version, err := s.Store.Put(ctx, key, []byte{0}, store.PutOptions{TTL: stateLifetime, IfAbsent: true})
		if errors.Is(err, store.ErrConflict) {
			continue
		}
		if err == nil {
			_, err = s.Store.Put(ctx, key, sealed, store.PutOptions{TTL: stateLifetime, IfVersion: version})
		}
		if err != nil {
			s.logger().ErrorContext(ctx, "cannot store the state of a call", "error", err)
			return nil, rpc.ErrStoreUnavailable
		}
		return &storedState{Slot: slot, Digest: digest.Join(sealed)}, nil
	}
	return nil, &call.OverloadError{Limit: fmt.Sprintf("calls with answers of more than %d bytes that wait for input",
		maxState), RetryAfter: time.Minute}
}

// loadState returns the state to which ref refers. It reads with the principal of the
// request, and never with another one.
func (s *Server) loadState(ctx context.Context, who principal.Principal, ref *storedState) ([]byte, error) {
	if s.Store == nil {
		return nil, errors.New("this server has no store for it")
	}
	item, err := s.Store.Get(ctx, who.Key()+ref.Slot)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, errors.New("the stored state is missing")
	case err != nil:
		s.logger().ErrorContext(ctx, "cannot read the state of a call", "error", err)
		return nil, rpc.ErrStoreUnavailable
	case digest.Join(item.Value) != ref.Digest:
		return nil, errors.New("the stored state was modified or replaced")
	}
	return s.Seals.Open(storedPurpose, string(item.Value))
}

func (s *Server) logger() *slog.Logger {
	if s.Engine.Logger != nil {
		return s.Engine.Logger
	}
	return slog.Default()
}
