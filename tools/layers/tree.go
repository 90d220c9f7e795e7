package layers

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Module reads the module's path from go.mod in root.
func Module(root string) (string, error) {
	b, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		if p, ok := strings.CutPrefix(line, "module "); ok {
			return strings.TrimSpace(p), nil
		}
	}
	return "", errors.New("go.mod names no module")
}

// skipped are folders that hold no source: version control and what builds leave behind.
var skipped = []string{".git", "bin", "out"}

// Files lists the files below root whose extension is one of exts, relative and with slashes, in order.
func Files(root string, exts ...string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		if rel = filepath.ToSlash(rel); d.IsDir() {
			if slices.Contains(skipped, rel) {
				return filepath.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() && slices.Contains(exts, filepath.Ext(p)) {
			files = append(files, rel)
		}
		return nil
	})
	return files, err
}
