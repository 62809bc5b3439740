package mcp

// Icon is an image that stands for something in a user interface. Since 2025-11-25. What it points to
// is untrusted: accept https and data URIs only, fetch without credentials, and bound what is fetched.
type Icon struct {
	// Src is an https or data URI.
	Src string `json:"src"`
	// MimeType overrides what the source says of itself.
	MimeType string `json:"mimeType,omitempty"`
	// Sizes are of the form "48x48", or "any" for scalable formats. None means any size.
	Sizes []string `json:"sizes,omitzero"`
	// Theme is the background the icon is drawn for, [ThemeLight] or [ThemeDark]; empty for any.
	Theme string `json:"theme,omitempty"`
}

// Values of [Icon.Theme].
const (
	ThemeLight = "light"
	ThemeDark  = "dark"
)
