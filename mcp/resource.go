package mcp

// Resource is data that a server offers to be read.
type Resource struct {
	URI   string `json:"uri"`
	Name  string `json:"name"`
	Title string `json:"title,omitempty"` // for people; since 2025-06-18
	// Description tells a model what the resource holds.
	Description string       `json:"description,omitempty"`
	MimeType    string       `json:"mimeType,omitempty"`
	Annotations *Annotations `json:"annotations,omitzero"`
	// Size is in bytes, before any encoding; nil if it is not known.
	Size  *int64 `json:"size,omitzero"`
	Icons []Icon `json:"icons,omitzero"` // since 2025-11-25
	Meta  Meta   `json:"_meta,omitzero"` // since 2025-06-18
}

// ResourceTemplate describes the resources whose URIs match a template.
type ResourceTemplate struct {
	// URITemplate is an RFC 6570 template.
	URITemplate string `json:"uriTemplate"`
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"` // for people; since 2025-06-18
	// Description tells a model what the resources hold.
	Description string `json:"description,omitempty"`
	// MimeType is set only if all the resources are of this type.
	MimeType    string       `json:"mimeType,omitempty"`
	Annotations *Annotations `json:"annotations,omitzero"`
	Icons       []Icon       `json:"icons,omitzero"` // since 2025-11-25
	Meta        Meta         `json:"_meta,omitzero"` // since 2025-06-18
}

// ResourceContents are what a resource, or a part of it, holds: text, or bytes.
type ResourceContents struct {
	URI      string `json:"uri"`
	MimeType string `json:"mimeType,omitempty"`
	// Text is what the resource holds if Blob is nil.
	Text string `json:"text,omitempty"`
	// Blob is what a binary resource holds; an empty one is not nil. Base64 on the wire.
	Blob []byte `json:"blob,omitzero"`
	Meta Meta   `json:"_meta,omitzero"` // since 2025-06-18
}

// MarshalJSON implements json.Marshaler. Exactly one of blob and text is encoded.
func (c ResourceContents) MarshalJSON() ([]byte, error) {
	wire := struct {
		URI      string  `json:"uri"`
		MimeType string  `json:"mimeType,omitempty"`
		Text     *string `json:"text,omitzero"`
		Blob     []byte  `json:"blob,omitzero"`
		Meta     Meta    `json:"_meta,omitzero"`
	}{URI: c.URI, MimeType: c.MimeType, Blob: c.Blob, Meta: c.Meta}
	if c.Blob == nil {
		wire.Text = &c.Text
	}
	return encode(&wire)
}

// ListResourcesResult answers resources/list, which takes [PaginatedParams].
type ListResourcesResult struct {
	ResultBase
	CacheHints
	PageInfo

	Resources []Resource `json:"resources"`
}

// MarshalJSON implements json.Marshaler.
func (r ListResourcesResult) MarshalJSON() ([]byte, error) {
	type plain ListResourcesResult
	return encode((*plain)(&r))
}

// ListResourceTemplatesResult answers resources/templates/list, which takes [PaginatedParams].
type ListResourceTemplatesResult struct {
	ResultBase
	CacheHints
	PageInfo

	ResourceTemplates []ResourceTemplate `json:"resourceTemplates"`
}

// MarshalJSON implements json.Marshaler.
func (r ListResourceTemplatesResult) MarshalJSON() ([]byte, error) {
	type plain ListResourceTemplatesResult
	return encode((*plain)(&r))
}

// ReadResourceParams are the parameters of resources/read.
type ReadResourceParams struct {
	ParamsBase
	InputParams

	URI string `json:"uri"`
}

// ReadResourceResult answers resources/read.
type ReadResourceResult struct {
	ResultBase
	CacheHints

	// Contents are several if the resource has parts, as a directory has.
	Contents []ResourceContents `json:"contents"`
}

// MarshalJSON implements json.Marshaler.
func (r ReadResourceResult) MarshalJSON() ([]byte, error) {
	type plain ReadResourceResult
	return encode((*plain)(&r))
}

// SubscribeParams are the parameters of resources/subscribe and resources/unsubscribe. Until
// 2025-11-25; see [SubscriptionFilter] for what came after.
type SubscribeParams struct {
	ParamsBase

	URI string `json:"uri"`
}

// ResourceUpdatedParams are the parameters of notifications/resources/updated.
type ResourceUpdatedParams struct {
	ParamsBase

	// URI may be that of a part of the resource that was subscribed to.
	URI string `json:"uri"`
}
