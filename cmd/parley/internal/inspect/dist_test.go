package inspect

import (
	"io/fs"
	"testing"
)

// maxPage is the size of the files of the page, compressed, in bytes.
const maxPage = 400 << 10

func TestPageIsSmall(t *testing.T) {
	size := int64(0)
	err := fs.WalkDir(dist, "dist", func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	if err != nil || size > maxPage || size < 10<<10 {
		t.Errorf("the page has %d bytes, the limit is %d: %v", size, maxPage, err)
	}
}
