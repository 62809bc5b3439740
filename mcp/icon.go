package mcp

import (
	"net/url"
	"slices"
	"strings"
)

// Icons are the icons of a program, tool, prompt or resource. Decoding leaves out those whose source
// is neither an https URL nor a data URI of an image (2025-11-25, basic, icons).
type Icons []Icon

// UnmarshalJSON implements json.Unmarshaler.
func (i *Icons) UnmarshalJSON(data []byte) error {
	var all []Icon
	if err := decode(data, &all); err != nil {
		return err
	}
	*i = slices.DeleteFunc(all, func(one Icon) bool { return !one.isSafe() })
	return nil
}

// Icon is an icon for a user interface. Its source is untrusted: fetch it without credentials and
// without redirects to other origins, limit its size, and detect its type from its content. Since
// 2025-11-25.
type Icon struct {
	// Src is an https URL or a data URI.
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

func (i *Icon) isSafe() bool {
	const image = "data:image/"
	if len(i.Src) >= len(image) && strings.EqualFold(i.Src[:len(image)], image) {
		return true
	}
	u, err := url.Parse(i.Src)
	return err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil
}
