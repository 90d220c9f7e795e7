package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
)

// verdict is what became of a mutant.
type verdict string

const (
	killed   verdict = "killed"
	survived verdict = "survived"
	unbuilt  verdict = "unbuilt" // does not compile: not part of the sample
	excluded verdict = "excluded"
)

// result is the record of one mutant: a line of the file of results.
type result struct {
	mutant
	Commit  string  `json:"commit"`
	Verdict verdict `json:"verdict"`
	// Run is the certification that killed the mutant, and Detail its first complaint, or the reason of an exclusion.
	Run    string `json:"run,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Tests is the verdict of the package's tests on a survivor; empty if they were not run.
	Tests   verdict `json:"tests,omitempty"`
	Seconds float64 `json:"seconds"`
	Diff    string  `json:"diff"`
}

// readResults returns the results of a file. The last line of a mutant counts, and a last line that was cut off does
// not.
func readResults(r io.Reader) ([]result, error) {
	at := map[string]int{}
	var list []result
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	var broken error
	for n := 1; s.Scan(); n++ {
		if broken != nil {
			return nil, broken
		}
		var x result
		if err := json.Unmarshal(s.Bytes(), &x); err != nil {
			broken = fmt.Errorf("results: line %d: %w", n, err)
			continue
		}
		key := x.Commit + " " + x.id()
		if i, ok := at[key]; ok {
			list[i] = x
			continue
		}
		at[key] = len(list)
		list = append(list, x)
	}
	return list, s.Err()
}

// resultsFile appends results to a file, which a later run of the same commit resumes from.
type resultsFile struct {
	mu sync.Mutex
	f  *os.File // nil: none
}

// openResults opens a file of results and returns the results of the commit in it, by id. Results of a tree with local
// changes are not reused.
func openResults(name, commit string, hasChanges bool) (*resultsFile, map[string]result, error) {
	done := map[string]result{}
	if name == "" {
		return &resultsFile{}, done, nil
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, nil, err
	}
	list, err := readResults(f)
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, r := range list {
		if r.Commit == commit && !hasChanges {
			done[r.id()] = r
		}
	}
	if err := endLine(f); err != nil {
		f.Close()
		return nil, nil, err
	}
	return &resultsFile{f: f}, done, nil
}

// endLine moves to the end of the file and cuts off a last line without a line break.
func endLine(f *os.File) error {
	b, err := os.ReadFile(f.Name())
	if err != nil {
		return err
	}
	end := len(b)
	for end > 0 && b[end-1] != '\n' {
		end--
	}
	if err := f.Truncate(int64(end)); err != nil {
		return err
	}
	_, err = f.Seek(0, io.SeekEnd)
	return err
}

func (r *resultsFile) add(x *result) error {
	if r.f == nil {
		return nil
	}
	b, err := json.Marshal(x)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err = r.f.Write(append(b, '\n'))
	return err
}

func (r *resultsFile) close() error {
	if r.f == nil {
		return nil
	}
	return r.f.Close()
}
