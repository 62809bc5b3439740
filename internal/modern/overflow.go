package modern

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// A state that is too large to travel stays here, and its client is handed a sealed
// note of where. Each principal has so many places; one is free again when the state
// has expired. It is not given back earlier: a client that has lost a response sends
// the round again.
const (
	maxKept      = 1 << 20 // bytes of a state
	keptPlaces   = 64      // of a principal, or of an address where nobody is authenticated
	storeTimeout = 5 * time.Second
	keptPurpose  = "requestState kept"
)

// kept says where a state is, and what it is: a place can have been given to another
// since.
type kept struct {
	Place  string `json:"p"` // what follows the principal in the key
	Digest string `json:"d"`
}

// errStoreFailed: nothing is known of the state, and asking again later may help.
var errStoreFailed = errors.New("what was kept of the call cannot be read now: try again")

// keep puts a state into one of the places of the call's principal. What it writes is
// sealed, so that whoever can read the store has no more of it than its client.
func (s *Server) keep(ctx context.Context, c *rpc.Call, text []byte) (*kept, error) {
	if s.Store == nil {
		return nil, fmt.Errorf("the answers of the call's client have grown beyond the %d bytes that can be kept between rounds without a store: ask for less", maxState)
	}
	if len(text) > maxKept {
		return nil, fmt.Errorf("the answers of the call's client have grown beyond the %d bytes that are kept between rounds: ask for less", maxKept)
	}
	// The handler's context has ended with its question.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	places := "requestState/"
	if c.Principal() == principal.Anonymous {
		places += digest.Join([]byte(c.Source()))[:22] + "/"
	}
	sealed := []byte(s.Seals.Seal(keptPurpose, text))
	first := rand.IntN(keptPlaces)
	for i := range keptPlaces {
		place := places + strconv.Itoa((first+i)%keptPlaces)
		key := c.Principal().Key() + place
		// Claimed with something small, for as many places as it takes.
		version, err := s.Store.Put(ctx, key, []byte{0}, store.PutOptions{TTL: stateLifetime, IfAbsent: true})
		if errors.Is(err, store.ErrConflict) {
			continue
		}
		if err == nil {
			_, err = s.Store.Put(ctx, key, sealed, store.PutOptions{TTL: stateLifetime, IfVersion: version})
		}
		if err != nil {
			s.logger().ErrorContext(ctx, "the state of a call cannot be kept", "error", err)
			return nil, errors.New("what the call's client has answered cannot be kept now: try again")
		}
		return &kept{Place: place, Digest: digest.Join(sealed)}, nil
	}
	return nil, fmt.Errorf("%d calls of this caller wait with answers of more than %d bytes, which is the most there may be: try again later", keptPlaces, maxState)
}

// fetch returns what is kept for who. The principal is that of the request, whatever
// the note says.
func (s *Server) fetch(ctx context.Context, who principal.Principal, k *kept) ([]byte, error) {
	if s.Store == nil {
		return nil, errors.New("this server does not keep what it refers to")
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	item, err := s.Store.Get(ctx, who.Key()+k.Place)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, errors.New("what was kept for it is lost")
	case err != nil:
		s.logger().ErrorContext(ctx, "the state of a call cannot be read", "error", err)
		return nil, errStoreFailed
	case digest.Join(item.Value) != k.Digest:
		return nil, errors.New("what was kept for it is gone, or has been changed")
	}
	return s.Seals.Open(keptPurpose, string(item.Value))
}

func (s *Server) logger() *slog.Logger {
	if s.Engine.Logger != nil {
		return s.Engine.Logger
	}
	return slog.Default()
}
