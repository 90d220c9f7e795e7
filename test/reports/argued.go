package main

import (
	"bytes"
	"compress/gzip"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Files of a report: all results, and the argument for each failure.
const (
	junitName = "junit.xml.gz"
	findings  = "findings.md"
)

// quoted matches what a page has in backquotes: cases, or patterns of cases.
var quoted = regexp.MustCompile("`([^`\n]+)`")

// unargued returns the cases of a report that did not pass, and that findings.md does not name.
func unargued(dir string) ([]string, error) {
	f, err := os.Open(filepath.Join(dir, junitName))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	junit, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
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
	if err := xml.NewDecoder(junit).Decode(&list); err != nil {
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

// remarkable returns a log without the lines of cases that passed or were skipped, which the JUnit file has, too.
func remarkable(log string) string {
	return regexp.MustCompile(`(?m)^(pass|skip) .*\n`).ReplaceAllString(log, "")
}

// compressed returns a text in the form of gzip.
func compressed(text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, text)
	if err = errors.Join(err, w.Close()); err != nil {
		panic(err) // a buffer takes all
	}
	return b.Bytes()
}
