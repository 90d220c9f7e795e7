package topology

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"ciddk/internal/input"
)

// Bounds of files. A line longer than maxLine, or files that include each other deeper than maxInclude, are errors.
const (
	maxLine    = 4096
	maxInclude = 8
	maxLines   = 16 << 20
)

// A SyntaxError is a line of a file that cannot be read.
type SyntaxError struct {
	File   string // name as passed to Read
	Line   int    // from 1
	Detail string // what is wrong, and the remedy
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("topology: %s:%d: %s", e.File, e.Line, e.Detail)
}

// Read reads a topology in the net format. name is used in errors. open returns the files that include lines name; nil
// rejects them. Errors: those of r and open; *SyntaxError; those of Validate.
func Read(r io.Reader, name string, open func(name string) (io.ReadCloser, error)) (*Topology, error) {
	p := &parser{open: open, nodes: make(map[string]int)}
	p.guids = map[Kind]uint64{CA: 0x100000, Switch: 0x200000, Router: 0x300000}
	if err := p.file(r, name, 0); err != nil {
		return nil, err
	}
	return p.finish()
}

// ReadFile reads a topology from a file. Names in include lines are relative to the file that has them, and are those
// of regular files. Errors tell the line and not what is in it: an included file may be none of the user's.
func ReadFile(path string) (*Topology, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	return Read(f, path, func(name string) (io.ReadCloser, error) { return input.OpenRegular(name) })
}

// file parses one file.
func (p *parser) file(r io.Reader, name string, depth int) error {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, maxLine), maxLine)
	outer := p.at
	p.at = SyntaxError{File: name}
	for s.Scan() {
		p.at.Line++
		if p.lines++; p.lines > maxLines {
			return p.errorf("more than %d lines: use a smaller file", maxLines)
		}
		file, err := p.line(s.Text())
		if err == nil && file != "" {
			err = p.include(file, depth)
		}
		if err != nil {
			return err
		}
	}
	if err := s.Err(); err != nil {
		p.at.Line++
		if errors.Is(err, bufio.ErrTooLong) {
			return p.errorf("the line has more than %d bytes", maxLine)
		}
		return fmt.Errorf("topology: %s: %w", name, err)
	}
	p.endRecord()
	p.at = outer
	return nil
}

// include parses a file that an include line names.
func (p *parser) include(file string, depth int) error {
	switch {
	case p.open == nil:
		return p.errorf("include %q: the source has no files beside it: write the nodes here", file)
	case depth >= maxInclude:
		return p.errorf("include %q: files are included %d deep: remove the cycle", file, maxInclude)
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(filepath.Dir(p.at.File), file)
	}
	f, err := p.open(file)
	if err != nil {
		return p.errorf("include: %v", err)
	}
	defer func() { _ = f.Close() }() // only read
	return p.file(f, file, depth+1)
}
