package main

import (
	"bytes"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// skipped are folders that hold no source.
var skipped = []string{".git", "bin", "out"}

// setModule replaces the module path old by path in all files below root. It returns the number of files that it
// changed.
func setModule(root, old, path string) (changed int, err error) {
	if err := checkPath(path); err != nil {
		return 0, err
	}
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(skipped, d.Name()):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		b, err := os.ReadFile(name)
		if err != nil || bytes.IndexByte(b, 0) >= 0 {
			return err
		}
		out := replace(b, old, path, d.Name() == "go.mod")
		if bytes.Equal(out, b) {
			return nil
		}
		if filepath.Ext(name) == ".go" {
			if out, err = format.Source(out); err != nil { // sorts imports
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		changed++
		return os.WriteFile(name, out, info.Mode().Perm())
	})
	return changed, err
}

// replace replaces old where it is a module path: not inside a longer path or word, and followed by a slash, a version,
// an equals sign or the end of quoted code; in go.mod files also by a space or the end of a line. The word itself, in
// names and sentences, is not replaced.
func replace(b []byte, old, path string, goMod bool) []byte {
	ends := "/@=`"
	if goMod {
		ends += " \n"
	}
	var out []byte
	for {
		i := bytes.Index(b, []byte(old))
		if i < 0 {
			return append(out, b...)
		}
		end := i + len(old)
		starts := i == 0 || !inPath(b[i-1])
		out = append(out, b[:i]...)
		if starts && end < len(b) && bytes.IndexByte([]byte(ends), b[end]) >= 0 {
			out = append(out, path...)
		} else {
			out = append(out, old...)
		}
		b = b[end:]
	}
}

// inPath reports whether a character before the module path makes it part of something longer.
func inPath(c byte) bool {
	return c == '_' || c == '-' || c == '.' || c == '/' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' ||
		'a' <= c && c <= 'z'
}
