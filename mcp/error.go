package mcp

// Codes of the errors that the protocol defines beside those of JSON-RPC. From -32020 to -32099
// every code belongs to the protocol; receivers give the codes from -32000 to -32019 no meaning,
// [CodeResourceNotFound] excepted (2026-07-28, basic, Error Codes).
const (
	// CodeHeaderMismatch answers an HTTP request whose headers are missing, malformed or do not say
	// what its body says. Since 2026-07-28.
	CodeHeaderMismatch int64 = -32020
	// CodeMissingCapability answers a request that would need a capability which the client did not
	// declare on it. Its data is [MissingCapabilityData]. Since 2026-07-28.
	CodeMissingCapability int64 = -32021
	// CodeUnsupportedVersion answers a request in a revision that the server does not speak. Its data
	// is [UnsupportedVersionData]. Since 2026-07-28.
	CodeUnsupportedVersion int64 = -32022

	// CodeResourceNotFound answers resources/read for a resource that is not there. Its data is
	// [ResourceNotFoundData]. Until 2025-11-25; later servers answer jsonrpc.CodeInvalidParams.
	CodeResourceNotFound int64 = -32002
	// CodeURLElicitationRequired answers a request that cannot proceed until the user has visited
	// some URLs. Its data is [URLElicitationRequiredData]. 2025-11-25 only.
	CodeURLElicitationRequired int64 = -32042
)

// UnsupportedVersionData is the data of a [CodeUnsupportedVersion] error.
type UnsupportedVersionData struct {
	Supported []string `json:"supported"` // the revisions the server speaks
	Requested string   `json:"requested"` // the revision it was asked in
}

// MarshalJSON implements json.Marshaler.
func (d UnsupportedVersionData) MarshalJSON() ([]byte, error) {
	type plain UnsupportedVersionData
	return encode((*plain)(&d))
}

// MissingCapabilityData is the data of a [CodeMissingCapability] error.
type MissingCapabilityData struct {
	RequiredCapabilities ClientCapabilities `json:"requiredCapabilities"`
}

// ResourceNotFoundData is the data of a [CodeResourceNotFound] error.
type ResourceNotFoundData struct {
	URI string `json:"uri"`
}

// URLElicitationRequiredData is the data of a [CodeURLElicitationRequired] error.
type URLElicitationRequiredData struct {
	// Elicitations are all of [ElicitModeURL] and have an ElicitationID.
	Elicitations []ElicitParams `json:"elicitations"`
}

// MarshalJSON implements json.Marshaler.
func (d URLElicitationRequiredData) MarshalJSON() ([]byte, error) {
	type plain URLElicitationRequiredData
	return encode((*plain)(&d))
}
