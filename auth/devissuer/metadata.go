package devissuer

import (
	"encoding/json"
	"net/http"
)

const metadataPath = "/.well-known/oauth-authorization-server"

// metadata is the metadata document of RFC 8414, with the members of RFC 9207, RFC 9449 and
// client ID metadata documents.
type metadata struct {
	Issuer                string   `json:"issuer"`
	AuthorizationEndpoint string   `json:"authorization_endpoint"`
	TokenEndpoint         string   `json:"token_endpoint"`
	RegistrationEndpoint  string   `json:"registration_endpoint"`
	RevocationEndpoint    string   `json:"revocation_endpoint"`
	KeysURI               string   `json:"jwks_uri"`
	Scopes                []string `json:"scopes_supported,omitempty"`
	ResponseTypes         []string `json:"response_types_supported"`
	ResponseModes         []string `json:"response_modes_supported"`
	GrantTypes            []string `json:"grant_types_supported"`
	AuthMethods           []string `json:"token_endpoint_auth_methods_supported"`
	ChallengeMethods      []string `json:"code_challenge_methods_supported"`
	IssParameter          bool     `json:"authorization_response_iss_parameter_supported"`
	ClientDocuments       bool     `json:"client_id_metadata_document_supported"`
	ProofAlgorithms       []string `json:"dpop_signing_alg_values_supported"`
}

func (i *Issuer) serveMetadata(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, http.StatusOK, metadata{
		Issuer:                i.url,
		AuthorizationEndpoint: i.url + "/authorize",
		TokenEndpoint:         i.url + "/token",
		RegistrationEndpoint:  i.url + "/register",
		RevocationEndpoint:    i.url + "/revoke",
		KeysURI:               i.url + "/jwks",
		Scopes:                i.config.Scopes,
		ResponseTypes:         []string{"code"},
		ResponseModes:         []string{"query"},
		GrantTypes:            []string{grantCode, grantRefresh, grantClient},
		AuthMethods:           []string{authNone, authBasic, authPost},
		ChallengeMethods:      []string{"S256"},
		IssParameter:          true,
		ClientDocuments:       i.config.Documents != nil,
		ProofAlgorithms:       i.proofs.Algorithms(),
	})
}

// writeJSON responds with a JSON document. It ignores write errors.
func writeJSON(w http.ResponseWriter, status int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(document)
}
