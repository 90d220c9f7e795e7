package layers

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"
)

//go:embed pending.txt
var pendingText string

// PendingFolders are the folders whose packages were written before the rules of style, from pending.txt. An entry that
// ends in /... includes the folders below it.
type PendingFolders []string

// Pending returns the list of pending.txt.
func Pending() PendingFolders { return parsePending(pendingText) }

func parsePending(text string) (p PendingFolders) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			p = append(p, line)
		}
	}
	return p
}

// Has reports whether a folder is on the list.
func (p PendingFolders) Has(folder string) bool {
	return slices.ContainsFunc(p, func(entry string) bool {
		if tree, ok := strings.CutSuffix(entry, "/..."); ok {
			return within(folder, tree)
		}
		return folder == entry
	})
}

// Pattern returns a regular expression that matches the names of the files in the folders.
func (p PendingFolders) Pattern() string {
	var folders, trees []string
	for _, entry := range p {
		if tree, ok := strings.CutSuffix(entry, "/..."); ok {
			trees = append(trees, regexp.QuoteMeta(tree))
		} else {
			folders = append(folders, regexp.QuoteMeta(entry))
		}
	}
	var all []string
	if len(folders) > 0 {
		all = append(all, "^("+strings.Join(folders, "|")+")/[^/]+$")
	}
	if len(trees) > 0 {
		all = append(all, "^("+strings.Join(trees, "|")+")/")
	}
	return strings.Join(all, "|")
}
