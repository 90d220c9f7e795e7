package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// order is the declared order of a package's files.
type order struct {
	maxUp float64        // the largest part of the arrows that may point up, in percent
	files []string       // bottom up; names are relative to the package's folder, with slashes
	index map[string]int // the position in files
}

// parseOrder reads an order: one file per line, bottom up, and one line "max-up: N%". A line that begins with # is a
// comment.
func parseOrder(r io.Reader) (*order, error) {
	o := &order{maxUp: -1, index: make(map[string]int)}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if limit, ok := strings.CutPrefix(line, "max-up:"); ok {
			v, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(limit), "%"), 64)
			if err != nil || v < 0 || v > 100 {
				return nil, fmt.Errorf("line %d: max-up is %q, want 0%% to 100%%", n, strings.TrimSpace(limit))
			}
			o.maxUp = v
			continue
		}
		if _, twice := o.index[line]; twice {
			return nil, fmt.Errorf("line %d: %s is listed twice", n, line)
		}
		o.index[line] = len(o.files)
		o.files = append(o.files, line)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if o.maxUp < 0 {
		return nil, errors.New("the line max-up: is missing")
	}
	return o, nil
}

// check compares the order with the files that exist.
func (o *order) check(files []string) error {
	exists := make(map[string]bool)
	var missing []string
	for _, f := range files {
		exists[f] = true
		if _, ok := o.index[f]; !ok {
			missing = append(missing, f)
		}
	}
	if missing != nil {
		return fmt.Errorf("not in the list (add each below its callers and above the files that it calls): %s",
			strings.Join(missing, ", "))
	}
	for _, f := range o.files {
		if !exists[f] {
			return fmt.Errorf("%s is in the list and does not exist (remove it from the list)", f)
		}
	}
	return nil
}
