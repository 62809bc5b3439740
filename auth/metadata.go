package auth

import (
	"encoding/json"
	"net/http"
	"strings"
)

// MetadataPath is the path of the metadata of protected resources. The path of the
// resource follows it (RFC 9728, section 3.1).
const MetadataPath = "/.well-known/oauth-protected-resource"

// metadata is the metadata document (RFC 9728, section 2).
type metadata struct {
	Resource      string   `json:"resource"`
	Issuers       []string `json:"authorization_servers"`
	Scopes        []string `json:"scopes_supported,omitempty"`
	Methods       []string `json:"bearer_methods_supported"`
	Name          string   `json:"resource_name,omitempty"`
	Documentation string   `json:"resource_documentation,omitempty"`
	Algorithms    []string `json:"dpop_signing_alg_values_supported,omitempty"`
	DPoPRequired  bool     `json:"dpop_bound_access_tokens_required,omitempty"`
}

// MetadataHandler returns a handler that serves the metadata of the resource to pages of
// all origins. Mount it at [MetadataPath] and at MetadataPath + "/" if the server itself
// is not mounted at "/". It serves the metadata URLs of the root and of the path of URI.
func (p *ProtectedResource) MetadataHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		p.ServeMetadata(w, r)
	})
}

// ServeMetadata serves the metadata of the resource, or status 404 if it has no Issuers.
// Unlike [ProtectedResource.MetadataHandler], it does not set Access-Control-Allow-Origin.
func (p *ProtectedResource) ServeMetadata(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "use GET", http.StatusMethodNotAllowed)
		return
	}
	if len(p.Issuers) == 0 {
		http.NotFound(w, r)
		return
	}
	path, ok := strings.CutPrefix(pathOf(r), MetadataPath)
	if !ok { // a prefix was stripped, as by http.StripPrefix
		path = strings.TrimPrefix(r.URL.Path, MetadataPath)
	}
	err := p.Check()
	at := p.endpoint
	if err == nil && at.uri == "" {
		at, err = loopbackEndpoint(r, path)
	}
	own, _, _ := strings.Cut(at.path, "?")
	switch {
	case err != nil:
		http.Error(w, misconfigured, http.StatusInternalServerError)
		return
	case strings.Trim(path, "/") != "" && strings.TrimRight(path, "/") != strings.TrimRight(own, "/"):
		http.NotFound(w, r)
		return
	}
	scopes := p.AdvertisedScopes
	if scopes == nil {
		scopes = p.Scopes
	}
	uri := at.uri
	if p.URI != "" {
		uri = p.URI // clients repeat it byte for byte
	}
	document, _ := json.Marshal(metadata{ // cannot fail: it has only strings
		Resource: uri, Issuers: p.Issuers, Scopes: scopes, Methods: []string{"header"},
		Name: p.Name, Documentation: p.Documentation, Algorithms: p.proofAlgorithms(), DPoPRequired: p.RequireDPoP,
	})
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "max-age=300")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(document)
}
