package mcp

// Icon is an icon for a user interface. Its source is untrusted: accept only https and data URIs,
// fetch it without credentials, and limit its size. Since 2025-11-25.
type Icon struct {
	// Src is an https or data URI.
	Src string `json:"src"`
	// MimeType overrides the MIME type of the source.
	MimeType string `json:"mimeType,omitempty"`
	// Sizes are sizes such as "48x48", or "any" for a scalable format. Nil means any size.
	Sizes []string `json:"sizes,omitzero"`
	// Theme is the background that the icon is designed for, [ThemeLight] or [ThemeDark]. Empty
	// means any.
	Theme string `json:"theme,omitempty"`
}

// Values of [Icon.Theme].
const (
	ThemeLight = "light"
	ThemeDark  = "dark"
)
