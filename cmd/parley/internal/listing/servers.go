package listing

import (
	"github.com/parley-mcp/parley/cmd/parley/internal/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/connection"
)

// Server is a server that a TARGET can name.
type Server struct {
	Name     string        `json:"name"`
	Kind     string        `json:"kind"` // command, http or connection
	Target   string        `json:"target"`
	Origin   string        `json:"origin,omitempty"` // where it is from
	Source   string        `json:"source,omitempty"` // the file and line
	Disabled bool          `json:"disabled,omitzero"`
	Problem  string        `json:"problem,omitempty"` // why the entry cannot be used
	Status   *ServerStatus `json:"status,omitempty"`

	Connection *connection.Info `json:"connection,omitempty"`
}

// ServerStatus is the state of a server.
type ServerStatus struct {
	State    string `json:"state"`
	Error    string `json:"error,omitempty"`
	Revision string `json:"revision,omitempty"`
	Tools    int    `json:"tools"`
}

func NewServer(s *config.Server) *Server {
	l := &Server{Name: s.Name, Kind: "http", Target: config.WithoutSecrets(s.URL), Origin: s.Origin, Source: s.Source, Disabled: s.Disabled}
	if s.Command != "" {
		l.Kind, l.Target = "command", config.MaskedCommand(s.Command, s.Args)
	}
	return l
}
