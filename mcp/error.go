package mcp

// Error codes that the protocol defines in addition to those of JSON-RPC. The codes from -32099 to
// -32020 are reserved for the protocol. The codes from -32019 to -32000 have no defined meaning,
// except for [CodeResourceNotFound] (2026-07-28, basic, Error Codes).
const (
	// CodeHeaderMismatch reports that the headers of an HTTP request are missing, malformed or
	// different from the values in its body. Since 2026-07-28.
	CodeHeaderMismatch int64 = -32020
	// CodeMissingCapability reports that a request needs a capability that the client has not
	// declared in it. The data is [MissingCapabilityData]. Since 2026-07-28.
	CodeMissingCapability int64 = -32021
	// CodeUnsupportedVersion reports that the server does not support the revision of the request.
	// The data is [UnsupportedVersionData]. Since 2026-07-28.
	CodeUnsupportedVersion int64 = -32022

	// CodeResourceNotFound reports that the resource of a resources/read does not exist. The data is
	// [ResourceNotFoundData]. Until 2025-11-25; later servers return jsonrpc.CodeInvalidParams.
	CodeResourceNotFound int64 = -32002
	// CodeURLElicitationRequired reports that the user must open one or more URLs before the request
	// can succeed. The data is [URLElicitationRequiredData]. 2025-11-25 only.
	CodeURLElicitationRequired int64 = -32042
)

// UnsupportedVersionData is the data of a [CodeUnsupportedVersion] error.
type UnsupportedVersionData struct {
	// Supported are the revisions that the server supports.
	Supported []string `json:"supported"`
	// Requested is the revision of the request.
	Requested string `json:"requested"`
}

// MarshalJSON implements json.Marshaler.
func (d UnsupportedVersionData) MarshalJSON() ([]byte, error) {
	type plain UnsupportedVersionData
	return encode((*plain)(&d))
}

// MissingCapabilityData is the data of a [CodeMissingCapability] error.
type MissingCapabilityData struct {
	// RequiredCapabilities are the capabilities that the request needs.
	RequiredCapabilities ClientCapabilities `json:"requiredCapabilities"`
}

// ResourceNotFoundData is the data of a [CodeResourceNotFound] error.
type ResourceNotFoundData struct {
	// URI is the URI of the request.
	URI string `json:"uri"`
}

// URLElicitationRequiredData is the data of a [CodeURLElicitationRequired] error.
type URLElicitationRequiredData struct {
	// Elicitations are the URLs to open. Each has the mode [ElicitModeURL] and an ElicitationID.
	Elicitations []ElicitParams `json:"elicitations"`
}

// MarshalJSON implements json.Marshaler.
func (d URLElicitationRequiredData) MarshalJSON() ([]byte, error) {
	type plain URLElicitationRequiredData
	return encode((*plain)(&d))
}
