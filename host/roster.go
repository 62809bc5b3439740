package host

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// roster contains the servers of a Host at one moment. It is immutable.
type roster struct {
	supervisors   []*supervisor // in the order of configuration
	byName        map[string]*supervisor
	callerHeaders []string
}

// all returns the supervisors of the servers, in their order.
func (h *Host) all() []*supervisor {
	if r := h.roster.Load(); r != nil {
		return r.supervisors
	}
	return nil
}

// find returns the supervisor of a server, or nil.
func (h *Host) find(server string) *supervisor {
	if r := h.roster.Load(); r != nil {
		return r.byName[server]
	}
	return nil
}

// SetServers replaces the servers of a Host that was started, and returns at once. A server continues without
// interruption if the new list contains its name with the same configuration: the same Target, or a deeply equal
// *client.CommandTarget or *client.HTTPTarget, and equal other fields. Changes of Prefix, NoPrefix, Tools and Prompts
// take effect without interruption, too. The Host starts the other servers in the list. A server that is missing from
// the list, or whose configuration changed, ends after its calls in flight; later calls wait for its replacement.
//
// SetServers changes nothing if it returns an error: a configuration is invalid, or the Host is closed
// or was not started. The field Servers keeps its value.
func (h *Host) SetServers(servers []ServerConfig) error {
	if err := h.CheckServers(servers); err != nil {
		return err
	}
	renamed, err := h.replaceRoster(servers)
	for _, s := range renamed {
		s.publishAll() // without a lock, because Review may call SetServers
	}
	return err
}

// replaceRoster replaces the roster with a roster of the given servers. It returns the servers that continue under
// other names or another selection and whose lists must be published again.
func (h *Host) replaceRoster(servers []ServerConfig) (renamed []*supervisor, err error) {
	h.setting.Lock()
	defer h.setting.Unlock()
	before := h.roster.Load()
	if before == nil || h.ctx.Err() != nil {
		return nil, errClosed
	}
	now := &roster{byName: make(map[string]*supervisor, len(servers))}
	var added []*supervisor
	for _, config := range servers {
		s := before.byName[config.Name]
		if s == nil || !sameConfig(s.config, config) {
			s = newSupervisor(h, config, reservedFor(&config, servers))
			added = append(added, s)
		} else if s.setNaming(newNaming(&config, h.maxName(), reservedFor(&config, servers))) {
			renamed = append(renamed, s)
		}
		now.supervisors = append(now.supervisors, s)
		now.byName[config.Name] = s
	}
	now.callerHeaders = callerHeaderNames(now.supervisors)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil {
		return nil, errClosed
	}
	h.roster.Store(now)
	for _, s := range before.supervisors {
		if now.byName[s.name] != s {
			s.retire()
			s.withdraw()
		}
	}
	for _, s := range added {
		h.running.Go(s.run)
	}
	h.changed.notify()
	return renamed, nil
}

// sameConfig reports whether a server can continue with another configuration.
func sameConfig(a, b ServerConfig) bool {
	if !sameTarget(a.Target, b.Target) {
		return false
	}
	for _, c := range []*ServerConfig{&a, &b} {
		c.Target, c.Prefix, c.NoPrefix, c.Tools, c.Prompts = nil, "", false, Selection{}, Selection{}
	}
	return reflect.DeepEqual(a, b)
}

// sameTarget reports whether two targets are the same, or configured in the same way.
func sameTarget(a, b client.Target) bool {
	switch a.(type) {
	case *client.CommandTarget, *client.HTTPTarget:
		return reflect.DeepEqual(a, b)
	}
	return a == b
}

// CheckServers returns the error that SetServers would return for the servers, and changes nothing.
func (h *Host) CheckServers(servers []ServerConfig) error {
	if h.MaxName != 0 && (h.MaxName < minMergedName || h.MaxName > maxMergedName) {
		return fmt.Errorf("host: MaxName must be 0, or %d to %d, got %d", minMergedName, maxMergedName, h.MaxName)
	}
	longest := h.maxName() - len(separator) - digestLength
	seen := make(map[string]bool, len(servers))
	for _, config := range servers {
		if err := config.Check(); err != nil {
			return fmt.Errorf("host: %w", err)
		}
		switch {
		case seen[config.Name]:
			return fmt.Errorf("host: server name %q must be unique: rename one of the servers", config.Name)
		case len(config.Name) > longest:
			return fmt.Errorf("host: server name %q must have at most %d characters, because MaxName is %d",
				config.Name, longest, h.maxName())
		case len(config.Prefix) > longest:
			return fmt.Errorf("host: prefix of server %q must have at most %d characters, because MaxName is %d",
				config.Name, longest, h.maxName())
		case config.Target == nil:
			return fmt.Errorf("host: server %q must have a Target", config.Name)
		case config.Idle < 0:
			return fmt.Errorf("host: server %q must not have a negative Idle time", config.Name)
		case config.StartTimeout < 0:
			return fmt.Errorf("host: server %q must not have a negative StartTimeout", config.Name)
		}
		if err := config.checkSharing(); err != nil {
			return fmt.Errorf("host: server %q: %w", config.Name, err)
		}
		seen[config.Name] = true
	}
	return nil
}

// Check returns an error if the name, the prefix, the revision, a header, a selection or an extension is invalid. A
// Host checks its servers, too, as [Host.CheckServers] does.
func (config *ServerConfig) Check() error {
	if err := checkServerName(config.Name); err != nil {
		return err
	}
	if config.Prefix != "" {
		if err := checkServerName(config.Prefix); err != nil {
			return fmt.Errorf("prefix of server %q: %w", config.Name, err)
		}
	}
	if config.Prefix != "" && config.NoPrefix {
		return fmt.Errorf("server %q must not have both Prefix and NoPrefix", config.Name)
	}
	if r := config.Revision; r != "" && !r.Known() {
		return fmt.Errorf("revision of server %q must be one of %q, not %q", config.Name, mcp.Revisions(), string(r))
	}
	if err := config.Tools.check(true); err != nil {
		return fmt.Errorf("tools of server %q: %w", config.Name, err)
	}
	if err := config.Prompts.check(false); err != nil {
		return fmt.Errorf("prompts of server %q: %w", config.Name, err)
	}
	if _, err := config.callerHeaders(); err != nil {
		return fmt.Errorf("headers of callers of server %q: %w", config.Name, err)
	}
	if err := checkExtensions(config.Extensions); err != nil {
		return fmt.Errorf("extensions of server %q: %w", config.Name, err)
	}
	return nil
}

// maxName returns the maximum length of merged names.
func (h *Host) maxName() int { return cmp.Or(h.MaxName, maxMergedName) }

// enter counts a call; the server does not end before the call does. It reports false if the server no
// longer belongs to the Host. If it reports true, the caller must call leave.
func (s *supervisor) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retiring {
		return false
	}
	s.calls++
	return true
}

func (s *supervisor) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls--
	if s.calls > 0 {
		return
	}
	if s.retiring {
		s.cancel(errRemoved)
	}
	if s.config.Idle > 0 {
		s.used = time.Now()
	}
}

var errRemoved = errors.New("host: the server was removed or replaced")

// retire ends the server after the calls in flight.
func (s *supervisor) retire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retiring = true
	s.retired()
	if s.calls == 0 {
		s.cancel(errRemoved)
	}
}

// maxServerName is the maximum length of a server name. It leaves at least 62 of the
// 128 characters of a merged name to the tool.
const maxServerName = 64

// checkServerName returns nil if name can be the name of a server: 1 to 64 ASCII letters,
// digits, hyphens and underscores. Two underscores separate the name of a server from the
// name of a tool, so a name must not contain two in a row or end with one.
func checkServerName(name string) error {
	if name == "" || len(name) > maxServerName {
		return fmt.Errorf("server name %.80q must have 1 to %d characters", name, maxServerName)
	}
	for _, c := range []byte(name) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return fmt.Errorf("server name %q must have only letters, digits, hyphens and underscores", name)
		}
	}
	if strings.Contains(name, "__") || strings.HasSuffix(name, "_") {
		return fmt.Errorf("server name %q must not contain two underscores in a row or end with an underscore: "+
			"they separate the names of servers and tools", name)
	}
	return nil
}
