package main

import (
	"encoding/xml"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// findings is the file that argues the failures of a report.
const findings = "findings.md"

// quoted matches what a page has in backquotes: cases, or patterns of cases.
var quoted = regexp.MustCompile("`([^`\n]+)`")

// unargued returns the cases of a report that did not pass, and that findings.md does not name.
func unargued(dir string) ([]string, error) {
	b, err := os.ReadFile(filepath.Join(dir, "junit.xml"))
	if err != nil {
		return nil, err
	}
	var list struct {
		Suites []struct {
			Cases []struct {
				Name    string    `xml:"name,attr"`
				Failure *struct{} `xml:"failure"`
				Error   *struct{} `xml:"error"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, findings))
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var patterns []string
	for _, m := range quoted.FindAllStringSubmatch(string(text), -1) {
		patterns = append(patterns, m[1])
	}
	var missing []string
	for _, s := range list.Suites {
		for _, c := range s.Cases {
			name, _, _ := strings.Cut(c.Name, " ")
			if c.Failure == nil && c.Error == nil || slices.ContainsFunc(patterns, func(p string) bool {
				ok, err := path.Match(p, name)
				return err == nil && ok
			}) {
				continue
			}
			missing = append(missing, name)
		}
	}
	return missing, nil
}
