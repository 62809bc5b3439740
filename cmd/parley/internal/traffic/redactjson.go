package traffic

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// message replaces the secrets in a message, and keeps all other bytes. In a message of MCP these are the members
// with secret names in arguments of tools and prompts, and in answers of users. In other JSON, such as a response
// of an authorization server, these are all members with secret names. Text that is not JSON has none.
func (r *redactor) message(message []byte) []byte {
	isMCP := isMessage(message)
	return Edit(message, func(place jsontext.Pointer, value string) ([]byte, bool) {
		if !isSecretMember(place.LastToken(), isMCP) || isMCP && !mayHaveSecrets(place) {
			return nil, false
		}
		return []byte(`"` + r.replacement(value) + `"`), true
	})
}

func isSecretMember(name string, isMCP bool) bool {
	return isSecretName(name) || !isMCP && slices.Contains([]string{"code_verifier", "device_code", "user_code", "assertion", "client_assertion", "registration_access_token"}, name)
}

// isMessage reports whether a text is a message of JSON-RPC, or a batch.
func isMessage(text []byte) bool {
	d := jsontext.NewDecoder(strings.NewReader(string(text)), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		token, err := d.ReadToken()
		if err != nil {
			return false
		}
		if depth := d.StackDepth(); depth <= 2 && token.Kind() == '"' && token.String() == "jsonrpc" {
			return true
		}
	}
}

// mayHaveSecrets reports whether a place in a message is in the arguments of a request or in the answer of a
// user.
func mayHaveSecrets(place jsontext.Pointer) bool {
	names := slices.Collect(place.Tokens())
	if len(names) > 0 && strings.Trim(names[0], "0123456789") == "" { // of a batch
		names = names[1:]
	}
	if len(names) < 3 {
		return false
	}
	switch names[0] + "/" + names[1] {
	case "params/arguments", "params/inputResponses", "result/content":
		return true
	}
	return false
}
