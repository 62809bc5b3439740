package mcp

import (
	"encoding/json"
)

// Resource describes data that a client can read from a server.
type Resource struct {
	// URI identifies the resource.
	URI string `json:"uri"`
	// Name is the name of the resource.
	Name string `json:"name"`
	// Title is the name for display. Since 2025-06-18.
	Title string `json:"title,omitempty"`
	// Description describes the resource to a model.
	Description string `json:"description,omitempty"`
	// MimeType is the MIME type of the contents. Empty means unknown.
	MimeType string `json:"mimeType,omitempty"`
	// Annotations are hints for the client.
	Annotations *Annotations `json:"annotations,omitzero"`
	// Size is the size of the contents in bytes, before base64 encoding. Nil means unknown.
	Size *int64 `json:"size,omitzero"`
	// Icons are icons of the resource. Since 2025-11-25.
	Icons Icons `json:"icons,omitzero"`
	// Meta is the metadata of the resource. Since 2025-06-18.
	Meta Meta `json:"_meta,omitzero"`
	// Source is the JSON that the resource was decoded from, for programs that forward it. Encoding uses the bytes of
	// Source for everything that the other fields do not change, and keeps what no field represents. Decoding does not
	// set it. The bytes must not be modified.
	Source json.RawMessage `json:"-"`
}

// MarshalJSON implements json.Marshaler.
func (r Resource) MarshalJSON() ([]byte, error) {
	type plain Resource
	source := r.Source
	r.Source = nil
	return encodeOver(source, (*plain)(&r))
}

// ResourceTemplate describes the resources whose URIs match a template.
type ResourceTemplate struct {
	// URITemplate is the template of the URIs (RFC 6570).
	URITemplate string `json:"uriTemplate"`
	// Name is the name of the template.
	Name string `json:"name"`
	// Title is the name for display. Since 2025-06-18.
	Title string `json:"title,omitempty"`
	// Description describes the resources to a model.
	Description string `json:"description,omitempty"`
	// MimeType is the MIME type of all matching resources. Empty if they differ or it is unknown.
	MimeType string `json:"mimeType,omitempty"`
	// Annotations are hints for the client.
	Annotations *Annotations `json:"annotations,omitzero"`
	// Icons are icons of the template. Since 2025-11-25.
	Icons Icons `json:"icons,omitzero"`
	// Meta is the metadata of the template. Since 2025-06-18.
	Meta Meta `json:"_meta,omitzero"`
	// Source is the JSON that the template was decoded from, for programs that forward it. Encoding uses the bytes of
	// Source for everything that the other fields do not change, and keeps what no field represents. Decoding does not
	// set it. The bytes must not be modified.
	Source json.RawMessage `json:"-"`
}

// MarshalJSON implements json.Marshaler.
func (t ResourceTemplate) MarshalJSON() ([]byte, error) {
	type plain ResourceTemplate
	source := t.Source
	t.Source = nil
	return encodeOver(source, (*plain)(&t))
}

// ResourceContents are the contents of a resource or of a part of it: text, or binary data.
type ResourceContents struct {
	// URI identifies the resource, or the part.
	URI string `json:"uri"`
	// MimeType is the MIME type of the contents. Empty means unknown.
	MimeType string `json:"mimeType,omitempty"`
	// Text is the text of the resource. It is ignored if Blob is not nil.
	Text string `json:"text,omitempty"`
	// Blob is the data of a binary resource, base64 on the wire. Nil means that the resource is text;
	// use an empty slice for a binary resource without data.
	Blob []byte `json:"blob,omitzero"`
	// Meta is the metadata of the contents. Since 2025-06-18.
	Meta Meta `json:"_meta,omitzero"`
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

// ListResourcesResult is the result of resources/list, whose parameters are [PaginatedParams].
type ListResourcesResult struct {
	ResultBase
	CacheHints
	PageInfo

	// Resources are the resources of one page.
	Resources []Resource `json:"resources"`
}

// MarshalJSON implements json.Marshaler.
func (r ListResourcesResult) MarshalJSON() ([]byte, error) {
	type plain ListResourcesResult
	return encode((*plain)(&r))
}

// ListResourceTemplatesResult is the result of resources/templates/list, whose parameters are
// [PaginatedParams].
type ListResourceTemplatesResult struct {
	ResultBase
	CacheHints
	PageInfo

	// ResourceTemplates are the templates of one page.
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

	// URI identifies the resource.
	URI string `json:"uri"`
}

// ReadResourceResult is the result of resources/read.
type ReadResourceResult struct {
	ResultBase
	CacheHints

	// Contents are the contents of the resource, or of each of its parts, such as the files of a
	// directory.
	Contents []ResourceContents `json:"contents"`
}

// MarshalJSON implements json.Marshaler.
func (r ReadResourceResult) MarshalJSON() ([]byte, error) {
	type plain ReadResourceResult
	source := r.Source
	r.Source = nil
	return encodeOver(source, (*plain)(&r))
}

// SubscribeParams are the parameters of resources/subscribe and resources/unsubscribe. Until
// 2025-11-25; see [SubscriptionFilter] for later revisions.
type SubscribeParams struct {
	ParamsBase

	// URI identifies the resource.
	URI string `json:"uri"`
}

// ResourceUpdatedParams are the parameters of notifications/resources/updated.
type ResourceUpdatedParams struct {
	ParamsBase

	// URI identifies the subscribed resource or a part of it.
	URI string `json:"uri"`
}

// Root is a directory or file that a server may work on.
//
// Deprecated: 2026-07-28 deprecates roots (SEP-2577). The earliest removal is the first revision from
// 2027-07-28 on. Take directories from tool arguments, URIs or the configuration instead.
type Root struct {
	// URI is a file:// URI.
	URI string `json:"uri"`
	// Name is the name for display.
	Name string `json:"name,omitempty"`
	// Meta is the metadata of the root. Since 2025-06-18.
	Meta Meta `json:"_meta,omitzero"`
}

// ListRootsResult is the result of roots/list, whose parameters are [EmptyParams].
//
// Deprecated: 2026-07-28 deprecates roots (SEP-2577). The earliest removal is the first revision from
// 2027-07-28 on. Take directories from tool arguments, URIs or the configuration instead.
type ListRootsResult struct {
	ResultBase

	// Roots are the roots of the client.
	Roots []Root `json:"roots"`
}

// MarshalJSON implements json.Marshaler.
func (r ListRootsResult) MarshalJSON() ([]byte, error) {
	type plain ListRootsResult
	return encode((*plain)(&r))
}
