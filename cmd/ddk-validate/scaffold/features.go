package scaffold

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Features are the parts of the template that a new module may have or not, in the order in which docs/vendors.md
// recommends to add them.
//
// A file belongs to a feature if its name, or that of its folder, begins with the feature's. In other files, a line
// that ends in the comment "// NAME.go" belongs to the feature NAME, with the lines indented below it and the bracket
// that closes them; and so does a paragraph about NAME.go in a list of files.
var Features = []string{"ud", "srq", "mw", "sma", "user"}

// unchosen returns the features that are not in the list of chosen ones. The name "all" stands for all of them.
func unchosen(with []string) (without []string, err error) {
	for _, f := range with {
		if f != "all" && !slices.Contains(Features, f) {
			return nil, fmt.Errorf("--with %s: want some of %s, or all", f, strings.Join(Features, ", "))
		}
	}
	for _, f := range Features {
		if !slices.Contains(with, f) && !slices.Contains(with, "all") {
			without = append(without, f)
		}
	}
	return without, nil
}

// belongs reports whether a file belongs to one of the features.
func belongs(name string, features []string) bool {
	for element := range strings.SplitSeq(name, "/") {
		if slices.ContainsFunc(features, func(f string) bool { return strings.HasPrefix(element, f) }) {
			return true
		}
	}
	return false
}

var (
	marked = regexp.MustCompile(`// ([a-z]+)\.go$`)
	listed = regexp.MustCompile(`(?m)^//\t([a-z]+)\.go .*\n(//\t .*\n)*`)
)

// strip returns a source without the lines that belong to the features.
func strip(b []byte, features []string) []byte {
	b = listed.ReplaceAllFunc(b, func(m []byte) []byte {
		if slices.Contains(features, string(listed.FindSubmatch(m)[1])) {
			return nil
		}
		return m
	})
	var out []string
	below := -1 // indentation of the line whose block is left out
	opened, blank := false, false
	for line := range strings.SplitSeq(string(b), "\n") {
		indent := len(line) - len(strings.TrimLeft(line, "\t"))
		if below >= 0 {
			if line == "" || indent > below {
				blank = line == ""
				continue
			}
			if below = -1; opened && strings.ContainsAny(line[indent:indent+1], "})") {
				continue
			}
			if blank { // after the block
				out = append(out, "")
			}
		}
		if m := marked.FindStringSubmatchIndex(line); m != nil && slices.Contains(features, line[m[2]:m[3]]) {
			code := strings.TrimRight(line[:m[0]], " \t")
			below, blank, opened = indent, false, strings.HasSuffix(code, "{") || strings.HasSuffix(code, "(")
			continue
		}
		out = append(out, line)
	}
	return []byte(strings.Join(out, "\n"))
}
