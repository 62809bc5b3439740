package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Rule H10: icons are https URLs or data URIs of images.
func TestDecodingDropsIconsWithUnsafeSources(t *testing.T) {
	safe := []string{
		"https://example.com/a.png", "HTTPS://example.com/a.png", "https://example.com:8443/a.png?x=1#y",
		"data:image/png;base64,iVBORw0KGgo=", "DATA:image/svg+xml,%3Csvg/%3E",
	}
	unsafe := []string{
		"", "a.png", "/a.png", "//example.com/a.png", "https:", "https:///a.png", "https:a.png", "https://user:secret@example.com/a.png",
		"http://example.com/a.png", "javascript:alert(1)", "JavaScript:alert(1)", " javascript:alert(1)", "java\nscript:alert(1)", " https://example.com/a.png",
		"file:///etc/passwd", "ftp://example.com/a.png", "ws://example.com/", "vscode://open", "vbscript:x", "blob:https://example.com/1",
		"data:text/html,<script>", "data:,x", "data:application/javascript,x", "https\u0000://example.com/",
	}
	var icons []Icon
	for _, src := range append(append([]string{}, unsafe...), safe...) {
		icons = append(icons, Icon{Src: src})
	}
	raw, err := json.Marshal(icons)
	if err != nil {
		t.Fatal(err)
	}
	for name, decoded := range map[string]interface{ all() Icons }{
		"Tool": new(iconsOf[Tool]), "Prompt": new(iconsOf[Prompt]), "Resource": new(iconsOf[Resource]),
		"ResourceTemplate": new(iconsOf[ResourceTemplate]), "Implementation": new(iconsOf[Implementation]),
	} {
		message := fmt.Sprintf(`{"name":"a","version":"1","uri":"a:b","uriTemplate":"a:b","inputSchema":{},"icons":%s}`, raw)
		if err := json.Unmarshal([]byte(message), decoded); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, icon := range decoded.all() {
			got = append(got, icon.Src)
		}
		if strings.Join(got, "\n") != strings.Join(safe, "\n") {
			t.Errorf("%s: %q", name, got)
		}
	}
	var link CallToolResult
	if err := json.Unmarshal(fmt.Appendf(nil, `{"content":[{"type":"resource_link","uri":"a:b","name":"a","icons":%s}]}`, raw), &link); err != nil {
		t.Fatal(err)
	}
	if got := link.Content[0].(*ResourceLink).Icons; len(got) != len(safe) {
		t.Errorf("ResourceLink: %q", got)
	}
}

// iconsOf decodes a T.
type iconsOf[T any] struct{ value T }

func (i *iconsOf[T]) UnmarshalJSON(raw []byte) error { return json.Unmarshal(raw, &i.value) }

func (i *iconsOf[T]) all() Icons {
	switch v := any(&i.value).(type) {
	case *Tool:
		return v.Icons
	case *Prompt:
		return v.Icons
	case *Resource:
		return v.Icons
	case *ResourceTemplate:
		return v.Icons
	case *Implementation:
		return v.Icons
	}
	return nil
}
